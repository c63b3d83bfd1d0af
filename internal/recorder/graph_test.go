package recorder_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/admit"
	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/recorder"
	"github.com/capriccio-go/capriccio/internal/sim/programs"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// observed runs main as a task of a runtime on a simulated clock, and returns what its
// graph has learned when all tasks have ended.
func observed(t *testing.T, loops int, cfg recorder.Config, main func(rt *engine.Runtime)) *bgraph.Snapshot {
	t.Helper()
	g := recorder.New(cfg)
	rt := start(t, loops, g)
	testenv.Must(t, rt.Run(context.Background(), func(context.Context) error { main(rt); return nil }))
	s := g.Snapshot()
	checkBalance(t, s)
	return s
}

func start(t *testing.T, loops int, g *recorder.Graph, change ...func(*engine.Config)) *engine.Runtime {
	t.Helper()
	return programs.Simulated(t, loops, 0, append([]func(*engine.Config){func(c *engine.Config) { c.Graph, c.OnPanic = g, nil }}, change...)...)
}

// onLoops runs that many tasks, on one loop after another, and returns when they have ended.
func onLoops(rt *engine.Runtime, tasks int, do func()) {
	var all []*engine.Task
	for i := range tasks {
		all = append(all, engine.GoOn(rt.Loop(i%rt.Loops()), do))
	}
	for _, k := range all {
		k.Join()
	}
}

// checkBalance checks what holds in every graph of a program that has ended: what comes
// in goes out.
func checkBalance(t *testing.T, s *bgraph.Snapshot) {
	t.Helper()
	in, out := map[bgraph.Key]uint64{}, map[bgraph.Key]uint64{}
	for _, e := range s.Edges {
		in[e.To] += e.Count
		out[e.From] += e.Count
		if s.Node(e.From) == nil || s.Node(e.To) == nil {
			t.Errorf("edge %v → %v has no nodes", e.From, e.To)
		}
	}
	for _, n := range s.Nodes {
		if n.Now != 0 {
			t.Errorf("%s: %d tasks are there, want none at the end", n.Name(), n.Now)
		}
		if s.Overflow.Edges > 0 {
			continue
		}
		if n.Key != bgraph.KeyStart && in[n.Key] != n.Arrivals {
			t.Errorf("%s: %d arrivals, but %d on its edges", n.Name(), n.Arrivals, in[n.Key])
		}
		if n.Key != bgraph.KeyEnd && out[n.Key] != n.Departures {
			t.Errorf("%s: %d departures, but %d on its edges", n.Name(), n.Departures, out[n.Key])
		}
		var loops uint64
		for _, l := range n.Loops {
			loops += l.Arrivals
		}
		if loops != n.Arrivals {
			t.Errorf("%s: %d arrivals, but %d by loop", n.Name(), n.Arrivals, loops)
		}
	}
	if s.ProcessCPU <= 0 || s.ProcessCPU > bgraph.Nanos(time.Hour) {
		t.Errorf("CPU of the process: %v", s.ProcessCPU)
	}
	if s.Overflow.Edges > 0 {
		return
	}
	var steps, loops uint64
	for i := range s.Edges {
		steps += s.Edges[i].Count
	}
	for _, l := range s.Loops {
		loops += l.Steps
	}
	testenv.Equal(t, steps, loops, "steps of all edges, and of all loops")
	if in[bgraph.KeyEnd] != out[bgraph.KeyStart] {
		t.Errorf("%d tasks began and %d ended", out[bgraph.KeyStart], in[bgraph.KeyEnd])
	}
}

// edges is the graph as counts by the names of the two nodes.
func edges(s *bgraph.Snapshot) map[string]uint64 {
	m := map[string]uint64{}
	for _, e := range s.Edges {
		m[s.NameOf(e.From)+" → "+s.NameOf(e.To)] += e.Count
	}
	return m
}

