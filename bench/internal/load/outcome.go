package load

import (
	"slices"
	"time"
)

// Fate is what became of a request.
type Fate uint8

const (
	Pending   Fate = iota // not answered when the run ended
	Served                // 200
	Refused               // 503 or 429
	Failed                // any other status
	Lost                  // the connection broke or was closed
	Abandoned             // the client's patience ended
	Unsent                // the client had no connection left for it
)

// Outcome is one request. Times are on the run's clock, which begins at 0.
type Outcome struct {
	Scheduled time.Duration // when it was due
	Sent      time.Duration // when the client did something about it
	Done      time.Duration // when its fate was known
	Class     uint8
	Tries     uint8 // before this one
	Fate      Fate
}

// Latency counts from when the request was due, sent or not.
func (o *Outcome) Latency() time.Duration { return o.Done - o.Scheduled }

// Longest is the longest time that a request had waited at to. It counts the requests that were due before to and
// not done before from.
func Longest(all []Outcome, from, to time.Duration) time.Duration {
	longest := time.Duration(0)
	for i := range all {
		o := &all[i]
		waited := to
		if o.Fate != Pending {
			waited = min(o.Done, to)
		}
		if o.Fate != Unsent && waited > from {
			longest = max(longest, waited-o.Scheduled)
		}
	}
	return longest
}

// Quantile sorts the durations and returns that which a share q of them does not
// exceed; 0 of none.
func Quantile(all []time.Duration, q float64) time.Duration {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[min(int(q*float64(len(all))), len(all)-1)]
}
