// Package adapt decides how many workers serve a queue, from how fast work arrives and how
// long a piece of it takes (Aspen, PPoPP 2007, section 4, "Adaptive thread allocation").
//
// It has no queue, starts nothing and reads no clock: its user says what time it is
// and what happened, so that all of it can be tested by ticks. The types are not safe for
// use by several goroutines at once.
//
// The equations of the paper, with R the arrival rate and S the mean service time:
//
//	L = R·S / (LOW · v_spawn)      fewer workers than L: one more
//	U = R·S · HIGH · v_kill        more workers than U: one less
//	D = |total − average|          over all queues of the program
//	v_spawn, v_kill = e^D, e^(1/D)   while total is above average, the other way round below
//
// Taken literally they fail: D near 0 forbids spawning for ever, a large D overflows, at
// rest L is R·S/e although R·S workers are the least that can do the work, and with an
// average over all time the damping never ends. So here D is held between 1 and 20, a queue
// longer than the number of workers asks for one more, the average forgets within about a
// second, and there are always a minimum and a maximum. Two more: a Sizer may be asked
// without an arrival, so that the number also falls when nothing arrives at all; and where
// workers wait longer for a processor than they then work, no more come, as they would only
// make each other wait.
package adapt

import (
	"math"
	"time"
)

// Defaults of Config.
const (
	DefaultHigh = 20
	DefaultMax  = 1024
)

const (
	window  = 10  // arrivals that R is averaged over, and between two decisions
	samples = 100 // service times that S is averaged over
)

// A Config says how a Sizer decides. Zero fields have the defaults named.
type Config struct {
	High float64 // HIGH: less gives workers back sooner, and changes more often; 0: DefaultHigh
	Min  int     // never fewer workers; 0: 1
	Max  int     // never more; 0: DefaultMax
}

// A Sizer decides for one queue. Make it with New.
type Sizer struct {
	cfg      Config
	arrivals [window]time.Duration // when the last ones came, as a ring
	arrived  uint64
	service  [samples]time.Duration // a ring, too
	sum      time.Duration          // of service
	queued   [samples]time.Duration // for a processor, likewise
	delay    time.Duration          // sum of queued
	served   uint64
}

// New returns a Sizer.
func New(cfg Config) *Sizer {
	if cfg.High == 0 {
		cfg.High = DefaultHigh
	}
	if cfg.Min == 0 {
		cfg.Min = 1
	}
	if cfg.Max == 0 {
		cfg.Max = DefaultMax
	}
	return &Sizer{cfg: cfg}
}

// Arrived records that a piece of work has arrived, and reports whether it is time to Decide.
func (s *Sizer) Arrived(now time.Duration) bool {
	s.arrivals[s.arrived%window] = now
	s.arrived++
	return s.arrived%window == 0
}

// Served records that one piece of work has taken that long, and that its worker had to wait
// for a processor before.
func (s *Sizer) Served(took, waited time.Duration) {
	i := s.served % samples
	s.sum += took - s.service[i]
	s.service[i] = took
	s.delay += waited - s.queued[i]
	s.queued[i] = waited
	s.served++
}

// Load is R·S: how many workers would be busy, by Little's law. It is 0 as long as too little
// has arrived and been served to know.
func (s *Sizer) Load(now time.Duration) float64 {
	if s.arrived < window || s.served == 0 {
		return 0
	}
	since := max(now-s.arrivals[s.arrived%window], time.Nanosecond) // of the oldest that is remembered
	mean := s.sum.Seconds() / float64(min(s.served, samples))
	return window / since.Seconds() * mean
}

// Decide returns 1 if there should be one worker more than there are, -1 if one less, else
// 0. queued is how many pieces of work no worker has taken yet.
func (s *Sizer) Decide(now time.Duration, workers, queued int, v Viscosity) int {
	load := s.Load(now)
	switch {
	case workers < s.cfg.Min:
		return 1
	case workers > s.cfg.Max:
		return -1
	case float64(workers) < load/v.Spawn || queued > workers:
		if workers < s.cfg.Max && s.delay <= s.sum {
			return 1
		}
	case float64(workers) > load*s.cfg.High*v.Kill && workers > s.cfg.Min:
		return -1
	}
	return 0
}

// Viscosity damps changes: the larger, the less is spawned or killed.
type Viscosity struct{ Spawn, Kill float64 }

// Still is the Viscosity of a program whose number of workers has not changed lately.
var Still = Viscosity{math.E, math.E}

const (
	memory  = time.Second // of the average
	maxDiff = 20          // e^20 forbids, and overflows nothing
)

// A Damper knows how the number of all workers of a program differs from what it was
// lately. The zero value is ready.
type Damper struct {
	average float64
	last    time.Duration
	begun   bool
}

// Tick reports how many workers there are, and returns the Viscosity until the next Tick. In the
// paper there is one every 100 ms.
func (d *Damper) Tick(now time.Duration, total int) Viscosity {
	n := float64(total)
	if !d.begun {
		d.average, d.begun = n, true
	}
	d.average += (n - d.average) * -math.Expm1(-float64(now-d.last)/float64(memory))
	d.last = now
	diff := min(max(math.Abs(n-d.average), 1), maxDiff)
	switch {
	case n > d.average:
		return Viscosity{math.Exp(diff), math.Exp(1 / diff)}
	case n < d.average:
		return Viscosity{math.Exp(1 / diff), math.Exp(diff)}
	}
	return Still
}
