package clock

import (
	"sync/atomic"
	"time"
)

// A Rare is an event that may happen with every request, and is logged at once and then every 10 s at most, with the number of
// times. The zero value has not happened. Safe from anywhere.
type Rare struct {
	last   atomic.Int64 // reading of the last one that was logged; 0: none; atomic
	untold atomic.Int64 // times since then; atomic
}

const rareEvery = 10 * time.Second

// Due notes that it has happened at now, a reading of a Clock, and reports whether to log it, and how many times have not been.
func (r *Rare) Due(now int64) (untold int64, due bool) {
	last := r.last.Load()
	if last != 0 && now-last < int64(rareEvery) || !r.last.CompareAndSwap(last, max(now, 1)) {
		r.untold.Add(1)
		return 0, false
	}
	return r.untold.Swap(0), true
}
