package gotrace

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/exp/trace"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/graphlimits"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// A stream is a trace that a test writes event by event, so that all of it is known exactly.
type stream struct {
	t *testing.T
	m *model
}

func newStream(t *testing.T) *stream {
	s := &stream{t, newModel(Options{}.withDefaults())}
	s.event(sync0(0))
	return s
}

func sync0(at trace.Time) trace.Event {
	e, err := trace.MakeEvent(trace.EventConfig[trace.Sync]{Time: at, Kind: trace.EventSync, Details: trace.Sync{N: 1}})
	if err != nil {
		panic(err)
	}
	return e
}

func (s *stream) event(e trace.Event) { s.m.event(&e) }

// change lets goroutine g go from one state to another, as by what runs on P 0.
func (s *stream) change(at time.Duration, by, g trace.GoID, from, to trace.GoState, reason string, stack trace.Stack) {
	s.t.Helper()
	st := trace.MakeGoStateTransition(g, from, to)
	st.Reason, st.Stack = reason, stack
	p := trace.ProcID(0)
	e := testenv.Need(trace.MakeEvent(trace.EventConfig[trace.StateTransition]{
		Time: trace.Time(at), Kind: trace.EventStateTransition, Goroutine: by, Proc: p, Stack: stack, Details: st,
	}))(s.t)
	s.event(e)
}

func (s *stream) region(at time.Duration, g trace.GoID, kind trace.EventKind, name string) {
	s.t.Helper()
	s.event(testenv.Need(trace.MakeEvent(trace.EventConfig[trace.Region]{Time: trace.Time(at), Kind: kind, Goroutine: g, Proc: 0, Details: trace.Region{Type: name}}))(s.t))
}

// at is a stack, innermost function first; its lines are all 7.
func stackOf(functions ...string) trace.Stack {
	var frames []trace.StackFrame
	for i, f := range functions {
		frames = append(frames, trace.StackFrame{PC: uint64(i + 1), Func: f, File: f[strings.LastIndexByte(f, '/')+1:] + ".go", Line: 7})
	}
	return trace.MakeStack(frames)
}

const none = trace.NoGoroutine

// Two goroutines hand a value over a hundred times, with waits, CPU and wake-ups known to
// the nanosecond.
func TestExactStream(t *testing.T) {
	const (
		rounds = 100
		run    = 10 * time.Microsecond // of the sender, then of the receiver
		ready  = 3 * time.Microsecond
	)
	send, recv := stackOf("runtime.chansend1", "main.send", "main.main"), stackOf("runtime.chanrecv1", "main.recv")
	s := newStream(t)
	now := time.Microsecond
	s.change(now, none, 1, trace.GoUndetermined, trace.GoRunning, "", stackOf("main.main"))
	s.change(now, 1, 2, trace.GoNotExist, trace.GoRunnable, "", recv)
	wait := func(id trace.GoID, stack trace.Stack, reason string) {
		now += run
		s.change(now, id, id, trace.GoRunning, trace.GoWaiting, reason, stack)
	}
	resume := func(id trace.GoID) {
		now += ready
		s.change(now, none, id, trace.GoRunnable, trace.GoRunning, "", trace.NoStack)
	}
	wait(1, send, "chan send")
	resume(2)
	for range rounds {
		now += run
		s.change(now, 2, 1, trace.GoWaiting, trace.GoRunnable, "", recv)
		wait(2, recv, "chan receive")
		resume(1)
		now += run
		s.change(now, 1, 2, trace.GoWaiting, trace.GoRunnable, "", send)
		wait(1, send, "chan send")
		resume(2)
	}
	got := s.m.snapshot()
	testenv.Must(t, got.Validate())
	for _, want := range []struct {
		reason, function string
		arrivals         uint64
		waited           time.Duration // each: 2 runs and the ready time of the other, less what it ran itself
		waker            string
		now              int64
	}{
		{"channel send", "main.send", rounds + 1, 2*run + ready - run, "main.recv", 1},
		{"channel receive", "main.recv", rounds, 2*run + ready - run, "main.send", 0},
	} {
		n := at(t, got, want.reason, want.function)
		if n.Arrivals != want.arrivals || n.Departures != rounds || n.Now != want.now || n.Peak != 1 {
			t.Errorf("%s: %d came, %d left, %d there, %d at most", want.reason, n.Arrivals, n.Departures, n.Now, n.Peak)
		}
		if n.Wait.Count != rounds || n.Wait.Sum.Duration() != rounds*want.waited {
			t.Errorf("%s: waited %d times, %v; want %v", want.reason, n.Wait.Count, n.Wait.Sum, rounds*want.waited)
		}
		if n.Ready.Count != rounds || n.Ready.Sum.Duration() != rounds*(run+ready) {
			t.Errorf("%s: ready %d times, %v; want %v", want.reason, n.Ready.Count, n.Ready.Sum, rounds*(run+ready))
		}
		if len(n.Wakers) != 1 || n.Wakers[0] != (bgraph.Waker{Function: want.waker, File: want.waker + ".go", Line: 7, Count: rounds}) {
			t.Errorf("%s: woken by %+v", want.reason, n.Wakers)
		}
		i := slices.IndexFunc(got.Edges, func(e bgraph.Edge) bool { return e.From == n.Key && e.To == n.Key })
		if i < 0 || got.Edges[i].CPU.Sum.Duration() != 2*run*time.Duration(got.Edges[i].Count) || got.Edges[i].CPU.Max != bgraph.Nanos(2*run) {
			t.Errorf("%s: %+v; want steps of %v", want.reason, got.Edges, 2*run)
		}
	}
}

