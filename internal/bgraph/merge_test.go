package bgraph

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/graphlimits"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// equalButForRounding compares snapshots; moments may differ in the last digits.
func equalButForRounding(a, b *Snapshot) bool {
	a, b = a.Clone(), b.Clone()
	if len(a.Edges) != len(b.Edges) {
		return false
	}
	near := func(a, b *Moments) bool {
		ok := func(x, y float64) bool { return math.Abs(x-y) <= 1e-9*(math.Abs(x)+math.Abs(y)) }
		good := ok(a.Mean, b.Mean) && ok(a.Variance, b.Variance)
		*a, *b = Moments{}, Moments{}
		return good
	}
	for i := range a.Edges {
		e, f := &a.Edges[i], &b.Edges[i]
		if !near(&e.Recent, &f.Recent) || !near(&e.Heap.Recent, &f.Heap.Recent) || len(e.Changes) != len(f.Changes) {
			return false
		}
		for j := range e.Changes {
			if !near(&e.Changes[j].Recent, &f.Changes[j].Recent) {
				return false
			}
		}
	}
	return reflect.DeepEqual(a, b)
}

// renumber changes the loops of s from i to number[i].
func renumber(s *Snapshot, number []int) {
	for i := range s.Loops {
		s.Loops[i].Index = number[s.Loops[i].Index]
	}
	slices.SortFunc(s.Loops, func(a, b LoopStat) int { return a.Index - b.Index })
	for i := range s.Nodes {
		loops := s.Nodes[i].Loops
		for j := range loops {
			loops[j].Loop = number[loops[j].Loop]
		}
		slices.SortFunc(loops, func(a, b NodeLoop) int { return a.Loop - b.Loop })
	}
	for i := range s.Crossings {
		c := &s.Crossings[i]
		if c.ToLoop = number[c.ToLoop]; c.FromLoop >= 0 {
			c.FromLoop = number[c.FromLoop]
		}
	}
	slices.SortFunc(s.Crossings, compareCrossings)
	for i := range s.Overruns {
		s.Overruns[i].Loop = number[s.Overruns[i].Loop]
	}
	if s.Sched != nil {
		for i := range s.Sched.Nodes {
			s.Sched.Nodes[i].Loop = number[s.Sched.Nodes[i].Loop]
		}
		slices.SortFunc(s.Sched.Nodes, compareRanked)
	}
}

func mustMerge(t *testing.T, all ...*Snapshot) *Snapshot {
	t.Helper()
	m := testenv.Need(Merge(all...))(t)
	testenv.Must(t, m.Validate())
	return m
}

// The order of the arguments only numbers the loops, and what was merged can be merged with more.
func TestMergeInAnyOrderAndInSteps(t *testing.T) {
	r := seeded(t, 7)
	for i := range testenv.Rounds(25, 100) {
		a, b, c := randomSnapshot(r, i%20, i), randomSnapshot(r, i%20, i), randomSnapshot(r, i%20, i)
		keepA, keepB := a.Clone(), b.Clone()
		ab, ba := mustMerge(t, a, b), mustMerge(t, b, a)
		if !reflect.DeepEqual(a, keepA) || !reflect.DeepEqual(b, keepB) {
			t.Fatalf("round %d: Merge changed its arguments", i)
		}
		all, steps := mustMerge(t, a, b, c), mustMerge(t, ab, c)
		if !equalButForRounding(all, steps) {
			t.Fatalf("round %d: at once\n%+v\nin steps\n%+v", i, all, steps)
		}
		number := make([]int, len(a.Loops)+len(b.Loops))
		for j := range number {
			number[j] = (j + len(a.Loops)) % len(number)
		}
		renumber(ba, number)
		if !equalButForRounding(ab, ba) {
			t.Fatalf("round %d: one way\n%+v\nthe other\n%+v", i, ab, ba)
		}
	}
}

