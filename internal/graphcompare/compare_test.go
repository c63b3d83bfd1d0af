package graphcompare

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/graphcases"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// deployed is the sample after a new version was rolled out: the lock of the session
// cache is held for a shorter time, rendering takes longer, a function has got more
// lines, one call path is gone and one is new.
func deployed() *bgraph.Snapshot {
	s := graphcases.Sample()
	s.Program.PID, s.Program.Started = 5120, s.Program.Started.Add(time.Hour)
	s.Taken = s.Taken.Add(2 * time.Hour)
	s.Span *= 2
	for i := range s.Nodes {
		n := &s.Nodes[i]
		n.Arrivals, n.Departures = 2*n.Arrivals, 2*n.Departures
		if n.Key == graphcases.SampleMutex {
			n.Wait = graphcases.SampleTimes(n.Wait.Count, 2*bgraph.Nanos(time.Millisecond), 9*bgraph.Nanos(time.Millisecond))
		}
	}
	const movedWrite, newNode bgraph.Key = 0x99, 0x9a
	s.Edges = slices.DeleteFunc(s.Edges, func(e bgraph.Edge) bool { return e.From == graphcases.SampleSleep || e.To == graphcases.SampleSleep })
	s.Nodes = slices.DeleteFunc(s.Nodes, func(n bgraph.Node) bool { return n.Key == graphcases.SampleSleep })
	move := func(k *bgraph.Key) {
		if *k == graphcases.SampleWrite {
			*k = movedWrite
		}
	}
	for i := range s.Edges {
		e := &s.Edges[i]
		e.Count *= 2
		if e.From == graphcases.SampleRender {
			e.CPU.Sum = 2 * e.CPU.Sum
		}
		move(&e.From)
		move(&e.To)
	}
	for i := range s.Nodes {
		move(&s.Nodes[i].Key)
	}
	s.Nodes = append(s.Nodes, bgraph.Node{Key: newNode, Reason: "sleep", Label: "back off", Departures: 1200, Wait: graphcases.SampleTimes(60, 1e9, 2e9)})
	s.Edges = append(s.Edges, bgraph.Edge{From: bgraph.KeyStart, To: newNode, Count: 1200, CPU: graphcases.SampleTimes(60, 1000, 2000)})
	s.Sched = nil
	s.Sort()
	return s
}

func TestCompareText(t *testing.T) {
	var b bytes.Buffer
	testenv.Must(t, Compare(graphcases.Sample(), deployed()).WriteText(&b))
	testenv.Golden(t, "compare.golden", b.Bytes())
	for range 20 { // maps are gone through in another order each time
		var again bytes.Buffer
		if err := Compare(graphcases.Sample(), deployed()).WriteText(&again); err != nil || !bytes.Equal(again.Bytes(), b.Bytes()) {
			t.Fatalf("not the same again: %s", again.Bytes())
		}
	}
}

func TestCompareRates(t *testing.T) {
	before, after := graphcases.Sample(), deployed()
	c := Compare(before, after)
	row := func(name string) *Node {
		i := slices.IndexFunc(c.Nodes, func(n Node) bool { return strings.Contains(n.Name, name) })
		if i < 0 {
			t.Fatalf("no node %q", name)
		}
		return &c.Nodes[i]
	}
	// Twice as much in twice the time is the same rate.
	if n := row("readHead"); n.Visits.Change() != 0 || n.Wait.Change() != 0 || n.Tasks.Before != n.Tasks.After || n.Tasks.Before == 0 {
		t.Errorf("read: %+v", n)
	}
	mutex := before.Node(graphcases.SampleMutex)
	if n := row("find"); n.Wait.Before != float64(mutex.Wait.Mean()) || n.Visits.Before != float64(mutex.Departures)/60 || n.P99.Before < n.P99.After || n.Wait.Change() > -90 {
		t.Errorf("mutex: %+v", n)
	}
	if n := row("reply"); n.Before != graphcases.SampleWrite || n.After != 0x99 {
		t.Errorf("the node that moved: %+v", n)
	}
	if n := row("back off"); n.Before != 0 || n.After != 0x9a || n.Visits.After != 10 || !math.IsInf(n.Visits.Change(), 1) {
		t.Errorf("the new node: %+v", n)
	}
	if n := row("wait"); n.Before != graphcases.SampleSleep || n.After != 0 || n.Visits.Change() != -100 {
		t.Errorf("the node that is gone: %+v", n)
	}
	if !strings.Contains(c.Nodes[0].Name, "find") { // a hundred tasks fewer wait for the lock
		t.Errorf("the first node is %+v", c.Nodes[0])
	}
	i := slices.IndexFunc(c.Edges, func(e Edge) bool { return e.Before == [2]bgraph.Key{graphcases.SampleRender, graphcases.SampleWrite} })
	if i < 0 || c.Edges[i].After != [2]bgraph.Key{graphcases.SampleRender, 0x99} || math.Abs(c.Edges[i].CPU.Change()-100) > 0.1 || math.Abs(c.Edges[i].Load.Change()-100) > 0.1 {
		t.Errorf("render to write: %+v", c.Edges)
	}
	if first := c.Edges[0]; first.Before[0] != graphcases.SampleRender {
		t.Errorf("the first edge is %+v", first)
	}
	testenv.Check(t, testenv.Err(json.Marshal(c)))
}

// Where none gets on any more, no wait has ended that could be compared.
func TestCompareShowsWhereTasksAreStuck(t *testing.T) {
	after := deployed()
	after.Nodes = append(after.Nodes, bgraph.Node{Key: 0x9b, Reason: "mutex", Label: "stuck", Arrivals: 5000, Now: 5000})
	if first := Compare(graphcases.Sample(), after).Nodes[0]; first.After != 0x9b || first.Tasks != (Pair{0, 5000}) {
		t.Errorf("the first node is %+v", first)
	}
}

