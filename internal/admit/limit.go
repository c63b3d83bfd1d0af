package admit

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/capriccio-go/capriccio/internal/coro"
)

// A ConcurrencyLimit knows how many tasks may be inside: between an entrance of the program, where they were admitted, and
// their end. All loops share it, and its methods may be called from any goroutine.
//
// A task is admitted if two conditions hold.
//
// The reservation: what is in use, and what all admitted tasks and this one may yet take until they finish, fits under the
// limit of every resource. What n tasks may take is n times the mean demand and four times the square root of n times its
// variance. An unknown demand holds no task back.
//
// The window: a Knee finds how many tasks may be inside, from the state of all resources and signs of thrashing. It is what
// protects the program when demands are not known or wrong. It begins with as many as there is room for if each took as
// much as Spec.Unknown says, and grows within milliseconds while no resource is scarce.
//
// If no task is inside, one is admitted whatever the resources say, so that the program cannot be stuck. If there is not
// room for all, loops that are waiting get equal parts of it.
//
// Tasks inside may hold all that there is and wait for a task that is yet to come in:
//
//	     a task was refused room                    no room for 1 s
//	open ────────────────────────▶ full ──────────────────────────────────────────▶ stalled
//	 ▲                              │                                                  │
//	 ╰──────────────────────────────┴──────────────────────────────────────────────────╯
//	                    there is room for the next one, or none asks
//
// As long as much is left of every resource it takes 2 s: the tasks inside may just be slow, and were promised more than
// they have taken. A window that is still growing, as little is known of the demand, makes no limit full.
//
// While a limit is stalled, a probe is admitted every probeEvery beyond the room there is, to see what it comes for: a task
// on the way to where the others wait goes no further, see Admission.Limit.
//
// A loop is given room for several tasks at a time, its credit, so that it need not lock the ledger for each.
type ConcurrencyLimit struct {
	ledger *Ledger
	name   string
	shares atomic.Pointer[[]*loopShare] // by loop; replaced under ledger.mu
	moved  atomic.Int64                 // about when a task was last admitted or left, on any loop
	left   atomic.Int64                 // about when a task last left, on any loop

	// guarded by ledger.mu:
	demands   []demand // what a task takes, where that is not 0
	peak      int      // the most that were inside, or wanted to be, since the last Tick
	counted   int      // that were inside when that was last counted
	then      int      // that were inside when Ahead was last called
	window    Knee
	begun     bool          // window has its first limit
	first     time.Duration // when a task was first admitted; 0: not yet
	fullSince time.Duration // since when there has been no room for tasks that asked; 0: there is
	askedAt   time.Duration // when a task last asked and got no room
	probedAt  time.Duration // when a probe was last admitted
}

// A loopShare counts the tasks that one loop has admitted, and its credit.
type loopShare struct {
	inside  coro.Counter
	granted atomic.Int64 // tasks that it might admit without asking when it last asked; others take it back
	used    coro.Counter // of these
	waiting atomic.Int64 // when it last asked and got no room; 0: not since it admitted a task
}

// NewLimit adds the limit of an entrance. Its name is for reports only, where the tasks inside look like a resource, whose
// limit is the window.
func (l *Ledger) NewLimit(name string) *ConcurrencyLimit {
	g := &ConcurrencyLimit{ledger: l, name: name}
	g.shares.Store(&[]*loopShare{})
	l.mu.Lock()
	l.limits = append(l.limits, g)
	g.begin()
	l.mu.Unlock()
	return g
}

// begin sets the first window, once there is an answer to how many tasks of unknown demand there is room for. The ledger is
// locked.
func (g *ConcurrencyLimit) begin() {
	if g.begun {
		return
	}
	first := math.Inf(1)
	for _, a := range *g.ledger.accounts.Load() {
		if a.spec.Unknown > 0 && a.spec.Limit > 0 {
			first = min(first, max(math.Floor((a.spec.Limit-a.observed)/a.spec.Unknown), leastWindow))
		}
	}
	if !math.IsInf(first, 1) {
		g.window = Knee{Start: first}
		g.begun = true
	}
}

// windowPressure is the pressure that the window follows. At first little is known of the demand, which may vary much, so
// the window grows only while resources are plentiful, by what was promised and by what is seen as well.
func (g *ConcurrencyLimit) windowPressure(now time.Duration, pressure float64) float64 {
	known := g.demandKnown(now)
	if pressure > 1 {
		return pressure
	}
	if known < 1 {
		for _, a := range *g.ledger.accounts.Load() {
			if a.spec.Unknown > 0 {
				pressure = max(pressure, max(a.observed, a.inUse())/a.limit)
			}
		}
	}
	return min(pressure/(unknownGoal+known*(1-unknownGoal)), 1)
}

// demandKnown is how much is known of the demand, from 0 to 1.
func (g *ConcurrencyLimit) demandKnown(now time.Duration) float64 {
	switch {
	case g.first == 0:
		return 0
	case len(g.demands) > 0:
		return 1
	}
	return min(max(float64(now-g.first)/float64(unknownFor)-1, 0), 1)
}

// Inside is how many tasks have been admitted and have not finished.
func (g *ConcurrencyLimit) Inside() (n int) {
	for _, s := range *g.shares.Load() {
		n += int(s.inside.Load())
	}
	return n
}

// granted is how many tasks are inside or may come in without asking.
func (g *ConcurrencyLimit) granted() (n int) {
	for _, s := range *g.shares.Load() {
		n += int(s.inside.Load() + s.credit())
	}
	return n
}

