package gotrace

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/graphview/lint"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"golang.org/x/exp/trace"
)

// A script is a trace that tests write goroutine by goroutine, and that is read in the order of time.
type script struct {
	t      *testing.T
	events []trace.Event
	o      Options
	list   string // of goroutines, as net/http/pprof gives it; "": none
}

// A turn is what a goroutine of a script does: it runs, waits, and is ready.
type turn struct {
	reason, function string // of the wait; several functions, innermost first
	run, wait, ready time.Duration
	by               trace.GoID // what wakes it
	calls            int        // short system calls, which take half of run
	moves            bool       // to another P each time
	wakes            string     // the functions that wake it; "": main.wake
	replies          bool       // ends a response of net/http when it has run
}

func (s *script) change(at time.Duration, p trace.ProcID, by, g trace.GoID, from, to trace.GoState, reason string, functions ...string) {
	st := trace.MakeGoStateTransition(g, from, to)
	st.Reason, st.Stack = reason, stackOf(functions...)
	e, err := trace.MakeEvent(trace.EventConfig[trace.StateTransition]{
		Time: trace.Time(at), Kind: trace.EventStateTransition, Goroutine: by, Proc: p, Stack: st.Stack, Details: st})
	testenv.Must(s.t, err)
	s.events = append(s.events, e)
}

// phase is a time of the collector, or one in which the world is stopped.
func (s *script) phase(at, span time.Duration, g trace.GoID, name string) {
	for i, kind := range []trace.EventKind{trace.EventRangeBegin, trace.EventRangeEnd} {
		r := trace.Range{Name: name, Scope: trace.MakeResourceID(g)}
		e := testenv.Need(trace.MakeEvent(trace.EventConfig[trace.Range]{Time: trace.Time(at + time.Duration(i)*span), Kind: kind, Goroutine: g, Proc: 0, Details: r}))(s.t)
		s.events = append(s.events, e)
	}
}

// goes lets goroutine g, which runs from a moment on, take turns, and returns when they are over. The
// last wait is left out if it stays there.
func (s *script) goes(g trace.GoID, at time.Duration, times int, stays bool, turns ...turn) time.Duration {
	p := trace.ProcID(0)
	s.change(at, p, none, g, trace.GoUndetermined, trace.GoRunning, "", "main.start")
	for i := range times {
		for j, u := range turns {
			for range u.calls {
				each := u.run / 2 / time.Duration(u.calls)
				s.change(at, p, g, g, trace.GoRunning, trace.GoSyscall, "", "main.call", "main.start")
				at += each
				s.change(at, p, g, g, trace.GoSyscall, trace.GoRunning, "")
				at += each
			}
			for left := u.run; u.calls == 0 && left > 0; left -= 10 * ms {
				if at += min(left, 10*ms); left > 10*ms { // as the Go runtime does
					s.change(at, p, g, g, trace.GoRunning, trace.GoRunnable, "preempted", append(strings.Fields(u.function), "main.start")...)
					s.change(at, p, none, g, trace.GoRunnable, trace.GoRunning, "")
				}
			}
			if u.replies {
				s.change(at, p, g, g, trace.GoRunning, trace.GoSyscall, "", replyFunction, "net/http.(*conn).serve", "main.start")
				s.change(at, p, g, g, trace.GoSyscall, trace.GoRunning, "")
			}
			s.change(at, p, g, g, trace.GoRunning, trace.GoWaiting, u.reason, append(strings.Fields(u.function), "main.start")...)
			if stays && i == times-1 && j == len(turns)-1 {
				return at
			}
			at += u.wait
			if u.by != none {
				s.change(at, p, u.by, g, trace.GoWaiting, trace.GoRunnable, "", strings.Fields(cmp.Or(u.wakes, "main.wake"))...)
			} else {
				s.change(at, p, none, g, trace.GoWaiting, trace.GoRunnable, "")
			}
			if at += u.ready; u.moves {
				p = 1 - p
			}
			s.change(at, p, none, g, trace.GoRunnable, trace.GoRunning, "")
		}
	}
	return at
}

func (s *script) lint() []lint.Finding {
	slices.SortStableFunc(s.events, func(a, b trace.Event) int { return cmp.Compare(a.Time(), b.Time()) })
	m := newModel(s.o.withDefaults())
	first := sync0(0)
	m.event(&first)
	for i := range s.events {
		m.event(&s.events[i])
	}
	snap := m.snapshot()
	testenv.Must(s.t, snap.Validate())
	if s.list != "" {
		testenv.Must(s.t, AddAges(snap, strings.NewReader(s.list)))
	}
	return lint.Find(snap)
}