// What waited before the trace began has not arrived in it, is as old as the trace, and is at the
// same node as one that begins to wait later, whichever way the runtime was asked for the stack.
func TestWaitsFromBeforeTheTrace(t *testing.T) {
	from := []string{"runtime.gopark", "runtime.netpollblock", "internal/poll.runtime_pollWait", "internal/poll.(*pollDesc).wait", "internal/poll.(*pollDesc).waitRead"}
	read := []string{"internal/poll.(*FD).Read", "net.(*conn).Read", "main.serve"}
	s := newStream(t)
	s.change(time.Second, none, 1, trace.GoUndetermined, trace.GoWaiting, "", stackOf(append(from, read...)...))
	s.change(time.Second, none, 2, trace.GoUndetermined, trace.GoWaiting, "", trace.NoStack)
	s.change(time.Second, none, 3, trace.GoUndetermined, trace.GoWaiting, "", stackOf("runtime.gopark", "runtime.selectgo", "main.idle"))
	s.change(2*time.Second, none, 2, trace.GoWaiting, trace.GoWaiting, "", stackOf(append(from, read...)...))
	s.change(2*time.Second, none, 4, trace.GoUndetermined, trace.GoRunning, "", stackOf("main.serve"))
	s.change(3*time.Second, 4, 4, trace.GoRunning, trace.GoWaiting, "network", stackOf(read...))
	s.change(3*time.Second, none, 5, trace.GoUndetermined, trace.GoWaiting, "", stackOf("runtime.gopark", "time.Sleep", "main.tick"))
	got := s.m.snapshot()
	n := at(t, got, "read", "main.serve")
	if n.Now != 3 || n.Arrivals != 1 || n.Peak != 3 || n.Oldest != bgraph.Nanos(3*time.Second) {
		t.Errorf("%d there (%d at most), %d came, the oldest for %v; want 3, 3, 1, 3 s", n.Now, n.Peak, n.Arrivals, n.Oldest)
	}
	if idle := at(t, got, "select", "main.idle"); idle.Now != 1 || idle.Arrivals != 0 {
		t.Errorf("%+v", idle)
	}
	if at(t, got, "sleep", "main.tick").Now != 1 || len(got.Nodes) != 4 || at(t, got, runningReason, "main.serve").Departures != 1 {
		t.Errorf("%d nodes", len(got.Nodes))
	}
	for _, st := range got.Starts {
		if st.Function == "main.serve" && st.Oldest != bgraph.Nanos(3*time.Second) {
			t.Errorf("%+v", st)
		}
	}
}