func wantEdges(t *testing.T, s *bgraph.Snapshot, want map[string]uint64) {
	t.Helper()
	got := edges(s)
	for name, n := range want {
		testenv.Equal(t, got[name], n, "%s: N times", name)
	}
	for name, n := range got {
		mains := strings.Contains(name, "_test.Test") || strings.Contains(name, "_test.onLoops")
		if _, ok := want[name]; !ok && !mains {
			t.Errorf("%s: %d times, want no such edge", name, n)
		}
	}
}

// nodes returns those that are called name, or whose name contains it.
func nodes(s *bgraph.Snapshot, part string) (found []*bgraph.Node) {
	for i := range s.Nodes {
		if s.Nodes[i].Name() == part {
			return []*bgraph.Node{&s.Nodes[i]}
		}
	}
	for i := range s.Nodes {
		if strings.Contains(s.Nodes[i].Name(), part) {
			found = append(found, &s.Nodes[i])
		}
	}
	return found
}

// one is the only such node.
func one(t *testing.T, s *bgraph.Snapshot, part string) *bgraph.Node {
	t.Helper()
	found := nodes(s, part)
	if len(found) != 1 {
		for i := range s.Nodes {
			t.Logf("node %s: %v", s.Nodes[i].Name(), s.Nodes[i].Stack)
		}
		t.Fatalf("%d nodes are called %q, want 1", len(found), part)
	}
	return found[0]
}

func TestCountsOfAKnownProgram(t *testing.T) {
	const tasks, rounds = 50, 20
	for _, loops := range []int{1, 2, 8} {
		for _, sampling := range []int{1, 20} {
			s := observed(t, loops, recorder.Config{Sampling: sampling}, func(rt *engine.Runtime) {
				onLoops(rt, tasks, func() {
					for range rounds {
						engine.YieldAt("in")
						engine.YieldAt("work")
						if engine.Sleep(time.Millisecond) != nil {
							return
						}
					}
					engine.YieldAt("out")
				})
			})
			sleep := one(t, s, "sleep").Name()
			wantEdges(t, s, map[string]uint64{
				"start → in":      tasks,
				"in → work":       tasks * rounds,
				"work → " + sleep: tasks * rounds,
				sleep + " → in":   tasks * (rounds - 1),
				sleep + " → out":  tasks,
				"out → end":       tasks,
			})
			if n := one(t, s, "in"); len(n.Loops) != loops {
				t.Errorf("%d loops: the node was met by %d; the same path on two loops is one node", loops, len(n.Loops))
			}
			if sampling == 1 {
				for _, e := range s.Edges {
					if e.CPU.Count != e.Count {
						t.Errorf("%s → %s: %d of %d steps timed, want all", s.NameOf(e.From), s.NameOf(e.To), e.CPU.Count, e.Count)
					}
				}
			}
		}
	}
}

func TestSamplingTimesOneInN(t *testing.T) {
	const waits = 100_000
	s := observed(t, 1, recorder.Config{Sampling: 50}, func(*engine.Runtime) {
		for range waits {
			engine.YieldAt("loop")
		}
	})
	n := one(t, s, "loop")
	testenv.Equal(t, n.Arrivals, waits, "arrivals: counts are exact")
	if timed := n.Ready.Count; timed < waits/50*8/10 || timed > waits/50*12/10+100 {
		t.Errorf("%d of %d waits were timed, want about one in 50", timed, waits)
	}
}

// spin keeps the loop busy for d at least, and returns for how long.
func spin(d time.Duration) (took time.Duration) {
	for begin := time.Now(); took < d; took = time.Since(begin) {
	}
	return took
}