// Totals over everything, counted apart from Merge.
func TestMergeLosesNothing(t *testing.T) {
	r := seeded(t, 9)
	totals := func(all ...*Snapshot) (out [14]float64) {
		for _, s := range all {
			for _, n := range s.Nodes {
				for i, v := range []float64{float64(n.Arrivals), float64(n.Departures), float64(n.Now), float64(n.Peak), float64(n.Wait.Sum), float64(n.Ready.Count)} {
					out[i] += v
				}
				for _, l := range n.Loops {
					out[6] += float64(l.Arrivals)
				}
				for i, h := range n.Wait.Hist {
					out[7] += float64(h) * float64(i)
				}
			}
			for _, e := range s.Edges {
				for i, v := range []float64{float64(e.Count), float64(e.CPU.Sum), float64(e.Heap.Sum), float64(e.Overruns)} {
					out[8+i] += v
				}
				for i, c := range e.Changes {
					out[12] += float64(c.Sum) * float64(len(s.Resources[i].Name+s.Resources[i].Unit))
				}
			}
			for _, x := range s.Resources {
				out[13] += float64(x.Acquired) + float64(x.Released)/2 + float64(x.InUse)/4
			}
		}
		return out
	}
	for i := range testenv.Rounds(20, 50) {
		a, b, c := randomSnapshot(r, 10, 40), randomSnapshot(r, 10, 40), randomSnapshot(r, 10, 40)
		testenv.MustEqual(t, totals(mustMerge(t, a, b, c)), totals(a, b, c), "round %d", i)
	}
}

func TestMergeOfOneIsACopy(t *testing.T) {
	s := smallSnapshot()
	m := mustMerge(t, s)
	if !reflect.DeepEqual(m, s) {
		t.Errorf("got %+v, want %+v", m, s)
	}
	m.Nodes[1].Wait.Hist[20] = 0
	if !reflect.DeepEqual(s, smallSnapshot()) {
		t.Error("it is not a copy")
	}
}

// otherSnapshot is smallSnapshot from another machine, with other figures.
func otherSnapshot() *Snapshot {
	s := smallSnapshot()
	s.Program.PID, s.Program.Host = 99, "web-2"
	s.Program.Started = s.Program.Started.Add(-time.Hour)
	s.Taken = s.Taken.Add(time.Minute)
	s.Span = Nanos(time.Hour)
	s.Program.Go, s.Sampling, s.HeapEvery = "go1.27", 40, 640
	s.Overflow = Overflow{MaxNodes: 5000, MaxEdges: 20_000, Nodes: 20, Edges: 10}
	s.Resources[0].Name = "a new resource"
	s.Sched.Policy = "cohort"
	e := &s.Edges[1]
	e.CPU.Count, e.Recent = 150, Moments{Mean: 100.5, Variance: 400}
	e.CPU.Max = 100_000
	s.Nodes[1].Oldest = 1
	s.Sched.Resources[0].Utilisation, s.Sched.Resources[0].State = 0.8, "at limit"
	s.Overruns[0].At = s.Overruns[0].At.Add(-time.Minute)
	return s
}