// A system call that began before the trace has not arrived in it, either, and how long it took is not known.
func TestCallsFromBeforeTheTrace(t *testing.T) {
	s := newStream(t)
	call := stackOf("syscall.Read", "main.serve")
	s.change(time.Second, none, 1, trace.GoUndetermined, trace.GoSyscall, "", call)
	s.change(time.Second, none, 2, trace.GoUndetermined, trace.GoSyscall, "", trace.NoStack)
	s.change(2*time.Second, none, 1, trace.GoSyscall, trace.GoSyscall, "", call)
	s.change(2*time.Second, none, 2, trace.GoSyscall, trace.GoSyscall, "", call)
	s.change(3*time.Second, 1, 1, trace.GoSyscall, trace.GoRunnable, "", trace.NoStack)
	got := s.m.snapshot()
	n := at(t, got, "system call", "main.serve")
	if n.Now != 2 || n.Arrivals != 0 || n.Wait.Count != 0 || n.Oldest != bgraph.Nanos(3*time.Second) || len(got.Nodes) != 1 {
		t.Errorf("%+v of %d nodes; want two that have been there for 3 s", n, len(got.Nodes))
	}
}

// A long step counts although the trace has only a part of it: of goroutines that never wait there
// would be nothing else. Where it was preempted tells what it did.
func TestStepsThatTheTraceCutsOff(t *testing.T) {
	s := newStream(t)
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	for g, stack := range []trace.Stack{1: trace.NoStack, 2: stackOf("main.serve.func1"), 3: stackOf("main.serve.func2"), 4: trace.NoStack} {
		if g > 0 { // of two nothing is known yet
			s.change(0, none, trace.GoID(g), trace.GoUndetermined, trace.GoRunning, "", stack)
		}
	}
	s.change(ms(5), 4, 4, trace.GoRunning, trace.GoWaiting, "chan receive", stackOf("main.short"))
	for i := 1; i <= 4; i++ {
		s.change(ms(10*i), 1, 1, trace.GoRunning, trace.GoRunnable, "preempted", stackOf("main.add", "main.sums"))
		s.change(ms(10*i+2), none, 1, trace.GoRunnable, trace.GoRunning, "", trace.NoStack)
	}
	s.change(ms(45), 2, 2, trace.GoRunning, trace.GoWaiting, "chan receive", stackOf("main.serve.func1"))
	s.change(ms(46), 3, 3, trace.GoRunning, trace.GoWaiting, "chan receive", stackOf("main.serve.func2"))
	s.change(ms(47), 1, 2, trace.GoWaiting, trace.GoRunnable, "", stackOf("main.add"))
	s.change(ms(48), none, 2, trace.GoRunnable, trace.GoRunning, "", trace.NoStack)
	s.change(ms(60), 1, 1, trace.GoRunning, trace.GoRunnable, "runtime.Gosched", stackOf("main.add", "main.sums"))
	snap := s.m.snapshot()
	testenv.Must(t, snap.Validate())
	var got []string
	for _, e := range snap.Edges {
		text := fmt.Sprintf("%s → %s: %d, %v", snap.NameOf(e.From), snap.NameOf(e.To), e.Count, e.CPU.Sum)
		for _, f := range e.Functions {
			text += fmt.Sprintf(", %s %d", f.Function, f.Count)
		}
		got = append(got, text)
	}
	slices.Sort(got)
	want := []string{
		"channel receive main.serve.func1 → running main.serve.func1: 1, 12ms",
		"running main.serve.func1 → channel receive main.serve.func1: 1, 45ms",
		"running main.serve.func2 → channel receive main.serve.func2: 1, 46ms",
		"running main.sums → running main.sums: 1, 52ms, main.add 5",
	}
	testenv.EqualSlices(t, got, want)
}

