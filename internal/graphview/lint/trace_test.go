package lint

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/graphcases"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/internal/words"
)

// mixedTimes repeats two durations, each a number of times, until there are a thousand.
func mixedTimes(often int, d time.Duration, rarely int, long time.Duration) bgraph.Times {
	var t bgraph.Times
	for t.Count < 1000 {
		for range often {
			t.Add(bgraph.Nanos(d))
		}
		for range rarely {
			t.Add(bgraph.Nanos(long))
		}
	}
	return t
}

// heldFor lets one goroutine wait for a lock for that long, while another sleeps.
func heldFor(s *bgraph.Snapshot, d time.Duration) {
	s.Nodes[0].Reason, s.Nodes[0].Now, s.Nodes[0].Oldest = "mutex", 1, bgraph.Nanos(d)
	s.Nodes = append(s.Nodes, bgraph.Node{Key: 101, Reason: "sleep", Now: 1})
}

// What is near a fault of a trace is none.
func TestHealthyTraces(t *testing.T) {
	for what, change := range map[string]func(s *bgraph.Snapshot){
		"three long steps, of which the kernel may have taken most": func(s *bgraph.Snapshot) {
			var cpu bgraph.Times
			for range 3 {
				cpu.Add(bgraph.Nanos(12 * time.Millisecond))
			}
			s.Edges = append(s.Edges, bgraph.Edge{From: 100, To: 101, Count: 3, CPU: cpu})
		},
		"two long ones of two hundred": func(s *bgraph.Snapshot) {
			var cpu bgraph.Times
			for range 198 {
				cpu.Add(bgraph.Nanos(50 * time.Microsecond))
			}
			cpu.Add(bgraph.Nanos(20 * time.Millisecond))
			cpu.Add(bgraph.Nanos(20 * time.Millisecond))
			s.Edges = append(s.Edges, bgraph.Edge{From: 100, To: 101, Count: 200, CPU: cpu})
		},
		"short steps that stay":         func(s *bgraph.Snapshot) { s.Edges[0].CPU = s.Starts[0].Life },
		"short steps the network wakes": func(s *bgraph.Snapshot) { s.Edges[0].CPU, s.Edges[0].Parts.Moves = s.Starts[0].Life, 900 },
		"goroutines of net/http that wake each other": func(s *bgraph.Snapshot) {
			s.Nodes[0].Stack, s.Nodes[0].Wakers = []bgraph.Frame{{Function: "net/http.(*connReader).backgroundRead"}}, []bgraph.Waker{{Function: "net/http.(*connReader).abortPendingRead", Count: 1000}}
			s.Edges[0].Parts.Moves, s.Edges[0].CPU = 900, s.Starts[0].Life
		},
		"a lock all wait for alike": func(s *bgraph.Snapshot) {
			s.Nodes[0].Reason, s.Nodes[0].Wait = "mutex", mixedTimes(1, time.Millisecond, 1, 2*time.Millisecond)
		},
		"a read that takes long at times": func(s *bgraph.Snapshot) { s.Nodes[0].Wait = mixedTimes(50, 5*time.Microsecond, 1, 30*time.Millisecond) },
		"an old wait for a lock, of which a list has told": func(s *bgraph.Snapshot) {
			heldFor(s, 9*time.Minute)
		},
		"a goroutine of net/http for each request": func(s *bgraph.Snapshot) {
			st := &s.Starts[0]
			st.Function, st.Created, st.Ended = "net/http.(*connReader).backgroundRead", 20_000, 20_000
		},
		"goroutines that end, one of which has just begun": func(s *bgraph.Snapshot) {
			s.Starts[0].Created, s.Starts[0].Ended, s.Starts[0].Now, s.Starts[0].CPU = 1_001, 1_000, 1, 19e8
		},
		"a few goroutines that stay": func(s *bgraph.Snapshot) { s.Starts[0].Created, s.Starts[0].Ended, s.Starts[0].Now = 50, 0, 5000 },
	} {
		if found := Find(graphcases.Traced(change)); len(found) > 0 {
			t.Errorf("%s: %+v", what, found)
		}
	}
}

