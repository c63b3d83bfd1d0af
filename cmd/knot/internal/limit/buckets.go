package limit

import (
	"container/list"
	"math"
	"sync"
	"time"
)

// A key stands for the requests that share a bucket.
type key [16]byte

// buckets has a bucket for each key, that holds up to burst requests and gains perSecond of them in a second. When there are as
// many as may be, the one that was used least recently goes, and is full should its key come back. Safe from anywhere; it never parks.
type buckets struct {
	perSecond, burst float64          // fixed
	most             int              // fixed
	now              func() time.Time // fixed

	mu      sync.Mutex
	of      map[key]*list.Element // of *bucket; guarded by mu
	recent  list.List             // the last one that was used is first; guarded by mu
	refused uint64                // guarded by mu
	used    []*bucket             // since the last call of uses; guarded by mu; without onUse there are none

	// onUse is called with mu held when a bucket is used that was not since the last call of uses; it must not wait. nil: other
	// servers have no part in the buckets; fixed.
	onUse func()
}

type bucket struct {
	key  key
	left float64   // requests
	at   time.Time // when left was right
	used int       // requests since the last call of uses, with onUse
}

func newBuckets(perSecond, burst float64, most int) *buckets {
	return &buckets{perSecond: perSecond, burst: max(1, burst), most: most, now: time.Now, of: make(map[key]*list.Element)}
}

// take takes a request out of the bucket of k. It returns how many are left, and 0, or how long it is until the next one.
func (b *buckets) take(k key) (left float64, wait time.Duration) {
	now := b.now()
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.of[k]
	if e == nil {
		if len(b.of) >= b.most {
			last := b.recent.Back()
			delete(b.of, last.Value.(*bucket).key)
			b.recent.Remove(last)
		}
		e = b.recent.PushFront(&bucket{key: k, left: b.burst, at: now})
		b.of[k] = e
	}
	b.recent.MoveToFront(e)
	one := e.Value.(*bucket)
	if passed := now.Sub(one.at).Seconds(); passed > 0 {
		one.left = min(b.burst, one.left+passed*b.perSecond)
		one.at = now
	}
	if one.left >= 1 {
		one.left--
		if b.onUse != nil {
			b.noteUse(one)
		}
		return one.left, 0
	}
	b.refused++
	return one.left, duration(math.Ceil((1 - one.left) / b.perSecond * float64(time.Second)))
}

// duration is so many nanoseconds; the longest Duration if that is shorter.
func duration(ns float64) time.Duration {
	if ns >= math.MaxInt64 { // as a float64 it is one more
		return math.MaxInt64
	}
	return time.Duration(ns)
}
