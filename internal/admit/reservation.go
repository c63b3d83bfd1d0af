package admit

import "math"

// Reservations: how much of each resource is kept for admitted tasks, and for how many more tasks there is room.

// A demand is what an admitted task takes of one resource.
type demand struct {
	of *account
	d  Moments
}

// A reservation is what a number of tasks may take of a resource.
type reservation Moments

func (p reservation) sum() float64 { return p.Mean + deviations*math.Sqrt(p.Variance) }

// SetDemand says how much of each resource an admitted task will hold at most, see
// sched.Prediction. The slice is copied.
func (g *ConcurrencyLimit) SetDemand(each []Moments) {
	l := g.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	g.demands = g.demands[:0]
	for r, d := range each {
		if a := l.account(ResourceID(r)); a != nil && d.Mean > 0 {
			g.demands = append(g.demands, demand{a, d})
		}
	}
	all := *l.accounts.Load()
	for _, a := range all {
		a.excess.shift(a.reserved.Mean)
	}
	l.recount()
	for _, a := range all {
		a.excess.shift(-a.reserved.Mean) // nothing has been taken or given back by that
	}
}

// Meter sets the function that returns how many admitted tasks are metered, and how much they hold of the Collected
// resource. It is to be called before the first limit is made; read is called with the ledger locked.
func (l *Ledger) Meter(read func() (tasks int, held float64)) { l.meter = read }

// Ahead takes how many tasks inside are at a known place, and how much of each resource that is not Collected these may
// yet take in all. For the other tasks inside, and for tasks admitted before the next call, what a newly admitted task
// takes is reserved. It is to be called before Observe.
func (l *Ledger) Ahead(tasks int, yet []float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.told, l.behind = true, 0
	for _, g := range l.limits {
		g.then = g.Inside()
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

// recount adds up anew what admitted tasks may take: of a Collected resource what they are known to hold, of others what
// they may yet take, and for tasks of unknown demand what was reserved. The ledger is locked.
func (l *Ledger) recount() {
	inside := 0
	for _, g := range l.limits {
		g.counted = g.Inside()
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
		a.reserved, a.known = reservation{Mean: a.ahead}, false
		if a.spec.Kind == Collected && held > 0 {
			a.reserved.Mean, a.known = held, true
		}
	}
	for _, g := range l.limits {
		for i := range g.demands {
			t := &g.demands[i]
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
			t.of.reserved.Mean += n * t.d.Likely()
			t.of.reserved.Variance += varies * t.d.Variance
		}
	}
}

// reservedAll reports whether all that there is of a resource is reserved. The ledger is locked, and
// recount has been called.
func (g *ConcurrencyLimit) reservedAll() bool {
	for i := range g.demands {
		if g.demands[i].room(0) == 0 {
			return true
		}
	}
	return false
}

// room is for how many tasks there is room beyond the given ones, at most 1<<20. The ledger is locked, and recount has
// been called.
func (g *ConcurrencyLimit) room(given int) int {
	const most = 1 << 20
	n := int(min(max(g.window.Limit()-float64(given), 0), most))
	for i := range g.demands {
		n = min(n, g.demands[i].room(float64(given-g.counted)))
	}
	return n
}

// room is how many tasks fit into the resource, beside the credit that loops have.
func (t *demand) room(credit float64) int {
	const most = 1 << 20
	a, d := t.of, t.d
	if math.IsInf(a.limit, 1) {
		return most
	}
	others := a.observed
	if a.known {
		others = max(a.excess.least, 0)
	}
	limit := a.limit
	if a.futile.found {
		limit = max(limit, others+futileRoom*limit)
	}
	fits := func(n float64) bool {
		p := a.reserved
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
