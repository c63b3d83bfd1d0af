package graphcases

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/buckets"
)

// RandomGraph has nodes in a chain with self loops, shortcuts and ways back, as programs
// have, and some edges at random.
func RandomGraph(r *rand.Rand, nodes, edges int) *bgraph.Snapshot {
	s := &bgraph.Snapshot{Span: bgraph.Nanos(time.Second), Loops: []bgraph.LoopStat{{}}}
	for i := range nodes {
		s.Nodes = append(s.Nodes, bgraph.Node{
			Key: bgraph.Key(i + 1), Reason: []string{"read", "write", "mutex", "channel receive"}[r.IntN(4)],
			Stack: []bgraph.Frame{{Function: fmt.Sprintf("example.com/p%d/server.(*thing%d).call%d", i, r.IntN(1<<r.IntN(30)), i), File: "a.go", Line: i}},
			Now:   int64(r.ExpFloat64() * float64(r.IntN(100))), Arrivals: uint64(r.IntN(100_000)),
			Wait: TimesOfMean(10, bgraph.Nanos(r.IntN(1<<r.IntN(34)))),
		})
	}
	seen := map[[2]bgraph.Key]bool{}
	for len(s.Edges) < edges && len(s.Edges) < nodes*nodes {
		from := bgraph.Key(1 + r.IntN(nodes))
		to := bgraph.Key(max(int(from)+r.IntN(6)-2, 1))
		if r.IntN(10) == 0 || int(to) > nodes {
			to = bgraph.Key(1 + r.IntN(nodes))
		}
		if p := [2]bgraph.Key{from, to}; !seen[p] {
			seen[p] = true
			n := uint64(r.ExpFloat64() * 1000)
			s.Edges = append(s.Edges, bgraph.Edge{From: from, To: to, Count: n, CPU: TimesOfMean(n, bgraph.Nanos(r.IntN(100_000)))})
		}
	}
	slices.SortFunc(s.Edges, func(a, b bgraph.Edge) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To))
	})
	return s
}

// TimesOfMean is n durations that are all equal to mean.
func TimesOfMean(n uint64, mean bgraph.Nanos) bgraph.Times {
	return bgraph.Times{Count: n, Sum: mean * bgraph.Nanos(n), Max: mean, Hist: []uint64{n}}
}

// hostileNames are such that each spoils the syntax of some output.
var hostileNames = []string{
	"", " ", ";", "a;b c 12", "a\nb", "\r\n", "\x1b[2J\x1b[31m", `"`, `\`, `\"; }`, `a\`, "<script>alert(1)</script>",
	"]]>&amp;'\"", "\u202eabc", "\xff\xfe", "\x00", "日本語の関数名", "e\u0301\u0301\u0301", "🙂", strings.Repeat("long", 500),
	"label\\n", "%s%d%!", "-", "node\t", "\ufeff", "\ufffe", "digraph {", "\u2028",
}

// Hostile has hostileNames wherever there are names, edges to nodes that are
// missing, and resources that are not there.
func Hostile() *bgraph.Snapshot {
	s := &bgraph.Snapshot{
		Program: bgraph.Program{Name: hostileNames[6], Host: hostileNames[11], Go: hostileNames[8]},
		Taken:   time.Date(2026, 1, 2, 3, 4, 5, 0, time.FixedZone("a\nb", 3600)),
		Span:    bgraph.Nanos(time.Second), Sampling: 1,
		Loops: []bgraph.LoopStat{{Tasks: 3}},
		Sched: &bgraph.Sched{Policy: "\x1b[1m"},
	}
	for i, name := range hostileNames {
		key := bgraph.Key(100 + i)
		n := bgraph.Node{Key: key, Reason: name, Now: int64(i), Arrivals: 10, Departures: 10, Wait: TimesOfMean(10, 1000)}
		switch i % 3 {
		case 0:
			n.Label = name
		case 1:
			n.Stack = []bgraph.Frame{{Function: name, File: name, Line: -i, Offset: 7}, {Function: "main.main", File: "a/b.go", Line: 1}}
		}
		s.Nodes = append(s.Nodes, n)
		s.Resources = append(s.Resources, bgraph.Resource{Name: name, Unit: name, InUse: 1, Limit: -1})
		to := bgraph.Key(100 + (i*7)%len(hostileNames))
		e := bgraph.Edge{From: key, To: to, Count: 3, CPU: TimesOfMean(3, 5_000_000), Overruns: 1}
		for range i + 2 {
			e.Changes = append(e.Changes, bgraph.Change{Steps: 1, Sum: 2})
		}
		s.Edges = append(s.Edges, e, bgraph.Edge{From: key, To: 9999, Count: 1})
		s.Overruns = append(s.Overruns, bgraph.Overrun{From: key, To: to, Task: name, Stack: name + "\n\t" + name + "\n"})
		s.Sched.Resources = append(s.Sched.Resources, bgraph.SchedResource{Name: name, State: name})
		s.Sched.Nodes = append(s.Sched.Nodes, bgraph.SchedNode{Key: key, Held: name})
	}
	s.Overruns = append(s.Overruns, bgraph.Overrun{From: 8888, To: bgraph.KeyStart, Stack: "goroutine 1 [running]:\n"})
	return s
}

