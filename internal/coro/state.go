package coro

import (
	"sync/atomic"
	"time"
)

// State is what Running reports, a set of bits.
type State uint8

const (
	// Here: the word held the running goroutine's identity.
	Here State = 1 << iota
	// ThreadLocked: the goroutine has called runtime.LockOSThread. A coroutine that
	// was not locked when it was made must not be switched away from in this state:
	// the Go runtime would end the process.
	ThreadLocked
)

// simulated, if not nil, is read in place of the CPU's counter.
var simulated *atomic.Uint64

// SimulateCycles makes Cycles return what is in now, in nanoseconds; nil ends that. It is
// for simulations, and may be called only while no runtime runs in the process.
func SimulateCycles(now *atomic.Uint64) { simulated = now }

// Simulated reports whether SimulateCycles is in force.
func Simulated() bool { return simulated != nil }

// Cycles reads a counter of processor time: the CPU's own (amd64: TSC, arm64: CNTVCT_EL0),
// whose rate is constant but differs between machines, see CyclesPerSecond; or that of
// SimulateCycles.
func Cycles() uint64 {
	if now := simulated; now != nil {
		return now.Load()
	}
	return counter()
}

// CyclesPerSecond is the rate of Cycles.
func CyclesPerSecond() float64 {
	if simulated != nil {
		return 1e9
	}
	return measuredRate()
}

// measuredRate is the rate of counter, measured once against the clock. In a bubble of
// testing/synctest, where that is not possible, it is a guess, and measured another time.
func measuredRate() float64 {
	if r := rate.Load(); r != 0 {
		return float64(r)
	}
	if ClockStands() {
		return 1e9
	}
	began := time.Now()
	rate.CompareAndSwap(0, uint64(measureRate(func() time.Duration { return time.Since(began) }, counter)))
	return float64(rate.Load())
}

var rate atomic.Uint64

// measureRate returns how much count gains in a second of now. The thread may have to wait for a
// processor between two readings. So it reads several times at each end, and uses the readings of count and now
// that were closest together.
func measureRate(now func() time.Duration, count func() uint64) float64 {
	const span, tries = 2 * time.Millisecond, 8
	both := func() (at time.Duration, c uint64) {
		closest := ^uint64(0)
		for range tries {
			before, t := count(), now()
			if apart := count() - before; apart < closest {
				closest, at, c = apart, t, before+apart/2
			}
		}
		return at, c
	}
	t0, c0 := both()
	for now() < t0+span {
	}
	t1, c1 := both()
	return float64(c1-c0) / (t1 - t0).Seconds()
}

// clockTries is how often the clock may be read without going on; all of them take 20 ms or more,
// twice the longest tick of a kernel.
const clockTries = 1 << 20

// ClockStands reports whether time stands still while the caller runs: it is in a bubble of
// testing/synctest.
func ClockStands() bool {
	began := time.Now()
	for range clockTries {
		if time.Since(began) > 0 {
			return false
		}
	}
	return true
}
