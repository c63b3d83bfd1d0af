package proxy

import (
	"math"
	"sync"
	"time"
)

const (
	// retryFloor is how many retries a second there may be in any case: with few requests a share of them is none.
	retryFloor = 10
	// retrySaved is how long what is not used can be saved up for. With half of it the requests that a backend had when it
	// broke find less; with twice as much a backend that goes on breaking requests costs more before the share holds.
	retrySaved = 10 * time.Second
)

// A retryBudget bounds retries to a share of the requests, and retryFloor a second. It has no clock of its own.
type retryBudget struct {
	share float64 // below 0: no bound

	mu     sync.Mutex
	saved  float64 // retries that there may be at once; guarded by mu
	at     int64   // of the last call, in nanoseconds since the beginning; guarded by mu
	served uint64  // choices of backends by then; guarded by mu
}

func (r *retryBudget) init(share float64) { r.share, r.saved = share, retryFloor*retrySaved.Seconds() }

// take reports whether there may be a retry now. choices counts how often backends were chosen, once for each request and
// each call of take. Calls from several loops may come in another order than their counts.
func (r *retryBudget) take(now int64, choices uint64) bool {
	if r.share < 0 {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	// What is saved wears off, so that it comes to what the budget has been in the last retrySaved.
	seconds := max(0, float64(now-r.at)/float64(time.Second))
	gained := r.share*float64(int64(choices-r.served)-1) + retryFloor*seconds
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