const (
	µs = time.Microsecond
	ms = time.Millisecond
)

// either is one of two values.
func either[T any](first bool, a, b T) T {
	if first {
		return a
	}
	return b
}

// begins lets goroutine g, which began with a function, run for 20 ms at a time, less what it waits for in the function that another calls.
func (s *script) begins(g trace.GoID, start string, times int, callee, function string, wait time.Duration) {
	at, p := time.Duration(0), trace.ProcID(1)
	s.change(at, p, none, g, trace.GoUndetermined, trace.GoRunning, "", start)
	for range times {
		at += max(20*ms-wait, 10*µs)
		s.change(at, p, g, g, trace.GoRunning, trace.GoWaiting, either(callee == "", "chan receive", "sleep"), append(strings.Fields(callee), function, start)...)
		at += wait
		s.change(at, p, none, g, trace.GoWaiting, trace.GoRunnable, "")
		s.change(at, p, none, g, trace.GoRunnable, trace.GoRunning, "")
	}
}

// together lets n goroutines take the same turns.
func (s *script) together(n, times int, stays bool, turns ...turn) {
	for i := range n {
		s.goes(trace.GoID(i+1), time.Duration(i)*µs, times, stays, turns...)
	}
}

var busy = turn{reason: "sleep", function: "time.Sleep", run: 10 * µs, wait: ms, ready: µs, by: none}