// What sockets of datagrams, and programs that read a socket by themselves, wait for is known, too.
func TestWaitsOfSockets(t *testing.T) {
	for function, want := range map[string]string{"ReadFromInet6": "read", "ReadMsgInet4": "read", "WriteToInet4": "write", "WriteMsgInet6": "write", "RawRead": "read", "RawWrite": "write", "Other": "network"} {
		testenv.Equal(t, refine("network", []bgraph.Frame{{Function: "internal/poll.(*FD)." + function}, {Function: "main.serve"}}), want, function)
	}
}

// A goroutine that a condition variable has woken waits for the program's lock, and one in a Once for the Once, not for its lock.
func TestWaitsForALockBelow(t *testing.T) {
	for outer, want := range map[string]string{"Cond).Wait": "mutex", "Once).doSlow": "once"} {
		frames := []bgraph.Frame{{Function: "internal/sync.(*Mutex).lockSlow"}, {Function: "sync.(*Mutex).Lock"}, {Function: "sync.(*" + outer}, {Function: "main.serve"}}
		testenv.Equal(t, refine("sync", frames), want, outer)
	}
}

// Two that write to one connection wait for each other, not for the network, and one that closes it waits for both.
func TestWaitsForADescriptor(t *testing.T) {
	for functions, want := range map[string]string{"fdMutex).rwlock FD).writeLock FD).Write": "mutex", "FD).Close": "close"} {
		frames := []bgraph.Frame{{Function: "sync.runtime_Semacquire"}}
		for _, f := range strings.Fields(functions) {
			frames = append(frames, bgraph.Frame{Function: "internal/poll.(*" + f})
		}
		testenv.Equal(t, refine("sync", append(frames, bgraph.Frame{Function: "main.serve"})), want, functions)
	}
}

// Any goroutine that calls the scheduler looks at the network; only one that sets a deadline or
// closes has ended a wait for it.
func TestWakersOfTheNetwork(t *testing.T) {
	read := stackOf("internal/poll.(*FD).Read", "main.serve")
	s := newStream(t)
	s.change(1, none, 1, trace.GoUndetermined, trace.GoRunning, "", stackOf("main.serve"))
	s.change(2, none, 2, trace.GoUndetermined, trace.GoRunning, "", stackOf("main.other"))
	for i, by := range []trace.Stack{
		stackOf("runtime.startTheWorldWithSema", "runtime.mallocgc", "main.allocates"),
		stackOf("internal/poll.setDeadlineImpl", "net.(*conn).SetReadDeadline", "main.aborts"),
	} {
		now := time.Duration(i+1) * time.Millisecond
		s.change(now, 1, 1, trace.GoRunning, trace.GoWaiting, "network", read)
		s.change(now+1, 2, 1, trace.GoWaiting, trace.GoRunnable, "", by)
		s.change(now+2, none, 1, trace.GoRunnable, trace.GoRunning, "", trace.NoStack)
	}
	wakers := at(t, s.m.snapshot(), "read", "main.serve").Wakers
	if len(wakers) != 2 || wakers[0].Function != "" || wakers[1].Function != "main.aborts" {
		t.Errorf("woken by %+v; want the scheduler and main.aborts", wakers)
	}
}