// Each check of traces has one graph in which it finds something, and a healthy one.
func TestLintTraces(t *testing.T) {
	for check, change := range map[string]func(s *bgraph.Snapshot){
		"":               func(*bgraph.Snapshot) {},
		CheckSystemCalls: func(s *bgraph.Snapshot) { s.Edges[0].Parts.Calls, s.Edges[0].Parts.System = 40_000, 200e6 },
		CheckAssist:      func(s *bgraph.Snapshot) { s.Edges[0].Parts.Assist = 10e6 },
		CheckStopped:     func(s *bgraph.Snapshot) { s.Stopped.Add(bgraph.Nanos(20 * time.Millisecond)) },
		CheckChurn:       func(s *bgraph.Snapshot) { s.Starts[0].Created, s.Starts[0].Ended = 20_000, 20_000 },
		CheckPingPong: func(s *bgraph.Snapshot) {
			s.Nodes[0].Wakers = []bgraph.Waker{{Function: "main.send", Line: 7, Count: 1000}}
			s.Edges[0].Parts.Moves, s.Edges[0].CPU = 900, s.Starts[0].Life
		},
		CheckUnfair: func(s *bgraph.Snapshot) {
			s.Nodes[0].Reason = "mutex"
			s.Nodes[0].Wait = mixedTimes(50, 5*time.Microsecond, 1, 30*time.Millisecond)
		},
		CheckBusy: func(s *bgraph.Snapshot) { // in a function that the trace does not name
			s.Starts[0] = bgraph.Start{Now: 2, CPU: 19e8}
			s.Nodes[0].Stack = []bgraph.Frame{{Function: "main.read"}}
		},
		CheckThreads: func(s *bgraph.Snapshot) {
			n := &s.Nodes[0]
			n.Reason, n.Label, n.Now, n.Stack = "system call", "", 20, []bgraph.Frame{{Function: "syscall.Nanosleep"}, {Function: "main.slowCall", File: "main.go", Line: 12}}
			n.Wait = mixedTimes(1, 19*time.Millisecond, 1, 21*time.Millisecond)
		},
		CheckGrowing: func(s *bgraph.Snapshot) { s.Starts[0].Ended, s.Starts[0].Now = 10, 990 },
		CheckLeaked:  func(s *bgraph.Snapshot) { s.Starts[0].Now, s.Starts[0].Leaked = 5, 3 },
		CheckFewSamples: func(s *bgraph.Snapshot) {
			e := &s.Edges[0]
			e.Count, e.CPU = 2, bgraph.Times{}
			e.CPU.Add(1)
			e.CPU.Add(1)
		},
		CheckStuck: func(s *bgraph.Snapshot) { // for longer than the trace: a list of goroutines has told
			heldFor(s, 11*time.Minute)
		},
	} {
		found := Find(graphcases.Traced(change))
		switch {
		case check == "" && len(found) > 0:
			t.Errorf("healthy, but %+v", found)
		case check != "" && (len(found) != 1 || found[0].Check != check || found[0].Message == "" || found[0].Advice == ""):
			t.Errorf("%s: found %+v", check, found)
		}
	}
}

// What a healthy server under little load has, too, is but a remark.
func TestLittleOfItIsARemark(t *testing.T) {
	for check, change := range map[string]func(s *bgraph.Snapshot, much uint64){
		CheckStopped: func(s *bgraph.Snapshot, much uint64) {
			for range much {
				s.Stopped.Add(bgraph.Nanos(30 * time.Millisecond))
			}
		},
		CheckOverflow: func(s *bgraph.Snapshot, much uint64) { s.Overflow.Nodes = 30 * much },
		CheckAssist:   func(s *bgraph.Snapshot, much uint64) { s.Edges[0].Parts.Assist = bgraph.Nanos(5e6 * much) },
		CheckPingPong: func(s *bgraph.Snapshot, much uint64) {
			s.Nodes[0].Wakers = []bgraph.Waker{{Function: "main.send", Line: 7, Count: 1000}}
			e := &s.Edges[0]
			e.CPU = s.Starts[0].Life
			e.Count, e.Parts.Moves = e.Count*4*much, 6000*much
			e.CPU.Count = e.Count
		},
	} {
		for much, severity := range map[uint64]string{1: SeverityInfo, 4: SeverityWarning} {
			found := Find(graphcases.Traced(func(s *bgraph.Snapshot) { change(s, much) }))
			if len(found) != 1 || found[0].Check != check || found[0].Severity != severity {
				t.Errorf("%s, %d times as much: want %s, got %+v", check, much, severity, found)
			}
		}
	}
}

