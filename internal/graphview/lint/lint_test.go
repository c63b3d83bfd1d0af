package lint

import (
	"fmt"
	"math/rand"
	"strings"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/buckets"
	"github.com/capriccio-go/capriccio/internal/graphcases"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/internal/words"
)

// A lintCase is a change to the healthy graph and what it should lead to.
type lintCase struct {
	name   string
	change func(sc scene)
	want   string // severity and check; "" for nothing
	node   bgraph.Key
	says   []string // in the message
}

func (c lintCase) run(t *testing.T) {
	t.Run(c.name, func(t *testing.T) {
		sc := healthy()
		c.change(sc)
		sc.order()
		found := Find(sc.Snapshot)
		if c.want == "" {
			for _, f := range found {
				t.Errorf("found %+v", f)
			}
			return
		}
		if len(found) != 1 || found[0].Severity+" "+found[0].Check != c.want || found[0].Node != c.node {
			t.Fatalf("found %+v; want %s at %v and nothing else", found, c.want, c.node)
		}
		for _, text := range c.says {
			testenv.Contains(t, found[0].Message, text, "the message")
		}
		if found[0].Advice == "" || found[0].Name == "" {
			t.Errorf("without advice or name: %+v", found[0])
		}
	})
}

func TestLintRefusals(t *testing.T) {
	refused := func(n uint64) func(scene) {
		return func(sc scene) {
			sc.Sched = &bgraph.Sched{Policy: "resource", Admitted: 10_000 - n, Refused: n, Refusals: []bgraph.SchedRefusal{
				{Why: "waited too long", Count: 1}, {Why: "no room inside", Count: n - 1},
			}}
		}
	}
	for _, c := range []lintCase{
		{name: "many", change: refused(3_844), want: "warning refused", says: []string{"3,844 of 10,000", "no room inside for 3,843; waited too long for 1"}},
		{name: "few", change: refused(2), want: "info refused", says: []string{"2 of 10,000"}},
		{name: "none", change: func(sc scene) { sc.Sched = &bgraph.Sched{Policy: "resource", Admitted: 10_000} }},
	} {
		c.run(t)
	}
}

func TestLintPingPong(t *testing.T) {
	const job = 3_600_000 // those that come to kWorker in the hour of the scene: 1,000 a second
	wakes := func(counts ...uint64) func(scene) {
		return func(sc scene) {
			sc.Crossings[0].Count, sc.Crossings[1].Count = counts[0], counts[1]
		}
	}
	warning := "warning ping-pong"
	for _, c := range []lintCase{
		{name: "faulty", change: wakes(job, 3*job+job/2), want: warning, node: kRead, says: []string{
			"those at channel receive shop.at6", "to and fro 1,000 times a second", "ends 35.0% of the waits", "100% there"}},
		{name: "at one place", want: warning, node: kWorker, says: []string{"others here", "to and fro 1,000 times"}, change: func(sc scene) {
			sc.Crossings = []bgraph.Crossing{
				{From: kWorker, To: kWorker, FromLoop: 0, ToLoop: 1, Count: job}, {From: kWorker, To: kWorker, FromLoop: 1, ToLoop: 0, Count: job}}
		}},
		{name: "few", change: wakes(job/2, 6*job)},
		{name: "a small share", change: wakes(job, 2*job)},
		{name: "one way", change: wakes(job, 0)},
		{name: "much to do in between", change: func(sc scene) {
			wakes(job, 4*job)(sc)
			sc.step(kWorker, kWorker).CPU = timesOf(job, 200*time.Microsecond)
		}},
		{name: "with goroutines", change: func(sc scene) {
			wakes(job, 4*job)(sc)
			sc.Crossings[0].FromLoop, sc.Crossings[1].FromLoop = -1, -1
		}},
	} {
		c.run(t)
	}
}

