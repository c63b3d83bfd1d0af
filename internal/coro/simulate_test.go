package coro

import (
	"sync/atomic"
	"testing"
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
