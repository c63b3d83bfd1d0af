package admit

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// A ResourceID names a resource of a Ledger: 0 for the first that was added, and so on.
// Slices of moments are indexed by it.
type ResourceID int

// A Ledger knows the state of every resource. It is shared by all loops, and its
// methods may be called from any goroutine.
//
// Its user calls Tick regularly, every 10 ms say, after Observe for what was measured.
type Ledger struct {
	accounts  atomic.Pointer[[]*account] // replaced under mu
	version   atomic.Uint64              // counts changes
	tight     atomic.Bool                // much is in use of what tasks hold while they wait, see Kept
	stalled   atomic.Bool                // see Stalled
	scarce    atomic.Bool                // of some resource at least scarceShare is in use
	mu        sync.Mutex
	limits    []*ConcurrencyLimit // guarded by mu
	now       time.Duration       // guarded by mu: of the last Tick
	stalledAt time.Duration       // guarded by mu: when a limit was last found stalled, or no longer

	// meter returns how many admitted tasks are metered, and how much they hold of the Collected resource; fixed; may
	// be nil.
	meter func() (tasks int, held float64)

	told   bool // guarded by mu: Ahead was called
	behind int  // guarded by mu: tasks inside that Ahead was not told of
}

// NewLedger returns a Ledger without resources.
func NewLedger() *Ledger {
	l := &Ledger{}
	l.accounts.Store(&[]*account{})
	return l
}

// Add adds a resource. The error says what is wrong with s.
func (l *Ledger) Add(s Spec) (ResourceID, error) {
	s, err := s.withDefaults()
	if err != nil {
		return 0, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	accounts := *l.accounts.Load()
	a := &account{spec: s, limit: s.Limit}
	for _, other := range accounts {
		if other.spec.Name == s.Name {
			return 0, fmt.Errorf("admit: there is a resource %q already", s.Name)
		}
		if other.spec.Name == s.Of {
			a.of = other
		}
	}
	if s.Of != "" && a.of == nil {
		return 0, fmt.Errorf("admit: resource %q is a sign of %q, which is unknown; add that first", s.Name, s.Of)
	}
	if s.Limit == 0 || s.Find {
		a.knee = &Knee{Start: s.Limit, Max: s.Limit}
		a.limit = a.knee.Limit()
	}
	accounts = append(accounts[:len(accounts):len(accounts)], a)
	l.accounts.Store(&accounts)
	l.version.Add(1)
	return ResourceID(len(accounts) - 1), nil
}

// SetLimit changes the limit of r, which must be above 0, as when the memory limit of a container is changed. Other
// values are ignored.
func (l *Ledger) SetLimit(r ResourceID, limit float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.account(r)
	if a == nil || !(limit > 0) || math.IsInf(limit, 1) || limit == a.spec.Limit {
		return
	}
	a.spec.Limit, a.limit = limit, limit
	if a.knee != nil {
		a.knee = &Knee{Start: limit, Max: limit}
		if !a.spec.Find {
			a.knee = nil
		}
	}
	a.judge()
	l.version.Add(1)
}

// SetTarget changes Target and Margin of r, see Spec, as when they depend on its limit and that has changed.
func (l *Ledger) SetTarget(r ResourceID, target, margin float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.account(r)
	if a == nil || target == a.spec.Target && margin == a.spec.Margin {
		return
	}
	a.spec.Target, a.spec.Margin = target, margin
	a.judge()
	l.version.Add(1)
}

// Unlimit takes the given limit of r back: it is unknown again how much there is of it. find: it is to be found, see
// Spec.Find.
func (l *Ledger) Unlimit(r ResourceID, find bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.account(r)
	if a == nil || a.spec.Limit == 0 && find == (a.knee != nil) {
		return
	}
	a.spec.Limit, a.limit, a.trend, a.knee = 0, math.Inf(1), 0, nil
	if find {
		a.knee = &Knee{}
	}
	a.judge()
	l.version.Add(1)
}

// Observe records that at the time now so much of r was in use; less than 0 counts as 0.
// Numbers that are not finite are ignored, and so are times before the last.
func (l *Ledger) Observe(now time.Duration, r ResourceID, used float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.account(r)
	if a == nil || math.IsNaN(used) || math.IsInf(used, 0) || now < a.sampled {
		return
	}
	l.recount()
	none := a.reservedThen == 0 && a.reserved.Mean == 0
	a.observed, a.reservedThen = max(used, 0), a.reserved.Mean
	if a.spec.Kind == Collected {
		if none { // all of it is held by others
			a.excess = lowest{}
		}
		a.excess.add(now, a.observed-a.reserved.Mean)
	}
	a.sample(now)
	l.version.Add(1)
}

func (l *Ledger) account(r ResourceID) *account {
	if all := *l.accounts.Load(); r >= 0 && int(r) < len(all) {
		return all[r]
	}
	return nil
}

// Tick brings what was counted up to date, and lets the limits that are to be found
// move. A time before the last is ignored.
func (l *Ledger) Tick(now time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now < l.now {
		return
	}
	l.recount()
	tight, stalled := false, false
	for _, a := range *l.accounts.Load() {
		if a.spec.Kind == Sign && a.observed != 0 && now-a.sampled > staleAfter {
			a.observed = 0
			a.sample(now)
		} else if a.used != a.observed || a.spec.Kind == Collected {
			a.sample(now)
		}
		if a.spec.Kind == Collected && a.excess.n > 0 {
			a.futile.look(now, a.excess.least, a.limit, &a.spec)
		}
		tight = tight || a.spec.Kind == Kept && a.util >= tightShare
	}
	l.scarce.Store(l.fullest() >= scarceShare)
	pause := standstill(l.now, now)
	for _, g := range l.limits {
		if pause > 0 && g.fullSince > 0 {
			g.fullSince = min(g.fullSince+pause, now)
		}
		if given := g.granted(); g.hasOpened(g.room(given), given) {
			g.fullSince = 0
		}
		stalled = stalled || g.isStalled(now)
	}
	l.tight.Store(tight)
	if l.stalled.Swap(stalled) != stalled {
		l.stalledAt = now
	}
	l.now = now
	pressure, from := l.pressure(now)
	for _, a := range *l.accounts.Load() {
		// Until a limit of the heap is known there is none: pressure of other resources says nothing of it.
		if a.knee != nil && (a.spec.Limit > 0 || a.spec.Kind != Collected) {
			a.knee.Update(now, from, a.used, pressure)
			a.limit = a.knee.Limit()
			a.judge()
		}
	}
	for _, g := range l.limits {
		g.begin()
		g.window.Update(now, from, float64(g.peak), g.windowPressure(now, pressure))
		g.peak = g.counted
		for _, s := range *g.shares.Load() {
			s.granted.Store(0) // there may be less room now
		}
	}
	l.version.Add(1)
}

// Stalled reports whether a limit has no room because of tasks that only wait. They may wait for a task that is yet to
// come in.
func (l *Ledger) Stalled() bool { return l.stalled.Load() }

// Calm reports whether there was plenty of each resource at the last Tick, apart from resources that refusing work will
// not free, and no limit without room.
func (l *Ledger) Calm() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range *l.accounts.Load() {
		if a.counts() && a.state != Low && !a.futile.found {
			return false
		}
	}
	for _, g := range l.limits {
		if g.fullSince != 0 {
			return false
		}
	}
	return true
}

