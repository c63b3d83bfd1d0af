package recorder

import (
	"reflect"
	"runtime"
	"testing"

	"github.com/capriccio-go/capriccio/bgraph"
)

// The first durations are slow, those of the sample fast: the estimate is not the mean of
// both times the count.
func TestEstimateWeighsTheFirstOnesApart(t *testing.T) {
	var s timesStats
	var h histogram
	for range 64 {
		s.add(1_000_000, true, &h)
	}
	for range 50 {
		s.add(1_000, false, &h)
	}
	var times bgraph.Times
	addTimes(&times, &s, &h)
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

// A histogram takes memory for what is measured only, and tells the same as a plain one.
func TestHistogramsGrowWhereNeeded(t *testing.T) {
	for _, c := range []struct {
		ns    []uint64
		words int // of the histogram
	}{
		{nil, 0},
		{[]uint64{0}, 8},
		{[]uint64{1000, 900}, 8},
		{[]uint64{1000, 1100, 900}, 16},
		{[]uint64{1000, 100_000}, 40},
		{[]uint64{100_000, 1000, 1 << 50}, 112},
		{[]uint64{1 << 50, 0, 1000}, 128},
	} {
		var s timesStats
		var h histogram
		var got, want bgraph.Times
		for _, ns := range c.ns {
			s.add(ns, false, &h)
			want.Add(bgraph.Nanos(ns))
		}
		addTimes(&got, &s, &h)
		addTimes(&got, &s, &h)
		for _, ns := range c.ns {
			want.Add(bgraph.Nanos(ns))
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%v: %+v, want %+v", c.ns, got, want)
		}
		words := 0
		if w := h.Load(); w != nil {
			words = len(w.counts)
		}
		if words != c.words {
			t.Errorf("%v: %d words, want %d", c.ns, words, c.words)
		}
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