// The time of the workers of the collector is counted, in whatever state the trace finds them.
func TestCollectorTime(t *testing.T) {
	worker := stackOf("runtime.gcBgMarkWorker")
	s := newStream(t)
	s.change(0, none, 1, trace.GoUndetermined, trace.GoWaiting, "", trace.NoStack)
	s.change(0, none, 2, trace.GoUndetermined, trace.GoRunning, "", worker)
	s.change(time.Millisecond, 2, 2, trace.GoRunning, trace.GoWaiting, "system goroutine wait", worker)
	for i := range 3 {
		now := time.Duration(i+2) * time.Millisecond
		s.change(now, none, 1, trace.GoWaiting, trace.GoRunnable, "", trace.NoStack)
		s.change(now, none, 1, trace.GoRunnable, trace.GoRunning, "", trace.NoStack)
		s.change(now+100*time.Microsecond, 1, 1, trace.GoRunning, trace.GoWaiting, "GC worker (idle)", worker)
	}
	if got := s.m.snapshot(); got.CollectorCPU.Duration() != 1300*time.Microsecond || len(got.Nodes) != 0 {
		t.Errorf("%v in %d nodes; want 1 ms of a worker seen running and 3 times 0.1 ms", got.CollectorCPU, len(got.Nodes))
	}
}

// The request for the trace is left out of the graph.
func TestOwnRequestIsLeftOut(t *testing.T) {
	s := newStream(t)
	asked, read := stackOf("net/http/pprof.sleep", "net/http/pprof.Trace", "net/http.(*conn).serve"), stackOf("internal/poll.(*FD).Read", "net/http.(*conn).serve")
	s.change(1, none, 1, trace.GoUndetermined, trace.GoRunning, "", stackOf("net/http.(*conn).serve"))
	s.change(2, 1, 1, trace.GoRunning, trace.GoWaiting, "select", asked)
	s.change(3, none, 1, trace.GoWaiting, trace.GoRunnable, "", trace.NoStack)
	s.change(4, none, 1, trace.GoRunnable, trace.GoRunning, "", trace.NoStack)
	s.change(5, 1, 1, trace.GoRunning, trace.GoWaiting, "network", read)
	got := s.m.snapshot()
	testenv.Must(t, got.Validate())
	if len(got.Nodes) != 1 || got.Nodes[0].Reason != "read" || len(got.Edges) != 0 {
		t.Errorf("%+v, %+v", got.Nodes, got.Edges)
	}
}

// Of wakers, starts and kinds of regions a number is told apart; the rest is counted together, or there is a note.
func TestLimitsOfLists(t *testing.T) {
	const many = max(graphlimits.Wakers, graphlimits.Starts, graphlimits.Spans) + 10
	s := newStream(t)
	recv := stackOf("runtime.chanrecv1", "main.recv")
	s.change(1, none, 1, trace.GoUndetermined, trace.GoRunning, "", stackOf("main.recv"))
	s.change(2, none, 2, trace.GoUndetermined, trace.GoRunning, "", stackOf("main.other"))
	for i := range many {
		now, name := time.Duration(10*i+10), fmt.Sprint("main.f", i)
		s.change(now, 1, 1, trace.GoRunning, trace.GoWaiting, "chan receive", recv)
		s.change(now+1, 2, 1, trace.GoWaiting, trace.GoRunnable, "", stackOf(name))
		s.change(now+2, none, 1, trace.GoRunnable, trace.GoRunning, "", trace.NoStack)
		s.change(now+3, 2, trace.GoID(i+3), trace.GoNotExist, trace.GoRunnable, "", stackOf(name))
		for i, kind := range []trace.EventKind{trace.EventRegionBegin, trace.EventRegionEnd} {
			s.region(now+time.Duration(i+4), 2, kind, name)
		}
	}
	got := s.m.snapshot()
	testenv.Must(t, got.Validate())
	var woken, begun uint64
	wakers := at(t, got, "channel receive", "main.recv").Wakers
	for _, w := range wakers {
		woken += w.Count
	}
	for _, st := range got.Starts {
		begun += st.Created
	}
	if len(wakers) != graphlimits.Wakers || wakers[0].Function != "others" || woken != many {
		t.Errorf("%d wakers, %d wakes, first %+v; want %d, %d, others", len(wakers), woken, wakers[0], graphlimits.Wakers, many)
	}
	if len(got.Spans) != graphlimits.Spans || !slices.ContainsFunc(got.Notes, func(note string) bool { return strings.Contains(note, "regions") }) {
		t.Errorf("%d kinds of regions, notes %q", len(got.Spans), got.Notes)
	}
	if len(s.m.starts) > graphlimits.Starts || begun != many {
		t.Errorf("%d starts, %d goroutines; want %d at most, %d", len(got.Starts), begun, graphlimits.Starts, many)
	}
}