func TestLintSteps(t *testing.T) {
	ms := time.Millisecond
	report := func(from, to bgraph.Key, loop int, held time.Duration) bgraph.Overrun {
		return bgraph.Overrun{From: from, To: to, Task: "request #7", Loop: loop, At: sceneBegan.Add(59 * time.Minute), Held: bgraph.Nanos(held), Stack: "main.compute(...)\n\tmain.go:9\n"}
	}
	for _, c := range []lintCase{
		{"mean", func(sc scene) { sc.step(kRead, kLock).CPU = timesOf(100_000, 25*ms) },
			"error long-step", kRead, []string{"24.1ms on average", "longest took 200ms", "100,000"}},
		{"mean below the limit", func(sc scene) { sc.step(kRead, kLock).CPU = timesOf(100_000, ms) }, "", 0, nil},
		{"tail", func(sc scene) {
			e := sc.step(kRead, kWrite)
			e.CPU.Hist[buckets.Of(bgraph.Nanos(20*ms))] += e.CPU.Count / 20
			e.CPU.Max = bgraph.Nanos(30 * ms)
		}, "warning long-step", kRead, []string{"in a hundred"}},
		{"tail, of few that were timed", func(sc scene) {
			e := sc.step(kRead, kWrite)
			e.CPU = bgraph.Times{Hist: make([]uint64, buckets.Count)}
			for i := range 120 {
				e.CPU.Add(bgraph.Nanos(100*time.Microsecond + bgraph.Nanos(i/118).Duration()*20*ms))
			}
		}, "", 0, nil},
		{"tail, while the kernel took processors", func(sc scene) {
			e := sc.step(kRead, kWrite)
			e.CPU.Hist[buckets.Of(bgraph.Nanos(20*ms))] += e.CPU.Count / 20
			e.CPU.Max = bgraph.Nanos(30 * ms)
			sc.ProcessCPU = bgraph.Nanos(0.9 * words.TotalCPU(sc.Snapshot))
		}, "info long-step", kRead, []string{"in a hundred", "the kernel took the processor from them"}},
		{"longest only", func(sc scene) { sc.step(kRead, kWrite).CPU.Max = bgraph.Nanos(80 * ms) },
			"info long-step", kRead, []string{"80ms once"}},
		{"one step, never again", func(sc scene) {
			sc.step(bgraph.KeyStart, kMain).CPU = bgraph.Times{Count: 1, Sum: bgraph.Nanos(80 * ms), Max: bgraph.Nanos(80 * ms)}
		},
			"info long-step", bgraph.KeyStart, []string{"80ms once"}},
		{"reported by the watchdog", func(sc scene) {
			sc.step(kWorker, kWorker).Overruns = 400
			sc.Overruns = []bgraph.Overrun{report(kWorker, kWorker, 0, 15*ms), report(kWorker, kWorker, 1, 40*ms)}
		}, "warning long-step", kWorker, []string{"found 400 of 3.60M steps too long", "longest took 40ms"}},
		{"not over yet", func(sc scene) { sc.Overruns = []bgraph.Overrun{report(kRead, bgraph.KeyStart, 0, 2*time.Second)} },
			"error long-step", kRead, []string{"request #7", "loop 0", "2s at 15:59:00", "for 1m2s"}},
		{"over", func(sc scene) {
			sc.step(kRead, kRead).Overruns = 1
			sc.Overruns = []bgraph.Overrun{report(kRead, bgraph.KeyStart, 0, 2*time.Second), report(kRead, kRead, 0, 3*time.Second)}
		}, "warning long-step", kRead, []string{"found 1 of", "3s"}},
	} {
		c.run(t)
	}
}

func TestLongStepShowsTheStackAtItsEnd(t *testing.T) {
	sc := healthy()
	sc.step(kRead, kLock).CPU = timesOf(100_000, 25*time.Millisecond)
	f := Find(sc.Snapshot)[0]
	if want := fmt.Sprintf("example.org/shop.at4(...)\n\tshop.go:%d\n", kLock); !strings.Contains(f.Stack, want) || f.To != kLock {
		t.Errorf("stack of %v is %q, want %q in it", f.To, f.Stack, want)
	}
	sc.Overruns = []bgraph.Overrun{{From: kRead, To: kLock, Held: 1, Stack: "short"}, {From: kRead, To: kLock, Held: 3, Stack: "longest"}, {From: kRead, To: kRead, Held: 9, Stack: "other"}}
	if f = Find(sc.Snapshot)[0]; f.Stack != "longest" {
		t.Errorf("stack %q, want that of the longest report", f.Stack)
	}
}

// Of the steps that begin with a lock held, those of one in two thousand are not told.
func TestRareHoldersAreLeftOut(t *testing.T) {
	sc := healthy()
	n := sc.at(kLock)
	n.Arrivals, n.Departures, n.Now = 3_600_050, 3_600_000, 50
	n.Wait = timesOf(n.Departures, 50*time.Millisecond)
	sc.edge(kLock, kTick, 20, time.Microsecond)
	sc.order()
	for _, f := range Find(sc.Snapshot) {
		if f.Check == CheckConvoy && (!strings.Contains(f.Message, "run to write shop.at5") || strings.Contains(f.Message, "run to sleep")) {
			t.Error(f.Message)
		}
	}
}

