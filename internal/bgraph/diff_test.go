package bgraph

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// evolve returns what before becomes when what inc says happens. The gauges are those
// of inc. It is written without regard to Diff and Merge, which it tests.
func evolve(before, inc *Snapshot) *Snapshot {
	after := inc.Clone()
	after.Program = before.Program
	after.Taken = before.Taken.Add(inc.Span.Duration())
	after.Span, after.Period = after.Span+before.Span, before.Period
	after.Overflow.Nodes += before.Overflow.Nodes
	after.Overflow.Edges += before.Overflow.Edges
	after.Overflow.Wakes += before.Overflow.Wakes
	after.Overruns = append(before.Clone().Overruns, inc.Overruns...)
	for i := range after.Resources {
		after.Resources[i].Acquired += before.Resources[i].Acquired
		after.Resources[i].Released += before.Resources[i].Released
	}
	for i := range after.Loops {
		after.Loops[i].Steps += before.Loops[i].Steps
	}
	after.Chunks.Links += before.Chunks.Links
	after.Chunks.Direct += before.Chunks.Direct
	after.Chunks.InPlace += before.Chunks.InPlace
	for i := range before.Crossings {
		after.Crossings[i].Count += before.Crossings[i].Count
	}
	for _, b := range before.Nodes {
		n := after.Node(b.Key)
		n.Arrivals += b.Arrivals
		n.Departures += b.Departures
		evolveTimes(&n.Wait, b.Wait)
		evolveTimes(&n.Ready, b.Ready)
		for j, l := range b.Loops {
			n.Loops[j].Arrivals += l.Arrivals
			n.Loops[j].Departures += l.Departures
		}
	}
	for i := range after.Edges {
		e := &after.Edges[i]
		for _, b := range before.Edges {
			if b.From == e.From && b.To == e.To {
				e.Count += b.Count
				e.Overruns += b.Overruns
				e.Heap.Steps += b.Heap.Steps
				e.Heap.Sum += b.Heap.Sum
				for j := range e.Changes {
					e.Changes[j].Sum += b.Changes[j].Sum
				}
				evolveTimes(&e.CPU, b.CPU)
			}
		}
		for j := range e.Changes {
			e.Changes[j].Steps = e.Count
		}
	}
	return after
}

func evolveTimes(t *Times, b Times) {
	t.Count += b.Count
	t.Sum += b.Sum
	t.First += b.First
	t.FirstSum += b.FirstSum
	for len(t.Fine) < len(b.Fine) {
		t.Fine = append(t.Fine, 0)
	}
	for i, n := range b.Fine {
		t.Fine[i] += n
	}
	for len(t.Hist) < len(b.Hist) {
		t.Hist = append(t.Hist, 0)
	}
	for i, n := range b.Hist {
		t.Hist[i] += n
	}
}