func TestCPUOfProgrammedSteps(t *testing.T) {
	var spun, seen map[string]float64
	for range 50 { // the machine may take the processor away between spinning and waiting
		spun, seen = map[string]float64{}, map[string]float64{}
		s := observed(t, 1, recorder.Config{Sampling: 1}, func(*engine.Runtime) {
			for range 20 {
				engine.YieldAt("a")
				spun["ab"] += float64(spin(200 * time.Microsecond))
				engine.YieldAt("b")
				spun["ba"] += float64(spin(600 * time.Microsecond))
			}
			engine.YieldAt("a")
		})
		for i := range s.Edges {
			e := &s.Edges[i]
			seen[s.NameOf(e.From)+s.NameOf(e.To)] += float64(e.TotalCPU())
		}
		near := func(edge string) bool { return seen[edge] > 0.9*spun[edge] && seen[edge] < 1.1*spun[edge] }
		if near("ab") && near("ba") {
			return
		}
	}
	t.Errorf("in ns, the steps took %v, and the graph says %v", spun, seen)
}

func TestResourcesAlongEdges(t *testing.T) {
	res := testenv.Need(admit.NewResource("test tokens", ""))(t)
	const rounds = 100
	s := observed(t, 1, recorder.Config{}, func(*engine.Runtime) {
		for range rounds {
			engine.YieldAt("take")
			engine.Acquire(res, 3)
			engine.YieldAt("hold")
			engine.YieldAt("give")
			engine.Release(res, 2)
			engine.Progress(1)
		}
		engine.YieldAt("rest")
		engine.Release(res, rounds)
	})
	index := slices.IndexFunc(s.Resources, func(r bgraph.Resource) bool { return r.Name == res.Name() })
	for _, want := range []struct {
		from, to string
		sum      int64
	}{{"take", "hold", 3 * rounds}, {"hold", "give", 0}, {"give", "take", -2 * (rounds - 1)}, {"give", "rest", -2}, {"rest", "end", -rounds}} {
		found := false
		for _, e := range s.Edges {
			if s.NameOf(e.From) != want.from || s.NameOf(e.To) != want.to {
				continue
			}
			found = true
			var c bgraph.Change
			if index < len(e.Changes) {
				c = e.Changes[index]
			}
			testenv.Equal(t, c.Sum, want.sum, "%s → %s changes the resource by", want.from, want.to)
			if mean := float64(want.sum) / float64(e.Count); want.sum != 0 && (c.Recent.Mean < mean-0.1 || c.Recent.Mean > mean+0.1) {
				t.Errorf("%s → %s: recent mean %.2f, want %.2f", want.from, want.to, c.Recent.Mean, mean)
			}
		}
		if !found {
			t.Errorf("no edge %s → %s", want.from, want.to)
		}
	}
	if r := s.Resources[index]; r.InUse != 0 || r.Acquired != 3*rounds {
		t.Errorf("resource %+v; want %d taken and none in use", r, 3*rounds)
	}
}

// What was spawned while there was no limit on tasks is not taken for what the first step under a limit has spawned.
func TestTasksCountFromTheLimitOn(t *testing.T) {
	res := testenv.Need(admit.NewResource("test moves", ""))(t)
	defer engine.Tasks.SetLimit(engine.Tasks.Limit())
	s := observed(t, 1, recorder.Config{}, func(*engine.Runtime) {
		engine.Tasks.SetLimit(0)
		over := false
		for range 5 {
			engine.Go(func() {
				for !over {
					engine.YieldAt("other")
				}
			})
		}
		engine.YieldAt("no limit")
		engine.Tasks.SetLimit(1000)
		engine.Acquire(res, 1)
		engine.YieldAt("limit")
		engine.Go(func() {})
		engine.YieldAt("one more")
		over = true
	})
	index := slices.IndexFunc(s.Resources, func(r bgraph.Resource) bool { return r.Name == engine.Tasks.Name() })
	for _, e := range s.Edges {
		if s.NameOf(e.From) == "limit" && s.NameOf(e.To) == "one more" && (index >= len(e.Changes) || e.Changes[index].Sum != 1) {
			t.Errorf("changes %+v; want one task more", e.Changes)
		}
	}
}