func TestLintLocks(t *testing.T) {
	us := time.Microsecond
	for _, c := range []lintCase{
		{"convoy", func(sc scene) { // 1,000 a second wait for 50 ms each: 50 at a time
			n := sc.at(kLock)
			n.Arrivals, n.Departures, n.Now = 3_600_050, 3_600_000, 50
			n.Wait = timesOf(n.Departures, 50*time.Millisecond)
		}, "warning convoy", kLock, []string{"tasks queue here on average", "now 50", "run to write shop.at5 for", "wait there for"}},
		{"held for long, short queue", func(sc scene) { sc.at(kLock).Wait = timesOf(100_000, 50*time.Millisecond) }, "", 0, nil},
		{"many wait, but as long as they run", func(sc scene) {
			n := sc.at(kLock)
			n.Arrivals, n.Departures, n.Now = 3_600_050, 3_600_000, 50
			n.Wait = timesOf(n.Departures, 8*time.Millisecond)
			sc.step(kLock, kWrite).CPU = timesOf(100_000, 900*us)
		}, "", 0, nil},
		{"busy semaphore", func(sc scene) {
			n := sc.at(kSlots)
			n.Arrivals, n.Departures, n.Now = 3_600_200, 3_600_000, 200
			n.Wait = timesOf(n.Departures, 200*time.Millisecond)
			sc.edge(kSlots, kRead, 3_600_000, 5*us)
		}, "info convoy", kSlots, []string{"now 200"}},
		{"woken for nothing", func(sc scene) {
			sc.node(200, "cond", 3_600_000, 40, 10*time.Millisecond, 30*us)
			sc.edge(200, 200, 3_000_000, us)
			sc.edge(200, kWrite, 600_000, us)
		}, "warning convoy", 200, []string{"Of 3.60M wake-ups 3.00M (83.3%)", "833 times a second"}},
		{"woken to work", func(sc scene) {
			sc.node(200, "cond", 3_600_000, 40, 10*time.Millisecond, 30*us)
			sc.edge(200, 200, 600_000, us)
			sc.edge(200, kWrite, 3_000_000, us)
		}, "", 0, nil},
	} {
		c.run(t)
	}
}

func TestConvoyNamesTheWaitUnderTheLock(t *testing.T) {
	sc := healthy()
	n := sc.at(kLock)
	n.Arrivals, n.Departures, n.Now = 3_600_050, 3_600_000, 50
	n.Wait = timesOf(n.Departures, 50*time.Millisecond)
	f := Find(sc.Snapshot)[0]
	if !strings.Contains(f.Advice, "held while the task waits") {
		t.Errorf("advice %q does not speak of the wait of 80 ms that follows", f.Advice)
	}
	*sc.at(kWrite) = bgraph.Node{Key: kWrite, Reason: "write", Departures: 1}
	if f = Find(sc.Snapshot)[0]; strings.Contains(f.Advice, "held while the task waits") {
		t.Errorf("advice %q speaks of a wait that there is not", f.Advice)
	}
}

func TestLintPiles(t *testing.T) {
	pile := func(k bgraph.Key, now int64) func(sc scene) {
		return func(sc scene) {
			n := sc.at(k)
			n.Now, n.Arrivals = now, n.Departures+uint64(now)
		}
	}
	for _, c := range []lintCase{
		{"senders", pile(kSend, 5000), "warning pile-up", kSend, []string{"5,000 tasks wait here", "27.8 a second", "994µs on average"}},
		{"few senders", pile(kSend, 99), "", 0, nil},
		{"as many as rate and time explain", func(sc scene) { // 555 a second for 1 s each
			pile(kOffload, 800)(sc)
			n := sc.at(kOffload)
			n.Wait = timesOf(n.Departures, time.Second)
		}, "", 0, nil},
		{"none leaves", func(sc scene) { sc.node(201, "disk", 150, 150, 0, 0) }, "warning pile-up", 201, []string{"150 tasks", "none has left"}},
		{"idle connections", pile(kRead, 100_000), "", 0, nil},
		{"idle workers", pile(kWorker, 100_000), "", 0, nil},
		{"growing", func(sc scene) {
			sc.diff()
			n := sc.at(kOffload)
			n.Arrivals, n.Departures, n.Now = 34_000, 30_000, 4100
		}, "warning pile-up", kOffload, []string{"In 1m0s 34,000 tasks came and 30,000 left: 4,000 more than before, now 4,100."}},
		{"more clients", func(sc scene) {
			sc.diff()
			n := sc.at(kRead)
			n.Arrivals, n.Departures, n.Now = 34_000, 30_000, 5000
		}, "info pile-up", kRead, []string{"4,000 more"}},
		{"more clients, and the clock was set back meanwhile", func(sc scene) {
			sc.diff()
			sc.Taken = sceneBegan.Add(-time.Hour)
			n := sc.at(kRead)
			n.Arrivals, n.Departures, n.Now = 34_000, 30_000, 5000
		}, "info pile-up", kRead, []string{"4,000 more"}},
		{"idle connections, and the clock was set forward", func(sc scene) {
			sc.Taken = sc.Taken.Add(time.Hour)
			pile(kRead, 100_000)(sc)
		}, "", 0, nil},
		{"growing a little", func(sc scene) {
			sc.diff()
			n := sc.at(kOffload)
			n.Arrivals, n.Departures, n.Now = 30_300, 30_000, 320
			n.Wait = timesOf(n.Departures, time.Second)
		}, "", 0, nil},
	} {
		c.run(t)
	}
}