// increment makes up what happens next: at all nodes and edges of before, and at new
// ones. Everywhere the longest times rise.
func increment(r *rand.Rand, before *Snapshot) *Snapshot {
	inc := before.Clone()
	inc.Span, inc.Period = Nanos(1+r.Int64N(1e12)), true
	inc.Overflow.Nodes, inc.Overflow.Edges, inc.Overflow.Wakes = randomCount(r), randomCount(r), randomCount(r)
	inc.Overruns = nil
	if r.IntN(2) == 0 {
		inc.Overruns = []Overrun{{From: KeyStart, Loop: before.Loops[0].Index, At: before.Taken.Add(1)}}
	}
	for i := range inc.Loops {
		inc.Loops[i].Tasks, inc.Loops[i].Steps = r.Int64N(100), randomCount(r)
	}
	for i := range inc.Crossings {
		inc.Crossings[i].Count = 1 + randomCount(r)
	}
	for i := range inc.Resources {
		inc.Resources[i].InUse, inc.Resources[i].Acquired, inc.Resources[i].Released = r.Int64N(100), randomCount(r), randomCount(r)
	}
	again := func(was Times) Times {
		t := randomTimes(r)
		t.Max = was.Max + 1
		t.Count++
		return t
	}
	for i := range inc.Nodes {
		was := &before.Nodes[i]
		n := randomNode(r, was.Key, nil)
		n.Reason, n.Label, n.Stack, n.Loops = was.Reason, was.Label, was.Stack, inc.Nodes[i].Loops
		n.Wait, n.Ready = again(was.Wait), again(was.Ready)
		for j := range n.Loops {
			n.Loops[j].Now, n.Loops[j].Arrivals, n.Loops[j].Departures = r.Int64N(10), randomCount(r), randomCount(r)
		}
		inc.Nodes[i] = n
	}
	for i := range inc.Edges {
		was := &before.Edges[i]
		e := randomEdge(r, was.From, was.To, 0)
		e.CPU = again(was.CPU)
		for range was.Changes {
			e.Changes = append(e.Changes, randomChange(r, e.Count))
		}
		inc.Edges[i] = e
	}
	if s := inc.Sched; s != nil {
		inc.Sched = nil
		if r.IntN(2) == 0 {
			before.Sched = nil
			inc.Sched = s
		}
	}
	newNode := Key(1 << 40)
	inc.Nodes = append(inc.Nodes, randomNode(r, newNode, inc.Loops))
	inc.Edges = append(inc.Edges, randomEdge(r, newNode, newNode, len(inc.Resources)), randomEdge(r, KeyStart, newNode, len(inc.Resources)))
	inc.Crossings = append(inc.Crossings, Crossing{From: newNode, To: newNode, FromLoop: inc.Loops[0].Index, ToLoop: inc.Loops[0].Index, Count: 3})
	inc.Sort()
	return inc
}

func TestDiffGivesTheIncrementBack(t *testing.T) {
	r := seeded(t, 6)
	for i := range testenv.Rounds(50, 200) {
		before := randomSnapshot(r, i%20, i)
		for j := range before.Overruns {
			before.Overruns[j].At = before.Taken.Add(-time.Duration(j))
		}
		inc := increment(r, before)
		after := evolve(before, inc)
		want := inc
		want.Program, want.Taken = after.Program, after.Taken
		keepBefore, keepAfter := before.Clone(), after.Clone()
		got, err := Diff(before, after)
		testenv.Must(t, err, "round %d", i)
		testenv.Must(t, got.Validate(), "round %d", i)
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("round %d: got\n%+v\nwant\n%+v", i, got, want)
		}
		if !reflect.DeepEqual(before, keepBefore) || !reflect.DeepEqual(after, keepAfter) {
			t.Fatalf("round %d: Diff changed its arguments", i)
		}
	}
}

func TestDiffSharesNothing(t *testing.T) {
	s := smallSnapshot()
	d := testenv.Need(Diff(s, s))(t)
	d.Nodes[1].Stack[0].Function = "spoilt"
	d.Sched.Nodes[0].Held = "spoilt"
	d.Loops[0].Steps = 99
	d.Resources[0].Name = "spoilt"
	if !reflect.DeepEqual(s, smallSnapshot()) {
		t.Errorf("the argument is now %+v", s)
	}
}

func TestDiffLeavesOutWhereNothingHappened(t *testing.T) {
	before := smallSnapshot()
	d, err := Diff(before, before)
	testenv.Must(t, err)
	// The node of the mutex has nobody; at that of the read, 12 tasks wait.
	if len(d.Nodes) != 2 || d.Nodes[0].Key != KeyStart || d.Nodes[1].Now != 12 || d.Edges != nil || d.Overruns != nil || d.Span != 0 {
		t.Errorf("got %+v", d)
	}
	after := before.Clone()
	after.Edges[1].Count++
	if d, err = Diff(before, after); err != nil || len(d.Nodes) != 3 || len(d.Edges) != 1 || d.Edges[0].Count != 1 {
		t.Errorf("one step later: %+v, %v", d, err)
	}
	// Taking and giving back as much, with no step counted between, is still nothing.
	after = before.Clone()
	after.Edges[1].Changes[0].Sum++
	if d, err = Diff(before, after); err != nil || len(d.Edges) != 1 || d.Edges[0].Changes[0].Sum != 1 {
		t.Errorf("a change: %+v, %v", d, err)
	}
}