// Regions that are not ended are followed up to a number, until their goroutine ends; those outside of what is not
// followed have their times all the same.
func TestRegionsThatAreNotEnded(t *testing.T) {
	const many = 10
	s := newStream(t)
	s.m.o.MaxGoroutines = many
	for id := trace.GoID(1); id <= 2; id++ {
		s.change(0, none, id, trace.GoNotExist, trace.GoRunnable, "", stackOf("main.work"))
		s.change(0, none, id, trace.GoRunnable, trace.GoRunning, "", trace.NoStack)
	}
	s.region(1, 2, trace.EventRegionBegin, "outer")
	for range 3 * many {
		s.region(2, 1, trace.EventRegionBegin, "for ever")
	}
	s.region(3, 2, trace.EventRegionBegin, "inner")
	testenv.Equal(t, s.m.inside, many, "regions are followed")
	s.change(4, 1, 1, trace.GoRunning, trace.GoNotExist, "", trace.NoStack)
	s.region(5, 2, trace.EventRegionEnd, "inner")
	s.region(6, 2, trace.EventRegionEnd, "outer")
	got := s.m.snapshot()
	if s.m.inside != 0 || len(got.Spans) != 1 || got.Spans[0].Name != "outer" || got.Spans[0].Times.Sum != 5 {
		t.Errorf("%d regions are followed at the end; %+v; want outer, 5 ns", s.m.inside, got.Spans)
	}
	if !slices.ContainsFunc(got.Notes, func(note string) bool { return strings.Contains(note, "regions at a time") }) {
		t.Errorf("notes %q", got.Notes)
	}
}

// A goroutine that runs for longer than the Go runtime lets one run has lost its processor to the
// kernel; one that is preempted, or is of the runtime itself, has not.
func TestStalls(t *testing.T) {
	s := newStream(t)
	turn := func(id trace.GoID, at, d time.Duration, function string) time.Duration {
		s.change(at, none, id, trace.GoRunnable, trace.GoRunning, "", trace.NoStack)
		s.change(at+d, id, id, trace.GoRunning, trace.GoRunnable, "preempted", stackOf(function))
		return at + d
	}
	for id, function := range []string{"main.work", "runtime.gcBgMarkWorker"} {
		id := trace.GoID(id + 1)
		s.change(0, none, id, trace.GoNotExist, trace.GoRunnable, "", stackOf(function))
		at := time.Millisecond
		for range 10 {
			at = turn(id, at, 20*time.Millisecond, function)
		}
		at = turn(id, at, 50*time.Millisecond, function)
		turn(id, at, 70*time.Millisecond, function)
	}
	if got := s.m.snapshot().Stalled; got.Count != 2 || got.Sum != bgraph.Nanos(120*time.Millisecond) {
		t.Errorf("stalled %d times for %v; want 2 and 120 ms", got.Count, got.Sum)
	}
}

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
		{Node: at(t, got, "sleep", "main.work").Key, Wait: 20, Ready: 3, Step: 7, Count: 1},
		{Node: at(t, got, "task begins", "main.main").Key, Step: 11},
		{Node: start, Step: 10},
		{Node: at(t, got, "channel send", "main.send").Key, Ready: 4, Step: 6, Count: 1},
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
	if r.get(5) != nil || r.get(6) == nil || r.get(r.next) == nil {
		t.Errorf("of %d pieces, wrong ones are kept", r.next)
	}
}