func TestLintStuck(t *testing.T) {
	wait := func(k bgraph.Key, oldest time.Duration) func(sc scene) {
		return func(sc scene) { sc.at(k).Oldest = bgraph.Nanos(oldest) }
	}
	for _, c := range []lintCase{
		{"mutex", wait(kLock, 11*time.Minute), "warning stuck", kLock, []string{"Of the 2 tasks", "11m0s", "the 99,998 that left"}},
		{"mutex, not so long", wait(kLock, 9*time.Minute), "", 0, nil},
		{"send", wait(kSend, time.Hour), "warning stuck", kSend, []string{"A task has waited here for 1h0m0s"}},
		{"worker", wait(kWorker, 20*time.Minute), "info stuck", kWorker, []string{"20m0s", "on average"}},
		{"offload that is often long", func(sc scene) {
			sc.at(kOffload).Wait = timesOf(2_000_000, 10*time.Second)
			wait(kOffload, 15*time.Minute)(sc)
		}, "", 0, nil},
		{"sleep", wait(kTick, 50*time.Minute), "", 0, nil},
		{"accept", wait(kAccept, 50*time.Minute), "", 0, nil},
		{"workers that nobody wakes", func(sc scene) {
			sc.node(202, "cond", 50, 50, 0, 0)
			sc.at(202).Oldest = bgraph.Nanos(time.Hour)
		}, "info stuck", 202, []string{"Of the 50 tasks", "none has left in 1h0m0s"}},
		{"one worker that nobody wakes", func(sc scene) {
			sc.node(202, "channel receive", 1, 1, 0, 0)
			sc.at(202).Oldest = bgraph.Nanos(time.Hour)
		}, "", 0, nil},
		{"most of a short time", func(sc scene) {
			sc.Span, sc.Taken = bgraph.Nanos(3*time.Minute), sceneBegan.Add(3*time.Minute)
			wait(kSlots, 170*time.Second)(sc)
		}, "warning stuck", kSlots, []string{"2m50s"}},
		{"all of a very short time", func(sc scene) {
			sc.Span, sc.Taken = bgraph.Nanos(8*time.Second), sceneBegan.Add(8*time.Second)
			for i := range sc.Nodes {
				sc.Nodes[i].Oldest = min(sc.Nodes[i].Oldest, sc.Span)
			}
			wait(kSend, 8*time.Second)(sc)
		}, "", 0, nil},
	} {
		c.run(t)
	}
}

// TestLintDeadlock: a lock that is waited for while nothing else goes on.
func TestLintDeadlock(t *testing.T) {
	still := func(sc scene) {
		for i := range sc.Nodes {
			n := &sc.Nodes[i]
			switch n.Reason {
			case "join", "accept", "channel receive":
			case "offload":
				if n.Key == kOffload {
					n.Now = 0
				}
			case "mutex":
				n.Oldest = bgraph.Nanos(3 * time.Second)
			default:
				n.Now = 0
			}
		}
	}
	but := func(change func(sc scene)) func(sc scene) {
		return func(sc scene) { still(sc); change(sc) }
	}
	for _, c := range []lintCase{
		{"all at rest", still, "error stuck", kLock, []string{"a deadlock: 2 of the tasks", "one for 3s"}},
		{"not for long", but(func(sc scene) { sc.at(kLock).Oldest = bgraph.Nanos(time.Second) }), "", 0, nil},
		{"no lock", but(func(sc scene) { sc.at(kLock).Now = 0 }), "", 0, nil},
		{"a client is being read from", but(func(sc scene) { sc.at(kRead).Now = 1 }), "", 0, nil},
		{"a task sleeps", but(func(sc scene) { sc.at(kTick).Now = 1 }), "", 0, nil},
		{"a function is offloaded", but(func(sc scene) { sc.at(kOffload).Now = 1 }), "", 0, nil},
	} {
		c.run(t)
	}
}