func TestDiffOfCohorts(t *testing.T) {
	before, after := smallSnapshot(), smallSnapshot()
	ranked := func(loop int, cohorts, ran uint64) SchedNode {
		return SchedNode{Key: KeyStart, Loop: loop, Cohorts: cohorts, Ran: ran}
	}
	before.Loops, after.Loops = append(before.Loops, LoopStat{Index: 1}, LoopStat{Index: 2}), append(after.Loops, LoopStat{Index: 1}, LoopStat{Index: 2})
	before.Sched.Nodes = []SchedNode{ranked(0, 3, 30), ranked(1, 1, 1)} // loop 1 was stuck later on, 2 before
	after.Sched.Nodes = []SchedNode{ranked(0, 5, 70), ranked(2, 4, 4)}
	d, err := Diff(before, after)
	if want := []SchedNode{ranked(0, 2, 40), ranked(2, 4, 4)}; err != nil || !reflect.DeepEqual(d.Sched.Nodes, want) {
		t.Errorf("%+v, %v; want %+v", d.Sched.Nodes, err, want)
	}
}

// The longest time before is not the longest time between; the histogram bounds that.
func TestDiffBoundsTheLongestTime(t *testing.T) {
	for _, c := range []struct{ before, after, want Times }{
		{Times{}, Times{}, Times{}},
		{Times{Count: 1, Sum: 900, Max: 900, Hist: []uint64{5: 1}}, Times{Count: 1, Sum: 900, Max: 900, Hist: []uint64{5: 1}}, Times{}},
		{ // a short one came: at most 63
			Times{Count: 1, Sum: 900, Max: 900, Hist: []uint64{5: 1}}, Times{Count: 2, Sum: 940, Max: 900, Hist: []uint64{1: 1, 5: 1}},
			Times{Count: 1, Sum: 40, Max: 63, Hist: []uint64{1: 1}},
		},
		{ // one in the same bucket: no longer than the longest
			Times{Count: 1, Sum: 900, Max: 900, Hist: []uint64{5: 1}}, Times{Count: 2, Sum: 1500, Max: 900, Hist: []uint64{5: 2}},
			Times{Count: 1, Sum: 600, Max: 900, Hist: []uint64{5: 1}},
		},
		{ // a longer one: exactly
			Times{Count: 1, Sum: 900, Max: 900, Hist: []uint64{5: 1}}, Times{Count: 2, Sum: 1850, Max: 950, Hist: []uint64{5: 2}},
			Times{Count: 1, Sum: 950, Max: 950, Hist: []uint64{5: 1}},
		},
		{ // the last bucket has no end
			Times{Count: 1, Sum: 1 << 50, Max: 1 << 50, Hist: []uint64{31: 1}}, Times{Count: 2, Sum: 1<<50 + 1<<40, Max: 1 << 50, Hist: []uint64{31: 2}},
			Times{Count: 1, Sum: 1 << 40, Max: 1 << 50, Hist: []uint64{31: 1}},
		},
	} {
		before := &Snapshot{Nodes: []Node{{Key: KeyStart, Wait: c.before}}}
		after := &Snapshot{Nodes: []Node{{Key: KeyStart, Wait: c.after}}}
		d, err := Diff(before, after)
		if err != nil || !reflect.DeepEqual(d.Nodes[0].Wait, c.want) {
			t.Errorf("%+v to %+v: got %+v (%v), want %+v", c.before, c.after, d.Nodes[0].Wait, err, c.want)
		}
	}
}