func TestMergeOfTwo(t *testing.T) {
	a, b := smallSnapshot(), otherSnapshot()
	m := mustMerge(t, a, b)
	wantProgram := Program{Name: "shop", Host: "several", Go: "several", Started: b.Program.Started}
	if m.Program != wantProgram || m.Taken != b.Taken || m.Span != b.Span {
		t.Errorf("program %+v, taken %v, span %v; want %+v, %v, %v", m.Program, m.Taken, m.Span, wantProgram, b.Taken, b.Span)
	}
	if want := (Overflow{MaxNodes: 5000, MaxEdges: 20_000, Nodes: 22, Edges: 11}); m.Overflow != want || m.Sampling != 40 || m.HeapEvery != 640 {
		t.Errorf("overflow %+v, sampling %d, heap every %d; want %+v, 40, 640", m.Overflow, m.Sampling, m.HeapEvery, want)
	}
	if want := []LoopStat{{Index: 0, Tasks: 12, Steps: 2100}, {Index: 1, Tasks: 12, Steps: 2100}}; !reflect.DeepEqual(m.Loops, want) {
		t.Errorf("loops %+v, want %+v", m.Loops, want)
	}
	n := m.Nodes[1]
	if want := []NodeLoop{a.Nodes[1].Loops[0], b.Nodes[1].Loops[0]}; n.Loops[0] != want[0] || n.Loops[1].Loop != 1 || n.Loops[1].Arrivals != want[1].Arrivals {
		t.Errorf("loops of the node %+v", n.Loops)
	}
	if n.Oldest != a.Nodes[1].Oldest || n.Peak != 80 || n.Wait.Max != a.Nodes[1].Wait.Max || n.Wait.Hist[20] != 98 {
		t.Errorf("node %+v", n)
	}
	e := m.Edges[1]
	// 50 values around 12,100.5 and 150 around 100.5.
	want := Moments{Mean: 0.25*12_100.5 + 0.75*100.5, Variance: 0.25*4e6 + 0.75*400 + 0.25*0.75*12_000*12_000}
	if math.Abs(e.Recent.Mean-want.Mean) > 1e-6 || math.Abs(e.Recent.Variance-want.Variance) > 1e-3 || e.CPU.Max != 100_000 {
		t.Errorf("edge %+v, want moments %+v", e, want)
	}
	// Each program has a resource of which the other took nothing on its 1000 steps.
	half := Change{Steps: 2000, Sum: -1000, Recent: Moments{Mean: -0.5, Variance: 0.5*0.25 + 0.25}}
	if len(m.Resources) != 2 || m.Resources[0].Name != "a new resource" || !reflect.DeepEqual(e.Changes, []Change{half, half}) {
		t.Errorf("resources %+v, changes %+v; want %+v twice", m.Resources, e.Changes, half)
	}
	if m.Sched.Admitted != 200 || m.Sched.Deferred != 6 || m.Sched.Refused != 2 || m.Sched.Policy != "several" || m.Sched.Resources[0].State != "at limit" || len(m.Sched.Nodes) != 2 || m.Sched.Nodes[1].Loop != 1 {
		t.Errorf("sched %+v", m.Sched)
	}
	if len(m.Overruns) != 2 || m.Overruns[0].Loop != 1 || m.Overruns[1].Loop != 0 {
		t.Errorf("overruns %+v; want that of the second first, as it was earlier", m.Overruns)
	}
	b.Program.Name = "stock"
	if m = mustMerge(t, a, b); m.Program.Name != "several" {
		t.Errorf("name %q; want several", m.Program.Name)
	}
}

func TestMergeOfOppositeChanges(t *testing.T) {
	a, b := smallSnapshot(), otherSnapshot()
	b.Resources[0] = a.Resources[0]
	a.Edges[1].Changes = []Change{{Steps: 1000, Sum: 5}}
	b.Edges[1].Changes = []Change{{Steps: 1000, Sum: -5}}
	if m := mustMerge(t, a, b); m.Edges[1].Changes != nil {
		t.Errorf("changes %+v; want none, as they go without saying", m.Edges[1].Changes)
	}
}

func TestMergeAddsLimits(t *testing.T) {
	limits := func(all ...int64) int64 {
		var list []*Snapshot
		for i, limit := range all {
			s := &Snapshot{Program: Program{PID: i + 1}}
			if limit >= 0 {
				s.Resources = []Resource{{Name: "r", Limit: limit}}
			}
			list = append(list, s)
		}
		return mustMerge(t, list...).Resources[0].Limit
	}
	for _, c := range []struct {
		limits []int64
		want   int64
	}{
		{[]int64{5, 7}, 12}, {[]int64{5, 0}, 0}, {[]int64{0, 5}, 0}, {[]int64{0, 5, 5}, 0}, {[]int64{-1, 5}, 5}, {[]int64{5, -1}, 5},
	} {
		testenv.Equal(t, limits(c.limits...), c.want, "limits %v (-1: no such resource)", c.limits)
	}
}