// lintTraces has for each check a trace in which it finds something, if written faulty.
var lintTraces = []struct {
	check, severity, place string
	write                  func(s *script, faulty bool)
}{
	{lint.CheckConvoy, "warning", "mutex main.get", func(s *script, faulty bool) {
		s.together(8, 30, false, turn{reason: "sync", function: "sync.(*Mutex).Lock main.get", run: either(faulty, 100*µs, 10*ms), wait: either(faulty, 10*ms, 100*µs), by: 2})
	}},
	{lint.CheckConvoy, "warning", "pool main.query", func(s *script, faulty bool) {
		s.together(8, 30, false, turn{reason: "select", function: "database/sql.(*DB).conn main.query", run: 100 * µs, wait: either(faulty, 10*ms, 100*µs), by: 2})
	}},
	{lint.CheckConvoy, "warning", "cond main.get", func(s *script, faulty bool) {
		wait := turn{reason: "sync.(*Cond).Wait", function: "sync.(*Cond).Wait main.get", run: 5 * µs, wait: ms, by: 2, wakes: "sync.(*Cond).Broadcast main.wake"}
		s.together(8, 30, false, either(faulty, []turn{wait}, []turn{wait, busy})...)
	}},
	{lint.CheckConvoy, "warning", "main.update (main.update.go:7) holds", func(s *script, faulty bool) { // by a function of its own
		for i := range 8 {
			s.goes(trace.GoID(i+1), time.Duration(i)*2*ms, 30, false,
				turn{reason: "sync", function: "sync.(*Mutex).Lock main.lock main.update", run: 10 * µs, wait: either(faulty, 14*ms, 100*µs), by: 2, wakes: "sync.(*Mutex).Unlock main.unlock main.update"},
				turn{reason: "sleep", function: "time.Sleep main.update", run: 10 * µs, wait: 2 * ms, by: none})
		}
	}},
	{lint.CheckConvoy, "warning", "rwmutex read main.read", func(s *script, faulty bool) { // a reader keeps a writer waiting, and that the others
		s.together(8, 30, false, turn{reason: "sync", function: "sync.(*RWMutex).RLock main.read", run: 10 * µs, wait: either(faulty, 10*ms, 100*µs), by: 20, wakes: "sync.(*RWMutex).Unlock main.write"})
		s.goes(20, 0, 30, false, turn{reason: "sync", function: "sync.(*RWMutex).Lock main.write", run: 10 * µs, wait: either(faulty, 10*ms, 100*µs), by: 21, wakes: "sync.(*RWMutex).RUnlock main.report"})
		s.goes(21, 0, 30, false, turn{reason: "sleep", function: "time.Sleep main.report", run: 10 * µs, wait: 10 * ms, by: none})
	}},
	{lint.CheckQueue, "warning", "channel send main.give", func(s *script, faulty bool) { // to one that is always busy, or not
		s.together(8, 30, false, turn{reason: "chan send", function: "main.give", run: 10 * µs, wait: 8 * ms, by: 20, wakes: "main.serve"})
		s.begins(20, "main.serve", 12, "", "main.serve", either(faulty, ms, 19*ms))
	}},
	{lint.CheckQueue, "warning", "channel send main.limited", func(s *script, faulty bool) { // as a semaphore
		s.together(12, 30, false,
			turn{reason: "chan send", function: "main.limited", run: 10 * µs, wait: either(faulty, 50*ms, 2*ms), by: 2, wakes: "main.limited"},
			turn{reason: "sleep", function: "time.Sleep main.limited", run: 10 * µs, wait: 10 * ms, by: none})
	}},
	{lint.CheckQueue, "warning", "select main.ask", streamQueue("net/http.(*http2ClientConn).")},
	{lint.CheckQueue, "warning", "select main.ask", streamQueue("net/http/internal/http2.(*ClientConn).")},
	{lint.CheckRepeated, "warning", "read main.load", func(s *script, faulty bool) {
		read := turn{reason: "network", function: "internal/poll.(*FD).Read net/http.read main.load main.handle net/http.serverHandler.ServeHTTP", run: 10 * µs, wait: ms, by: none}
		turns := slices.Repeat([]turn{read}, either(faulty, 20, 2))
		s.goes(1, 0, 40, false, append(turns, turn{reason: "network", function: "internal/poll.(*FD).Read net/http.(*conn).serve", run: 10 * µs, wait: ms, by: none, replies: true})...)
	}},
	{lint.CheckDependency, "warning", "read main.ads", func(s *script, faulty bool) {
		call := func(what string, takes time.Duration) turn {
			return turn{reason: "network", function: "internal/poll.(*FD).Read net/http.read main." + what + " main.handle net/http.serverHandler.ServeHTTP", run: 10 * µs, wait: takes, by: none}
		}
		s.goes(1, 0, 40, false, call("ads", either(faulty, 60*ms, 6*ms)), call("stock", 3*ms),
			turn{reason: "network", function: "internal/poll.(*FD).Read net/http.(*conn).serve", run: 10 * µs, wait: ms, by: none, replies: true})
	}},
	{lint.CheckBusy, "warning", "goroutines of main.spin", func(s *script, faulty bool) {
		s.goes(1, 0, 300, false, busy)
		s.goes(2, 0, 1, true, turn{reason: "network", function: "internal/poll.(*FD).Accept main.serve"})
		s.begins(3, "main.spin", 10, "time.Sleep", "main.spin", either(faulty, ms, 200*ms))
	}},
	{lint.CheckTimers, "warning", "sleep main.look", func(s *script, faulty bool) {
		s.together(either(faulty, 200, 20), 50, true, turn{reason: "sleep", function: "time.Sleep main.look", run: µs, wait: ms, by: none})
	}},
	{lint.CheckLongStep, "error", "sleep main.compute", func(s *script, faulty bool) {
		s.goes(1, 0, 6, false, turn{reason: "sleep", function: "time.Sleep main.compute", run: 200 * ms, wait: 10 * ms, by: none})
		s.goes(2, 0, 50, false, turn{reason: "sleep", function: "main.serve", run: 10 * µs, wait: ms, ready: either(faulty, 20*ms, 10*µs), by: none})
	}},
	{lint.CheckLongStep, "error", "sleep main.compute", func(s *script, faulty bool) { // or not for long in all
		end := s.goes(1, 0, 6, false, turn{reason: "sleep", function: "time.Sleep main.compute", run: either(faulty, 200*ms, 12*ms), wait: 10 * ms, by: none})
		s.goes(2, 0, 50, true, turn{reason: "sleep", function: "main.serve", run: 10 * µs, wait: 5 * ms, ready: 20 * ms, by: none})
		s.change(end, 0, 1, 1, trace.GoRunning, trace.GoNotExist, "")
	}},
	{lint.CheckLongStep, "error", "running main.start", func(s *script, faulty bool) { // it never waits
		s.change(0, 1, none, 1, trace.GoUndetermined, trace.GoRunning, "", "main.start")
		s.goes(2, 0, 50, false, turn{reason: "sleep", function: "main.serve", run: 10 * µs, wait: ms, ready: either(faulty, 20*ms, 10*µs), by: none})
	}},
	{lint.CheckPileUp, "warning", "channel send main.give", func(s *script, faulty bool) {
		s.together(120, 5, false, turn{reason: "chan send", function: "main.give", run: 10 * µs, wait: either(faulty, 200*ms, 20*ms), by: 2})
	}},
	{lint.CheckPileUp, "warning", "channel send main.give", func(s *script, faulty bool) {
		s.together(either(faulty, 120, 50), 1, true, turn{reason: "chan send", function: "main.give", run: 10 * µs})
		s.goes(500, 0, 300, false, busy)
	}},
	{lint.CheckStuck, "warning", "mutex main.get", func(s *script, faulty bool) { // while others work
		s.together(4, 1, faulty, turn{reason: "sync", function: "sync.(*Mutex).Lock main.get", wait: ms, by: 5})
		s.goes(5, 0, 3000, true, busy)
	}},
	{lint.CheckStuck, "error", "mutex main.get", func(s *script, faulty bool) { // and nothing else goes on
		s.together(2, 1, true, turn{reason: "sync", function: "sync.(*Mutex).Lock main.get"})
		s.goes(5, 0, 1, true, turn{reason: "network", function: "internal/poll.(*FD).Accept main.serve"})
		if !faulty {
			s.goes(6, 0, 1, true, busy)
		}
		s.phase(3*time.Second, µs, 5, "stop-the-world (read mem stats)") // the trace goes on until then
	}},
	{lint.CheckStuck, "error", "mutex main.get", func(s *script, faulty bool) {
		s.together(2, 1, true, turn{reason: "sync", function: "sync.(*Mutex).Lock main.get"})
		if !faulty { // one computes
			s.change(0, 1, none, 6, trace.GoUndetermined, trace.GoRunning, "", "main.compute")
		}
		s.phase(3*time.Second, µs, 5, "stop-the-world (read mem stats)")
	}},
	{lint.CheckSaturated, "warning", "the program", func(s *script, faulty bool) {
		s.together(4, 50, false, turn{reason: "sleep", function: "main.serve", run: 10 * µs, wait: ms, ready: either(faulty, 20*ms, ms), by: none})
	}},
	{lint.CheckStarvation, "warning", "sleep main.late", func(s *script, faulty bool) {
		s.goes(1, 0, 1, false, turn{reason: "sleep", function: "main.late", run: 10 * µs, wait: ms, ready: either(faulty, 2*time.Second, 500*ms), by: none})
		s.goes(2, 0, 2000, false, busy)
	}},
	{lint.CheckSystemCalls, "warning", "sleep main.start → sleep main.start", func(s *script, faulty bool) {
		s.goes(1, 0, 100, false, turn{reason: "sleep", function: "time.Sleep", run: ms, wait: ms, by: none, calls: either(faulty, 20, 2)})
	}},
	{lint.CheckAssist, "warning", "the program", func(s *script, faulty bool) {
		s.goes(1, 0, 100, false, turn{reason: "sleep", function: "time.Sleep", run: ms, wait: ms, by: none})
		s.phase(2*ms, either(faulty, 40*ms, 4*ms), 1, "GC mark assist")
	}},
	{lint.CheckStopped, "warning", "the program", func(s *script, faulty bool) {
		s.goes(1, 0, 100, false, busy)
		for i := range time.Duration(3) {
			s.phase((2+30*i)*ms, either(faulty, 20*ms, ms), 1, "stop-the-world (GC mark termination)")
		}
	}},
	{lint.CheckChurn, "info", "goroutines of main.work", func(s *script, faulty bool) {
		s.goes(1, 0, 20, false, busy)
		for i := range trace.GoID(500) {
			at := time.Duration(i) * 40 * µs
			s.change(at, 0, 1, 100+i, trace.GoNotExist, trace.GoRunnable, "", "main.work")
			s.change(at, 0, none, 100+i, trace.GoRunnable, trace.GoRunning, "")
			s.change(at+either(faulty, 20*µs, ms), 0, 100+i, 100+i, trace.GoRunning, trace.GoNotExist, "")
		}
	}},
	{lint.CheckPingPong, "warning", "channel receive main.take → channel receive main.take", func(s *script, faulty bool) {
		s.goes(1, 0, 200, false, turn{reason: "chan receive", function: "main.take", run: 10 * µs, wait: 10 * µs, by: 2, moves: faulty})
		s.goes(2, 0, 2, false, busy)
	}},
	{lint.CheckPingPong, "info", "channel receive main.take → channel receive main.take", func(s *script, faulty bool) {
		s.goes(1, 0, 200, false, turn{reason: "chan receive", function: "main.take", run: either(faulty, µs, 10*µs), wait: µs, by: 2})
		s.goes(2, 0, 1, false, turn{reason: "sleep", function: "main.start", run: 400 * µs, by: none})
	}},
	{lint.CheckUnfair, "warning", "mutex main.get", func(s *script, faulty bool) {
		short := turn{reason: "sync", function: "sync.(*Mutex).Lock main.get", run: 10 * µs, wait: 5 * µs, by: 2}
		long := short
		long.wait = either(faulty, 30*ms, 3*ms)
		turns := slices.Repeat([]turn{short}, 50)
		s.goes(1, 0, 4, false, append(turns, long)...)
	}},
	{lint.CheckGrowing, "warning", "goroutines of main.work", func(s *script, faulty bool) {
		s.goes(1, 0, 200, false, busy)
		for i := range trace.GoID(150) {
			at := time.Duration(i) * ms
			s.change(at, 0, 1, 100+i, trace.GoNotExist, trace.GoRunnable, "", "main.work")
			s.change(at, 0, none, 100+i, trace.GoRunnable, trace.GoRunning, "")
			s.change(at+ms, 0, 100+i, 100+i, trace.GoRunning, either(faulty, trace.GoWaiting, trace.GoNotExist), "chan receive", "main.work")
		}
	}},
	{lint.CheckLeaked, "error", "goroutines of main.start", func(s *script, faulty bool) {
		s.goes(1, 0, 200, false, busy)
		s.goes(2, 0, 1, true, turn{reason: "chan receive", function: "main.take"})
		s.list = "goroutine 2 [chan receive" + either(faulty, " (leaked)", "") + ", 2 minutes]:\nmain.take()\n\tmain.take.go:7 +0x1\nmain.start()\n\tmain.start.go:7 +0x1\n"
	}},
	{lint.CheckFewSamples, "info", "the program", func(s *script, faulty bool) {
		s.goes(1, 0, either(faulty, 3, 200), false, busy)
	}},
	{lint.CheckOverflow, "warning", "the program", func(s *script, faulty bool) {
		s.o.MaxNodes = either(faulty, 10, 100)
		for i := range 20 {
			s.goes(trace.GoID(i+1), 0, 10, false, turn{reason: "select", function: fmt.Sprint("main.f", i), run: 10 * µs, wait: ms, by: none})
		}
	}},
}

