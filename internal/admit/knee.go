package admit

import (
	"math"
	"time"
)

// A Knee finds how much load is good: as much as possible without pressure. Pressure
// is a number that grows with the load; 1 is where it begins to hurt. It may jump
// (thrashing) or be proportional to the load (memory in use), may be noisy, and may be
// known only some time later. Configure it before the first use. Not safe for use by
// several goroutines at once.
//
// While the load is at its limit and pressure p is below 0.97, the limit is multiplied
// by 1/sqrt(p), at most by 2: if pressure is proportional to load, that halves the
// distance to 1 (on a logarithmic scale) each time and never gets beyond it. Where p
// exceeds 1, the limit is multiplied by 1/sqrt(p), within 0.7 and 0.97, and what the
// load was then is remembered as the ceiling. The limit may come back to 0.95 of the
// ceiling at once, to the ceiling itself in the better part of a second, and beyond it
// ever faster: so a knee that stays where it is gets touched about once in a second,
// and one that has moved is found within seconds.
//
// After every change the limit stays as it is until a measurement arrives that began
// after the change, and until the load is no more than the limit allows.
//
// If an eighth of the load makes no less pressure, the load is not the cause: then the
// limit goes back to where it was, and grows with the load, until the pressure is gone or
// has become a quarter more.
type Knee struct {
	Start float64 // first limit; 0: none until the first pressure
	Max   float64 // the limit is never more; 0: any

	limit   float64       // 0: not begun
	ceiling float64       // 0: none
	hit     time.Duration // when it was met
	changed time.Duration

	// While pressure exceeds 1:
	first float64 // what it was in the beginning; 0: it does not exceed 1
	from  float64 // what the limit was then
	least float64 // an eighth of the load there was then
	blind bool    // the load is not the cause
}

// Limit is the present limit on the load, +Inf if there is none.
func (k *Knee) Limit() float64 {
	switch {
	case k.limit > 0:
		return k.limit
	case k.Start > 0:
		return k.Start
	}
	return math.Inf(1)
}

// Update takes a measurement: load is the most there was since the last Update, and
// pressure what was measured about the time since from.
func (k *Knee) Update(now, from time.Duration, load, pressure float64) {
	if k.limit == 0 {
		k.limit = k.Limit()
		k.changed = min(from, now) - kneePause
	}
	if from < k.changed || now-k.changed < kneePause {
		return
	}
	if pressure <= 1 || pressure > kneeMore*k.first {
		k.first, k.blind = 0, false
	}
	switch bound := load >= kneeBound*k.limit; {
	case k.blind && bound:
		k.forward(now, kneeBlind)
	case k.blind:
	case pressure > 1:
		k.back(now, load, pressure)
	case pressure < kneeGoal && bound:
		k.forward(now, pressure)
	}
}

func (k *Knee) back(now time.Duration, load, pressure float64) {
	base := min(k.limit, load)
	if load > kneeSettled*k.limit {
		return
	}
	if k.first == 0 {
		k.first, k.from, k.least = pressure, k.limit, base/8
	}
	if base <= max(k.least, 1) && pressure > kneeBound*k.first {
		k.limit, k.ceiling, k.blind, k.changed = k.from, 0, true, now
		return
	}
	limit := base * min(max(1/math.Sqrt(pressure), kneeLeast), kneeGoal)
	if !math.IsInf(k.limit, 1) {
		// If the load is far below its limit, it is hardly what hurts.
		limit = max(limit, k.limit*kneeLeast)
	}
	limit = max(limit, 1)
	if limit >= k.limit {
		return
	}
	k.ceiling, k.hit = max(base, limit), now
	k.limit, k.changed = limit, now
}

func (k *Knee) forward(now time.Duration, pressure float64) {
	limit := k.limit * min(1/math.Sqrt(max(pressure, 0.25)), 2)
	if k.ceiling > 0 {
		s := (now - k.hit).Seconds()
		top := k.ceiling * kneeReturn * math.Exp(0.02*s+0.1*s*s*s)
		if top > k.ceiling*kneeForget {
			k.ceiling = 0
		} else {
			limit = min(limit, top)
		}
	}
	if k.Max > 0 {
		limit = min(limit, k.Max)
	}
	if limit > k.limit {
		k.limit, k.changed = limit, now
	}
}

// Productivity turns a count of work done into a sign of thrashing: how far work has
// fallen behind the best that was done under no more load (Capriccio, section 4.2.2).
// The zero value is ready to use. Not safe for use by several goroutines at once.
type Productivity struct {
	began    time.Duration // of the present interval
	progress float64       // at that time
	load     float64       // the most in the interval
	begun    bool

	best     float64 // work per second, and it was done under
	bestLoad float64
}

// Observe takes the work done so far, in any unit, and the load, in any unit. ready is
// true when an interval of 100 ms has ended; then behind is the best productivity in
// parts of that of the interval: 1.25 means that a fifth of it was lost. It is 0 while
// the load is less than it was for the best, for then there is less to do.
func (p *Productivity) Observe(now time.Duration, progress, load float64) (behind float64, ready bool) {
	if !p.begun {
		p.begun, p.began, p.progress, p.load = true, now, progress, load
		return 0, false
	}
	p.load = max(p.load, load)
	if now-p.began < trendTime {
		return 0, false
	}
	rate := (progress - p.progress) / (now - p.began).Seconds()
	loaded := p.load
	p.began, p.progress, p.load = now, progress, load
	p.best *= 1 - productivityFade
	if rate >= p.best {
		p.best, p.bestLoad = rate, loaded
		return 0, true
	}
	if loaded < p.bestLoad {
		return 0, true
	}
	return min(p.best/max(rate, p.best/100), 100), true
}
