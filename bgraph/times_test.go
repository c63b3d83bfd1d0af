package bgraph

import (
	"math"
	"testing"
)

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

// The ways to find a position agree, and the bounds fit.
func TestFinePositions(t *testing.T) {
	for v := uint64(0); v < 1<<40; v = v*33/32 + 1 {
		i := FineOf(Nanos(v))
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
