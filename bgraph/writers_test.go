package bgraph

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
func hostileSnapshot() *Snapshot {
	s := &Snapshot{
		Program: Program{Name: hostileNames[6], Host: hostileNames[11], Go: hostileNames[8]},
		Taken:   time.Date(2026, 1, 2, 3, 4, 5, 0, time.FixedZone("a\nb", 3600)),
		Span:    Nanos(time.Second), Sampling: 1,
		Loops: []LoopStat{{Tasks: 3}},
		Sched: &Sched{Policy: "\x1b[1m"},
	}
	for i, name := range hostileNames {
		key := Key(100 + i)
		n := Node{Key: key, Reason: name, Now: int64(i), Arrivals: 10, Departures: 10, Wait: timesOfMean(10, 1000)}
		switch i % 3 {
		case 0:
			n.Label = name
		case 1:
			n.Stack = []Frame{{Function: name, File: name, Line: -i, Offset: 7}, {Function: "main.main", File: "a/b.go", Line: 1}}
		}
		s.Nodes = append(s.Nodes, n)
		s.Resources = append(s.Resources, Resource{Name: name, Unit: name, InUse: 1, Limit: -1})
		to := Key(100 + (i*7)%len(hostileNames))
		e := Edge{From: key, To: to, Count: 3, CPU: timesOfMean(3, 5_000_000), Overruns: 1}
		for range i + 2 {
			e.Changes = append(e.Changes, Change{Steps: 1, Sum: 2})
		}
		s.Edges = append(s.Edges, e, Edge{From: key, To: 9999, Count: 1})
		s.Overruns = append(s.Overruns, Overrun{From: key, To: to, Task: name, Stack: name + "\n\t" + name + "\n"})
		s.Sched.Resources = append(s.Sched.Resources, SchedResource{Name: name, State: name})
		s.Sched.Nodes = append(s.Sched.Nodes, SchedNode{Key: key, Held: name})
	}
	s.Overruns = append(s.Overruns, Overrun{From: 8888, To: KeyStart, Stack: "goroutine 1 [running]:\n"})
	return s
}

// extremeSnapshot has the largest figures that there are.
func extremeSnapshot() *Snapshot {
	huge := Times{Count: 1, Sum: math.MaxInt64, Max: math.MaxInt64, Hist: make(Histogram, Buckets)}
	huge.Hist[Buckets-1] = math.MaxUint64
	s := &Snapshot{
		Program: Program{PID: math.MaxInt}, Span: 1, Sampling: math.MaxInt, HeapEvery: math.MaxInt, Taken: time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC),
		Loops:     []LoopStat{{Tasks: math.MinInt64, Steps: math.MaxUint64}},
		Resources: []Resource{{Name: "r", Unit: "bytes", InUse: math.MaxInt64, Acquired: math.MaxUint64, Limit: 1}},
		Overflow:  Overflow{Nodes: math.MaxUint64, Edges: math.MaxUint64, MaxNodes: math.MaxInt, MaxEdges: math.MinInt},
	}
	for k := range Key(6) {
		s.Nodes = append(s.Nodes, Node{Key: k + 1, Reason: "read", Now: math.MaxInt64, Peak: math.MinInt64,
			Arrivals: math.MaxUint64, Departures: math.MaxUint64, Wait: huge, Ready: huge, Oldest: math.MinInt64})
		for to := range Key(6) {
			s.Edges = append(s.Edges, Edge{From: k + 1, To: to + 1, Count: math.MaxUint64, CPU: huge, Overruns: math.MaxUint64,
				Recent:  Moments{Mean: math.MaxFloat64, Variance: -1},
				Heap:    Change{Steps: 1, Sum: math.MaxInt64},
				Changes: []Change{{Steps: 1, Sum: math.MinInt64}}})
		}
	}
	return s
}

// oneNode has nothing but a node, which may be in a graph whose tasks wait for the first
// time.
func oneNode() *Snapshot {
	return &Snapshot{Nodes: []Node{{Key: 77, Reason: "sleep", Now: 1, Arrivals: 1}}}
}

func oddSnapshots() map[string]*Snapshot {
	return map[string]*Snapshot{
		"zero": {}, "one node": oneNode(), "hostile": hostileSnapshot(), "extreme": extremeSnapshot(),
		"missing nodes": {Edges: []Edge{{From: 500, To: 600, Count: 1}, {From: 600, To: 600}}},
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
func allWriters() map[string]func(*Snapshot, io.Writer) error {
	all := map[string]func(*Snapshot, io.Writer) error{
		"text":    func(s *Snapshot, w io.Writer) error { return s.WriteText(w, TextOptions{Stacks: true}) },
		"summary": (*Snapshot).WriteSummary,
		"profile": (*Snapshot).WriteProfile,
		"json":    (*Snapshot).WriteJSON,
	}
	for _, color := range []string{"", colorCPU, colorWait} {
		o := DrawOptions{Color: color}
		all["dot "+color] = func(s *Snapshot, w io.Writer) error { return s.WriteDOT(w, o) }
		all["svg "+color] = func(s *Snapshot, w io.Writer) error { return s.WriteSVG(w, o) }
	}
	for _, metric := range metricNames {
		all["folded "+metric] = func(s *Snapshot, w io.Writer) error { return s.WriteFolded(w, metric) }
	}
	return all
}

var errFull = errors.New("disk full")

type fullWriter struct{}

func (fullWriter) Write([]byte) (int, error) { return 0, errFull }

func TestWritersReturnErrorsOfTheWriter(t *testing.T) {
	for name, write := range allWriters() {
		if err := write(sampleSnapshot(), fullWriter{}); !errors.Is(err, errFull) {
			t.Errorf("%s: error %v, want that of the writer", name, err)
		}
	}
}

func TestWritersAreDeterministicAndLeaveTheSnapshotAlone(t *testing.T) {
	s := sampleSnapshot()
	for name, write := range allWriters() {
		var first, second strings.Builder
		if err := errors.Join(write(s, &first), write(sampleSnapshot(), &second)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if first.String() != second.String() {
			t.Errorf("%s: two equal Snapshots are written differently", name)
		}
	}
	if !reflect.DeepEqual(s, sampleSnapshot()) {
		t.Errorf("a writer changed the Snapshot")
	}
}

func TestWritersSurviveOddSnapshots(t *testing.T) {
	for what, s := range oddSnapshots() {
		for name, write := range allWriters() {
			if err := write(s, io.Discard); err != nil {
				t.Errorf("%s, %s: %v", what, name, err)
			}
		}
	}
}
