package admit

import (
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// Tasks that wait when the limit is set count no more, go after later ones but for one turn in 64, and are told apart
// when they depart.
func TestLateTasks(t *testing.T) {
	b := NewBacklog(0, 0, true)
	var w Work
	for range 3 {
		b.Arrived(&w)
	}
	b.SetLimit(time.Second, 2, 0)
	for i := range 2 {
		testenv.Equal(t, b.HasRoom(), true, "there is room for number %d", i)
		b.Arrived(&w)
	}
	testenv.Equal(t, b.HasRoom(), false, "there is room for a third")
	testenv.Equal(t, b.NewestFirst(), false, "the newest have the first turn")
	b.Departed(2*time.Second, &w, Stamp(0))
	testenv.Equal(t, b.NewestFirst(), true, "the newest have the second turn")
	b.Departed(3*time.Second, &w, Stamp(2*time.Second))
	s := b.Look(5)
	if s.Late != 1 || s.Departed != 1 || s.Waiting != 1 || s.Out != 5 || s.Waited != s.Quickest || (s.Waited-time.Second).Abs() > 1<<stampBits {
		t.Errorf("%+v; want a late task, one in time after a second, one that waits in time, and 5 outside", s)
	}
	testenv.Equal(t, b.Look(0), BacklogState{Several: true, Waiting: 1, Quickest: b.quickest}, "since then")
}

// A task that began to wait in the moment in which the limit was set is late as well, and makes no room for others once
// it has departed.
func TestLateInTheLastMoment(t *testing.T) {
	b := NewBacklog(0, 0, true)
	var w Work
	b.Arrived(&w)
	b.SetLimit(time.Second, 1, 0)
	b.Departed(2*time.Second, &w, Stamp(time.Second))
	testenv.Equal(t, b.Look(0).Late, 1, "late tasks that have departed")
	testenv.Equal(t, b.NewestFirst(), false, "the newest go first, with no late task")
	b.Arrived(&w)
	testenv.Equal(t, b.HasRoom(), false, "there is room for a second")
}

// A task on its way to the node has a place there until it arrives or turns away, and one place only.
func TestTasksOnTheirWay(t *testing.T) {
	b := NewBacklog(2, 0, true)
	seen := Work{Kind: 7, Detail: 7}
	for range knownFrom {
		b.Admitted(&seen)
		b.Arrived(&seen)
	}
	testenv.Equal(t, b.Limits(&Work{Kind: 7, Detail: 7}), false, "asked without a limit")
	b.SetLimit(time.Second, 1, 0)
	w := Work{Kind: 7, Detail: 7}
	testenv.Equal(t, b.Limits(&w), true, "asked")
	testenv.Equal(t, b.Limits(&Work{Kind: 8, Detail: 8}), false, "asked, though none of the kind has come there")
	b.Heads(&w)
	if b.HasRoom() || b.Limits(&w) || w.Heading != 1<<2 {
		t.Errorf("room %v, asked again %v, heading %b", b.HasRoom(), b.Limits(&w), w.Heading)
	}
	b.TurnedAway(&w)
	b.TurnedAway(&w)
	testenv.Equal(t, b.HasRoom(), true, "there is room after it has turned away")
	b.Heads(&w)
	inside := b.Inside()
	b.Arrived(&w)
	testenv.Equal(t, b.Inside(), inside, "are there or on the way after it has arrived")
}

// A node where few have waited for long is not watched any more.
func TestQuiet(t *testing.T) {
	b := NewBacklog(0, time.Second, true)
	testenv.Equal(t, b.Quiet(time.Second+quietEnd), false, "quiet")
	testenv.Equal(t, b.Quiet(time.Second+quietEnd+1), true, "quiet after more than 10 s")
	b.SetLimit(12*time.Second, 1, 0)
	testenv.Equal(t, b.Quiet(13*time.Second), false, "quiet with a limit")
}
