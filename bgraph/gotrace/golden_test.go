package gotrace

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/bgraph"
	"github.com/capriccio-go/capriccio/bgraph/graphview/tables"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// Traces of a small program, in which three workers take 60 orders one after the other and sleep with
// a lock held, each written by another release of Go, in the format that its first line names.
func TestTracesOfAllReleases(t *testing.T) {
	for release, format := range map[string]string{"1.21": "1.21", "1.22": "1.22", "1.23": "1.23", "1.24": "1.23", "1.25": "1.25", "1.26": "1.26", "1.27": "1.26"} {
		data := testenv.Need(os.ReadFile("testdata/releases/go" + release + ".trace"))(t)
		if head := "go " + format + " trace"; !bytes.HasPrefix(data, []byte(head)) {
			t.Errorf("Go %s: the trace begins with %q, want %q", release, data[:16], head)
		}
		s := testenv.Need(Read(bytes.NewReader(data), Options{}))(t)
		testenv.Must(t, s.Validate())
		for reason, function := range map[string]string{"sleep": "main.worker", "task begins": "main.main", "task ends": "main.main"} {
			if n := at(t, s, reason, function); n.Arrivals != 60 || n.Departures != 60 {
				t.Errorf("Go %s: %s: %d came, %d left; want 60", release, reason, n.Arrivals, n.Departures)
			}
		}
		if at(t, s, "mutex", "main.worker").Departures == 0 {
			t.Errorf("Go %s: none has waited for the lock", release)
		}
		if steps := stepsOf(s); steps != 302 || len(s.Notes) > 0 || len(s.Spans) < 2 || s.Spans[0].Times.Count != 60 || s.Spans[1].Times.Count != 60 {
			t.Errorf("Go %s: %d steps, %q, %+v", release, steps, s.Notes, s.Spans)
		}
	}
}

// Traces of testdata/program.
func TestGoldenTraces(t *testing.T) {
	const orders = 24
	traces, err := filepath.Glob("testdata/*.trace")
	if err != nil || len(traces) < 2 {
		t.Fatalf("%d traces, %v", len(traces), err)
	}
	var sums bytes.Buffer
	for _, path := range traces {
		data := testenv.Need(os.ReadFile(path))(t)
		s := testenv.Need(Read(bytes.NewReader(data), Options{Name: filepath.Base(path)}))(t)
		testenv.Must(t, s.Validate())
		// How often it waits for locks and the like depends on who came first.
		for _, want := range []struct {
			reason, function string
			came, left       uint64
		}{
			{"task begins", "main.takeOrders", orders, orders}, {"task ends", "main.takeOrders", orders, orders},
			{"sleep", "main.worker", orders, orders}, {"sleep", "main.guards", orders, orders},
			{"sleep", "main.reader", 2 * orders, 2 * orders}, {"sleep", "main.values.func3", orders, orders},
			{"sleep", "main.pipes.func1", orders, orders}, {"sleep", "main.handle", orders, orders},
			{"sleep", "main.query", orders, orders}, {"response", "http.(*response).finishRequest", orders, orders},
			{"channel send", "main.values.func1", 1, 0}, {"forever", "main.values.func2", 1, 0},
			{"once", "main.compute.func1", 1, 1},
		} {
			if n := at(t, s, want.reason, want.function); n.Arrivals != want.came || n.Departures != want.left {
				t.Errorf("%s: %s %s: %d came, %d left; want %d and %d", path, want.reason, want.function, n.Arrivals, n.Departures, want.came, want.left)
			}
		}
		for reason, function := range map[string]string{
			"mutex": "main.worker", "rwmutex read": "main.reader", "rwmutex write": "main.writer", "cond": "main.takeTurn",
			"select": "main.choose", "read": "main.pipes", "accept": "http.(*Server).Serve", "connect": "http.(*Transport).dial",
			"pool": "main.query", "waitgroup": "main.pool", "channel receive": "main.values",
		} {
			if n := at(t, s, reason, function); n.Departures == 0 {
				t.Errorf("%s: %s %s: none left", path, reason, function)
			}
		}
		if len(s.Spans) != 3 || s.Spans[0].Times.Count != orders || s.Spans[1].Times.Count != orders || s.Spans[2].Times.Count != orders {
			t.Errorf("%s: %+v", path, s.Spans)
		}
		var text bytes.Buffer
		testenv.Must(t, tables.WriteText(&text, s, tables.Options{Prune: 0.02}))
		name := strings.TrimSuffix(filepath.Base(path), ".trace")
		testenv.Golden(t, name+".txt", text.Bytes())
		var dump bytes.Buffer
		testenv.Must(t, s.Encode(&dump))
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(dump.Bytes()), name)
		if name == "go1.27" { // whole, to see what changed, and for the page of bgdump: nodes and edges have a line each
			testenv.Golden(t, name+".dump", bytes.ReplaceAll(dump.Bytes(), []byte(`,{"`), []byte(",\n{\"")))
		}
	}
	testenv.Golden(t, "dumps.sha256", sums.Bytes())
}

// A sum of traces is one graph.
func TestMergeOfTraces(t *testing.T) {
	var all []*bgraph.Snapshot
	for _, path := range []string{"testdata/go1.26.trace", "testdata/go1.27.trace"} {
		data := testenv.Need(os.ReadFile(path))(t)
		s := testenv.Need(Read(bytes.NewReader(data), Options{}))(t)
		all = append(all, s)
	}
	sum := testenv.Need(bgraph.Merge(all...))(t)
	sleep := at(t, sum, "sleep", "main.worker")
	var woken uint64
	for _, w := range sleep.Wakers {
		woken += w.Count
	}
	if sum.Kind != bgraph.KindGoroutines || sleep.Arrivals != 48 || woken != 48 || len(sum.Spans) != 3 || sum.Spans[0].Times.Count != 48 {
		t.Errorf("%d arrivals, %d woken, %+v", sleep.Arrivals, woken, sum.Spans)
	}
}