// Nor is one long stop, alone or among many that are short, as on a machine that is short of processors.
func TestOneLongStopIsARemark(t *testing.T) {
	for d := 20 * time.Millisecond; d < 100*time.Millisecond; d += 5 * time.Millisecond {
		found := Find(graphcases.Traced(func(s *bgraph.Snapshot) {
			s.Stopped = bgraph.Times{}
			s.Stopped.Add(bgraph.Nanos(d))
		}))
		if len(found) != 1 || found[0].Severity != SeverityInfo {
			t.Errorf("%v alone: got %+v", d, found)
		}
	}
	for often, severity := range map[int]string{2: SeverityInfo, 3: SeverityWarning} {
		found := Find(graphcases.Traced(func(s *bgraph.Snapshot) {
			for i := range 60 {
				s.Stopped.Add(bgraph.Nanos(2 * time.Millisecond))
				if i < often {
					s.Stopped.Add(bgraph.Nanos(12 * time.Millisecond))
				}
			}
		}))
		if len(found) != 1 || found[0].Check != CheckStopped || found[0].Severity != severity {
			t.Errorf("%d long ones: want %s, got %+v", often, severity, found)
		}
	}
}

// Findings of a trace speak of goroutines, and give no advice that only tasks can follow.
func TestLintWordsOfTraces(t *testing.T) {
	sc := sick()
	sc.Kind = bgraph.KindGoroutines
	for _, f := range Find(sc.Snapshot) {
		for _, word := range []string{"task.Yield", "task.Offload", "capriccio.", "ressched.", "{", "}", " tasks ", " loops "} {
			if f.Check != CheckLeak && f.Check != CheckUnbalanced && hasWord(f.Message+f.Advice, word) {
				t.Errorf("%s says %q: %s %s", f.Check, word, f.Message, f.Advice)
			}
		}
	}
}

func hasWord(text, word string) bool {
	for i := 0; i+len(word) <= len(text); i++ {
		if text[i:i+len(word)] == word {
			return true
		}
	}
	return false
}

// A step that leads back to a condition variable has done something if it called the system, or was woken by itself.
func TestWokenForNothingInTraces(t *testing.T) {
	for _, test := range []struct {
		calls, together uint64 // of 1,000 steps
		want            int
	}{{0, 900, 1}, {100, 900, 1}, {900, 900, 0}, {0, 0, 0}, {0, 400, 0}} {
		found := Find(graphcases.Traced(func(s *bgraph.Snapshot) {
			n := &s.Nodes[0]
			n.Reason, n.Peak, n.Wait, n.Together = "cond", 8, s.Edges[0].CPU, test.together
			s.Edges[0].Parts.Calls = test.calls
		}))
		if len(found) != test.want || test.want > 0 && found[0].Check != CheckConvoy {
			t.Errorf("%+v: %+v", test, found)
		}
	}
}

// If the kernel took the processors away, what takes long is no fault of the program's; that it did is
// said at the top.
func TestLintOfAStalledProgram(t *testing.T) {
	slow := func(s *bgraph.Snapshot) {
		s.Edges[0].Parts.Assist = 20e6
		s.Stopped.Add(bgraph.Nanos(200 * time.Millisecond))
	}
	for stalls, severity := range map[int]string{0: SeverityWarning, 1: SeverityInfo} {
		s := graphcases.Traced(slow)
		for range stalls {
			s.Stalled.Add(bgraph.Nanos(300 * time.Millisecond))
		}
		found := Find(s)
		if stalls > 0 && found[0].Check != CheckStalled {
			t.Errorf("stalled %d times, but first there is %+v", stalls, found[0])
		}
		told := 0
		for _, f := range found {
			if f.Check == CheckStalled {
				told++
			} else if f.Severity != severity {
				t.Errorf("stalled %d times: %+v", stalls, f)
			}
		}
		head := strings.Join(words.Head(s), "\n")
		if told != stalls || len(found) != 2+stalls || strings.Contains(head, "300ms of the CPU time may be the kernel's: 1 time a") != (stalls > 0) {
			t.Errorf("stalled %d times: %+v\n%.500s", stalls, found, head)
		}
	}
}

// A list of leaked goroutines that is younger than the trace may have more of them than the trace.
func TestLeakedAreNeverMoreThanThereAre(t *testing.T) {
	s := &bgraph.Snapshot{Kind: bgraph.KindGoroutines, Span: 1e9, Starts: []bgraph.Start{{Function: "main.work", Now: 6033, Leaked: 6038}}}
	for _, f := range Find(s) {
		if f.Check == CheckLeaked {
			testenv.Contains(t, f.Message, "6,038 of the 6,038 goroutines", "leaked")
			return
		}
	}
	t.Error("not found")
}