func TestMergeKeepsTheLatestOverruns(t *testing.T) {
	a, b := smallSnapshot(), otherSnapshot()
	at := a.Taken
	a.Overruns, b.Overruns = nil, nil
	for i := range graphlimits.Overruns {
		a.Overruns = append(a.Overruns, Overrun{At: at.Add(time.Duration(2 * i))})
		b.Overruns = append(b.Overruns, Overrun{At: at.Add(time.Duration(2*i + 1))})
	}
	m := mustMerge(t, a, b)
	testenv.MustEqual(t, len(m.Overruns), graphlimits.Overruns, "overruns")
	for i, o := range m.Overruns {
		if want := at.Add(time.Duration(graphlimits.Overruns + i)); !o.At.Equal(want) || o.Loop != i%2 {
			t.Errorf("overrun %d: at %v on loop %d, want %v on loop %d", i, o.At, o.Loop, want, i%2)
		}
	}
}

// Many processes have more crossings and ranked nodes than fit into a dump: those that say most are kept.
func TestMergeOfMoreThanFits(t *testing.T) {
	const processes, loops, nodes = 330, 8, 100
	var all []*Snapshot
	for pid := range processes {
		s := &Snapshot{Program: Program{PID: pid + 1}, Sched: new(Sched)}
		for i := range loops {
			s.Loops = append(s.Loops, LoopStat{Index: i})
		}
		for k := range Key(nodes) {
			s.Nodes = append(s.Nodes, Node{Key: k + 1})
			for i := range loops {
				s.Crossings = append(s.Crossings, Crossing{From: k + 1, To: KeyStart, FromLoop: -1, ToLoop: i, Count: 1})
				s.Sched.Nodes = append(s.Sched.Nodes, SchedNode{Key: k + 1, Loop: i, Ready: 1})
			}
		}
		all = append(all, s)
	}
	last := all[processes-1]
	last.Crossings[loops*nodes-1].Count = 7
	last.Sched.Nodes[loops*nodes-1].Held, last.Sched.Nodes[loops*nodes-1].Ready = "memory at limit", 0
	last.Sched.Nodes[loops*nodes-2].Ready = 5
	last.Sched.Nodes[loops*nodes-3].Ready = 0
	m := mustMerge(t, all...)
	testenv.Equal(t, len(m.Crossings), graphlimits.Edges)
	testenv.Equal(t, m.Overflow.Wakes, processes*loops*nodes-graphlimits.Edges)
	testenv.Equal(t, m.Crossings[graphlimits.Edges-1].Count, 7)
	testenv.Equal(t, len(m.Sched.Nodes), graphlimits.Edges)
	testenv.Equal(t, m.Sched.Nodes[graphlimits.Edges-1].Held, "memory at limit")
	testenv.Equal(t, m.Sched.Nodes[graphlimits.Edges-2].Ready, 5)
	testenv.Equal(t, m.Sched.Nodes[graphlimits.Edges-3].Ready, 1)
}

func TestMergeRefuses(t *testing.T) {
	huge := func(pid int) *Snapshot {
		return &Snapshot{Program: Program{PID: pid}, Nodes: []Node{{Key: KeyStart, Arrivals: 1 << 62, Peak: 1 << 62}}}
	}
	var many []*Snapshot
	for i := range 40 { // enough to wrap a uint64 around
		many = append(many, huge(i+1))
	}
	wide := func(pid, first int) *Snapshot {
		s := &Snapshot{Program: Program{PID: pid}}
		for i := range graphlimits.Nodes {
			s.Nodes = append(s.Nodes, Node{Key: Key(first + i)})
		}
		return s
	}
	bad := otherSnapshot()
	bad.Nodes[0].Now = -1
	for _, c := range []struct {
		all  []*Snapshot
		want string
	}{
		{nil, "nothing to merge"},
		{[]*Snapshot{nil}, "number 1 of 1"},
		{[]*Snapshot{smallSnapshot(), bad}, "number 2 of 2 to be merged is not valid: nodes[0]"},
		{[]*Snapshot{smallSnapshot(), otherSnapshot(), smallSnapshot()}, `numbers 1 and 3 to be merged are both of process 4711 on "web-1"`},
		{[]*Snapshot{smallSnapshot(), {Kind: KindGoroutines}}, "numbers 1 and 2 to be merged are of different kinds"},
		{many[:2], "too much together: nodes[0]"},
		{many, "too much together: nodes[0]"},
		{[]*Snapshot{wide(1, 1), wide(2, 2)}, "too much together: nodes: 65537 is too many"},
	} {
		if m, err := Merge(c.all...); err == nil || m != nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "bgraph: ") {
			t.Errorf("error %v; want one with %q", err, c.want)
		}
	}
}

