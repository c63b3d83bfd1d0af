package bgraph_test

import (
	"bytes"
	"path/filepath"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/bgraph"
	data "github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// dumped writes a dump of a run, in which departures waits of 2 ms each have ended at one node.
func dumped(t *testing.T, process int, departures uint64, at time.Duration) []byte {
	t.Helper()
	began := time.Unix(1000, 0).UTC()
	wait, start, end := data.Node{Key: 10, Reason: "mutex", Label: "save", Arrivals: departures + 1, Departures: departures, Now: 1}, data.Node{Key: data.KeyStart, Reason: "start"}, data.Node{Key: data.KeyEnd, Reason: "end"}
	step := data.Edge{From: 10, To: data.KeyEnd, Count: departures}
	for range departures {
		wait.Wait.Add(data.Nanos(2 * time.Millisecond))
		step.CPU.Add(data.Nanos(5 * time.Microsecond))
	}
	s := data.Snapshot{
		Program: data.Program{Name: "shop", PID: process, Host: "a", Go: "go1.26", Started: began}, Taken: began.Add(at), Span: data.Nanos(at), Sampling: 1,
		Nodes: []data.Node{start, end, wait}, Edges: []data.Edge{step}, Sched: &data.Sched{Policy: "cohort", Admitted: departures + 1, Refused: 2},
	}
	var dump bytes.Buffer
	testenv.Must(t, s.Encode(&dump))
	return dump.Bytes()
}

// A dump is read, its numbers are in the fields, and it is written as it was.
func TestDecode(t *testing.T) {
	dump := dumped(t, 7, 3, time.Second)
	g := testenv.Need(bgraph.Decode(bytes.NewReader(dump)))(t)
	testenv.Equal(t, g.Program, "shop")
	testenv.Equal(t, g.Span, time.Second)
	testenv.Equal(t, g.Nodes[2], bgraph.Node{Key: 10, Name: "save", Now: 1, Arrivals: 4, Departures: 3, Waited: 6 * time.Millisecond})
	testenv.Equal(t, g.Steps[0], bgraph.Step{From: 10, To: 2, Count: 3, CPU: 15 * time.Microsecond})
	testenv.Equal(t, [...]uint64{g.Admitted, g.Deferred, g.Refused}, [...]uint64{4, 0, 2})
	var again bytes.Buffer
	testenv.Must(t, g.Encode(&again))
	testenv.Equal(t, again.String(), string(dump))
}

func TestFailures(t *testing.T) {
	_, err := bgraph.Decode(bytes.NewReader([]byte("no dump")))
	testenv.ErrorSays(t, err, "bgraph: ")
	testenv.ErrorSays(t, (*bgraph.Graph)(nil).Encode(new(bytes.Buffer)), "is nil") // capriccio.Snapshot without a graph
	testenv.ErrorSays(t, testenv.Err(bgraph.Diff(nil, nil)), "is nil")
	testenv.ErrorSays(t, testenv.Err(bgraph.Merge(nil, nil)), "is nil")
	_, err = bgraph.ReadFile(filepath.Join(t.TempDir(), "none"))
	testenv.ErrorSays(t, err, "none")
}

// Diff is what happened between two moments, Merge the sum of two processes.
func TestDiffAndMerge(t *testing.T) {
	before := testenv.Need(bgraph.Decode(bytes.NewReader(dumped(t, 7, 3, time.Second))))(t)
	after := testenv.Need(bgraph.Decode(bytes.NewReader(dumped(t, 7, 8, 3*time.Second))))(t)
	between := testenv.Need(bgraph.Diff(before, after))(t)
	testenv.Equal(t, between.Span, 2*time.Second)
	testenv.Equal(t, between.Nodes[2].Departures, 5)
	testenv.Equal(t, between.Steps[0].CPU, 25*time.Microsecond)
	other := testenv.Need(bgraph.Decode(bytes.NewReader(dumped(t, 8, 8, 3*time.Second))))(t)
	both := testenv.Need(bgraph.Merge(before, other))(t)
	testenv.Equal(t, both.Nodes[2].Departures, 11)
	testenv.Fails(t, testenv.Err(bgraph.Diff(after, before)), "the time between a graph and an older one")
}
