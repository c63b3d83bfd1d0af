package load

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// histogram counts durations to three digits, from a nanosecond to an hour; what takes longer
// counts as an hour. The zero value is empty. Not safe for use by several goroutines.
type histogram struct{ h *hdrhistogram.Histogram }

const longest = time.Hour

// add must not allocate but the first time: the clients' collector is off.
func (h *histogram) add(d time.Duration) {
	if h.h == nil {
		h.h = hdrhistogram.New(1, int64(longest), 3)
	}
	h.h.RecordValue(int64(min(max(d, 0), longest))) // within its range
}

// quantile is the duration that a share q of all counted ones do not exceed; 0 if nothing was
// counted.
func (h *histogram) quantile(q float64) time.Duration {
	if h.h == nil {
		return 0
	}
	if q <= 0 {
		return time.Duration(h.h.Min())
	}
	return time.Duration(h.h.ValueAtQuantile(100 * q))
}
