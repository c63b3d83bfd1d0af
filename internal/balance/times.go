package balance

import (
	"slices"
	"sync"
	"time"
)

const (
	// timesKept is how many times are kept: half as many tell less of the slowest twentieth.
	timesKept = 256
	// timesLeast is how many there must be for a quantile.
	timesLeast = 64
	// timesSort is after how many new times they are sorted again.
	timesSort = 32
)

// Times are how long the last requests took, to know which take long and are sent once more (hedging). The zero value has none. Its
// methods may be called from any goroutine.
type Times struct {
	mu     sync.Mutex
	last   []time.Duration // a ring; guarded by mu, as all fields are
	at     int             // of the oldest, once the ring is full
	fresh  int             // times since sorted was made
	sorted []time.Duration
}

// Add records how long a request took.
func (t *Times) Add(d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.fresh++
	if len(t.last) < timesKept {
		t.last = append(t.last, d)
		return
	}
	t.last[t.at] = d
	t.at = (t.at + 1) % timesKept
}

// Quantile returns the time within which that part of the last requests had their answers; false: too few are known.
func (t *Times) Quantile(part float64) (time.Duration, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.last) < timesLeast {
		return 0, false
	}
	if t.sorted == nil || t.fresh >= timesSort {
		t.sorted = append(t.sorted[:0], t.last...)
		slices.Sort(t.sorted)
		t.fresh = 0
	}
	return t.sorted[int(min(max(part, 0), 1)*float64(len(t.sorted)-1))], true
}
