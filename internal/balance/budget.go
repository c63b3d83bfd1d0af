package balance

import (
	"math"
	"sync"
	"time"
)

const (
	// RetryFloor is how many retries a second a Budget allows in any case: with few requests a share of them is none.
	RetryFloor = 10
	// retrySaved is for how long unused retries are saved up. With half of it there are fewer retries for the requests that a
	// backend had when it broke; with twice as much a backend that goes on breaking requests costs more before the share holds.
	retrySaved = 10 * time.Second
)

// A Budget bounds retries to a share of the requests, and RetryFloor a second. It has no clock of its own. Its methods may be
// called from any goroutine.
type Budget struct {
	share float64 // below 0: no bound

	mu     sync.Mutex
	saved  float64 // retries that there may be at once; guarded by mu
	at     int64   // of the last call, in nanoseconds since the beginning; guarded by mu
	served uint64  // choices of backends by then; guarded by mu
}

// NewBudget returns the Budget of that share, from 0 to 1; below 0 it allows every retry.
func NewBudget(share float64) *Budget {
	return &Budget{share: share, saved: RetryFloor * retrySaved.Seconds()}
}

// Take reports whether there may be a retry now. choices counts how often backends were chosen, once for each request and
// each call of Take. Calls from several loops may come in another order than their counts.
func (r *Budget) Take(now int64, choices uint64) bool {
	if r.share < 0 {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	// Savings decay, so that they amount to the budget of the last retrySaved.
	seconds := max(0, float64(now-r.at)/float64(time.Second))
	gained := r.share*float64(int64(choices-r.served)-1) + RetryFloor*seconds
	if left := math.Exp(-seconds / retrySaved.Seconds()); seconds > 0 {
		r.saved = r.saved*left + gained*(1-left)*retrySaved.Seconds()/seconds
	} else {
		r.saved += gained
	}
	r.at, r.served = max(r.at, now), choices
	if r.saved < 1 {
		return false
	}
	r.saved--
	return true
}