// Nodes that are the same but for their lines are matched, in the order of the lines, only if as many are on each side.
func TestCompareMatchesMovedNodes(t *testing.T) {
	snapshot := func(nodes ...bgraph.Node) *bgraph.Snapshot {
		s := &bgraph.Snapshot{Span: 1e9}
		for _, n := range nodes {
			n.Departures = 1
			s.Nodes = append(s.Nodes, n)
		}
		return s
	}
	node := func(k bgraph.Key, line int, functions ...string) bgraph.Node {
		n := bgraph.Node{Key: k, Reason: "read"}
		for _, f := range functions {
			n.Stack = append(n.Stack, bgraph.Frame{Function: f, Line: line})
		}
		return n
	}
	asleep := func(k bgraph.Key, inside, line int) bgraph.Node {
		n := node(k, line, "time.Sleep", "main.f")
		n.Stack[0].Line = inside
		return n
	}
	labelled := node(31, 1, "f")
	labelled.Label = "l"
	for i, c := range []struct {
		before, after *bgraph.Snapshot
		want          [][2]bgraph.Key
	}{
		{snapshot(node(20, 1, "f", "g")), snapshot(node(30, 2, "f", "g")), [][2]bgraph.Key{{20, 30}}},
		{snapshot(node(20, 1, "f", "g")), snapshot(node(30, 1, "f", "h")), [][2]bgraph.Key{{20, 0}, {0, 30}}},
		{snapshot(node(20, 1, "f")), snapshot(labelled), [][2]bgraph.Key{{20, 0}, {0, 31}}},
		{snapshot(node(20, 1, "f"), node(21, 2, "f")), snapshot(node(30, 3, "f")), [][2]bgraph.Key{{20, 0}, {21, 0}, {0, 30}}},
		{snapshot(node(20, 1, "f"), node(21, 2, "f")), snapshot(node(21, 2, "f"), node(30, 3, "f")), [][2]bgraph.Key{{20, 30}, {21, 21}}},
		{snapshot(node(20, 1, "main.f"), node(21, 2, "main.f")), snapshot(node(30, 8, "main.f"), node(31, 7, "main.f")), [][2]bgraph.Key{{20, 31}, {21, 30}}},
		{snapshot(asleep(20, 9, 1), asleep(21, 8, 2)), snapshot(asleep(30, 8, 7), asleep(31, 9, 8)), [][2]bgraph.Key{{20, 30}, {21, 31}}},
		{snapshot(), snapshot(), nil},
		{nil, snapshot(node(20, 1, "f")), [][2]bgraph.Key{{0, 20}}},
		{snapshot(node(20, 1, "f")), nil, [][2]bgraph.Key{{20, 0}}},
	} {
		var got [][2]bgraph.Key
		for _, n := range Compare(c.before, c.after).Nodes {
			got = append(got, [2]bgraph.Key{n.Before, n.After})
		}
		sortPairs := func(a, b [2]bgraph.Key) int { return slices.Compare(a[:], b[:]) }
		slices.SortFunc(got, sortPairs)
		slices.SortFunc(c.want, sortPairs)
		testenv.EqualSlices(t, got, c.want, "%d", i)
	}
}

func TestGrowthText(t *testing.T) {
	for _, c := range []struct {
		p    Pair
		want string
	}{
		{Pair{0, 0}, "-"}, {Pair{0, 1}, "new"}, {Pair{1, 0}, "gone"}, {Pair{1000, 1004}, "="}, {Pair{100, 142}, "+42%"},
		{Pair{100, 58}, "-42%"}, {Pair{1, 10.9}, "+990%"}, {Pair{1, 12.5}, "×12.5"}, {Pair{1, 1e12}, "×1.00T"},
	} {
		testenv.Equal(t, growthText(c.p), c.want, "%v", c.p)
	}
}

// Names come from strangers, too.
func TestCompareTextIsClean(t *testing.T) {
	s := graphcases.Sample()
	s.Nodes, s.Edges = s.Nodes[:4], s.Edges[:1]
	s.Program.Name, s.Program.Host, s.Nodes[1].Label = "\x1b[2J", "a\nb", "tab\tnew\nline\x07"
	var b bytes.Buffer
	testenv.Must(t, Compare(s, s).WriteText(&b))
	if i := strings.IndexFunc(b.String(), func(r rune) bool { return r < ' ' && r != '\n' || r == 0x7f }); i >= 0 {
		t.Errorf("%q", b.String()[i:])
	}
	testenv.Equal(t, strings.Count(b.String(), "\n"), 16, "lines:\n%s", b.String())
}

// Dumps of one program from before and after a change of the compiler, with other keys as
// lines have moved too, are compared node by node.
func TestSuccessorsOfRenamedLiterals(t *testing.T) {
	snapshot := func(key bgraph.Key, names ...string) *bgraph.Snapshot {
		s := &bgraph.Snapshot{}
		for i, name := range names {
			s.Nodes = append(s.Nodes, bgraph.Node{Key: key + bgraph.Key(i), Reason: "read", Stack: []bgraph.Frame{{Function: name}}})
		}
		return s
	}
	before := snapshot(0x20, "main.glob.inl.func3.1", "main.two.func1", "main.two.func2", "main.same")
	after := snapshot(0x40, "main.inl.func1.1", "main.two.func1", "main.two.func3", "main.same")
	got := successors(before, after)
	for from, to := range map[bgraph.Key]bgraph.Key{0x20: 0x40, 0x21: 0x41, 0x22: 0x42, 0x23: 0x43} {
		testenv.Equal(t, got[from], to, "%v has the successor", from)
	}
}
