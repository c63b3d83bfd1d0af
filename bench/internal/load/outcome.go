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

// Summary says what became of requests in a window of time. Rates are per second.
type Summary struct {
	Offered   float64 // due in the window
	Goodput   float64 // served in the window, not later than the target after they were due
	Served    float64 // … whenever they were due
	Refused   float64
	Lost      float64       // also Failed, Abandoned and Unsent
	P50, P99  time.Duration // of what was served
	Late      time.Duration // 99th percentile of what the client itself came too late
	Longest   time.Duration // that any request due before the end has waited by then
	Responses int           // served, as a number
}

// Summarise looks at the outcomes of one class, or of all with class < 0, from one
// time to another.
func Summarise(all []Outcome, class int, from, to, target time.Duration) Summary {
	var s Summary
	var latencies, late []time.Duration
	for i := range all {
		o := &all[i]
		if class >= 0 && int(o.Class) != class {
			continue
		}
		if from <= o.Scheduled && o.Scheduled < to {
			s.Offered++
			if o.Fate != Unsent {
				late = append(late, o.Sent-o.Scheduled)
			}
		}
		waited := to
		if o.Fate != Pending {
			waited = min(o.Done, to)
		}
		if o.Fate != Unsent && waited > from {
			s.Longest = max(s.Longest, waited-o.Scheduled)
		}
		if o.Fate == Pending || o.Done < from || o.Done >= to {
			continue
		}
		switch o.Fate {
		case Served:
			s.Served++
			if o.Latency() <= target {
				s.Goodput++
			}
			latencies = append(latencies, o.Latency())
		case Refused:
			s.Refused++
		default:
			s.Lost++
		}
	}
	s.Responses = len(latencies)
	for _, rate := range []*float64{&s.Offered, &s.Goodput, &s.Served, &s.Refused, &s.Lost} {
		*rate /= (to - from).Seconds()
	}
	s.P50, s.P99 = Quantile(latencies, 0.50), Quantile(latencies, 0.99)
	s.Late = Quantile(late, 0.99)
	return s
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

// SuccessShare is the share of the requests of a class due in a time that were served
// within limit, in [0,1]; 0 if none was due. Those still pending are no success: let
// the run go on for at least limit after to.
func SuccessShare(all []Outcome, class int, from, to, limit time.Duration) float64 {
	due, good := 0, 0
	for i := range all {
		o := &all[i]
		if int(o.Class) != class || o.Scheduled < from || o.Scheduled >= to {
			continue
		}
		due++
		if o.Fate == Served && o.Latency() <= limit {
			good++
		}
	}
	if due == 0 {
		return 0
	}
	return float64(good) / float64(due)
}
