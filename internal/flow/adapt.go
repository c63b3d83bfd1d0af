package flow

import (
	"math"
	"time"
)

// How many workers serve a queue, from how fast work arrives and how long a piece of it takes (Aspen, PPoPP 2007,
// section 4, "Adaptive thread allocation"). A sizer has no queue, starts nothing and reads no clock: its user says what
// time it is and what happened.
//
// The equations of the paper, with R the arrival rate and S the mean service time:
//
//	L = R·S / (LOW · v_spawn)      fewer workers than L: one more
//	U = R·S · HIGH · v_kill        more workers than U: one less
//	D = |total − average|          over all queues of the program
//	v_spawn, v_kill = e^D, e^(1/D)   while total is above average, the other way round below
//
// Taken literally they fail: D near 0 forbids spawning for ever, a large D overflows, at rest L is R·S/e although R·S
// workers are the least that can do the work, and with an average over all time the damping never ends. So here D is held
// between 1 and 20, a queue longer than the number of workers asks for one more, the average forgets within about a second,
// and there are always a minimum and a maximum. Two more: a sizer may be asked without an arrival, so that the number also
// falls when nothing arrives at all; and where workers wait longer for a processor than they then work, no more come, as
// they would only make each other wait.

const (
	defaultHigh = 20
	window      = 10  // arrivals that R is averaged over, and between two decisions
	samples     = 100 // service times that S is averaged over
)

// A sizer decides for one queue.
type sizer struct {
	high     float64               // HIGH: less gives workers back sooner, and changes more often
	min, max int                   // workers
	arrivals [window]time.Duration // when the last ones came, as a ring
	arrived  uint64
	service  [samples]time.Duration // a ring, too
	sum      time.Duration          // of service
	queued   [samples]time.Duration // for a processor, likewise
	delay    time.Duration          // sum of queued
	served   uint64
}

// newSizer returns a sizer; high 0 stands for defaultHigh.
func newSizer(high float64, least, most int) *sizer {
	if high == 0 {
		high = defaultHigh
	}
	return &sizer{high: high, min: least, max: most}
}

// arrivedAt records that a piece of work has arrived, and reports whether it is time to decide.
func (s *sizer) arrivedAt(now time.Duration) bool {
	s.arrivals[s.arrived%window] = now
	s.arrived++
	return s.arrived%window == 0
}

// addService records that one piece of work has taken that long, and that its worker had to wait
// for a processor before.
func (s *sizer) addService(took, waited time.Duration) {
	i := s.served % samples
	s.sum += took - s.service[i]
	s.service[i] = took
	s.delay += waited - s.queued[i]
	s.queued[i] = waited
	s.served++
}

// load is R·S: how many workers would be busy, by Little's law. It is 0 as long as too little
// has arrived and been served to know.
func (s *sizer) load(now time.Duration) float64 {
	if s.arrived < window || s.served == 0 {
		return 0
	}
	since := max(now-s.arrivals[s.arrived%window], time.Nanosecond) // of the oldest that is remembered
	mean := s.sum.Seconds() / float64(min(s.served, samples))
	return window / since.Seconds() * mean
}

// decide returns 1 if there should be one worker more than there are, -1 if one less, else
// 0. queued is how many pieces of work no worker has taken yet.
func (s *sizer) decide(now time.Duration, workers, queued int, v viscosity) int {
	load := s.load(now)
	switch {
	case workers < s.min:
		return 1
	case workers > s.max:
		return -1
	case float64(workers) < load/v.spawn || queued > workers:
		if workers < s.max && s.delay <= s.sum {
			return 1
		}
	case float64(workers) > load*s.high*v.kill && workers > s.min:
		return -1
	}
	return 0
}

// viscosity damps changes: the larger, the less is spawned or killed.
type viscosity struct{ spawn, kill float64 }

// still is the viscosity of a program whose number of workers has not changed lately.
var still = viscosity{math.E, math.E}

const (
	dampedFor = time.Second // time that the average is over
	maxDiff   = 20          // e^20 forbids, and overflows nothing
)

// A damper knows how the number of all workers of a program differs from what it was
// lately. The zero value is ready.
type damper struct {
	average float64
	last    time.Duration
	begun   bool
}

// tick reports how many workers there are, and returns the viscosity until the next tick. In the
// paper there is one every 100 ms.
func (d *damper) tick(now time.Duration, total int) viscosity {
	n := float64(total)
	if !d.begun {
		d.average, d.begun = n, true
	}
	d.average += (n - d.average) * -math.Expm1(-float64(now-d.last)/float64(dampedFor))
	d.last = now
	diff := min(max(math.Abs(n-d.average), 1), maxDiff)
	switch {
	case n > d.average:
		return viscosity{math.Exp(diff), math.Exp(1 / diff)}
	case n < d.average:
		return viscosity{math.Exp(1 / diff), math.Exp(diff)}
	}
	return still
}
