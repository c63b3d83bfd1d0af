package load

import (
	"testing"
	"time"
)

const ms = time.Millisecond

func TestSummaryCountsEachRequestWhereItBelongs(t *testing.T) {
	all := []Outcome{
		{Scheduled: 90 * ms, Sent: 90 * ms, Done: 110 * ms, Fate: Served},   // due before the window
		{Scheduled: 100 * ms, Sent: 101 * ms, Done: 105 * ms, Fate: Served}, // early in it
		{Scheduled: 120 * ms, Sent: 120 * ms, Done: 180 * ms, Fate: Served}, // too late for the target
		{Scheduled: 130 * ms, Sent: 130 * ms, Done: 131 * ms, Fate: Refused},
		{Scheduled: 140 * ms, Sent: 140 * ms, Done: 150 * ms, Fate: Lost},
		{Scheduled: 140 * ms, Sent: 140 * ms, Done: 150 * ms, Fate: Abandoned},
		{Scheduled: 140 * ms, Sent: 140 * ms, Done: 140 * ms, Fate: Unsent},
		{Scheduled: 150 * ms, Sent: 150 * ms},                               // not answered
		{Scheduled: 190 * ms, Sent: 190 * ms, Done: 200 * ms, Fate: Served}, // answered after the window
		{Scheduled: 150 * ms, Sent: 150 * ms, Done: 151 * ms, Fate: Served, Class: 1},
	}
	got := Summarise(all, 0, 100*ms, 200*ms, 50*ms)
	want := Summary{
		Offered: 80, Goodput: 20, Served: 30, Refused: 10, Lost: 30,
		P50: 20 * ms, P99: 60 * ms, Late: 1 * ms, Longest: 60 * ms, Responses: 3,
	}
	if got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if got := Summarise(all, -1, 100*ms, 200*ms, 50*ms); got.Goodput != 30 {
		t.Errorf("goodput of all classes is %v, want 30", got.Goodput)
	}
	starved := append(all, Outcome{Scheduled: 10 * ms, Sent: 10 * ms})
	if got := Summarise(starved, -1, 100*ms, 200*ms, 50*ms); got.Longest != 190*ms {
		t.Errorf("longest wait is %v, want 190 ms", got.Longest)
	}
	if got := Summarise(nil, -1, 0, time.Second, 0); got != (Summary{}) {
		t.Errorf("of nothing: %+v", got)
	}
}

func TestSuccessShareCountsWhatWasDue(t *testing.T) {
	all := []Outcome{
		{Scheduled: 0, Done: 10 * ms, Fate: Served},
		{Scheduled: 100 * ms, Done: 150 * ms, Fate: Served},
		{Scheduled: 199 * ms, Done: 240 * ms, Fate: Served}, // due in the time, answered later
		{Scheduled: 120 * ms, Done: 190 * ms, Fate: Served}, // beyond the limit
		{Scheduled: 120 * ms, Done: 121 * ms, Fate: Refused},
		{Scheduled: 130 * ms},
		{Scheduled: 140 * ms, Done: 141 * ms, Fate: Served, Class: 1},
		{Scheduled: 200 * ms, Done: 201 * ms, Fate: Served},
	}
	if got := SuccessShare(all, 0, 100*ms, 200*ms, 50*ms); got != 2.0/5 {
		t.Errorf("got %v, want 2/5", got)
	}
	if got := SuccessShare(all, 2, 100*ms, 200*ms, 50*ms); got != 0 {
		t.Errorf("of nothing: %v", got)
	}
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
	s := Steps{Lead: 200 * ms, High: 400 * ms, Low: 400 * ms, Count: 2, Target: 100 * ms}
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
	}{
		{"at once", flat(20 * ms), flat(4 * ms), 0, 0},
		{"after 35 ms", until(35*ms, 60*ms, 20*ms), flat(4 * ms), 40 * ms, 0},
		{"never: grows", grows, flat(4 * ms), s.High, 0},
		{"never: too slow", flat(150 * ms), flat(4 * ms), s.High, 0},
		{"never: nobody served", flat(0), flat(4 * ms), s.High, 0},
		{"stalls at first", until(20*ms, 0, 20*ms), flat(4 * ms), 20 * ms, 0},
		{"recovers late", flat(20 * ms), until(105*ms, 30*ms, 5*ms), 0, 110 * ms},
		{"a hiccup is none", flat(20 * ms), hiccup, 0, 0},
		{"does not recover", flat(20 * ms), flat(30 * ms), 0, s.Low},
	} {
		got := s.Times(byPhase(c.high, c.low))
		if got.Settle != c.settle || got.Recover != c.recover || got.Before != 4*ms {
			t.Errorf("%s: got %+v, want settle %v, recover %v", c.name, got, c.settle, c.recover)
		}
	}
	phases := s.Phases(1, 2)
	if len(phases) != 5 || phases[0].For != s.Lead || phases[3].Rates[0] != 2 || phases[4].For != s.Low {
		t.Errorf("phases %+v", phases)
	}
}
