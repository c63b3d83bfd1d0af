package balance

import (
	"sync"
	"sync/atomic"
	"time"
)

// Failures counts the requests that a backend has failed sooner than requests are answered. Each failure counts as a request under
// way until an answer would have come: otherwise a backend that fails all requests at once would look idle and draw the requests of
// the other backends. The zero value has no failures. Its methods may be called from any goroutine.
type Failures struct {
	n    atomic.Int64 // failures that count; atomic, changed with mu held
	mu   sync.Mutex
	ends [maxAge/time.Millisecond + 2]int32 // failures that cease to count in a millisecond, by its number modulo the length; guarded by mu
	now  int64                              // the last millisecond whose failures have ceased to count; guarded by mu
}

// Add records a failure at now, in nanoseconds. It counts for lasts, which is not negative, but for a second at most: a backend
// that is well again has to get requests.
func (f *Failures) Add(now int64, lasts time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.expire(now)
	end := f.now + int64(min(lasts, maxAge)/time.Millisecond) + 1
	f.ends[end%int64(len(f.ends))]++
	f.n.Add(1)
}

// Any reports whether there may be failures that count.
func (f *Failures) Any() bool { return f.n.Load() > 0 }

// Count returns the number of failures that count at now.
func (f *Failures) Count(now int64) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.expire(now)
	return f.n.Load()
}

// expire ends the count of the failures whose time is over at now. f.mu is held.
func (f *Failures) expire(now int64) {
	now /= int64(time.Millisecond)
	for ; f.now < now && f.n.Load() > 0; f.now++ {
		over := &f.ends[(f.now+1)%int64(len(f.ends))]
		f.n.Add(-int64(*over))
		*over = 0
	}
	f.now = max(f.now, now)
}
