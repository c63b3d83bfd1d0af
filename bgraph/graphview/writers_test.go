package graphview

import (
	"errors"
	"io"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/capriccio-go/capriccio/bgraph"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// Snapshots that no collector would make, and what all writers must keep to with them.

// hostileNames are such that each spoils the syntax of some output.
var hostileNames = []string{
	"", " ", ";", "a;b c 12", "a\nb", "\r\n", "\x1b[2J\x1b[31m", `"`, `\`, `\"; }`, `a\`, "<script>alert(1)</script>",
	"]]>&amp;'\"", "\u202eabc", "\xff\xfe", "\x00", "日本語の関数名", "e\u0301\u0301\u0301", "🙂", strings.Repeat("long", 500),
	"label\\n", "%s%d%!", "-", "node\t", "\ufeff", "\ufffe", "digraph {", "\u2028",
}

// hostileSnapshot has those names wherever there are names, edges to nodes that are
// missing, and resources that are not there.
func hostileSnapshot() *bgraph.Snapshot {
	s := &bgraph.Snapshot{
		Program: bgraph.Program{Name: hostileNames[6], Host: hostileNames[11], Go: hostileNames[8]},
		Taken:   time.Date(2026, 1, 2, 3, 4, 5, 0, time.FixedZone("a\nb", 3600)),
		Span:    bgraph.Nanos(time.Second), Sampling: 1,
		Loops: []bgraph.LoopStat{{Tasks: 3}},
		Sched: &bgraph.Sched{Policy: "\x1b[1m"},
	}
	for i, name := range hostileNames {
		key := bgraph.Key(100 + i)
		n := bgraph.Node{Key: key, Reason: name, Now: int64(i), Arrivals: 10, Departures: 10, Wait: timesOfMean(10, 1000)}
		switch i % 3 {
		case 0:
			n.Label = name
		case 1:
			n.Stack = []bgraph.Frame{{Function: name, File: name, Line: -i, Offset: 7}, {Function: "main.main", File: "a/b.go", Line: 1}}
		}
		s.Nodes = append(s.Nodes, n)
		s.Resources = append(s.Resources, bgraph.Resource{Name: name, Unit: name, InUse: 1, Limit: -1})
		to := bgraph.Key(100 + (i*7)%len(hostileNames))
		e := bgraph.Edge{From: key, To: to, Count: 3, CPU: timesOfMean(3, 5_000_000), Overruns: 1}
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
	huge := bgraph.Times{Count: 1, Sum: math.MaxInt64, Max: math.MaxInt64, Hist: make(bgraph.Histogram, bgraph.Buckets)}
	huge.Hist[bgraph.Buckets-1] = math.MaxUint64
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

func oddSnapshots() map[string]*bgraph.Snapshot {
	return map[string]*bgraph.Snapshot{
		"zero": {}, "one node": oneNode(), "hostile": hostileSnapshot(), "extreme": extremeSnapshot(),
		"missing nodes": {Edges: []bgraph.Edge{{From: 500, To: 600, Count: 1}, {From: 600, To: 600}}},
	}
}

// checkPlain fails if text could do anything to a terminal.
func checkPlain(t *testing.T, text string) {
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

// allWriters are the ways to write a Snapshot.
func allWriters() map[string]func(*bgraph.Snapshot, io.Writer) error {
	all := map[string]func(*bgraph.Snapshot, io.Writer) error{
		"text":    func(s *bgraph.Snapshot, w io.Writer) error { return WriteText(w, s, TextOptions{Stacks: true}) },
		"summary": func(s *bgraph.Snapshot, w io.Writer) error { return WriteSummary(w, s) },
		"profile": func(s *bgraph.Snapshot, w io.Writer) error { return WriteProfile(w, s) },
		"json":    func(s *bgraph.Snapshot, w io.Writer) error { return WriteJSON(w, s) },
	}
	for _, color := range []string{"", colorCPU, colorWait} {
		o := DrawOptions{Color: color}
		all["dot "+color] = func(s *bgraph.Snapshot, w io.Writer) error { return WriteDOT(w, s, o) }
		all["svg "+color] = func(s *bgraph.Snapshot, w io.Writer) error { return WriteSVG(w, s, o) }
	}
	for _, metric := range metricNames {
		all["folded "+metric] = func(s *bgraph.Snapshot, w io.Writer) error { return WriteFolded(w, s, metric) }
	}
	return all
}

var errFull = errors.New("disk full")

type fullWriter struct{}

func (fullWriter) Write([]byte) (int, error) { return 0, errFull }

func TestWritersReturnErrorsOfTheWriter(t *testing.T) {
	for name, write := range allWriters() {
		testenv.ErrorIs(t, write(sampleSnapshot(), fullWriter{}), errFull, "%s: error", name)
	}
}

func TestWritersAreDeterministicAndLeaveTheSnapshotAlone(t *testing.T) {
	s := sampleSnapshot()
	for name, write := range allWriters() {
		var first, second strings.Builder
		testenv.Check(t, errors.Join(write(s, &first), write(sampleSnapshot(), &second)), name)
		testenv.Equal(t, first.String(), second.String(), "%s: two equal Snapshots are written differently", name)
	}
	if !reflect.DeepEqual(s, sampleSnapshot()) {
		t.Errorf("a writer changed the Snapshot")
	}
}

func TestWritersSurviveOddSnapshots(t *testing.T) {
	for what, s := range oddSnapshots() {
		for name, write := range allWriters() {
			testenv.Check(t, write(s, io.Discard), "%s, %s", what, name)
		}
	}
}