// extremeSnapshot has the largest figures that there are.
func extremeSnapshot() *bgraph.Snapshot {
	huge := bgraph.Times{Count: 1, Sum: math.MaxInt64, Max: math.MaxInt64, Hist: make([]uint64, buckets.Count)}
	huge.Hist[buckets.Count-1] = math.MaxUint64
	s := &bgraph.Snapshot{
		Program: bgraph.Program{PID: math.MaxInt}, Span: 1, Sampling: math.MaxInt, HeapEvery: math.MaxInt, Taken: time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC),
		Loops:     []bgraph.LoopStat{{Tasks: math.MinInt64, Steps: math.MaxUint64}},
		Resources: []bgraph.Resource{{Name: "r", Unit: "bytes", InUse: math.MaxInt64, Acquired: math.MaxUint64, Limit: 1}},
		Overflow:  bgraph.Overflow{Nodes: math.MaxUint64, Edges: math.MaxUint64, MaxNodes: math.MaxInt, MaxEdges: math.MinInt},
	}
	for k := range bgraph.Key(6) {
		s.Nodes = append(s.Nodes, bgraph.Node{Key: k + 1, Reason: "read", Now: math.MaxInt64, Peak: math.MinInt64,
			Arrivals: math.MaxUint64, Departures: math.MaxUint64, Wait: huge, Ready: huge, Oldest: math.MinInt64})
		for to := range bgraph.Key(6) {
			s.Edges = append(s.Edges, bgraph.Edge{From: k + 1, To: to + 1, Count: math.MaxUint64, CPU: huge, Overruns: math.MaxUint64,
				Recent:  bgraph.Moments{Mean: math.MaxFloat64, Variance: -1},
				Heap:    bgraph.Change{Steps: 1, Sum: math.MaxInt64},
				Changes: []bgraph.Change{{Steps: 1, Sum: math.MinInt64}}})
		}
	}
	return s
}

// oneNode has nothing but a node, which may be in a graph whose tasks wait for the first
// time.
func oneNode() *bgraph.Snapshot {
	return &bgraph.Snapshot{Nodes: []bgraph.Node{{Key: 77, Reason: "sleep", Now: 1, Arrivals: 1}}}
}

// Odd are Snapshots that no collector would make, by what is odd.
func Odd() map[string]*bgraph.Snapshot {
	return map[string]*bgraph.Snapshot{
		"zero": {}, "one node": oneNode(), "hostile": Hostile(), "extreme": extremeSnapshot(),
		"missing nodes": {Edges: []bgraph.Edge{{From: 500, To: 600, Count: 1}, {From: 600, To: 600}}},
	}
}

// CheckPlain fails if text could do anything to a terminal.
func CheckPlain(t *testing.T, text string) {
	t.Helper()
	if !utf8.ValidString(text) {
		t.Fatalf("not UTF-8")
	}
	for i, r := range text {
		if r != '\n' && !unicode.IsPrint(r) {
			t.Fatalf("%U in %q", r, text[max(i-20, 0):min(i+20, len(text))])
		}
	}
}

// Traced is the graph of a healthy program, as a trace shows it, with one change.
func Traced(change func(s *bgraph.Snapshot)) *bgraph.Snapshot {
	var cpu, life, pause bgraph.Times
	for range 1000 {
		cpu.Add(50_000)
		life.Add(20_000)
	}
	pause.Add(bgraph.Nanos(time.Millisecond))
	s := &bgraph.Snapshot{
		Kind: bgraph.KindGoroutines, Span: bgraph.Nanos(time.Second), Sampling: 1, Loops: []bgraph.LoopStat{{Index: 0}, {Index: 1}},
		Nodes:   []bgraph.Node{{Key: 100, Reason: "read", Label: "request", Arrivals: 1000, Departures: 1000}},
		Edges:   []bgraph.Edge{{From: 100, To: 100, Count: 1000, CPU: cpu, Parts: bgraph.Parts{Calls: 2000, System: 5e6, Assist: 5e5}}},
		Starts:  []bgraph.Start{{Function: "main.work", Created: 1000, Ended: 1000, Life: life}},
		Stopped: pause,
	}
	change(s)
	return s
}
