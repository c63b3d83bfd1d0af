package gotrace

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/bgraph"
	"github.com/capriccio-go/capriccio/bgraph/graphview"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// Traces of one program, in which three workers take 60 orders one after the other and sleep
// with a lock held, written by several releases of Go.
func TestGoldenTraces(t *testing.T) {
	traces, err := filepath.Glob("testdata/*.trace")
	if err != nil || len(traces) < 7 {
		t.Fatalf("%d traces, %v", len(traces), err)
	}
	for _, path := range traces {
		data, err := os.ReadFile(path)
		testenv.Must(t, err)
		s, err := Read(bytes.NewReader(data), Options{Name: filepath.Base(path)})
		testenv.Must(t, err)
		testenv.Must(t, s.Validate())
		for reason, function := range map[string]string{"sleep": "main.worker", "task begins": "main.main", "task ends": "main.main"} {
			if n := at(t, s, reason, function); n.Arrivals != 60 || n.Departures != 60 {
				t.Errorf("%s: %s: %d came, %d left; want 60", path, reason, n.Arrivals, n.Departures)
			}
		}
		var steps uint64
		for i := range s.Edges {
			steps += s.Edges[i].Count
		}
		if steps != 302 || len(s.Spans) != 2 || s.Spans[0].Times.Count != 60 || s.Spans[1].Times.Count != 60 {
			t.Errorf("%s: %d steps, %+v", path, steps, s.Spans)
		}
		var text bytes.Buffer
		testenv.Must(t, graphview.WriteText(&text, s, graphview.TextOptions{Stacks: true}))
		name := strings.TrimSuffix(filepath.Base(path), ".trace")
		testenv.Golden(t, name+".txt", text.Bytes())
		var dump bytes.Buffer
		testenv.Must(t, s.Encode(&dump))
		// Nodes and edges have a line each.
		testenv.Golden(t, name+".dump", bytes.ReplaceAll(dump.Bytes(), []byte(`,{"`), []byte(",\n{\"")))
	}
}

// A sum of traces is one graph.
func TestMergeOfTraces(t *testing.T) {
	var all []*bgraph.Snapshot
	for _, path := range []string{"testdata/go1.26.trace", "testdata/go1.27.trace"} {
		data, err := os.ReadFile(path)
		testenv.Must(t, err)
		s, err := Read(bytes.NewReader(data), Options{})
		testenv.Must(t, err)
		all = append(all, s)
	}
	sum, err := bgraph.Merge(all...)
	testenv.Must(t, err)
	sleep := at(t, sum, "sleep", "main.worker")
	var woken uint64
	for _, w := range sleep.Wakers {
		woken += w.Count
	}
	if sum.Kind != bgraph.KindGoroutines || sleep.Arrivals != 120 || woken != 120 || len(sum.Spans) != 2 || sum.Spans[0].Times.Count != 120 {
		t.Errorf("%d arrivals, %d woken, %+v", sleep.Arrivals, woken, sum.Spans)
	}
}
