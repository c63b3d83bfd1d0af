package coro

import (
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"
)

func TestSimulatedCyclesAreThoseGiven(t *testing.T) {
	var now atomic.Uint64
	now.Store(42)
	SimulateCycles(&now)
	got, rate, is := Cycles(), CyclesPerSecond(), Simulated()
	SimulateCycles(nil)
	if got != 42 || rate != 1e9 || !is {
		t.Errorf("Cycles() = %d, CyclesPerSecond() = %g, Simulated() = %v; want 42, 1e9, true", got, rate, is)
	}
	if Simulated() || Cycles() == 42 {
		t.Error("the simulation goes on after its end")
	}
}

// A thread that is held up while it measures finds the right rate all the same.
func TestMeasureRateWhileTheMachineStalls(t *testing.T) {
	for seed := range uint64(100) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		var world time.Duration
		now := func() time.Duration {
			if world += 50; rnd.IntN(20) == 0 {
				world += 10 * time.Millisecond
			}
			return world
		}
		count := func() uint64 { return 3 * uint64(now()) }
		if got := measureRate(now, count); got < 2.99e9 || got > 3.01e9 {
			t.Errorf("seed %d: %g, want 3e9", seed, got)
		}
	}
}
