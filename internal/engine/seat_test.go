package engine

import (
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// A seatObserver gives seats, lets the loop note waits by itself, and counts what it is told.
type seatObserver struct {
	DeafObserver
	l      *Loop
	start  Spot
	at     Spot
	hop    Hop
	parked int
}

func (o *seatObserver) Parked(t *Task, why Reason, print uint64) NodeID {
	o.parked++
	if why == ReasonYield && o.hop.Print == 0 {
		o.hop.Print, o.hop.To, o.at.ID = print, &o.at, 7
		o.start.Out, o.at.Out = &o.hop, &o.hop
	}
	o.l.Tally().Left, o.l.Tally().Moves = 1000, o.l.Moves()
	t.Quiet(true)
	return t.node
}
func (o *seatObserver) seat(t *Task) {
	o.l.Tally().Spots = []*Spot{0: &o.start, 7: &o.at}
	t.SetSeat(new(Seat))
	t.Quiet(true)
}
func (o *seatObserver) Resumed(t *Task) {
	if t.Seat() == nil {
		o.seat(t)
	}
}

// A loop notes by itself that a task waits once more where it has waited; but of what has another
// label, has moved resources, or is another place, the observer is told.
func TestLoopNotesKnownWaits(t *testing.T) {
	taken := testenv.Need(NewResource("taken by TestLoopNotesKnownWaits", ""))(t)
	for _, tt := range []struct {
		name   string
		before func(i int) // each wait
		told   int
	}{
		{"known", func(int) {}, 1},
		{"resources", func(i int) {
			if i%2 == 1 {
				taken.Acquire(1)
				taken.Release(1)
			}
		}, 1 + 10},
		{"labels", func(i int) {
			if i%5 == 4 {
				YieldAt("label")
			}
		}, 1 + 4},
		{"other places", func(i int) {
			if i%10 == 9 {
				Yield()
			}
		}, 1 + 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var o *seatObserver
			rt := newRuntime(t, 1, func(c *Config) {
				c.NewObserver = func(l *Loop) Observer { o = &seatObserver{l: l}; return o }
			})
			const n = 20
			run(t, rt, func() {
				l := here()
				o.seat(l.cur)
				o.parked = 0
				for i := range n {
					tt.before(i)
					Yield()
				}
				testenv.Equal(t, o.parked, tt.told, "the observer was told of N waits")
				known := uint64(n)
				if tt.name == "resources" {
					known -= uint64(tt.told - 1)
				}
				if got := o.hop.Count + 1; got != known || o.at.Arrivals != o.hop.Count {
					t.Errorf("%d waits were noted, %d arrivals; want %d", got, o.at.Arrivals, known)
				}
			})
		})
	}
}
