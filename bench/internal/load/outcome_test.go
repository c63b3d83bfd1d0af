package load

import (
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

const ms = time.Millisecond

func TestLongestCountsThoseWhoStillWait(t *testing.T) {
	all := []Outcome{
		{Scheduled: 10 * ms, Done: 99 * ms, Fate: Served},    // done before the time
		{Scheduled: 120 * ms, Done: 180 * ms, Fate: Refused}, // in it
		{Scheduled: 150 * ms, Done: 400 * ms, Fate: Served},  // after it
		{Scheduled: 30 * ms, Fate: Unsent},
	}
	testenv.Equal(t, Longest(all, 100*ms, 200*ms), 60*ms, "longest wait")
	testenv.Equal(t, Longest(append(all, Outcome{Scheduled: 10 * ms}), 100*ms, 200*ms), 190*ms, "with one that is never served")
}

// steady makes a request every millisecond whose latency is that of the time it is answered.
func steady(until time.Duration, latency func(at time.Duration) time.Duration) []Outcome {
	var all []Outcome
	for at := time.Duration(0); at < until; at += ms {
		if l := latency(at); l > 0 {
			all = append(all, Outcome{Scheduled: at - l, Sent: at - l, Done: at, Fate: Served})
		}
	}
	return all
}

func TestStepTimes(t *testing.T) {
	s := Steps{Lead: 200 * ms, High: 400 * ms, Low: 400 * ms, Count: 2, Target: 100 * ms, Usual: 20 * ms}
	// latency by the time since the last step, in the low load before, high, and low after it
	byPhase := func(high, low func(since time.Duration) time.Duration) []Outcome {
		return steady(s.Lead+2*(s.High+s.Low), func(at time.Duration) time.Duration {
			if at < s.Lead {
				return 4 * ms
			}
			at = (at - s.Lead) % (s.High + s.Low)
			if at < s.High {
				return high(at)
			}
			return low(at - s.High)
		})
	}
	flat := func(d time.Duration) func(time.Duration) time.Duration {
		return func(time.Duration) time.Duration { return d }
	}
	until := func(end, first, then time.Duration) func(time.Duration) time.Duration {
		return func(since time.Duration) time.Duration {
			if since < end {
				return first
			}
			return then
		}
	}
	grows := func(since time.Duration) time.Duration { return 4*ms + since/5 }
	hiccup := func(since time.Duration) time.Duration {
		if since >= 300*ms && since < 320*ms {
			return 50 * ms
		}
		return 4 * ms
	}
	for _, c := range []struct {
		name            string
		high, low       func(time.Duration) time.Duration
		settle, recover time.Duration
		normal          float64
	}{
		{"at once", flat(20 * ms), flat(4 * ms), 0, 0, 1},
		{"after 35 ms", until(35*ms, 60*ms, 20*ms), flat(4 * ms), 40 * ms, 0, 365.0 / 380},
		{"never: grows", grows, flat(4 * ms), s.High, 0, 61.0 / 380},
		{"never: too slow", flat(150 * ms), flat(4 * ms), s.High, 0, 0},
		{"never: nobody served", flat(0), flat(4 * ms), s.High, 0, 0},
		{"stalls at first", until(20*ms, 0, 20*ms), flat(4 * ms), 20 * ms, 0, 1},
		{"recovers late", flat(20 * ms), until(105*ms, 30*ms, 5*ms), 0, 110 * ms, 1},
		{"a hiccup is none", flat(20 * ms), hiccup, 0, 0, 1},
		{"does not recover", flat(20 * ms), flat(30 * ms), 0, s.Low, 1},
	} {
		got := s.Times(byPhase(c.high, c.low))
		if got.Settle != c.settle || got.Recover != c.recover || got.Before != 4*ms || got.Normal != c.normal {
			t.Errorf("%s: got %+v, want settle %v, recover %v, normal %v", c.name, got, c.settle, c.recover, c.normal)
		}
	}
}
