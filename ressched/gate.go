package ressched

import (
	"math"
	"time"
)

// A Gate is an entrance of the program, like accepting a connection, the first read of
// a request, or starting a task: where work comes in, and will take resources. It is
// shared by all loops, and its methods may be called from any goroutine.
//
// A task is let in if two conditions hold.
//
// The promise: what is in use beside the admitted tasks, and what all admitted tasks
// and this one may take until they finish, fits under the limit of every resource. What
// n tasks may take is n times the mean demand and four times the square root of n
// times its variance. Where the demand is not known, this does not hold anybody.
//
// The window: a Knee finds how many tasks may be inside, from the state of all resources
// and signs of thrashing. This is what holds when demands are not known or wrong.
//
// If nobody at all is inside, one task is let in whatever the resources say, so that the
// program cannot be stuck. If there is not room for all, loops that are waiting get
// equal parts of it.
type Gate struct {
	ledger *Ledger
	name   string
	// guarded by ledger.mu:
	demand   []Moments // by ResourceID
	takes    []take    // what of it is not 0
	admitted int       // tasks that are inside
	peak     int       // the most of them since the last Tick
	window   Knee
	loops    []share
}

// A take is what a task that is let in takes of one resource.
type take struct {
	of *account
	d  Moments
}

// A share is one loop's part of what is inside.
type share struct {
	inside  int
	waiting time.Duration // when it last asked in vain; noTime: not since it was let in
}

// waitingFor is how long a loop that asked in vain is believed to be still waiting.
const waitingFor = 20 * time.Millisecond

const (
	windowStart = 4 // tasks that are let in before anything is known; it doubles every 20 ms if need be
	deviations  = 4 // that a demand may exceed its mean by
)

// NewGate adds an entrance. Its name is for reports only, where the tasks inside look
// like a resource, whose limit is the window.
func (l *Ledger) NewGate(name string) *Gate {
	g := &Gate{ledger: l, name: name, window: Knee{Start: windowStart, Min: 1}}
	l.mu.Lock()
	l.gates = append(l.gates, g)
	l.mu.Unlock()
	return g
}

// SetDemand says how much of each resource a task that is let in will hold at most, see
// Prediction.Peak. The slice is copied.
func (g *Gate) SetDemand(demand []Moments) {
	l := g.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	g.demand, g.takes = append(g.demand[:0], demand...), g.takes[:0]
	for r, d := range demand {
		if a := l.account(ResourceID(r)); a != nil && d.Mean > 0 {
			g.takes = append(g.takes, take{a, d})
		}
	}
	l.recount()
}

// recount adds up what admitted tasks may take, anew. The ledger is locked.
func (l *Ledger) recount() {
	for _, a := range *l.accounts.Load() {
		was := a.pledges.Mean
		a.pledges, a.known = promise{}, false
		for _, g := range l.gates {
			for i := range g.takes {
				if t := &g.takes[i]; t.of == a {
					a.known = a.spec.Late
					a.pledge(float64(g.admitted), t.d)
				}
			}
		}
		if a.spec.Late && was != a.pledges.Mean {
			a.excess.shift(was - a.pledges.Mean) // nothing has been taken or given back by that
		}
	}
}

// pledge says that n tasks more, or fewer if it is less than 0, may take d of a. The ledger is locked.
func (a *account) pledge(n float64, d Moments) {
	a.pledges.Mean += n * d.Mean
	a.pledges.Variance = max(a.pledges.Variance+n*d.Variance, 0)
}

// moved says that n tasks more are inside. The ledger is locked.
func (g *Gate) moved(n int) {
	g.admitted += n
	for i := range g.takes {
		g.takes[i].of.pledge(float64(n), g.takes[i].d)
	}
}

// Inside is how many tasks have been let in and have not finished.
func (g *Gate) Inside() int {
	g.ledger.mu.Lock()
	defer g.ledger.mu.Unlock()
	return g.admitted
}

// room says whether n tasks more fit in. Who could not be the next is noted as a wish for
// a larger window.
func (g *Gate) room(n int) bool {
	g.ledger.mu.Lock()
	defer g.ledger.mu.Unlock()
	if g.fits(n) || n == 1 && g.ledger.empty() {
		return true
	}
	g.peak = max(g.peak, g.admitted+n)
	return false
}

