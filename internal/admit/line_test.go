package admit

import (
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// Clients that leave a line that is not served do not make it one that has stopped growing.
func TestALineThatClientsLeaveGrows(t *testing.T) {
	var q Line
	now, waiting := time.Duration(0), 1000
	for range 4000 {
		now += time.Millisecond
		q.Look(now, waiting, 0, false)
		q.Admitted(now, waiting)
		q.Gone(1) // and two come
	}
	testenv.Equal(t, q.state, Overloaded, "a line that as many leave as are served, while twice as many come")
}

// A task whose client has gone is refused, and is not counted as such.
func TestAClientThatHasGoneIsNotRefused(t *testing.T) {
	a := NewAdmission(0, true, func(int) *Gate { return NewLedger().NewGate("requests") })
	if v := a.Next(0, 1, &QueueState{Waiting: 1, Abandoned: true}); v != Refuse || a.Refused(CauseLine) != 0 {
		t.Errorf("one whose client has gone: %v, and %d are counted as refused; want refuse and 0", v, a.Refused(CauseLine))
	}
}

// From the line to their first step as many are under way as a millisecond serves, or half a millisecond where that
// is more than a few.
func TestAsManyStartAsAreServedSoon(t *testing.T) {
	for _, x := range []struct {
		mean time.Duration // 0: not known
		want int
	}{{0, 1}, {5 * time.Millisecond, 1}, {100 * time.Microsecond, 10}, {60 * time.Microsecond, 16}, {20 * time.Microsecond, 25}, {time.Microsecond, mostStarting}} {
		var q Line
		q.pace.mean = float64(x.mean)
		testenv.Equal(t, q.Starting(), x.want, "of tasks of %v each N start at a time", x.mean)
	}
}

// In an overload only as many wait as may yet be served in time.
func TestWhoIsServedTooLateIsToldAtOnce(t *testing.T) {
	for _, atDoor := range []bool{false, true} {
		q := Line{atDoor: atDoor}
		now, waiting, overloaded, most := time.Duration(0), 0, time.Duration(0), 0
		for ; now < 4*time.Second; now += 10 * time.Millisecond { // 1,200 come in a second, of which 100 are served
			waiting += 12
			q.Look(now, waiting, 0, false)
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
			t.Errorf("at a door %v: %d wait, one may wait %v; want few, as ten are served in a tenth of a second", atDoor, most, q.TooLong())
		}
		after := patience
		if atDoor { // the work of ten seconds has come
			after = 900 * time.Millisecond
		}
		if overloaded < after || overloaded > after+500*time.Millisecond {
			t.Errorf("at a door %v: overloaded after %v, want %v", atDoor, overloaded, after)
		}
	}
}

// Looks that are far apart are no wait for anybody's turn: the process stood still.
func TestAPauseIsNoWaitInLine(t *testing.T) {
	for _, pause := range []time.Duration{0, 12 * time.Second} {
		var q Line
		now := time.Second
		for range 100 {
			q.Look(now, 5, 0, false)
			now += time.Millisecond
		}
		now += pause
		q.Look(now, 5, 0, false)
		for _, waited := range []time.Duration{longestWait, longestWait + time.Millisecond, longestWait + pause + time.Second} {
			if got, want := q.Refuses(waited, 5, 0), waited > longestWait+pause; got != want {
				t.Errorf("after a pause of %v one that has waited %v is refused: %v, want %v", pause, waited, got, want)
			}
		}
		q.Admitted(now, 0)
		if q.Look(now, 1, 0, false); !q.Refuses(longestWait+time.Millisecond, 1, 0) {
			t.Errorf("a pause of %v counts when the line has been empty since", pause)
		}
	}
}

// What has come while the process stood still has waited for long when the line begins to grow, and is no overload.
func TestTheNewestGoFirstOnlyInALineThatHasGrownForLong(t *testing.T) {
	const since, much, little = 10 * time.Second, burstWait + time.Millisecond, burstWait - time.Millisecond
	for _, x := range []struct {
		line        Line
		grown, wait time.Duration // that it has been growing, and that the oldest has waited
		newest      bool
	}{
		{Line{state: Calm}, much, much, false},
		{Line{state: Growing}, little, much, false},
		{Line{state: Growing}, much, little, false},
		{Line{state: Growing}, much, much, true},
		{Line{state: Growing, over: since}, little, little, true}, // a trial
		{Line{state: Growing, over: since - soon}, little, little, false},
		{Line{state: Growing, atDoor: true}, little, little, true},
		{Line{state: Overloaded}, little, little, true},
	} {
		x.line.since = since
		if got := x.line.Newest(since+x.grown, x.wait); got != x.newest {
			t.Errorf("%+v: newest first %v after %v, when the oldest has waited %v", x.line, got, x.grown, x.wait)
		}
	}
}
