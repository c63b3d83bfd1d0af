package recorder

import (
	"runtime"
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

// There is a note for each task, and there may be a million of them: what a list takes to grow must not
// grow with the square of its length.
func TestLongListsGrowInLinearTime(t *testing.T) {
	allocated := func(n int) uint64 {
		var p paged[uint64]
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range n {
			p.add(func(*uint64) {})
		}
		runtime.ReadMemStats(&after)
		sum := 0
		p.each(func(*uint64) { sum++ })
		if sum != n {
			t.Errorf("%d elements, want %d", sum, n)
		}
		return after.TotalAlloc - before.TotalAlloc
	}
	if a, b := allocated(100_000), allocated(400_000); b > 8*a {
		t.Errorf("%d bytes for 100,000 elements, %d for four times as many", a, b)
	}
}
