package gotrace

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/exp/trace"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/graphview/tables"
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
		if len(s.Spans) != 4 || slices.ContainsFunc(s.Spans, func(sp bgraph.Span) bool { return sp.Times.Count != orders }) {
			t.Errorf("%s: %+v", path, s.Spans)
		}
		var text bytes.Buffer
		testenv.Must(t, tables.WriteText(&text, s, tables.Options{Prune: 0.02}))
		testenv.Must(t, tables.WriteSlowest(&text, s, 2, 0))
		testenv.Must(t, tables.WriteRequests(&text, s, 0, 0))
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
	if sum.Kind != bgraph.KindGoroutines || sleep.Arrivals != 48 || woken != 48 || len(sum.Spans) != 4 || sum.Spans[0].Times.Count != 48 {
		t.Errorf("%d arrivals, %d woken, %+v", sleep.Arrivals, woken, sum.Spans)
	}
}

// A list of goroutines says for how long one has waited at a node of the trace, in the words of
// either, and which have leaked.
func TestAges(t *testing.T) {
	const minute = bgraph.Nanos(time.Minute)
	waits := []struct {
		traced, listed string // reasons
		below, above   []string
		want           bgraph.Nanos
	}{
		{"chan receive", "chan receive, 7 minutes", []string{"runtime.gopark", "runtime.chanrecv1"}, nil, 7 * minute},
		{"chan send", "chan send (leaked)", []string{"runtime.chansend1"}, nil, 0},
		{"network", "IO wait, 61 minutes, locked to thread", []string{"internal/poll.runtime_pollWait", "internal/poll.(*pollDesc).wait"}, []string{"internal/poll.(*FD).Read"}, 61 * minute},
		{"sync", "sync.Mutex.Lock, 2 minutes", []string{"internal/sync.runtime_SemacquireMutex", "internal/sync.(*Mutex).lockSlow"}, []string{"sync.(*Mutex).Lock"}, 2 * minute},
		{"sync", "sync.WaitGroup.Wait, 3 minutes", []string{"sync.runtime_SemacquireWaitGroup"}, []string{"sync.(*WaitGroup).Wait"}, 3 * minute},
		{"select", "select, 4 minutes", []string{"runtime.selectgo"}, nil, 4 * minute},
		{"sleep", "sleep", []string{"time.Sleep"}, nil, 0},
	}
	st := newStream(t)
	var list strings.Builder
	for i, w := range waits {
		own := []string{fmt.Sprintf("main.(*T%d).wait[...]", i), fmt.Sprintf("main.start%d", i)}
		st.change(time.Duration(i+1), none, trace.GoID(i+1), trace.GoUndetermined, trace.GoWaiting, w.traced, stackOf(append(append(w.below, w.above...), own...)...))
		fmt.Fprintf(&list, "goroutine %d gp=0xc000 m=nil [%s]:\n", i+1, w.listed)
		for _, f := range append(append(w.below[len(w.below)-1:], w.above...), own...) {
			fmt.Fprintf(&list, "%s(0xc0000, {0x1, 0x2, ...})\n\t%s.go:7 +0x1d\n", f, f[strings.LastIndexByte(f, '/')+1:])
		}
		list.WriteString("...additional frames elided...\ncreated by main.main in goroutine 1\n\tmain.go:99 +0x2\n\n")
	}
	s := st.m.snapshot()
	testenv.Must(t, AddAges(s, strings.NewReader("goroutine 99 [running]:\nmain.other()\n\tmain.go:1\n\n"+list.String())))
	testenv.Must(t, s.Validate())
	before := bgraph.Nanos(len(waits))
	for i, w := range waits {
		start := fmt.Sprintf("main.start%d", i)
		found := 0
		for _, n := range s.Nodes {
			if len(n.Stack) > 0 && n.Stack[len(n.Stack)-1].Function == start {
				found++
				if n.Oldest < w.want || n.Oldest > w.want+before {
					t.Errorf("%s: oldest %v, want %v", w.listed, n.Oldest, w.want)
				}
			}
		}
		for _, begun := range s.Starts {
			if begun.Function == start {
				found++
				if begun.Oldest < w.want || begun.Oldest > w.want+before || (begun.Leaked == 1) != strings.Contains(w.listed, "leaked") {
					t.Errorf("%s: %+v", w.listed, begun)
				}
			}
		}
		testenv.Equal(t, found, 2, "%s: N nodes and starts of it", w.listed)
	}
}

// What is no list is an error; what came before a break is kept.
func TestBrokenAges(t *testing.T) {
	for text, want := range map[string]string{
		"":                             "",
		"<html>":                       `no list of goroutines: it begins with "<html>"`,
		"goroutine profile: total 5\n": "no list of goroutines",
		"goroutine 1 [x]:\n" + strings.Repeat("y", longestInput+1):                                                   "cannot be read any further",
		"goroutine 1 [chan receive, 99999999999999999999 minutes]:\n\t:\nf()\n\tx.go:99999999999999999999\n)\n\t)\n": "",
	} {
		err := AddAges(new(bgraph.Snapshot), strings.NewReader(text))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v", text, err)
		}
	}
}
