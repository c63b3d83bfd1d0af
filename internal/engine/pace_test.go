package engine

import (
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// Pace yields after a number of operations or bytes, and begins anew after each wait.
func TestPaceYields(t *testing.T) {
	rt, _ := newSimRuntime(t, 1, false)
	rt.Go(func() {
		l := CurrentLoop()
		l.stats.turnLimit = 1 << 60 // time does not matter here
		turns, done := 0, false
		other := Go(func() {
			for !done {
				turns++
				Yield()
			}
		})
		Yield()
		for _, c := range []struct{ bytes, calls, turns int }{
			{0, 640, 10}, {paceUnit, 640, 20}, {paceLimit, 10, 10}, {-1, 640, 0},
		} {
			Yield()
			before := turns
			for range c.calls {
				if c.bytes < 0 { // a wait in between
					before += 1
					Yield()
					l.Pace(0)
					continue
				}
				l.Pace(c.bytes)
			}
			testenv.Equal(t, turns-before, c.turns, "%d operations of %d bytes gave way N times", c.calls, c.bytes)
		}
		done = true
		other.Join()
	}).Join()
	ran := make(chan struct{})
	rt.Loop(0).Post(func() { // the loop's own goroutine never yields
		defer close(ran)
		for range 1000 {
			rt.Loop(0).Pace(paceLimit)
		}
	})
	<-ran
}

// A task that computes between operations gives way once it has taken the time of a turn.
func TestPaceLooksAtTheTime(t *testing.T) {
	rt, _ := newSimRuntime(t, 1, false)
	rt.Go(func() {
		l := CurrentLoop()
		l.stats.turnLimit = -1 // every look finds it too late
		turns, done := 0, false
		other := Go(func() {
			for !done {
				turns++
				Yield()
			}
		})
		Yield()
		before := turns
		for range 30 {
			l.Pace(0)
		}
		if got := turns - before; got != 10 { // the first two of each step do not look
			t.Errorf("gave way %d times in 30 operations, want 10", got)
		}
		done = true
		other.Join()
	}).Join()
}

func BenchmarkPace(b *testing.B) {
	rt, _ := newSimRuntime(b, 1, false)
	rt.Go(func() {
		l := CurrentLoop()
		for b.Loop() { // a read and a write in each step
			l.switches++
			l.Pace(1)
			l.Pace(1)
		}
	}).Join()
}
