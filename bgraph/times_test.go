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
