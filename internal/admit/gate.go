package admit

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/capriccio-go/capriccio/internal/coro"
)

// A Gate knows how many tasks may be inside: between an entrance of the program, where they
// were let in, and their end. It is shared by all loops, and its methods may be called from
// any goroutine.
//
// A task is let in if two conditions hold.
//
// The promise: what is in use, and what all admitted tasks and this one may yet take until
// they finish, fits under the limit of every resource. What
// n tasks may take is n times the mean demand and four times the square root of n
// times its variance. Where the demand is not known, this does not hold anybody.
//
// The window: a Knee finds how many tasks may be inside, from the state of all resources
// and signs of thrashing. This is what holds when demands are not known or wrong. It begins
// with as many as there is room for if each took as much as Spec.Unknown says, and grows
// within milliseconds while no resource is scarce.
//
// If nobody at all is inside, one task is let in whatever the resources say, so that the
// program cannot be stuck. If there is not room for all, loops that are waiting get equal parts of it.
//
// Tasks inside may hold all that there is and wait for one that is yet to come in:
//
//	     a task was refused room                    no room for 1 s
//	open ────────────────────────▶ full ──────────────────────────────────────────▶ held up
//	 ▲                              │                                                  │
//	 ╰──────────────────────────────┴──────────────────────────────────────────────────╯
//	                    there is room for the next one, or none asks
//
// As long as much is left of every resource it takes 2 s: those inside may just be slow, and were promised more than
// they have taken.
// A window that is still growing as little is known of the demand makes no gate full.
// While a gate is held up, a task every lookEvery is let in beyond the room there is, to see what it
// comes for: a task on the way to where the others wait goes no further, see Admission.Limit.
//
// A loop is given room for several tasks at a time, its credit, so that it need not lock the
// ledger for each.
type Gate struct {
	ledger *Ledger
	name   string
	shares atomic.Pointer[[]*share] // by loop; replaced under ledger.mu
	moved  atomic.Int64             // about when somebody was last let in or left, on any loop
	left   atomic.Int64             // about when somebody last left, on any loop

	// guarded by ledger.mu:
	takes   []take // what a task takes, where that is not 0
	peak    int    // the most that were inside, or wanted to be, since the last Tick
	counted int    // that were inside when that was last counted
	then    int    // that were inside when Ahead was last called
	window  Knee
	begun   bool          // window has its first limit
	first   time.Duration // when somebody was first let in; 0: not yet
	full    time.Duration // since when there has been no room for those that asked; 0: there is
	asked   time.Duration // when somebody last asked in vain
	looked  time.Duration // when one was last let in beyond the room there is
}

// A take is what a task that is let in takes of one resource.
type take struct {
	of *account
	d  Moments
}

// A share is one loop's part of what is inside.
type share struct {
	inside  coro.Counter
	granted atomic.Int64 // tasks that it might let in without asking when it last asked; others take it back
	used    coro.Counter // of these
	waiting atomic.Int64 // when it last asked in vain; 0: not since it was let in
}

const (
	// waitingFor is how long a loop that asked in vain is believed to be still waiting.
	waitingFor  = 20 * time.Millisecond
	deviations  = 4 // that a demand may exceed its mean by
	mostCredit  = 64
	leastWindow = 4
	unknownGoal = 0.6         // pressure up to which the window grows at first; after
	unknownFor  = time.Second // that and as long again it is 1
	heldUpAfter = time.Second
	scarceShare = 0.85                  // in use, and those inside may be waiting for more
	unsureFor   = patience              // that they are held up, while less is in use
	lookAfter   = 50 * time.Millisecond // until it is known where they wait
	lookEvery   = 200 * time.Microsecond
	lookRoom    = 1.08            // of the limit
	lookMost    = 1.11            // of it, if what is let in is like those inside: just below GOMEMLIMIT
	askedLately = 2 * time.Second // tasks that are refused at once ask less often
)

// NewGate adds an entrance. Its name is for reports only, where the tasks inside look
// like a resource, whose limit is the window.
func (l *Ledger) NewGate(name string) *Gate {
	g := &Gate{ledger: l, name: name, window: Knee{Min: 1}}
	g.shares.Store(&[]*share{})
	l.mu.Lock()
	l.gates = append(l.gates, g)
	g.begin()
	l.mu.Unlock()
	return g
}

// begin sets the first window, once it is known how many tasks of which nothing is known
// there is room for. The ledger is locked.
func (g *Gate) begin() {
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
		g.window = Knee{Start: first, Min: 1}
		g.begun = true
	}
}

