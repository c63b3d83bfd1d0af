package admit

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// A ResourceID names a resource of a Ledger: 0 for the first that was added, and so on.
// Slices in a Prediction are indexed by it.
type ResourceID int

// A Ledger knows the state of every resource. It is shared by all loops, and its
// methods may be called from any goroutine.
//
// Somebody calls Tick regularly, every 10 ms say, after Observe for what was measured.
type Ledger struct {
	accounts atomic.Pointer[[]*account] // replaced under mu
	version  atomic.Uint64              // counts changes
	tight    atomic.Bool                // much is in use of what tasks hold while they wait, see Kept
	heldUp   atomic.Bool                // see HeldUp
	scarce   atomic.Bool                // of some resource at least scarceShare is in use
	mu       sync.Mutex
	gates    []*Gate       // guarded by mu
	now      time.Duration // guarded by mu: of the last Tick
	heldAt   time.Duration // guarded by mu: when a gate was last found held up, or no longer

	// meter says of how many admitted tasks it is known what they hold of what is Collected, and how much
	// that is; fixed; may be nil.
	meter func() (tasks int, held float64)

	told   bool // guarded by mu: Ahead was called
	behind int  // guarded by mu: tasks inside that it was not told of
}

// An account is what the Ledger knows of one resource. Fields without a remark are
// guarded by the Ledger's mu.
type account struct {
	spec Spec // fixed, but Limit is guarded by mu

	observed float64
	ahead    float64  // what those may yet take that Ahead was told of
	pledges  promise  // what the admitted tasks may take
	pledged  float64  // their mean when observed was
	excess   lowest   // of observed over their mean; only if Collected
	known    bool     // what admitted tasks take is; only if Collected
	futile   futility // only if Collected
	used     float64  // observed, when it was last looked at
	limit    float64  // +Inf: not found yet
	util     float64  // used in parts of limit; not below 0, but may exceed 1
	trend    float64  // of util, per second
	state    State
	sampled  time.Duration // when used was last looked at
	before   time.Duration // and when the time before
	knee     *Knee         // nil: the limit is given
	of       *account      // fixed; nil: none

	granted float64 // to cohorts, since the last sample
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

// SetLimit changes the limit of r, which must be above 0, as when the memory limit of a
// container is changed. What is not above 0 is ignored, and so is what is the limit already.
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

// Unlimit takes the given limit of r back: nobody knows any more how much there is of it. find: it is to be found from
// now on, or goes on to be.
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
// What is not a finite number is ignored, and so is a time before the last.
func (l *Ledger) Observe(now time.Duration, r ResourceID, used float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.account(r)
	if a == nil || math.IsNaN(used) || math.IsInf(used, 0) || now < a.sampled {
		return
	}
	l.recount()
	none := a.pledged == 0 && a.pledges.Mean == 0
	a.observed, a.pledged = max(used, 0), a.pledges.Mean
	if a.spec.Kind == Collected {
		if none { // all of it is held by others
			a.excess = lowest{}
		}
		a.excess.add(now, a.observed-a.pledges.Mean)
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
	tight, heldUp := false, false
	for _, a := range *l.accounts.Load() {
		if a.spec.Kind == Sign && a.observed != 0 && now-a.sampled > a.spec.Stale {
			a.observed = 0
			a.sample(now)
		} else if a.used != a.observed || a.spec.Kind == Collected {
			a.sample(now)
		}
		if a.spec.Kind == Collected && a.excess.n > 0 {
			a.futile.look(now, a.excess.least(), a.limit, &a.spec)
		}
		tight = tight || a.spec.Kind == Kept && a.util >= tightShare
	}
	l.scarce.Store(l.fullest() >= scarceShare)
	for _, g := range l.gates {
		if given := g.given(); g.hasOpened(g.room(given), given) {
			g.full = 0
		}
		heldUp = heldUp || g.heldUp(now)
	}
	l.tight.Store(tight)
	if l.heldUp.Swap(heldUp) != heldUp {
		l.heldAt = now
	}
	l.now = now
	pressure, from, at := l.pressure(now)
	for _, a := range *l.accounts.Load() {
		// Until a limit of the heap is known there is none: pressure of other resources says nothing of it.
		if a.knee != nil && (a.spec.Limit > 0 || a.spec.Kind != Collected) {
			a.knee.Update(now, from, at, a.used, pressure)
			a.limit = a.knee.Limit()
			a.judge()
		}
	}
	for _, g := range l.gates {
		g.begin()
		g.window.Update(now, from, at, float64(g.peak), g.feels(now, pressure))
		g.peak = g.counted
		for _, s := range *g.shares.Load() {
			s.granted.Store(0) // there may be less room now
		}
	}
	l.version.Add(1)
}

// tightShare is how much of what tasks hold while they wait may be in use before lines are not left to
// grow.
const tightShare = 0.92

// HeldUp reports whether a gate has no room because of tasks that only wait. It may be
// one that is yet to come in that they wait for.
func (l *Ledger) HeldUp() bool { return l.heldUp.Load() }

// Calm reports whether there was plenty of each resource at the last Tick, apart from resources that refusing work will
// not free, and no gate without room.
func (l *Ledger) Calm() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range *l.accounts.Load() {
		if a.counts() && a.state != Low && !a.futile.found {
			return false
		}
	}
	for _, g := range l.gates {
		if g.full != 0 {
			return false
		}
	}
	return true
}

// likely is how much is in use if each of those that came since it was last observed takes what was
// promised, even if what was promised before is not taken.
func (a *account) likely() float64 {
	v := a.observed + max(a.pledges.Mean-a.pledged, 0)
	if a.known {
		v = min(v, a.inUse())
	}
	return v
}

// fullest is the largest share of a limit that is likely to be in use. The ledger is locked.
func (l *Ledger) fullest() (share float64) {
	for _, a := range *l.accounts.Load() {
		limit := a.limit
		if a.spec.Limit > 0 { // one that was found may be too low
			limit = a.spec.Limit
		}
		if a.spec.Kind.scarce() {
			share = max(share, a.likely()/limit)
		}
	}
	return share
}

// pressure is the largest share of a given limit that is in use, and from when to when
// it was measured. Where refusing work is futile the load is not the cause.
func (l *Ledger) pressure(now time.Duration) (pressure float64, from, at time.Duration) {
	from, at = now, now
	for _, a := range *l.accounts.Load() {
		if !a.counts() || a.spec.Limit == 0 {
			continue
		}
		share := a.used / a.spec.Limit
		if a.futile.found {
			share = min(share, kneeBlind)
		}
		if share > pressure {
			pressure, from, at = share, min(a.before, a.sampled-a.spec.Over), a.sampled
		}
	}
	return pressure, from, at
}

// counts reports whether a is more than shown, and not a sign of a resource that is plentiful or that refusing work will
// not free.
func (a *account) counts() bool {
	return a.spec.Kind != Shown && (a.of == nil || !a.of.plentiful() && !a.of.futile.found)
}

// plentiful reports whether little of the given limit of a is in use, whatever limit was found: if
// that is too much, less would not be better.
func (a *account) plentiful() bool {
	return a.state == Low || a.used < (a.spec.Plenty-a.spec.Margin)*a.spec.Limit
}

// sample looks at what is in use now.
func (a *account) sample(now time.Duration) {
	was, limit := a.util, a.limit
	a.before, a.sampled = a.sampled, now
	a.used = a.inUse()
	a.granted = 0
	a.judge()
	if dt := (now - a.before).Seconds(); dt > 0 && limit == a.limit {
		a.trend += ((a.util-was)/dt - a.trend) * weight(now-a.before, trendTime)
	}
	a.judge()
}

// inUse is what is in use now, as far as is known.
func (a *account) inUse() float64 {
	v := a.observed
	if a.known {
		v = a.pledges.Mean + max(a.excess.least(), 0)
	}
	return max(v, 0)
}

// A lowest remembers the lowest of the last few samples: at least lowestSamples of them, and
// all of the last lowestTime, as long as there is room for.
type lowest struct {
	at  [16]time.Duration
	of  [16]float64
	n   int     // samples there were
	min float64 // the lowest; 0 before the first sample
}

const (
	lowestSamples = 4
	lowestTime    = 200 * time.Millisecond
)

func (m *lowest) add(now time.Duration, v float64) {
	m.at[m.n%len(m.at)], m.of[m.n%len(m.of)] = now, v
	m.n++
	m.min = v
	for i := range min(m.n, len(m.of)) {
		k := (m.n - 1 - i) % len(m.of)
		if i >= lowestSamples && now-m.at[k] > lowestTime {
			break
		}
		m.min = min(m.min, m.of[k])
	}
}

// shift adds by to all samples.
func (m *lowest) shift(by float64) {
	if m.n == 0 {
		return
	}
	for i := range m.of {
		m.of[i] += by
	}
	m.min += by
}

// least is 0 before the first sample.
func (m *lowest) least() float64 { return m.min }

// trendTime is how long the trend is averaged over.
const trendTime = 100 * time.Millisecond

// weight is how much of a moving average over the time of the given length a sample makes
// up that stands for dt.
func weight(dt, of time.Duration) float64 { return 1 - math.Exp(-dt.Seconds()/of.Seconds()) }

// judge sets utilisation and state.
func (a *account) judge() {
	s := &a.spec
	a.util = 0
	if !math.IsInf(a.limit, 1) {
		a.util = a.used / a.limit
	}
	soon := a.util + a.trend*s.Horizon.Seconds()
	switch {
	case a.util >= s.Target, a.state == AtLimit && a.util >= s.Target-s.Margin:
		a.state = AtLimit
	case a.util >= s.Plenty, soon >= s.Target, a.state != Low && a.util >= s.Plenty-s.Margin:
		a.state = Rising
	default:
		a.state = Low
	}
}

// A Standing is the state of a resource as a policy sees it.
type Standing struct {
	State  State
	Util   float64
	Plenty float64
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
			State: a.state, Util: a.util, Plenty: a.spec.Plenty, Target: a.spec.Target,
			Sign: !a.spec.Kind.scarce(), Open: math.IsInf(a.limit, 1), Room: (a.spec.Plenty - a.util) * a.limit,
		})
	}
	return to, now
}

// Grant returns how many of n tasks, each of which takes so much of r, fit below
// Target, all if refusing work is futile, and counts them as granted until the next sample.
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

// Report adds the resources to r, and after them the gates.
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
	for _, g := range l.gates {
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
