package load

import (
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

func TestCountTellsFatesApart(t *testing.T) {
	one := func(at time.Duration, fate Fate, latency time.Duration) Outcome {
		return Outcome{Scheduled: at, Sent: at, Done: at + latency, Fate: fate}
	}
	all := []Outcome{
		one(9*ms, Served, ms), // before
		one(10*ms, Served, ms), one(11*ms, Served, 20*ms), one(12*ms, Refused, 0), one(13*ms, Lost, 0),
		one(14*ms, Unsent, 0), one(15*ms, Abandoned, 0), one(16*ms, Pending, 0),
		{Scheduled: 17 * ms, Fate: Served, Tries: 1},
		{Scheduled: 18 * ms, Sent: 18 * ms, Done: 19 * ms, Fate: Served, Class: 1},
		one(20*ms, Served, ms), // after
	}
	got := Count(all, 0, 10*ms, 20*ms, 10*ms)
	want := Tally{Due: 7, Again: 1, Served: 2, InTime: 1, Refused: 1, Failed: 2, TimedOut: 1, Pending: 1, P50: 20 * ms, P99: 20 * ms, Loaded: ms}
	testenv.Equal(t, got, want)
	if got := Count(all, -1, 10*ms, 20*ms, 10*ms); got.Due != 8 || got.Served != 3 || got.InTime != 2 {
		t.Errorf("all classes: %+v", got)
	}
}
