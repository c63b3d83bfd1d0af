package gotrace

import (
	"testing"
	"time"

	"golang.org/x/exp/trace"

	"github.com/capriccio-go/capriccio/bgraph"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// task begins or ends a task on goroutine 1.
func (s *stream) task(kind trace.EventKind, at time.Duration) {
	s.t.Helper()
	task := trace.Task{ID: 7, Parent: trace.BackgroundTask, Type: "order"}
	e, err := trace.MakeEvent(trace.EventConfig[trace.Task]{Time: trace.Time(at), Kind: kind, Goroutine: 1, Proc: 0, Stack: stackOf("main.main"), Details: task})
	testenv.Must(s.t, err)
	s.m.event(&e)
}

// The path of a task is what its goroutine did and, while that waited, what those did for which
// it waited, to the nanosecond.
func TestExactPath(t *testing.T) {
	send, sleep := stackOf("runtime.chansend1", "main.send"), stackOf("time.Sleep", "main.work")
	s := newStream(t)
	s.change(5, none, 1, trace.GoUndetermined, trace.GoRunning, "", stackOf("main.main"))
	s.change(6, none, 2, trace.GoUndetermined, trace.GoRunning, "", stackOf("main.work"))
	s.task(trace.EventTaskBegin, 9)
	s.change(20, 1, 1, trace.GoRunning, trace.GoWaiting, "chan send", send)
	s.change(30, 2, 2, trace.GoRunning, trace.GoWaiting, "sleep", sleep)
	s.change(50, none, 2, trace.GoWaiting, trace.GoRunnable, "", trace.NoStack)
	s.change(53, none, 2, trace.GoRunnable, trace.GoRunning, "", trace.NoStack)
	s.change(60, 2, 1, trace.GoWaiting, trace.GoRunnable, "", stackOf("runtime.chanrecv1", "main.work"))
	s.change(64, none, 1, trace.GoRunnable, trace.GoRunning, "", trace.NoStack)
	s.task(trace.EventTaskEnd, 70)
	got := s.m.snapshot()
	if len(got.Spans) != 1 || got.Spans[0].Times.Sum != 61 {
		t.Fatalf("%+v", got.Spans)
	}
	start := bgraph.KeyStart // of the step that went on when the trace began
	want := []bgraph.PathPart{
		{Node: at(t, got, "sleep", "main.work").Key, Wait: 20, Ready: 3, Step: 7},
		{Node: at(t, got, "task begins", "main.main").Key, Step: 11},
		{Node: start, Step: 10},
		{Node: at(t, got, "channel send", "main.send").Key, Ready: 4, Step: 6},
	}
	path := got.Spans[0].Path
	for i := range want {
		if len(path) != len(want) || path[i] != want[i] {
			t.Fatalf("got %+v\nwant %+v", path, want)
		}
	}
}

// Of what a program logs it counts how long after the begin of the task, by category.
func TestLogs(t *testing.T) {
	s := newStream(t)
	s.change(5, none, 1, trace.GoUndetermined, trace.GoRunning, "", stackOf("main.main"))
	s.task(trace.EventTaskBegin, 9)
	for i, l := range []trace.Log{{Task: 7, Category: "stage", Message: "priced"}, {Task: 7, Category: "stage", Message: "sent"}, {Task: 7, Message: "x"}, {Task: trace.BackgroundTask}, {Task: 99, Category: "of no task"}} {
		e := testenv.Need(trace.MakeEvent(trace.EventConfig[trace.Log]{Time: trace.Time(20 + 10*i), Kind: trace.EventLog, Goroutine: 1, Proc: 0, Details: l}))(t)
		s.event(e)
	}
	got := map[string]bgraph.Times{}
	for _, span := range s.m.snapshot().Spans {
		got[span.Kind+" "+span.Name] = span.Times
	}
	if stage, other := got["log order: stage"], got["log order"]; len(got) != 2 || stage.Count != 2 || stage.Sum != 11+21 || other.Count != 1 || other.Sum != 31 {
		t.Errorf("%+v", got)
	}
}

// Of a task with more waits than are remembered the last ones are known.
func TestLongPath(t *testing.T) {
	const waits = longestWay
	s := newStream(t)
	s.change(1, none, 1, trace.GoUndetermined, trace.GoRunning, "", stackOf("main.main"))
	s.task(trace.EventTaskBegin, 2)
	now, sleep := time.Duration(2), stackOf("time.Sleep", "main.main")
	for range waits {
		s.change(now+1, 1, 1, trace.GoRunning, trace.GoWaiting, "sleep", sleep)
		s.change(now+2, none, 1, trace.GoWaiting, trace.GoRunnable, "", trace.NoStack)
		s.change(now+3, none, 1, trace.GoRunnable, trace.GoRunning, "", trace.NoStack)
		now += 3
	}
	s.task(trace.EventTaskEnd, now)
	span := s.m.snapshot().Spans[0]
	if len(span.Path) != 1 || span.Path[0].Total() != longestWay || span.Times.Sum != 3*waits {
		t.Errorf("%+v of %v; want %d", span.Path, span.Times.Sum, longestWay)
	}
	r := trails{}
	for range maxPieces + 5 {
		r.add(piece{})
	}
	if r.get(5) != nil || r.get(6) == nil || r.get(r.next) == nil || len(r.ring) != maxPieces {
		t.Errorf("of %d pieces %d are kept", r.next, len(r.ring))
	}
}
