package load

import (
	"math/bits"
	"time"
)

// histogram counts durations in buckets that are never wider than 1/64 of what
// they hold. The zero value is empty. Not safe for use by several goroutines.
type histogram struct {
	counts [64 * 64]uint32
	total  uint64
}

const subBuckets = 64

func (h *histogram) add(d time.Duration) {
	h.counts[bucketOf(uint64(max(d, 0)))]++
	h.total++
}

// quantile is the duration that a share q of all counted ones do not exceed,
// to the bucket's middle; 0 if nothing was counted.
func (h *histogram) quantile(q float64) time.Duration {
	if h.total == 0 {
		return 0
	}
	rank := uint64(q * float64(h.total))
	if rank >= h.total {
		rank = h.total - 1
	}
	seen := uint64(0)
	for i, n := range h.counts {
		seen += uint64(n)
		if seen > rank {
			low, width := bucketRange(i)
			return time.Duration(low + width/2)
		}
	}
	return 0
}

// bucketOf keeps the highest seven bits of a value.
func bucketOf(v uint64) int {
	if v < subBuckets {
		return int(v)
	}
	shift := bits.Len64(v) - 7
	return (shift+1)*subBuckets + int(v>>shift) - subBuckets
}

// bucketRange is the least value of a bucket and the number of values in it.
func bucketRange(i int) (low, width uint64) {
	if i < subBuckets {
		return uint64(i), 1
	}
	shift := i/subBuckets - 1
	return uint64(i%subBuckets+subBuckets) << shift, 1 << shift
}