// The changes of a resource that was declared later, or that an edge did not touch, are
// missing at the end of the list.
func TestDiffOfChangesThatAreMissing(t *testing.T) {
	change := func(steps uint64, sum int64) Change {
		return Change{Steps: steps, Sum: sum, Recent: Moments{Mean: float64(sum)}}
	}
	make := func(count uint64, resources int, changes ...Change) *Snapshot {
		s := &Snapshot{Nodes: []Node{{Key: KeyStart}}, Edges: []Edge{{From: KeyStart, To: KeyStart, Count: count, Changes: changes}}}
		for i := range resources {
			s.Resources = append(s.Resources, Resource{Name: string(rune('a' + i))})
		}
		return s
	}
	for i, c := range []struct {
		before, after *Snapshot
		want          []Change
	}{
		{make(10, 0), make(30, 2), nil},
		{make(10, 1, change(10, 0)), make(30, 1), nil},
		{make(10, 0), make(30, 2, change(30, 0), change(30, 5)), []Change{change(20, 0), change(20, 5)}},
		{make(10, 1, change(10, 3)), make(30, 2, change(30, 4), change(30, 5)), []Change{{Steps: 20, Sum: 1, Recent: Moments{Mean: 4}}, change(20, 5)}},
		{make(10, 2, change(10, 0), change(10, 7)), make(30, 2), []Change{{Steps: 20}, {Steps: 20, Sum: -7}}},
	} {
		d, err := Diff(c.before, c.after)
		if err != nil || !reflect.DeepEqual(d.Edges[0].Changes, c.want) {
			t.Errorf("%d: got %+v (%v), want %+v", i, d, err, c.want)
		}
	}
}

func TestMatchResources(t *testing.T) {
	r := func(names ...string) (out []Resource) {
		for _, n := range names {
			out = append(out, Resource{Name: n[:1], Unit: n[1:]})
		}
		return out
	}
	for _, c := range []struct {
		to, from []Resource
		want     []int
	}{
		{nil, nil, []int{}},
		{r("a", "b"), r("b", "a", "c"), []int{1, 0, -1}},
		{r("ax", "ay"), r("ay", "az", "ax"), []int{1, -1, 0}},
		{r("a", "b", "a"), r("a", "a", "a"), []int{0, 2, -1}},
	} {
		if got := matchResources(c.to, c.from); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%v in %v: got %v, want %v", c.from, c.to, got, c.want)
		}
	}
}

