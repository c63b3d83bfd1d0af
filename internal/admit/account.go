package admit

import (
	"math"
	"time"
)

// An account is what the Ledger knows of one resource. Fields without a remark are
// guarded by the Ledger's mu.
type account struct {
	spec Spec // fixed, but Limit is guarded by mu

	observed     float64
	ahead        float64     // what the tasks that Ahead was told of may yet take
	reserved     reservation // what the admitted tasks may take
	reservedThen float64     // their mean when observed was
	excess       lowest      // of observed over their mean; only if Collected
	known        bool        // what admitted tasks take is; only if Collected
	futile       futility    // only if Collected
	used         float64     // observed, when it was last looked at
	limit        float64     // +Inf: not found yet
	util         float64     // used in parts of limit; not below 0, but may exceed 1
	trend        float64     // of util, per second
	state        State
	sampled      time.Duration // when used was last set
	before       time.Duration // and the time before that
	knee         *Knee         // nil: the limit is given
	of           *account      // the resource that a is a sign of, see Spec.Of; fixed; nil: none

	granted float64 // to cohorts, since the last sample
}

// expectedUse returns how much of the resource will be in use if each task admitted since the last sample takes what was
// reserved for it, and the other tasks take no more than they have.
func (a *account) expectedUse() float64 {
	v := a.observed + max(a.reserved.Mean-a.reservedThen, 0)
	if a.known {
		v = min(v, a.inUse())
	}
	return v
}

// counts reports whether a is more than shown, and not a sign of a resource that is plentiful or that refusing work will
// not free.
func (a *account) counts() bool {
	return a.spec.Kind != Shown && (a.of == nil || !a.of.plentiful() && !a.of.futile.found)
}

// plentiful reports whether little of the given limit of a is in use, whatever limit was found: if
// that is too much, less would not be better.
func (a *account) plentiful() bool {
	return a.state == Low || a.used < (Plenty-a.spec.Margin)*a.spec.Limit
}

// sample computes use, utilisation, trend and state from what was last observed and, where that is known, from what the admitted
// tasks take.
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
		v = a.reserved.Mean + max(a.excess.least, 0)
	}
	return max(v, 0)
}

// A lowest remembers the lowest of the last few samples: at least lowestSamples of them, and
// all of the last lowestTime, as long as there is room for.
type lowest struct {
	at    [16]time.Duration
	of    [16]float64
	n     int     // samples there were
	least float64 // the lowest; 0 before the first sample
}

func (m *lowest) add(now time.Duration, v float64) {
	m.at[m.n%len(m.at)], m.of[m.n%len(m.of)] = now, v
	m.n++
	m.least = v
	for i := range min(m.n, len(m.of)) {
		k := (m.n - 1 - i) % len(m.of)
		if i >= lowestSamples && now-m.at[k] > lowestTime {
			break
		}
		m.least = min(m.least, m.of[k])
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
	m.least += by
}

// weight is the share of a sample that stands for dt in a moving average over a time of the given length.
func weight(dt, of time.Duration) float64 { return 1 - math.Exp(-dt.Seconds()/of.Seconds()) }

// judge sets utilisation and state.
func (a *account) judge() {
	s := &a.spec
	a.util = 0
	if !math.IsInf(a.limit, 1) {
		a.util = a.used / a.limit
	}
	soon := a.util + a.trend*horizon.Seconds()
	switch {
	case a.util >= s.Target, a.state == AtLimit && a.util >= s.Target-s.Margin:
		a.state = AtLimit
	case a.util >= Plenty, soon >= s.Target, a.state != Low && a.util >= Plenty-s.Margin:
		a.state = Rising
	default:
		a.state = Low
	}
}
