//go:build linux

package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/bgraph"
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
	case "lookup":
		lookupProgram()
	case "coffee":
		coffeeProgram()
	case "burner":
		burnerProgram()
	case "silent":
		silentProgram()
	}
}

// shop is the graph in testdata: that of a web shop after a minute under load.
func shop(t *testing.T) *bgraph.Snapshot {
	t.Helper()
	s := testenv.Need(bgraph.ReadFile(shopFile))(t)
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
	b := testenv.Need(io.ReadAll(r))(t)
	return string(b)
}
