package simfleet

import (
	"fmt"
	"time"
)

// A counter is what a Series counts.
type counter uint8

const (
	requests          counter = iota // of users
	attempts                         // of users
	retried                          // by balancers
	refused                          // by servers
	good                             // requests that were answered
	failed                           // requests that a user gave up
	importantRequests                // of requests
	importantGood                    // of good
	counters
)

// A Series counts what happens in each second.
type Series struct{ seconds [][counters]int }

func (s *Series) count(now time.Duration, c counter) {
	i := int(now / time.Second)
	for i >= len(s.seconds) {
		s.seconds = append(s.seconds, [counters]int{})
	}
	s.seconds[i][c]++
}

// between is how many of c there were in a second on average, in the seconds from to to, without the last.
func (s *Series) between(c counter, from, to int) float64 {
	sum := 0
	for i := from; i < min(to, len(s.seconds)); i++ {
		sum += s.seconds[i][c]
	}
	return float64(sum) / float64(max(to-from, 1))
}

// A Result is what has become of a fleet.
type Result struct {
	Series   Series
	Capacity float64 // requests a second that the processors can serve
	From, To int     // seconds of the cause
	Before   float64 // goodput: requests a second that were answered, in the 10 s before the cause
	During   float64 // in parts of Before, while the cause lasts
	After    float64 // from 10 s after its end to the end of the simulation
	Last     float64 // in the last 5 s
	// Recovered is how many seconds after the end of the cause goodput is at 95 % of Before for good, over three seconds
	// each; -1: it is not.
	Recovered int
}

// share is the goodput that counts as that of before.
const share = 0.95

func (f *Fleet) result(from, to time.Duration) *Result {
	r := &Result{Series: f.series, Capacity: float64(f.Servers) / work.Seconds(), From: int(from / time.Second), To: int(to / time.Second)}
	s, end := &r.Series, int(f.now/time.Second)
	r.Before = s.between(good, r.From-10, r.From)
	r.During = s.between(good, r.From, max(r.To, r.From+1)) / r.Before
	r.After = s.between(good, r.To+10, end) / r.Before
	r.Last = s.between(good, end-5, end) / r.Before
	r.Recovered = -1
	for i := end - 3; i >= r.To && s.between(good, i, i+3) >= share*r.Before; i-- {
		r.Recovered = i - r.To
	}
	return r
}

// Goodput is how many requests were answered in each second.
func (r *Result) Goodput() (all []int) {
	for _, s := range r.Series.seconds {
		all = append(all, s[good])
	}
	return all
}

// Answered is the part of the important requests, and of the others, that were answered, from 10 s after the cause on.
func (r *Result) Answered() (important, others float64) {
	end := len(r.Series.seconds)
	asked, well := r.then(importantRequests, end), r.then(importantGood, end)
	return well / max(asked, 1), (r.then(good, end) - well) / max(r.then(requests, end)-asked, 1)
}

func (r *Result) String() string {
	back := fmt.Sprintf("back after %d s", r.Recovered)
	if r.Recovered < 0 {
		back = "does not come back"
	}
	end := len(r.Series.seconds)
	return fmt.Sprintf("%.0f requests/s answered before; %.2f of that during, %.2f later; %s; then %.2f attempts a request, %.0f refusals/s",
		r.Before, r.During, r.After, back, r.then(attempts, end)/max(r.then(requests, end), 1), r.then(refused, end))
}

// then is how many of c there were in a second from 10 s after the cause on.
func (r *Result) then(c counter, end int) float64 { return r.Series.between(c, r.To+10, end) }