// finished says that a task that was let in on that loop is done.
func (g *Gate) finished(loop int) {
	g.ledger.mu.Lock()
	defer g.ledger.mu.Unlock()
	if loop < len(g.loops) && g.loops[loop].inside > 0 {
		g.loops[loop].inside--
		g.moved(-1)
	}
}

// admit lets a task of that loop in if it can.
func (g *Gate) admit(now time.Duration, loop int) bool {
	l := g.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	for loop >= len(g.loops) {
		g.loops = append(g.loops, share{waiting: noTime})
	}
	mine := &g.loops[loop]
	if !g.fits(1) && !l.empty() || g.poorer(now, loop) {
		mine.waiting = now
		g.peak = max(g.peak, g.admitted+1) // somebody wanted to be the next
		return false
	}
	mine.waiting = noTime
	mine.inside++
	g.moved(1)
	g.peak = max(g.peak, g.admitted)
	for i := range g.takes {
		a := g.takes[i].of
		a.promise(a.pledges.Mean)
	}
	return true
}

// poorer says whether another loop is waiting that has less inside. The ledger is locked.
func (g *Gate) poorer(now time.Duration, loop int) bool {
	for i, o := range g.loops {
		if i != loop && o.inside < g.loops[loop].inside && o.waiting != noTime && now-o.waiting < waitingFor {
			return true
		}
	}
	return false
}

// report is the state of the gate. The ledger is locked.
func (g *Gate) report() ResourceReport {
	r := ResourceReport{Name: g.name, Used: float64(g.admitted), Limit: g.window.Limit()}
	r.Utilisation = min(r.Used/r.Limit, 1)
	switch {
	case r.Used+1 > r.Limit:
		r.State = AtLimit
	case 2*r.Used > r.Limit:
		r.State = Rising
	}
	return r
}

// empty says that nobody is inside. The ledger is locked.
func (l *Ledger) empty() bool {
	for _, g := range l.gates {
		if g.admitted > 0 {
			return false
		}
	}
	return true
}

// fits says whether n tasks more fit in. The ledger is locked.
func (g *Gate) fits(n int) bool {
	if float64(g.admitted+n) > g.window.Limit() {
		return false
	}
	for i := range g.takes {
		a, d := g.takes[i].of, &g.takes[i].d
		if math.IsInf(a.limit, 1) {
			continue
		}
		p := a.pledges
		p.Mean += float64(n) * d.Mean
		p.Variance += float64(n) * d.Variance
		if a.others+p.sum() > a.limit || a.inUse()+float64(n)*d.Mean > a.limit {
			return false
		}
	}
	return true
}

type promise Moments

func (p promise) sum() float64 { return p.Mean + deviations*math.Sqrt(p.Variance) }

// A Priority says how important a task is, from -32 to 31; others count as the nearest
// of these. 0 is what a task has if nothing else is said.
type Priority int

func (p Priority) bit() uint64 { return 1 << p.level() }

// level is the priority counted from the lowest.
func (p Priority) level() uint8 { return uint8(min(max(p, -32), 31) + 32) }

// An entrance is one loop's view of a Gate. Loop-private.
//
//	  every wait > limit, for that time and not decreasing, or growing; or again soon
//	 normal ──────────────────────────────────────────────────────────────▶ overloaded
//	(admit)  ◀──────────────────────────────────────────────────────────────  (refuse)
//	                               a wait < limit/2
type entrance struct {
	gate     *Gate
	deferred bool          // the task that comes next has been counted as deferred
	admitted time.Duration // when the last task was
	// Moving averages of the time between two admissions while tasks wait, and of how far
	// it is from that average.
	pace, deviation time.Duration

	overloaded bool
	since      time.Duration // in normal: when waits became too long; noTime: they are not
	then       time.Duration // how long the wait was at that time
	asked      time.Duration // when it was decided upon a task for the last time
	until      time.Duration // when the last overload ended; noTime: there was none

	level   uint8         // in overload: what is more important is admitted, what is less is refused
	raised  time.Duration // when level was last raised
	seen    [2]uint64     // bits of the priorities seen in this period and the last
	period  time.Duration
	refused bool    // in this period, somebody of this level
	decided int     // in this period: tasks admitted or refused
	rate    float64 // of the last period, per nanosecond

	crowd crowd
}

const noTime = time.Duration(math.MinInt64)
