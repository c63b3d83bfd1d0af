//go:build linux

package simserver

import (
	"fmt"
	"time"
)

// Chance is true with probability p.
func (w *World) Chance(p float64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rnd.Float64() < p
}

// IntN is a random number below n.
func (w *World) IntN(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rnd.IntN(n)
}

// Below is a random time below d.
func (w *World) Below(d time.Duration) time.Duration { return time.Duration(w.IntN(int(d))) }

// Exp is a random time with the given mean, exponentially distributed.
func (w *World) Exp(mean time.Duration) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Duration(w.rnd.ExpFloat64() * float64(mean))
}

// fault notes that something is broken.
func (w *World) fault(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.broken) < maxFaults {
		w.broken = append(w.broken, fmt.Sprintf("at %v: ", w.since())+fmt.Sprintf(format, args...))
	}
}

const maxFaults = 20