func TestLintReadyQueues(t *testing.T) {
	for _, c := range []lintCase{
		{"saturated", func(sc scene) {
			for i := range sc.Nodes {
				if n := &sc.Nodes[i]; n.Key != bgraph.KeyEnd {
					n.Ready = timesOf(n.Departures, 40*time.Millisecond)
				}
			}
		}, "warning saturated", 0, []string{"for 38.6ms", "The 2 loops ran tasks for", "The longest wait, 320ms, was at"}},
		{"rarely late", func(sc scene) {
			n := sc.at(kLock)
			n.Ready = timesOf(n.Departures, 40*time.Millisecond)
		}, "", 0, nil},
		{"passed over", func(sc scene) {
			sc.at(kLock).Ready.Max = bgraph.Nanos(2 * time.Second)
			sc.Sched = &bgraph.Sched{Nodes: []bgraph.SchedNode{{Key: kRead, Held: "no"}, {Key: kLock, Held: "memory at limit"}}}
		}, "warning starvation", kLock, []string{"for 2s before it ran", "memory at limit"}},
		{"late, but not by much", func(sc scene) { sc.at(kLock).Ready.Max = bgraph.Nanos(900 * time.Millisecond) }, "", 0, nil},
	} {
		c.run(t)
	}
}

// TestLongStepExplainsTheWaitBehindIt: tasks that waited for a long step to end were
// not passed over.
func TestLongStepExplainsTheWaitBehindIt(t *testing.T) {
	sc := healthy()
	sc.at(kLock).Ready.Max = bgraph.Nanos(2 * time.Second)
	sc.step(kRead, kRead).CPU.Max = bgraph.Nanos(1900 * time.Millisecond)
	for _, f := range Find(sc.Snapshot) {
		testenv.Equal(t, f.Check, CheckLongStep, "found %+v", f)
	}
}

func TestLintProgram(t *testing.T) {
	for _, c := range []lintCase{
		{"one loop does most, which is little", func(sc scene) { sc.Loops[1].Steps = 20_000_000 }, "", 0, nil},
		{"one loop does most", func(sc scene) { busy(sc); sc.Loops[1].Steps = 20_000_000 },
			"warning unbalanced", 0, []string{"Loop 0 made 61.0M of 81.0M steps (75.3%)", "20.0M on average"}},
		{"two loops have all to do, as others rest", busyBesideResting, "", 0, nil},
		{"one loop does most, which took long as the kernel took processors", func(sc scene) {
			busy(sc)
			sc.Loops[1].Steps, sc.ProcessCPU = 20_000_000, bgraph.Nanos(words.TotalCPU(sc.Snapshot)/10)
		}, "", 0, nil},
		{"not twice as much", func(sc scene) { sc.Loops[1].Steps = 31_000_000 }, "", 0, nil},
		{"too few to tell", func(sc scene) { sc.Loops[0].Steps, sc.Loops[1].Steps = 9000, 10 }, "", 0, nil},
		{"only one loop", func(sc scene) { sc.Loops = sc.Loops[:1] }, "", 0, nil},
		{"full of nodes", func(sc scene) { sc.Overflow.Nodes = 12345 },
			"warning overflow", 0, []string{"12,345 of", "limit 4,096"}},
		{"full of edges", func(sc scene) { sc.Overflow.Edges = 7 }, "warning overflow", 0, []string{"7 of", "limit 16,384"}},
		{"nothing happened", func(sc scene) {
			sc.diff()
			for i := range sc.Nodes {
				n := &sc.Nodes[i]
				n.Arrivals, n.Departures, n.Wait, n.Ready = 0, 0, bgraph.Times{}, bgraph.Times{}
			}
			sc.Edges = nil
		}, "info few-samples", 0, []string{"No task has run in 1m0s"}},
		{"few samples", func(sc scene) {
			for i := range sc.Nodes {
				sc.Nodes[i].Wait, sc.Nodes[i].Ready = bgraph.Times{}, bgraph.Times{}
			}
			for i := range sc.Edges {
				sc.Edges[i].CPU = bgraph.Times{}
			}
			sc.Edges[3].CPU = bgraph.Times{Count: 99}
		}, "info few-samples", 0, []string{"Only 99 of", "1 in 20"}},
		{"few steps", func(sc scene) {
			for i := range sc.Edges {
				sc.Edges[i].Count, sc.Edges[i].CPU = 0, bgraph.Times{}
			}
			sc.Edges[3].Count, sc.Edges[3].CPU = 22, graphcases.TimesOfMean(22, 1000)
		}, "info few-samples", 0, []string{"Tasks ran only 22 times in 1h0m0s, each"}},
		{"next to nothing of a trace", func(sc scene) {
			sc.Sampling = 1
			sc.Edges = sc.Edges[3:4]
			sc.Edges[0].Count, sc.Edges[0].CPU = 1, graphcases.TimesOfMean(1, 1000)
		}, "info few-samples", 0, []string{"ran only 1 time in"}},
	} {
		c.run(t)
	}
}

