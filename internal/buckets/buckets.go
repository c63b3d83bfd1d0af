// Package buckets has the positions of durations in the histograms of blocking graphs, Hist and Fine of bgraph.Times.
// All durations are in nanoseconds.
package buckets

import "math/bits"

const (
	// Count is the length of a full Times.Hist.
	Count = 32
	// Parts is how many parts each bucket has in Times.Fine.
	Parts = 4
)

// Of is the bucket of a duration: 0 below 32 ns, i from 2^(i+4) ns to below 2^(i+5) ns.
func Of[D ~int64](d D) int {
	if d < 32 {
		return 0
	}
	return min(bits.Len64(uint64(d))-5, Count-1)
}

// From is the lower bound of bucket i, the upper one of bucket i-1.
func From(i int) int64 {
	if i <= 0 {
		return 0
	}
	return 1 << (i + 4)
}

// FineOf is the position of a duration in Times.Fine.
func FineOf(ns uint64) uint {
	if ns < 32 {
		return uint(ns / (32 / Parts))
	}
	n := uint(bits.Len64(ns))
	if n >= Count+4 {
		return (Count - 1) * Parts
	}
	return (n-5)*Parts + uint(ns>>(n-3))&(Parts-1)
}

// FineFrom is the lower bound of position i of Times.Fine.
func FineFrom(i int) int64 {
	from := From(i / Parts)
	return from + (From(i/Parts+1)-from)*int64(i%Parts)/Parts
}
