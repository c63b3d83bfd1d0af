package bgraph

import (
	"math"
	"testing"
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
	var times Times
	times.add(&s)
	const n = 64 + 1000
	if got, want := times.Estimate(n), float64(64*1_000_000+1000*1_000); got != want {
		t.Errorf("estimate %v, want %v", got, want)
	}
	e := Edge{Count: n, CPU: times}
	if got := e.TotalCPU(); got != 65_000_000 {
		t.Errorf("TotalCPU %v, want 65 ms", got)
	}
	if got := times.Estimate(10); got < 5e6 { // fewer than were measured: the plain mean
		t.Errorf("estimate of 10: %v", got)
	}
	if got := new(Times).Estimate(5); got != 0 {
		t.Errorf("estimate of nothing: %v", got)
	}
}

// A quantile is within a quarter of what was measured, as the bounds of Fine are.
func TestQuantileIsWithinAQuarter(t *testing.T) {
	for d := Nanos(40); d < 1<<34; d = d*17/16 + 1 {
		var times Times
		for range 100 {
			times.Add(d)
		}
		times.Add(d * 3) // so that Max does not tell
		if got := times.Quantile(0.5); math.Abs(float64(got-d)) > 0.25*float64(d) {
			t.Fatalf("of %v: %v", d, got)
		}
	}
}

// All ways to find a position agree, and the bounds fit.
func TestFinePositions(t *testing.T) {
	for v := uint64(0); v < 1<<40; v = v*33/32 + 1 {
		i := FineOf(Nanos(v))
		if got := int(fineOf(v)); got != i {
			t.Fatalf("%d: %d and %d", v, got, i)
		}
		if i/FineParts != BucketOf(Nanos(v)) {
			t.Fatalf("%d: position %d, bucket %d", v, i, BucketOf(Nanos(v)))
		}
		if Nanos(v) < fineFrom(i) || i < (Buckets-1)*FineParts && Nanos(v) >= fineFrom(i+1) {
			t.Fatalf("%d is not between %v and %v", v, fineFrom(i), fineFrom(i+1))
		}
	}
	if FineOf(-5) != 0 || FineOf(math.MaxInt64) != (Buckets-1)*FineParts {
		t.Error("extremes")
	}
}
