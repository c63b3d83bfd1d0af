package buckets

import (
	"math"
	"testing"
)

// The ways to find a position agree, and the bounds fit.
func TestFinePositions(t *testing.T) {
	for v := int64(0); v < 1<<40; v = v*33/32 + 1 {
		i := int(FineOf(uint64(v)))
		if i/Parts != Of(v) {
			t.Fatalf("%d: position %d, bucket %d", v, i, Of(v))
		}
		if v < FineFrom(i) || i < (Count-1)*Parts && v >= FineFrom(i+1) {
			t.Fatalf("%d is not between %v and %v", v, FineFrom(i), FineFrom(i+1))
		}
	}
	if Of(int64(-5)) != 0 || FineOf(math.MaxUint64) != (Count-1)*Parts {
		t.Error("extremes")
	}
}