// streamQueue is of one HTTP/2 connection, which has methods of these names.
func streamQueue(conn string) func(*script, bool) {
	return func(s *script, faulty bool) {
		s.together(8, 30, false, turn{reason: "select", function: conn + "roundTrip main.ask", run: 10 * µs, wait: 10 * ms, by: 20, wakes: "net/http.read"})
		s.goes(20, 0, either(faulty, 300, 30), false, turn{reason: "sync.(*Cond).Wait", function: "sync.(*Cond).Wait " + conn + "awaitOpenSlotForStreamLocked", run: either(faulty, 10*µs, 10*ms), wait: ms, by: 21})
	}
}

// Each check finds what is wrong in one trace, and nothing in another one like it.
func TestLintOfTraces(t *testing.T) {
	for _, c := range lintTraces {
		for _, faulty := range []bool{true, false} {
			s := &script{t: t}
			c.write(s, faulty)
			all := s.lint()
			found := slices.IndexFunc(all, func(f lint.Finding) bool {
				return f.Check == c.check && f.Severity == c.severity && strings.Contains(f.Name+" "+f.Message, c.place)
			})
			wrong := slices.IndexFunc(all, func(f lint.Finding) bool {
				return f.Severity != lint.SeverityInfo || f.Check == c.check && c.severity == lint.SeverityInfo
			})
			if faulty && found < 0 || !faulty && wrong >= 0 {
				t.Errorf("%s at %s, faulty %v: found %+v", c.check, c.place, faulty, all)
			}
		}
	}
}

// TestTheTracerIsNotBlamed: that the world stops when the trace begins and ends is no doing of the program's; other stops are.
func TestTheTracerIsNotBlamed(t *testing.T) {
	for name, want := range map[string]bool{"stop-the-world (start trace)": false, "stop-the-world (stop trace)": false, "stop-the-world (read mem stats)": true} {
		s := &script{t: t}
		s.goes(1, 0, 300, false, turn{reason: "sleep", function: "time.Sleep main.tick", run: µs, wait: ms})
		for i := range time.Duration(4) {
			s.phase(i*60*ms, 30*ms, 1, name)
		}
		stopped := slices.ContainsFunc(s.lint(), func(f lint.Finding) bool { return f.Check == lint.CheckStopped })
		testenv.Equal(t, stopped, want, "%s: a finding about the stopped world", name)
	}
}