// feels is the pressure that the window is to go by. At first little is known of the demand, which
// may vary much, so it grows only while resources are plentiful, by what was promised and by what
// is seen as well.
func (g *Gate) feels(now time.Duration, pressure float64) float64 {
	known := g.known(now)
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

// known is how much is known of the demand, from 0 to 1.
func (g *Gate) known(now time.Duration) float64 {
	switch {
	case g.first == 0:
		return 0
	case len(g.takes) > 0:
		return 1
	}
	return min(max(float64(now-g.first)/float64(unknownFor)-1, 0), 1)
}

// SetDemand says how much of each resource a task that is let in will hold at most, see
// Prediction.Peak. The slice is copied.
func (g *Gate) SetDemand(demand []Moments) {
	l := g.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	g.takes = g.takes[:0]
	for r, d := range demand {
		if a := l.account(ResourceID(r)); a != nil && d.Mean > 0 {
			g.takes = append(g.takes, take{a, d})
		}
	}
	all := *l.accounts.Load()
	for _, a := range all {
		a.excess.shift(a.pledges.Mean)
	}
	l.recount()
	for _, a := range all {
		a.excess.shift(-a.pledges.Mean) // nothing has been taken or given back by that
	}
}

// Meter sets the function that says of how many admitted tasks it is known what they hold of what is Collected, and
// how much that is. It is to be called before the first gate is made; read is called with the ledger
// locked.
func (l *Ledger) Meter(read func() (tasks int, held float64)) { l.meter = read }

// Ahead says of how many tasks inside it is known where they are, and what these may yet take of each resource
// that is not Collected, in all. To the others, and to as many as there are more inside until it is called again, what a task
// takes that comes in is promised. It is to be called before Observe.
func (l *Ledger) Ahead(tasks int, yet []float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.told, l.behind = true, 0
	for _, g := range l.gates {
		g.then = g.inside()
		l.behind += g.then
	}
	l.behind = max(l.behind-tasks, 0)
	for i, a := range *l.accounts.Load() {
		a.ahead = 0
		if i < len(yet) && a.spec.Kind != Collected {
			a.ahead = yet[i]
		}
	}
}

// recount adds up what admitted tasks may take, anew: of what is Collected what they are known to hold, of other
// things what they may yet take; and what was promised to those of which that is not known. The ledger is locked.
func (l *Ledger) recount() {
	inside := 0
	for _, g := range l.gates {
		g.counted = g.inside()
		g.peak = max(g.peak, g.counted)
		inside += g.counted
	}
	unseen, held := 1.0, 0.0
	if l.meter != nil && inside > 0 {
		var seen int
		seen, held = l.meter()
		unseen = 1 - min(float64(seen)/float64(inside), 1)
	}
	for _, a := range *l.accounts.Load() {
		a.pledges, a.known = promise{Mean: a.ahead}, false
		if a.spec.Kind == Collected && held > 0 {
			a.pledges.Mean, a.known = held, true
		}
	}
	for _, g := range l.gates {
		for i := range g.takes {
			t := &g.takes[i]
			n := float64(g.counted)
			varies := n
			switch {
			case t.of.spec.Kind == Collected:
				n *= unseen
				varies = n
				t.of.known = true
			case l.told: // one that has left since has given back about what one that comes is going to take
				n = min(n, float64(l.behind+g.counted-g.then))
			}
			t.of.pledges.Mean += n * t.d.Likely()
			t.of.pledges.Variance += varies * t.d.Variance
		}
	}
}

// Inside is how many tasks have been let in and have not finished.
func (g *Gate) Inside() int { return g.inside() }

func (g *Gate) inside() (n int) {
	for _, s := range *g.shares.Load() {
		n += int(s.inside.Load())
	}
	return n
}

// given is how many are inside or may come in without asking.
func (g *Gate) given() (n int) {
	for _, s := range *g.shares.Load() {
		n += int(s.inside.Load() + s.credit())
	}
	return n
}

// credit is how many tasks it may let in without asking.
func (s *share) credit() int64 { return max(s.granted.Load()-s.used.Load(), 0) }

// share returns the part of a loop.
func (g *Gate) share(loop int) *share {
	if all := *g.shares.Load(); loop < len(all) {
		return all[loop]
	}
	g.ledger.mu.Lock()
	defer g.ledger.mu.Unlock()
	all := append([]*share(nil), *g.shares.Load()...)
	for loop >= len(all) {
		all = append(all, new(share))
	}
	g.shares.Store(&all)
	return all[loop]
}

// moves notes that somebody was let in, or left.
func (g *Gate) moves(now time.Duration) { note(&g.moved, now) }

// note is exact to 10 ms, so that loops hardly ever write to what all of them read.
func note(at *atomic.Int64, now time.Duration) {
	if int64(now)-at.Load() > int64(10*time.Millisecond) {
		at.Store(int64(now))
	}
}

// finished records that a task that was let in on that loop is done.
func (g *Gate) finished(s *share) {
	if s.inside.Own() > 0 {
		s.inside.Add(-1)
	}
}

// admit lets a task of that loop in if it can.
func (g *Gate) admit(now time.Duration, s *share) bool {
	if s.used.Own() < s.granted.Load() {
		s.used.Add(1)
		s.inside.Add(1)
		return true
	}
	return g.ask(now, s)
}

// ask is admit for a loop without credit, and gives it some.
func (g *Gate) ask(now time.Duration, s *share) bool {
	l := g.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	l.recount()
	given := g.given()
	room := g.room(given)
	loops := len(*g.shares.Load())
	switch {
	case room > 0 && g.poorer(now, s):
		room = 0
	case room == 0 && (l.empty() || g.looks(now)):
		room = 1
	case g.hasOpened(room, given):
		g.full = 0
		l.heldUp.Store(false)
	}
	if room == 0 {
		g.asked = now
		if g.full == 0 && (g.known(now) == 1 || g.promisedOut()) {
			g.full = now
		}
		s.waiting.Store(int64(now))
		g.peak = max(g.peak, given+1) // somebody wanted to be the next
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

// hasOpened reports whether the gate was full and is no longer. That its window grows by a little, while nobody leaves,
// does not make it so. The ledger is locked.
func (g *Gate) hasOpened(room, given int) bool {
	if room == 0 || g.full == 0 {
		return false
	}
	return g.ledger.heldUp.Load() || room > given/8 || time.Duration(g.left.Load()) > g.full
}

// heldUp reports whether there has been no room for a while. The ledger is locked.
func (g *Gate) heldUp(now time.Duration) bool {
	if now-g.asked > askedLately {
		g.full = 0
	}
	after := heldUpAfter
	if !g.ledger.scarce.Load() {
		after = unsureFor
	}
	return g.full != 0 && now-g.full >= after
}

// promisedOut reports whether all that there is of a resource is promised. The ledger is locked, and
// recount has been called.
func (g *Gate) promisedOut() bool {
	for i := range g.takes {
		if g.takes[i].room(0) == 0 {
			return true
		}
	}
	return false
}

// looks reports whether one may come in although there is no room. The ledger is locked.
func (g *Gate) looks(now time.Duration) bool {
	if !g.ledger.heldUp.Load() || now-g.ledger.heldAt < lookAfter || now-g.looked < lookEvery {
		return false
	}
	if g.ledger.fullest() > lookRoom {
		return false
	}
	for _, t := range g.takes {
		if t.of.likely()+t.d.Likely() > lookMost*max(t.of.limit, t.of.spec.Limit) {
			return false
		}
	}
	g.asked, g.looked = now, now
	return true
}

// poorer reports whether another loop is waiting that has less inside. The ledger is locked.
func (g *Gate) poorer(now time.Duration, s *share) bool {
	mine := s.inside.Load()
	for _, o := range *g.shares.Load() {
		if at := o.waiting.Load(); o != s && o.inside.Load() < mine && at != 0 && now-time.Duration(at) < waitingFor {
			return true
		}
	}
	return false
}

// report is the state of the gate. The ledger is locked.
func (g *Gate) report() ResourceReport {
	r := ResourceReport{Name: g.name, Used: float64(g.inside()), Limit: g.window.Limit()}
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

// empty reports whether nobody is inside. The ledger is locked.
func (l *Ledger) empty() bool {
	for _, g := range l.gates {
		if g.counted > 0 {
			return false
		}
	}
	return true
}

// room is how many more than those that have been given room there is room for, as far as
// that is worth knowing. The ledger is locked, and recount has been called.
func (g *Gate) room(given int) int {
	const most = 1 << 20
	n := int(min(max(g.window.Limit()-float64(given), 0), most))
	for i := range g.takes {
		n = min(n, g.takes[i].room(float64(given-g.counted)))
	}
	return n
}

// room is how many tasks fit into the resource, beside those that have credit.
func (t *take) room(credit float64) int {
	const most = 1 << 20
	a, d := t.of, t.d
	if math.IsInf(a.limit, 1) {
		return most
	}
	others := a.observed
	if a.known {
		others = max(a.excess.least(), 0)
	}
	limit := a.limit
	if a.futile.found {
		limit = max(limit, others+futileRoom*limit)
	}
	fits := func(n float64) bool {
		p := a.pledges
		p.Mean += (credit + n) * t.d.Likely()
		p.Variance += (credit + n) * d.Variance
		return others+p.sum() <= limit
	}
	if !fits(1) {
		return 0
	}
	n := 1.0
	for n < most && fits(2*n) {
		n *= 2
	}
	for step := n / 2; step >= 1; step /= 2 {
		if fits(n + step) {
			n += step
		}
	}
	return int(n)
}

type promise Moments

func (p promise) sum() float64 { return p.Mean + deviations*math.Sqrt(p.Variance) }