func TestLintIsOrderedAndBounded(t *testing.T) {
	sc := healthy()
	for i := range 50 {
		k := bgraph.Key(1000 + i)
		sc.node(k, "mutex", 1_000_000, 1, time.Microsecond, time.Microsecond)
		sc.at(k).Label = fmt.Sprintf("step %c", 'a'+byte(i)%26)
		sc.edge(kRead, k, uint64(1000*(i+1)), 20*time.Millisecond)
	}
	sc.Overflow.Nodes = 1
	sc.step(kRead, kWrite).CPU.Max = bgraph.Nanos(30 * time.Millisecond)
	sc.order()
	found := Find(sc.Snapshot)
	steps := 0
	for i, f := range found {
		if f.Check == CheckLongStep {
			steps++
			if sc.step(f.Node, f.To).Count <= 30_000 {
				t.Errorf("%s was kept; more costly ones were not", f.Name)
			}
		}
		if i == 0 {
			continue
		}
		a, b := found[i-1], f
		if ra, rb := severityRank[a.Severity], severityRank[b.Severity]; ra > rb || ra == rb && a.Name > b.Name {
			t.Errorf("%s %s before %s %s", a.Severity, a.Name, b.Severity, b.Name)
		}
	}
	testenv.Equal(t, steps, 20, "findings of one check")
	three, patient := usual, usual
	three.perCheck, patient.step = 3, time.Minute
	testenv.Equal(t, len(findWith(sc.Snapshot, three)), 4, "findings with 3 of a check")
	testenv.Equal(t, len(findWith(sc.Snapshot, patient)), 1, "findings with a step limit of a minute")
}

// TestLintSurvivesAnything: a dump may come from anywhere.
func TestLintSurvivesAnything(t *testing.T) {
	for _, s := range []*bgraph.Snapshot{{}, {Nodes: []bgraph.Node{{Key: kRead}}}, {Edges: []bgraph.Edge{{From: 9, To: 8, Overruns: 1}}}} {
		Find(s)
	}
	const seed = 7
	r := rand.New(rand.NewSource(seed))
	for range 300 {
		sc := healthy()
		for i := range sc.Nodes {
			n := &sc.Nodes[i]
			n.Now, n.Oldest = r.Int63()-r.Int63(), bgraph.Nanos(r.Int63()-r.Int63())
			n.Wait.Max, n.Ready.Sum, n.Ready.Count = bgraph.Nanos(r.Int63()), bgraph.Nanos(r.Int63()), r.Uint64()
			n.Arrivals = r.Uint64()
		}
		for i := range sc.Edges {
			e := &sc.Edges[i]
			e.Count, e.To = r.Uint64(), sc.Nodes[r.Intn(len(sc.Nodes))].Key
			e.Changes = append(e.Changes, bgraph.Change{Steps: 1, Sum: r.Int63(), Recent: bgraph.Moments{Mean: r.NormFloat64()}})
		}
		sc.Span = bgraph.Nanos(r.Int63() - r.Int63())
		sc.Resources[0].Acquired, sc.Resources[1].Released = r.Uint64(), r.Uint64()
		for _, f := range Find(sc.Snapshot) {
			if f.Message == "" || strings.Contains(f.Message, "%!") {
				t.Errorf("message %q", f.Message)
			}
		}
	}
}