func TestDiffRefuses(t *testing.T) {
	for _, c := range []struct {
		want  string
		spoil func(before, after *Snapshot)
	}{
		{"the earlier snapshot is not valid: nodes[1]", func(b, _ *Snapshot) { b.Nodes[1].Now = -1 }},
		{"the later snapshot is not valid: nodes[1]", func(_, a *Snapshot) { a.Nodes[1].Now = -1 }},
		{`process 4711 on "web-1" and process 12 on "web-1"`, func(_, a *Snapshot) { a.Program.PID = 12 }},
		{"only two snapshots of the same run", func(_, a *Snapshot) { a.Program.Host = "web-2" }},
		{"only two snapshots of the same run", func(_, a *Snapshot) { a.Program.Started = a.Program.Started.Add(1) }},
		{"taken before the first; exchange them", func(_, a *Snapshot) { a.Taken = a.Taken.Add(-1) }},
		{"is a difference itself", func(b, _ *Snapshot) { b.Period = true }},
		{"is a difference itself", func(_, a *Snapshot) { a.Period = true }},
		{"span_ns is less", func(b, _ *Snapshot) { b.Span++ }},
		{"steps is less", func(b, _ *Snapshot) { b.Loops[0].Steps++ }},
		{"loops: 5 is only in the earlier", func(b, _ *Snapshot) { b.Loops = append(b.Loops, LoopStat{Index: 5}) }},
		{"acquired is less", func(b, _ *Snapshot) { b.Resources[0].Acquired++ }},
		{"released is less", func(b, _ *Snapshot) { b.Resources[0].Released++ }},
		{`the resource "pencils" is only in the earlier`, func(b, _ *Snapshot) { b.Resources = append(b.Resources, Resource{Name: "pencils"}) }},
		{"nodes: 2b992ddfa23249d6 is only in the earlier", func(_, a *Snapshot) { a.Nodes, a.Edges = append(a.Nodes[:1], a.Nodes[2:]...), nil }},
		{"arrivals is less", func(b, _ *Snapshot) { b.Nodes[1].Arrivals++ }},
		{"departures is less", func(b, _ *Snapshot) { b.Nodes[1].Departures++ }},
		{"wait.count is less", func(b, _ *Snapshot) { b.Nodes[1].Wait.Count++ }},
		{"wait.sum is less", func(b, _ *Snapshot) { b.Nodes[1].Wait.Sum++ }},
		{"wait.hist is less", func(b, _ *Snapshot) { b.Nodes[1].Wait.Hist[20]++ }},
		{"ready.hist is less", func(b, _ *Snapshot) { b.Nodes[1].Ready.Hist = []uint64{31: 1} }},
		{"arrivals on a loop is less", func(b, _ *Snapshot) { b.Nodes[1].Loops[0].Arrivals++ }},
		{"departures on a loop is less", func(b, _ *Snapshot) { b.Nodes[1].Loops[0].Departures++ }},
		{"the number of loops that have met 2b992ddfa23249d6 is less", func(_, a *Snapshot) { a.Nodes[1].Loops = nil }},
		{"is only in the earlier", func(_, a *Snapshot) { a.Edges = a.Edges[1:] }},
		{"count is less", func(b, _ *Snapshot) { b.Edges[0].Count++ }},
		{"overruns is less", func(b, _ *Snapshot) { b.Edges[0].Overruns++ }},
		{"cpu.sum is less", func(b, _ *Snapshot) { b.Edges[1].CPU.Sum++ }},
		{"heap.steps is less", func(b, _ *Snapshot) { b.Edges[1].Heap.Steps++ }},
		{"steps of a change is less", func(b, _ *Snapshot) { b.Edges[1].Changes[0].Steps++ }},
		{"overflow.nodes is less", func(b, _ *Snapshot) { b.Overflow.Nodes++ }},
		{"overflow.edges is less", func(b, _ *Snapshot) { b.Overflow.Edges++ }},
		{"sched.admitted is less", func(b, _ *Snapshot) { b.Sched.Admitted++ }},
		{"sched.deferred is less", func(b, _ *Snapshot) { b.Sched.Deferred++ }},
		{"sched.refusals is less", func(b, s *Snapshot) {
			b.Sched.Refusals, s.Sched.Refusals = []SchedRefusal{{Why: "x", Count: 2}}, []SchedRefusal{{Why: "x", Count: 1}}
		}},
		{"sched.refused is less", func(b, _ *Snapshot) { b.Sched.Refused++ }},
	} {
		before, after := smallSnapshot(), smallSnapshot()
		c.spoil(before, after)
		if d, err := Diff(before, after); err == nil || d != nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "bgraph: ") {
			t.Errorf("error %v; want one with %q", err, c.want)
		}
	}
	testenv.Fails(t, testenv.Err(Diff(nil, smallSnapshot())), "the difference to nil is no error")
	testenv.Fails(t, testenv.Err(Diff(smallSnapshot(), nil)), "the difference of nil is no error")
}

func TestDiffLeavesOutCausesThatRefusedNobody(t *testing.T) {
	before, after := smallSnapshot(), smallSnapshot()
	before.Sched.Refusals = []SchedRefusal{{"a", 2}, {"b", 1}}
	after.Sched.Refusals = []SchedRefusal{{"a", 2}, {"b", 4}, {"c", 1}}
	d, err := Diff(before, after)
	if err != nil || !slices.Equal(d.Sched.Refusals, []SchedRefusal{{"b", 3}, {"c", 1}}) {
		t.Errorf("got %+v (%v), want b 3 and c 1", d, err)
	}
}

// Of the overruns those after the earlier snapshot are kept, whichever way the clock was set meanwhile: Span is from one that
// can't be set.
func TestDiffKeepsLaterOverruns(t *testing.T) {
	for _, clock := range []time.Duration{time.Minute, -time.Hour} {
		before, after := smallSnapshot(), smallSnapshot()
		after.Taken = before.Taken.Add(clock)
		after.Span += Nanos(time.Second)
		late := after.Overruns[0]
		late.At = after.Taken.Add(-1)
		after.Overruns = append(after.Overruns, late)
		d, err := Diff(before, after)
		if err != nil || d.Span != Nanos(time.Second) || len(d.Overruns) != 1 || d.Overruns[0] != late {
			t.Errorf("by %v: got %+v (%v), want a difference of a second with %+v", clock, d, err, late)
		}
	}
}
