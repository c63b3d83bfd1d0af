package recorder

import (
	"testing"

	"github.com/capriccio-go/capriccio/bgraph"
)

// The first durations are slow, those of the sample fast: the estimate is not the mean of
// both times the count.
func TestEstimateWeighsTheFirstOnesApart(t *testing.T) {
	var s timesStats
	for range 64 {
		s.add(1_000_000, true)
	}
	for range 50 {
		s.add(1_000, false)
	}
	var times bgraph.Times
	addTimes(&times, &s)
	const n = 64 + 1000
	if got, want := times.Estimate(n), float64(64*1_000_000+1000*1_000); got != want {
		t.Errorf("estimate %v, want %v", got, want)
	}
	e := bgraph.Edge{Count: n, CPU: times}
	if got := e.TotalCPU(); got != 65_000_000 {
		t.Errorf("TotalCPU %v, want 65 ms", got)
	}
	if got := times.Estimate(10); got < 5e6 { // fewer than were measured: the plain mean
		t.Errorf("estimate of 10: %v", got)
	}
	if got := new(bgraph.Times).Estimate(5); got != 0 {
		t.Errorf("estimate of nothing: %v", got)
	}
}