// A merged graph, which has no process of its own, can be merged with itself: a caller that
// does that means it.
func TestMergeOfWhatWasMerged(t *testing.T) {
	m := mustMerge(t, smallSnapshot(), otherSnapshot())
	if mm := mustMerge(t, m, m); mm.Nodes[1].Arrivals != 4*1012 || len(mm.Loops) != 4 {
		t.Errorf("got %+v", mm)
	}
}

func TestMergeOfLongWaitsSaturates(t *testing.T) {
	a, b := smallSnapshot(), otherSnapshot()
	a.Nodes[1].Wait.Sum, b.Nodes[1].Wait.Sum = 1<<62-1, 1<<61
	if m := mustMerge(t, a, b); m.Nodes[1].Wait.Sum != 1<<62 {
		t.Errorf("sum %d, want 2^62", m.Nodes[1].Wait.Sum)
	}
}

// A sum of sums keeps the sources of both.
func TestMergeKeepsSources(t *testing.T) {
	part := func(names ...string) *Snapshot {
		s := new(Snapshot)
		for _, name := range names {
			s.Sources = append(s.Sources, Source{Name: name, Places: []SourcePlace{{Node: 7, Share: 0.5}}})
		}
		return s
	}
	s := testenv.Need(Merge(part("a", "b"), part("c")))(t)
	var names []string
	for _, from := range s.Sources {
		names = append(names, from.Name)
	}
	testenv.Equal(t, strings.Join(names, " "), "a b c")
	many := make([]string, graphlimits.Sources)
	testenv.ErrorSays(t, testenv.Err(Merge(part(many...), part("one more"))), "too much together")
}

// TestMergeKeepsTheSlowest: of the slowest requests of several graphs the slowest are kept.
func TestMergeKeepsTheSlowest(t *testing.T) {
	var all []*Snapshot
	for i := range 3 {
		s := &Snapshot{Kind: KindGoroutines}
		for j := range graphlimits.Slowest / 2 {
			sp := Span{Kind: "request", Name: fmt.Sprint("handler", i)}
			sp.Times.Add(Nanos(3*j + i))
			s.Slowest = append(s.Slowest, sp)
		}
		all = append(all, s)
	}
	sum := testenv.Need(Merge(all...))(t)
	if len(sum.Slowest) != graphlimits.Slowest {
		t.Fatalf("%d requests", len(sum.Slowest))
	}
	for i, sp := range sum.Slowest {
		if want := Nanos(3*graphlimits.Slowest/2 - 1 - i); sp.Times.Sum != want {
			t.Fatalf("the one at %d took %v, want %v", i, sp.Times.Sum, want)
		}
	}
}

// TestMergedCPU: what a process used is added up if it is known of all, and samples always.
func TestMergedCPU(t *testing.T) {
	known := &Snapshot{Kind: KindGoroutines, Program: Program{Name: "a"}, Sampling: 1, ProcessCPU: 5, Sampled: CPUSamples{1, 2, 3, 4, 5, 6}}
	unknown := &Snapshot{Kind: KindGoroutines, Program: Program{Name: "b"}, Sampling: 1}
	if m := mustMerge(t, known, known); m.ProcessCPU != 10 || m.Sampled != (CPUSamples{2, 4, 6, 8, 10, 12}) {
		t.Errorf("%v, %+v", m.ProcessCPU, m.Sampled)
	}
	if m := mustMerge(t, known, unknown); m.ProcessCPU != 0 || m.Sampled != known.Sampled {
		t.Errorf("%v, %+v; the CPU of one is not known", m.ProcessCPU, m.Sampled)
	}
}
