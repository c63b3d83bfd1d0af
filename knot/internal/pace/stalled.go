package pace

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"
)

// leastOver is the time that the least rate is measured over, unless the timeout is longer.
const leastOver = 30 * time.Second

// A Wait is how long a client has kept a request waiting, less the time that what it has taken, or sent,
// would have needed at the least rate. One goroutine at a time may call Add and Reset; the rest is safe from anywhere.
type Wait struct{ spent atomic.Int64 } // nanoseconds

// Add counts n bytes for which the client took the given time, in nanoseconds. rate is in bytes a second; 0: none.
func (w *Wait) Add(took int64, n int, rate int64) {
	if rate > 0 && (took > 0 || w.spent.Load() > 0) {
		w.spent.Store(max(w.spent.Load()+took-int64(n)*int64(time.Second)/rate, 0))
	}
}

// Reset begins anew.
func (w *Wait) Reset() { w.spent.Store(0) }

// Spent is how long it is, in nanoseconds.
func (w *Wait) Spent() int64 { return w.spent.Load() }

// Limit is for how long the client may keep the request waiting now; 0 is for ever.
func (w *Wait) Limit(limit time.Duration) time.Duration {
	if spent := w.spent.Load(); spent > 0 && limit > 0 {
		return min(limit, max(max(leastOver, limit)-time.Duration(spent), time.Millisecond))
	}
	return limit
}

// EndedAtATime is how many stalled responses are ended at a time: enough for the newcomers that wait for memory until the
// next time, and few enough that they are all of the client that has most.
const EndedAtATime = 32

// A Response has been kept waiting by its client since a reading of a clock.
type Response[C any] struct {
	Conn   C
	Client uint32
	Since  int64
}

// ToEnd returns the responses to end: those of a client that has more than its share, or of the client that has most of those
// that have stalled since the given time, or for longer. The longest stalled come first.
func ToEnd[C any](some []Response[C], latest int64) []Response[C] {
	most := ofOneClient(some)
	if len(most) < EndedAtATime || len(most) <= len(some)/2 {
		most = ofOneClient(slices.DeleteFunc(some, func(r Response[C]) bool { return r.Since > latest }))
	}
	return most[:min(len(most), EndedAtATime)]
}

// ofOneClient returns the responses of the client that has most.
func ofOneClient[C any](some []Response[C]) []Response[C] {
	held := make(map[uint32]int)
	for _, r := range some {
		held[r.Client]++
	}
	slices.SortFunc(some, func(a, b Response[C]) int {
		return cmp.Or(cmp.Compare(held[b.Client], held[a.Client]), cmp.Compare(a.Client, b.Client), cmp.Compare(a.Since, b.Since))
	})
	n := 0
	for n < len(some) && some[n].Client == some[0].Client {
		n++
	}
	return some[:n]
}
