package coro

import (
	"sync"
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

// CyclesPerSecond is the rate of Cycles, measured once against the clock.
var CyclesPerSecond = sync.OnceValue(func() float64 {
	const span = 2 * time.Millisecond
	t0, c0 := time.Now(), Cycles()
	for time.Since(t0) < span {
	}
	t1, c1 := time.Now(), Cycles()
	return float64(c1-c0) / t1.Sub(t0).Seconds()
})