// fullest is the largest share of a limit that is expected to be in use, see account.expectedUse. The ledger is locked.
func (l *Ledger) fullest() (share float64) {
	for _, a := range *l.accounts.Load() {
		limit := a.limit
		if a.spec.Limit > 0 { // one that was found may be too low
			limit = a.spec.Limit
		}
		if a.spec.Kind.scarce() {
			share = max(share, a.expectedUse()/limit)
		}
	}
	return share
}

// pressure is the largest share of a given limit that is in use, and since when
// it was measured. Where refusing work is futile the load is not the cause.
func (l *Ledger) pressure(now time.Duration) (pressure float64, from time.Duration) {
	from = now
	for _, a := range *l.accounts.Load() {
		if !a.counts() || a.spec.Limit == 0 {
			continue
		}
		share := a.used / a.spec.Limit
		if a.futile.found {
			share = min(share, kneeBlind)
		}
		if share > pressure {
			pressure, from = share, min(a.before, a.sampled-a.spec.Over)
		}
	}
	return pressure, from
}

// A Standing is the state of a resource as a policy sees it.
type Standing struct {
	State  State
	Util   float64
	Target float64
	Sign   bool
	Open   bool    // there is no limit yet
	Room   float64 // what is left of it until it is no longer plentiful; may be below 0
}

// Standings returns the state of all resources, in the space of to, unless nothing has
// changed since version.
func (l *Ledger) Standings(to []Standing, version uint64) ([]Standing, uint64) {
	now := l.version.Load()
	if now == version {
		return to, version
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	to = to[:0]
	for _, a := range *l.accounts.Load() {
		to = append(to, Standing{
			State: a.state, Util: a.util, Target: a.spec.Target,
			Sign: !a.spec.Kind.scarce(), Open: math.IsInf(a.limit, 1), Room: (Plenty - a.util) * a.limit,
		})
	}
	return to, now
}

// Grant returns how many of n tasks fit below Target if each of them takes that amount of r, and counts them as granted
// until the next sample. If refusing work is futile, all fit.
func (l *Ledger) Grant(r ResourceID, each float64, n int) int {
	a := l.account(r)
	if a == nil {
		return n
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if room := a.limit*a.spec.Target - a.inUse() - a.granted; room < each*float64(n) && !a.futile.found {
		n = max(int(room/each), 0)
	}
	a.granted += each * float64(n)
	return n
}

// GiveBack takes back a grant for n tasks that did not run.
func (l *Ledger) GiveBack(r ResourceID, each float64, n int) {
	if a := l.account(r); a != nil {
		l.mu.Lock()
		a.granted = max(a.granted-each*float64(n), 0)
		l.mu.Unlock()
	}
}

// Report adds the resources to r, and after them the limits.
func (l *Ledger) Report(r *Report) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range *l.accounts.Load() {
		limit := a.limit
		if math.IsInf(limit, 1) {
			limit = 0
		}
		r.Resources = append(r.Resources, ResourceReport{
			Name: a.spec.Name, Used: a.used, Limit: limit,
			Utilisation: min(a.util, 1), Trend: a.trend, State: a.state,
		})
	}
	for _, g := range l.limits {
		r.Resources = append(r.Resources, g.report())
	}
}

// NameOf is the name of r.
func (l *Ledger) NameOf(r ResourceID) string {
	if a := l.account(r); a != nil {
		return a.spec.Name
	}
	return "?"
}
