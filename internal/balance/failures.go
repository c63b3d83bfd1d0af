package balance

import (
	"sync"
	"sync/atomic"
	"time"
)

// Failures are the requests that a backend has failed sooner than others are answered. Each counts as under way until its answer
// would have come: otherwise a backend that fails all requests at once would look idle and draw those of the other backends. The
// zero value has none. Its methods may be called from any goroutine.
type Failures struct {
	n     atomic.Int64 // len(until)
	mu    sync.Mutex
	until []int64 // when each ceases to count, the oldest first; guarded by mu
}

// mostFailures is how many count at a time: with that many a backend gets no request anyway that others could have.
const mostFailures = 1000

// Add records a failure at now, in nanoseconds, that counts for so long, a second at most: a backend that is well again has to get
// requests.
func (f *Failures) Add(now int64, lasts time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.until) < mostFailures {
		f.until = append(f.until, now+int64(min(lasts, maxAge)))
		f.n.Store(int64(len(f.until)))
	}
}

// Any reports whether there may be some that count.
func (f *Failures) Any() bool { return f.n.Load() > 0 }

// Count is how many count at now.
func (f *Failures) Count(now int64) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	over := 0
	for over < len(f.until) && f.until[over] <= now {
		over++
	}
	f.until = append(f.until[:0], f.until[over:]...)
	f.n.Store(int64(len(f.until)))
	return int64(len(f.until))
}
