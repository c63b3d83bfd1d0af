//go:build linux

package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/bgraph"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// The test binary is also the programs that tests need as processes of their own.
const roleVariable = "BGDUMP_TEST_ROLE"

func TestMain(m *testing.M) {
	time.Local = time.UTC // so that what is shown is the same everywhere
	switch os.Getenv(roleVariable) {
	case "":
		os.Exit(m.Run())
	case "bgdump":
		main()
	case "announces":
		announcingProgram()
	case "coffee":
		coffeeProgram()
	case "silent":
		silentProgram()
	}
}

// shop is the graph in testdata: that of a web shop after a minute under load.
func shop(t *testing.T) *bgraph.Snapshot {
	t.Helper()
	s, err := bgraph.ReadFile(shopFile)
	testenv.Must(t, err)
	return s
}

const shopFile = "testdata/shop.bgraph"

// later is what becomes of s when it goes on for d as before.
func later(s *bgraph.Snapshot, d time.Duration) *bgraph.Snapshot {
	var b bytes.Buffer
	if err := s.Encode(&b); err != nil {
		panic(err)
	}
	s, err := bgraph.Decode(&b)
	if err != nil {
		panic(err)
	}
	grow := func(n *uint64) { *n += *n * uint64(d) / uint64(s.Span) }
	times := func(t *bgraph.Times) {
		t.Sum += bgraph.Nanos(float64(t.Sum) * float64(d) / float64(s.Span))
		t.Count = 0
		for i := range t.Hist {
			grow(&t.Hist[i])
			t.Count += t.Hist[i]
		}
	}
	for i := range s.Loops {
		grow(&s.Loops[i].Steps)
	}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		grow(&n.Arrivals)
		grow(&n.Departures)
		times(&n.Wait)
		times(&n.Ready)
		for j := range n.Loops {
			grow(&n.Loops[j].Arrivals)
			grow(&n.Loops[j].Departures)
		}
	}
	for i := range s.Edges {
		e := &s.Edges[i]
		grow(&e.Count)
		times(&e.CPU)
		e.Heap.Sum += e.Heap.Sum / int64(max(e.Heap.Steps, 1)) * int64(e.Heap.Steps*uint64(d)/uint64(s.Span))
		grow(&e.Heap.Steps)
		for j := range e.Changes {
			e.Changes[j].Steps = e.Count
		}
	}
	s.Span += bgraph.Nanos(d)
	s.Taken = s.Taken.Add(d)
	return s
}

// write puts a dump of s into a new file.
func writeDump(t *testing.T, s *bgraph.Snapshot) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.bgraph")
	testenv.Must(t, bgraph.WriteFile(path, s))
	return path
}

// A result is what a command did.
type result struct {
	code        int
	out, errOut string
}

// command runs bgdump with a clock that stands still and an empty standard input.
func command(t *testing.T, args ...string) result {
	t.Helper()
	return commandIn(t, context.Background(), &surroundings{stdin: strings.NewReader(""), clock: newFakeClock()}, args...)
}

func commandIn(t *testing.T, ctx context.Context, sur *surroundings, args ...string) result {
	t.Helper()
	var out, errOut bytes.Buffer
	if sur.stdout == nil {
		sur.stdout = &out
	}
	sur.stderr = &errOut
	code := run(ctx, args, sur)
	return result{code, out.String(), errOut.String()}
}

// ok fails the test if the command did.
func (r result) ok(t *testing.T) string {
	t.Helper()
	if r.code != exitOK || r.errOut != "" {
		t.Fatalf("exit code %d, errors:\n%s\noutput:\n%s", r.code, r.errOut, r.out)
	}
	return r.out
}

// fails fails the test if the command did not, or if it says anything but all of want.
func (r result) fails(t *testing.T, want ...string) {
	t.Helper()
	if r.code != exitFailed || r.out != "" || !strings.HasPrefix(r.errOut, "bgdump: ") {
		t.Errorf("exit code %d, errors:\n%s\noutput:\n%s", r.code, r.errOut, r.out)
	}
	for _, w := range want {
		if !strings.Contains(r.errOut, w) {
			t.Errorf("the error is\n%s\nwant it to say %q", r.errOut, w)
		}
	}
}

// A scripted source gives what the test puts into it.
type scripted struct {
	mu    sync.Mutex
	next  func() (*bgraph.Snapshot, error) // guarded by mu
	asked int                              // guarded by mu
}

func (*scripted) Name() string { return "a script" }

func (s *scripted) Snapshot(context.Context) (*bgraph.Snapshot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	return s.next()
}

// gives makes the source answer with snap and err from now on.
func (s *scripted) gives(snap *bgraph.Snapshot, err error) {
	s.does(func() (*bgraph.Snapshot, error) { return snap, err })
}

func (s *scripted) does(fn func() (*bgraph.Snapshot, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next = fn
}

func (s *scripted) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

func readAll(t *testing.T, r io.Reader) string {
	t.Helper()
	b, err := io.ReadAll(r)
	noErr(t, err)
	return string(b)
}
