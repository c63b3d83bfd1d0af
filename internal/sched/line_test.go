package sched

import (
	"testing"
	"time"
)

// Clients that leave a line that is not served do not make it one that has stopped growing.
func TestALineThatClientsLeaveGrows(t *testing.T) {
	var q Line
	now, waiting := time.Duration(0), 1000
	for range 4000 {
		now += time.Millisecond
		q.Look(now, waiting, false)
		q.Admitted(now, waiting)
		q.Gone(1) // and two come
	}
	if q.State() != Overloaded {
		t.Errorf("a line that as many leave as are served, while twice as many come, is %v", q.State())
	}
}

// In an overload only as many wait as may yet be served in time; at a door it takes half a second to be sure of it.
func TestWhoIsServedTooLateIsToldAtOnce(t *testing.T) {
	for _, atDoor := range []bool{false, true} {
		q := Line{atDoor: atDoor}
		now, waiting, overloaded, most := time.Duration(0), 0, time.Duration(0), 0
		for ; now < 4*time.Second; now += 10 * time.Millisecond { // 1,200 come in a second, of which 100 are served
			waiting += 12
			q.Look(now, waiting, false)
			q.Admitted(now, waiting)
			waiting--
			if q.State() == Overloaded && overloaded == 0 {
				overloaded = now
			}
			for q.Refuses(20*time.Millisecond, waiting, 0) { // less than TooLong
				q.Refused()
				waiting--
			}
			if q.State() == Overloaded { // until a trial
				most = waiting
			}
		}
		if q.TooLong() < 50*time.Millisecond || most > 100 {
			t.Errorf("at a door %v: %d wait, one may wait %v; want few, as ten are served in a tenth of a second", atDoor, most, q.TooLong())
		}
		if soon := overloaded < time.Second; soon != atDoor {
			t.Errorf("at a door %v: overloaded after %v", atDoor, overloaded)
		}
	}
}