// TestStallsDoNotHideTheCause: on a machine that takes processors away, what that does not explain stays a warning, before the words
// about the machine.
func TestStallsDoNotHideTheCause(t *testing.T) {
	frame := func(function string) bgraph.Frame {
		return bgraph.Frame{Function: function, File: "main.go", Line: 7}
	}
	waiting := func(s *bgraph.Snapshot, reason string, callee string) *bgraph.Node {
		n := &s.Nodes[0]
		n.Label, n.Reason, n.Stack = "", reason, []bgraph.Frame{frame(callee), frame("main.take")}
		n.Arrivals, n.Departures, n.Peak, n.Wait = 1000, 1000, 20, mixedTimes(1, 15*time.Millisecond, 1, 15*time.Millisecond)
		return n
	}
	for _, c := range []struct {
		name, check, severity string
		change                func(s *bgraph.Snapshot)
	}{
		{"a condition variable for all", CheckConvoy, SeverityWarning, func(s *bgraph.Snapshot) {
			waiting(s, "cond", "sync.(*Cond).Wait").Together, s.Edges[0].Parts.Calls = 900, 0
		}},
		{"a pool of connections", CheckConvoy, SeverityWarning, func(s *bgraph.Snapshot) { waiting(s, "pool", "database/sql.(*DB).conn") }},
		{"much helping", CheckAssist, SeverityWarning, func(s *bgraph.Snapshot) {
			s.Edges[0].CPU.Sum, s.Edges[0].Parts.Assist = 800e6, 500e6
		}},
		{"helping that the stall explains", CheckAssist, SeverityInfo, func(s *bgraph.Snapshot) {
			s.Edges[0].CPU.Sum, s.Edges[0].Parts.Assist = 800e6, 300e6
		}},
		{"helping that thirty stalls do not explain", CheckAssist, SeverityWarning, func(s *bgraph.Snapshot) {
			s.Edges[0].CPU.Sum, s.Edges[0].Parts.Assist = 2_000e6, 500e6
			for range 29 {
				s.Stalled.Add(bgraph.Nanos(20 * time.Millisecond))
			}
		}},
		{"helping for what net/http allocates", CheckAssist, SeverityInfo, func(s *bgraph.Snapshot) {
			s.Edges[0].CPU.Sum, s.Edges[0].Parts.Assist = 800e6, 500e6
			s.Assists = []bgraph.Waker{{Function: "net/http.ReadResponse", File: "net/http/response.go", Line: 156, Count: 90}, {Function: "main.f", File: "main.go", Line: 7, Count: 10}}
		}},
	} {
		found := Find(graphcases.Traced(func(s *bgraph.Snapshot) {
			s.Stalled.Add(bgraph.Nanos(300 * time.Millisecond))
			c.change(s)
		}))
		at := slices.IndexFunc(found, func(f Finding) bool { return f.Check == c.check })
		if at < 0 || found[at].Severity != c.severity || c.severity == SeverityWarning && at > 0 || strings.Contains(found[at].Name, "http.") {
			t.Errorf("%s: %+v", c.name, found)
		}
	}
}

// TestHolderOfALock: the function that waits with a lock is named, though another one, which has the lock for a moment, ends most waits.
// It waits twice each time, for 450 µs.
func TestHolderOfALock(t *testing.T) {
	for _, reason := range []string{"mutex", "rwmutex read"} {
		found := Find(graphcases.Traced(func(s *bgraph.Snapshot) {
			at := func(line int, functions ...string) (stack []bgraph.Frame) {
				for _, f := range functions {
					stack = append(stack, bgraph.Frame{Function: f, File: "main.go", Line: line})
				}
				return stack
			}
			s.Nodes = []bgraph.Node{
				{Key: 100, Reason: reason, Stack: at(30, "sync.(*Mutex).Lock", "main.(*cache).get", "main.handle"), Arrivals: 1000, Departures: 1000, Wait: mixedTimes(1, 10*time.Millisecond, 1, 12*time.Millisecond),
					Wakers: []bgraph.Waker{{Function: "main.(*cache).get", File: "main.go", Line: 32, Count: 900}, {Function: "main.(*cache).save", File: "main.go", Line: 22, Count: 100}}},
				{Key: 101, Reason: "sleep", Stack: at(20, "time.Sleep", "main.(*cache).save"), Arrivals: 2000, Departures: 2000, Wait: mixedTimes(1000, 450*time.Microsecond, 1000, 450*time.Microsecond)},
			}
			s.Edges[0].To = 101
		}))
		if len(found) == 0 || found[0].Check != CheckConvoy || !strings.HasPrefix(found[0].Message, "main.(*cache).save (main.go:20) holds the") || !strings.Contains(found[0].Message, "for 900µs each time") || found[0].At != "main.go:20" {
			t.Errorf("%s: %+v", reason, found)
		}
	}
}