// credit is how many tasks the loop may admit without asking.
func (s *loopShare) credit() int64 { return max(s.granted.Load()-s.used.Load(), 0) }

// share returns the part of a loop.
func (g *ConcurrencyLimit) share(loop int) *loopShare {
	if all := *g.shares.Load(); loop < len(all) {
		return all[loop]
	}
	g.ledger.mu.Lock()
	defer g.ledger.mu.Unlock()
	all := append([]*loopShare(nil), *g.shares.Load()...)
	for loop >= len(all) {
		all = append(all, new(loopShare))
	}
	g.shares.Store(&all)
	return all[loop]
}

// noteTime sets at to now, exact to 10 ms, so that loops hardly ever write to a word that all of them read.
func noteTime(at *atomic.Int64, now time.Duration) {
	if int64(now)-at.Load() > int64(minimumMoved) {
		at.Store(int64(now))
	}
}

// finished records that a task that was admitted on that loop has ended.
func (g *ConcurrencyLimit) finished(s *loopShare) {
	if s.inside.Own() > 0 {
		s.inside.Add(-1)
	}
}

// admit admits a task of that loop if there is room, and reports whether it did.
func (g *ConcurrencyLimit) admit(now time.Duration, s *loopShare) bool {
	if s.used.Own() < s.granted.Load() {
		s.used.Add(1)
		s.inside.Add(1)
		return true
	}
	return g.ask(now, s)
}

// ask is admit for a loop without credit, and gives it some.
func (g *ConcurrencyLimit) ask(now time.Duration, s *loopShare) bool {
	l := g.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	l.recount()
	given := g.granted()
	room := g.room(given)
	loops := len(*g.shares.Load())
	switch {
	case room > 0 && g.leavesToPoorer(now, s):
		room = 0
	case room == 0 && (l.empty() || g.admitsProbe(now)):
		room = 1
	case g.hasOpened(room, given):
		g.fullSince = 0
		l.stalled.Store(false)
	}
	if room == 0 {
		g.askedAt = now
		if g.fullSince == 0 && (g.demandKnown(now) == 1 || g.reservedAll()) {
			g.fullSince = now
		}
		s.waiting.Store(int64(now))
		g.peak = max(g.peak, given+1) // a task wanted to be the next
		for _, o := range *g.shares.Load() {
			if o != s {
				o.granted.Store(0) // what others have and do not use
			}
		}
		return false
	}
	s.waiting.Store(0)
	if g.first == 0 {
		g.first = max(now, 1)
	}
	s.inside.Add(1)
	g.peak = max(g.peak, given+1)
	s.used.Add(-s.used.Own())
	s.granted.Store(int64(min((room-1)/(2*loops), mostCredit)))
	return true
}

// hasOpened reports whether the limit was full and is no longer. A window that grows by a little, while no task leaves, does
// not open it. The ledger is locked.
func (g *ConcurrencyLimit) hasOpened(room, given int) bool {
	if room == 0 || g.fullSince == 0 {
		return false
	}
	return g.ledger.stalled.Load() || room > given/8 || time.Duration(g.left.Load()) > g.fullSince
}

// isStalled reports whether there has been no room for a while. The ledger is locked.
func (g *ConcurrencyLimit) isStalled(now time.Duration) bool {
	if now-g.askedAt > askedLately {
		g.fullSince = 0
	}
	after := stuckAfter
	if !g.ledger.scarce.Load() {
		after = unsureFor
	}
	return g.fullSince != 0 && now-g.fullSince >= after
}

// admitsProbe reports whether a task may come in although there is no room. The ledger is locked.
func (g *ConcurrencyLimit) admitsProbe(now time.Duration) bool {
	if !g.ledger.stalled.Load() || now-g.ledger.stalledAt < probeAfter || now-g.probedAt < probeEvery {
		return false
	}
	if g.ledger.fullest() > probeRoom {
		return false
	}
	for _, t := range g.demands {
		if t.of.expectedUse()+t.d.Likely() > probeMost*max(t.of.limit, t.of.spec.Limit) {
			return false
		}
	}
	g.askedAt, g.probedAt = now, now
	return true
}

// leavesToPoorer reports whether another loop is waiting that has less inside. The ledger is locked.
func (g *ConcurrencyLimit) leavesToPoorer(now time.Duration, s *loopShare) bool {
	mine := s.inside.Load()
	for _, o := range *g.shares.Load() {
		if at := o.waiting.Load(); o != s && o.inside.Load() < mine && at != 0 && now-time.Duration(at) < waitingFor {
			return true
		}
	}
	return false
}

// report is the state of the limit. The ledger is locked.
func (g *ConcurrencyLimit) report() ResourceReport {
	r := ResourceReport{Name: g.name, Used: float64(g.Inside()), Limit: g.window.Limit()}
	switch {
	case math.IsInf(r.Limit, 1):
		r.Limit = 0
		return r
	case r.Used+1 > r.Limit:
		r.State = AtLimit
	case 2*r.Used > r.Limit:
		r.State = Rising
	}
	r.Utilisation = min(r.Used/r.Limit, 1)
	return r
}

// empty reports whether no task is inside. The ledger is locked.
func (l *Ledger) empty() bool {
	for _, g := range l.limits {
		if g.counted > 0 {
			return false
		}
	}
	return true
}
