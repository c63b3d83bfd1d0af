package admit

import (
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// If clients give up in a queue that is not served, the queue does not count as one that has stopped growing.
func TestALineThatClientsLeaveGrows(t *testing.T) {
	var q OverloadDetector
	now, waiting := time.Duration(0), 1000
	for range 4000 {
		now += time.Millisecond
		q.Tick(now, waiting, 0, false)
		q.Admitted(now, waiting)
		q.GaveUp(1) // and two come
	}
	testenv.Equal(t, q.state, Overloaded, "a line that as many leave as are served, while twice as many come")
}

// A task whose client has gone is refused, and is not counted as such.
func TestAClientThatHasGoneIsNotRefused(t *testing.T) {
	a := NewAdmission(0, true, func(int) *ConcurrencyLimit { return NewLedger().NewLimit("requests") })
	if v := a.Next(0, 1, &QueueState{Waiting: 1, Abandoned: true}); v != Refuse || a.Refused(CauseOverload) != 0 {
		t.Errorf("one whose client has gone: %v, and %d are counted as refused; want refuse and 0", v, a.Refused(CauseOverload))
	}
}

// From the queue to their first step as many are under way as a millisecond serves, but a few at most.
func TestAsManyStartAsAreServedSoon(t *testing.T) {
	for _, x := range []struct {
		mean time.Duration // 0: not known
		want int
	}{{0, 1}, {5 * time.Millisecond, 1}, {100 * time.Microsecond, 10}, {60 * time.Microsecond, 16}, {20 * time.Microsecond, mostStarting}, {time.Microsecond, mostStarting}} {
		var q OverloadDetector
		q.service.mean = float64(x.mean)
		testenv.Equal(t, q.MaxStarting(), x.want, "of tasks of %v each N start at a time", x.mean)
	}
}

// In an overload only as many wait as may yet be served in time.
func TestWhoIsServedTooLateIsToldAtOnce(t *testing.T) {
	for _, atBottleneck := range []bool{false, true} {
		q := OverloadDetector{atBottleneck: atBottleneck}
		now, waiting, overloaded, most := time.Duration(0), 0, time.Duration(0), 0
		for ; now < 4*time.Second; now += 10 * time.Millisecond { // 1,200 come in a second, of which 100 are served
			waiting += 12
			q.Tick(now, waiting, 0, false)
			q.Admitted(now, waiting)
			q.Departed(1)
			waiting--
			if q.state == Overloaded && overloaded == 0 {
				overloaded = now
			}
			for q.Refuses(20*time.Millisecond, waiting, 0) { // less than TooLong
				q.Refused()
				waiting--
			}
			if q.state == Overloaded { // until a trial
				most = waiting
			}
		}
		if q.TooLong() < 50*time.Millisecond || most > 100 {
			t.Errorf("at a bottleneck %v: %d wait, one may wait %v; want few, as ten are served in a tenth of a second", atBottleneck, most, q.TooLong())
		}
		after := growthAllowed
		if atBottleneck { // the work of ten seconds has come
			after = 900 * time.Millisecond
		}
		if overloaded < after || overloaded > after+500*time.Millisecond {
			t.Errorf("at a bottleneck %v: overloaded after %v, want %v", atBottleneck, overloaded, after)
		}
	}
}

// Looks that are far apart are no wait for anybody's turn: the process stood still.
func TestAPauseIsNoWaitInTheQueue(t *testing.T) {
	for _, pause := range []time.Duration{0, 12 * time.Second} {
		var q OverloadDetector
		now := time.Second
		for range 100 {
			q.Tick(now, 5, 0, false)
			now += time.Millisecond
		}
		now += pause
		q.Tick(now, 5, 0, false)
		for _, waited := range []time.Duration{longestWait, longestWait + time.Millisecond, longestWait + pause + time.Second} {
			if got, want := q.Refuses(waited, 5, 0), waited > longestWait+pause; got != want {
				t.Errorf("after a pause of %v one that has waited %v is refused: %v, want %v", pause, waited, got, want)
			}
		}
		q.Admitted(now, 0)
		if q.Tick(now, 1, 0, false); !q.Refuses(longestWait+time.Millisecond, 1, 0) {
			t.Errorf("a pause of %v counts when the queue has been empty since", pause)
		}
	}
}

// A pause of the process is no time in which the queue has grown.
func TestAPauseWhileTheLineGrowsIsNoOverload(t *testing.T) {
	var q OverloadDetector
	now, waiting := time.Second, 100
	for ; q.state != Growing; now += time.Millisecond {
		waiting++
		q.Tick(now, waiting, 0, false)
		q.Admitted(now, waiting)
	}
	now += longestTurn + time.Second
	q.Tick(now, waiting+1, 0, false)
	testenv.Equal(t, q.state, Growing, "after a pause")
}

// What has come while the process stood still has waited for long when the queue begins to grow, and is no overload.
func TestTheNewestGoFirstOnlyInAQueueThatHasGrownForLong(t *testing.T) {
	const since, much, little = 10 * time.Second, burstWait + time.Millisecond, burstWait - time.Millisecond
	for _, x := range []struct {
		detector    OverloadDetector
		grown, wait time.Duration // that it has been growing, and that the oldest has waited
		newest      bool
	}{
		{OverloadDetector{state: Calm}, much, much, false},
		{OverloadDetector{state: Growing}, little, much, false},
		{OverloadDetector{state: Growing}, much, little, false},
		{OverloadDetector{state: Growing}, much, much, true},
		{OverloadDetector{state: Growing, overloadedAt: since}, little, little, true}, // a trial
		{OverloadDetector{state: Growing, overloadedAt: since - soon}, little, little, false},
		{OverloadDetector{state: Growing, atBottleneck: true}, little, little, true},
		{OverloadDetector{state: Overloaded}, little, little, true},
	} {
		x.detector.since = since
		if got := x.detector.NewestFirst(since+x.grown, x.wait); got != x.newest {
			t.Errorf("%+v: newest first %v after %v, when the oldest has waited %v", x.detector, got, x.grown, x.wait)
		}
	}
}