func TestHeapOfASteppedAllocation(t *testing.T) {
	var sink []byte
	s := observed(t, 1, recorder.Config{Sampling: 1, HeapEvery: 1}, func(*engine.Runtime) {
		for range 200 {
			engine.YieldAt("small")
			engine.YieldAt("large")
			sink = make([]byte, 1<<20)
		}
	})
	_ = sink
	for i := range s.Edges {
		e := &s.Edges[i]
		mean := float64(e.Heap.Sum) / float64(max(e.Heap.Steps, 1))
		switch s.NameOf(e.From) + " " + s.NameOf(e.To) {
		case "large small":
			if mean < 1<<20 || mean > 1.2*(1<<20) {
				t.Errorf("a step that allocates 1 MiB seems to allocate %.0f bytes", mean)
			}
		case "small large":
			testenv.AtMost(t, mean, 64<<10, "bytes that a step seems to allocate that allocates nothing")
		}
	}
}

func TestWatchdogReportsAttachToTheEdge(t *testing.T) {
	g := recorder.New(recorder.Config{})
	rt := start(t, 1, g, func(c *engine.Config) { c.HoldLimit = 2 * time.Millisecond; c.Clock = nil })
	defer rt.Close()
	// Time taken by other processes does not count, and one report a second is made, which may be of
	// another edge where the machine stalls. So it may need some tries.
	for patience := time.Now().Add(time.Minute); time.Now().Before(patience); {
		k := rt.Go(func() {
			engine.YieldAt("begin")
			spin(30 * time.Millisecond)
			engine.YieldAt("too late")
		})
		testenv.Must(t, k.Join())
		s := g.Snapshot()
		for _, e := range s.Edges {
			if e.Overruns > 0 && s.NameOf(e.From) == "begin" && s.NameOf(e.To) == "too late" {
				for _, o := range s.Overruns {
					if o.From == e.From && strings.Contains(o.Stack, "TestWatchdogReports") {
						return
					}
				}
			}
		}
	}
	t.Errorf("the edge got no report of the watchdog with its stack: %+v", g.Snapshot().Overruns)
}

func TestOneGraphForTwoRuntimes(t *testing.T) {
	g := recorder.New(recorder.Config{})
	for range 2 {
		rt := start(t, 3, g)
		onLoops(rt, 3, func() { engine.YieldAt("here") })
		rt.Close()
	}
	s := g.Snapshot()
	testenv.Check(t, s.Validate())
	if n := one(t, s, "here"); n.Arrivals != 6 || len(n.Loops) != 6 || len(s.Loops) != 6 {
		t.Errorf("%d arrivals on %d of %d loops; want 6 on 6 of 6", n.Arrivals, len(n.Loops), len(s.Loops))
	}
}

func TestGoexitAndPanicEndATask(t *testing.T) {
	g := recorder.New(recorder.Config{})
	rt := start(t, 1, g, func(c *engine.Config) { c.OnPanic = func(*engine.PanicError) {} })
	for range 100 {
		k := rt.Go(func() {
			engine.YieldAt("then")
			panic("so it is")
		})
		var p *engine.PanicError
		if err := k.Join(); !errors.As(err, &p) {
			t.Fatal(err)
		}
	}
	rt.Close()
	s := g.Snapshot()
	checkBalance(t, s)
	wantEdges(t, s, map[string]uint64{"start → then": 100, "then → end": 100})
}

// TestLoopsAtRest: it shows which loops get new tasks.
func TestLoopsAtRest(t *testing.T) {
	g := recorder.New(recorder.Config{})
	start(t, 0, g, func(c *engine.Config) { c.Spare, c.Procs = 3, func() int { return 2 } })
	var rest []bool
	for _, l := range g.Snapshot().Loops {
		rest = append(rest, l.Rests)
	}
	testenv.EqualSlices(t, rest, []bool{false, false, true, true, true}, "loops rest")
}
