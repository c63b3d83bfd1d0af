package graphview_test

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/graphcases"
	"github.com/capriccio-go/capriccio/internal/graphlayout"
	"github.com/capriccio-go/capriccio/internal/graphview/draw"
	"github.com/capriccio-go/capriccio/internal/graphview/export"
	"github.com/capriccio-go/capriccio/internal/graphview/tables"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// Snapshots that no collector would make, and what all writers must keep to with them.

// allWriters are the ways to write a Snapshot.
func allWriters() map[string]func(*bgraph.Snapshot, io.Writer) error {
	all := map[string]func(*bgraph.Snapshot, io.Writer) error{
		"text": func(s *bgraph.Snapshot, w io.Writer) error {
			return tables.WriteText(w, s, tables.Options{Stacks: true})
		},
		"summary": func(s *bgraph.Snapshot, w io.Writer) error { return tables.WriteSummary(w, s) },
		"profile": func(s *bgraph.Snapshot, w io.Writer) error { return export.WriteProfile(w, s) },
		"json":    func(s *bgraph.Snapshot, w io.Writer) error { return export.WriteJSON(w, s) },
	}
	for _, color := range []string{"", "cpu", "wait"} {
		o := draw.Options{Color: color}
		all["dot "+color] = func(s *bgraph.Snapshot, w io.Writer) error { return draw.WriteDOT(w, s, o) }
		all["svg "+color] = func(s *bgraph.Snapshot, w io.Writer) error { return draw.WriteSVG(w, s, o) }
	}
	for _, metric := range []string{"cpu", "wait", "ready", "count", "heap"} {
		all["folded "+metric] = func(s *bgraph.Snapshot, w io.Writer) error { return export.WriteFolded(w, s, metric) }
	}
	return all
}

var errFull = errors.New("disk full")

type fullWriter struct{}

func (fullWriter) Write([]byte) (int, error) { return 0, errFull }

func TestWritersReturnErrorsOfTheWriter(t *testing.T) {
	for name, write := range allWriters() {
		testenv.ErrorIs(t, write(graphcases.Sample(), fullWriter{}), errFull, "%s: error", name)
	}
}

func TestWritersAreDeterministicAndLeaveTheSnapshotAlone(t *testing.T) {
	s := graphcases.Sample()
	for name, write := range allWriters() {
		var first, second strings.Builder
		testenv.Check(t, errors.Join(write(s, &first), write(graphcases.Sample(), &second)), name)
		testenv.Equal(t, first.String(), second.String(), "%s: two equal Snapshots are written differently", name)
	}
	if !reflect.DeepEqual(s, graphcases.Sample()) {
		t.Errorf("a writer changed the Snapshot")
	}
}

func TestWritersSurviveOddSnapshots(t *testing.T) {
	for what, s := range graphcases.Odd() {
		for name, write := range allWriters() {
			testenv.Check(t, write(s, io.Discard), "%s, %s", what, name)
		}
	}
}

// What is rare is left out of tables and drawings of a trace, and they say so; where somebody
// waits stays in the table.
func TestPruned(t *testing.T) {
	s := graphcases.Traced(func(s *bgraph.Snapshot) {
		s.Nodes = append(s.Nodes, bgraph.Node{Key: 101, Reason: "write", Label: "rare", Arrivals: 1}, bgraph.Node{Key: 102, Reason: "accept", Label: "idle", Now: 1})
		s.Edges = append(s.Edges, bgraph.Edge{From: 101, To: 101, Count: 1})
	})
	for share, want := range map[float64][]string{0: {"rare", "idle"}, 0.02: {"idle", "… and 1 rare one, which -prune 0 shows"}} {
		var b bytes.Buffer
		testenv.Must(t, tables.WriteText(&b, s, tables.Options{Prune: share}))
		for _, text := range want {
			testenv.Contains(t, b.String(), text, "prune %v", share)
		}
		if share > 0 && strings.Contains(b.String(), "→ rare") {
			t.Errorf("prune %v: the rare edge is there:\n%s", share, b.String())
		}
	}
	d := graphlayout.Layout(s, graphlayout.Options{Prune: 0.02})
	if len(d.Nodes) != 1 || d.Hidden != 1 || d.Rare != 2 {
		t.Errorf("%d nodes drawn, %d edges and %d nodes left out; want 1, 1, 2", len(d.Nodes), d.Hidden, d.Rare)
	}
}

// The waits that are always timed do not count more than others, in drawings and facts as in tables.
func TestMeansAreOfAllWaits(t *testing.T) {
	lock, read := bgraph.Key(100), bgraph.Key(101)
	times := func(first, rest bgraph.Nanos) bgraph.Times {
		return bgraph.Times{Count: 128, First: 64, FirstSum: 64 * first, Sum: 64*first + 64*rest, Max: max(first, rest)}
	}
	const count = 64 + 64*20
	s := &bgraph.Snapshot{Span: 1e9,
		Nodes: []bgraph.Node{{Key: lock, Reason: "mutex", Label: "lock", Now: 2, Departures: count, Wait: times(1e9, 0)}, {Key: read, Reason: "read"}},
		Edges: []bgraph.Edge{{From: lock, To: read, Count: count, CPU: times(21e6, 0)}},
	}
	d := graphlayout.Layout(s, graphlayout.Options{})
	if n, e := d.Nodes[0], d.Edges[0]; n.Wait != bgraph.Nanos(64_000_000_000/count) || e.CPU != 1e6 {
		t.Errorf("drawn: a wait of %d and a step of %d; want %d and 1ms", n.Wait, e.CPU, 64_000_000_000/count)
	}
	var b bytes.Buffer
	testenv.Must(t, tables.WriteText(&b, s, tables.Options{}))
	for _, want := range []string{", 1.00ms each\n", " on average at lock, for 47.6ms each\n"} {
		testenv.Contains(t, b.String(), want)
	}
}
