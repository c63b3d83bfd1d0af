package recorder_test

import (
	"strings"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/admit"
	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/coro"
	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/funcname"
	"github.com/capriccio-go/capriccio/internal/recorder"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/stackchunk"
)

//go:noinline
func onOneWay(need stackchunk.Bytes) { stackchunk.Call(need, waitOnChunk) }

//go:noinline
func onAnotherWay(need stackchunk.Bytes) { stackchunk.Call(need, waitOnChunk) }

//go:noinline
func onTwoChunks() { stackchunk.Call(32<<10, func() { onOneWay(128 << 10) }) }

//go:noinline
func waitOnChunk() { engine.Sleep(time.Millisecond) }

// functions are the names on the stack of n, innermost first.
func functions(n *bgraph.Node) (names []string) {
	for _, f := range n.Stack {
		names = append(names, funcname.Short(f.Function))
	}
	return names
}

func TestAWaitOnAStackChunkShowsTheWholePath(t *testing.T) {
	if !coro.Exact {
		t.Skip("with the portable stubs chunks are never linked")
	}
	s := observed(t, 1, recorder.Config{}, func(*engine.Runtime) {
		for range 5 {
			for need := stackchunk.Bytes(16 << 10); need < 1<<20; need *= 4 { // chunks of different sizes
				onOneWay(need)
				onAnotherWay(need)
			}
			onTwoChunks()
		}
	})
	want := map[string]uint64{
		"onOneWay": 15, "onAnotherWay": 15, "onOneWay onTwoChunks.func1 onTwoChunks": 5,
	}
	got := map[string]uint64{}
	for _, n := range nodes(s, "waitOnChunk") {
		var path []string
		names := functions(n)
		for i, f := range names {
			f = strings.TrimPrefix(f, "recorder_test.")
			switch {
			case f == "stackchunk.Call":
				if prev := names[i-1]; prev != "recorder_test.waitOnChunk" && !strings.HasSuffix(prev, ".func1") {
					t.Errorf("stackchunk.Call calls %s", prev)
				}
			case strings.HasPrefix(f, "stackchunk."), strings.HasPrefix(f, "iter."), strings.Contains(f, "chunkWorker"), strings.Contains(f, "linkPaths"):
				t.Errorf("the stack shows %s", f)
			case strings.HasPrefix(f, "on"):
				path = append(path, f)
			}
		}
		if last := names[len(names)-1]; !strings.HasPrefix(last, "engine.") {
			t.Errorf("the stack ends with %s, want it to reach the start of the task: %v", last, names)
		}
		got[strings.Join(path, " ")] += n.Arrivals
	}
	for path, n := range want {
		if got[path] != n {
			t.Errorf("%d waits by the path %s, want %d; there are %v", got[path], path, n, got)
		}
	}
	testenv.Equal(t, len(nodes(s, "waitOnChunk")), len(want), "nodes: the size of a chunk must not matter")
}

func TestStackChunksAreAResource(t *testing.T) {
	if !coro.Exact {
		t.Skip("with the portable stubs chunks are never linked")
	}
	const need, size = 40 << 10, 64 << 10
	before := int64(0)
	s := observed(t, 1, recorder.Config{}, func(*engine.Runtime) {
		index := -1
		for i, r := range admit.Resources() {
			if r.Name() == "stack chunks" {
				index = i
				before = r.InUse()
			}
		}
		if index < 0 {
			t.Fatal("no such resource")
		}
		for range 10 {
			engine.YieldAt("without")
			stackchunk.Call(need, func() { engine.YieldAt("with") })
		}
		engine.YieldAt("rest")
	})
	if c := s.Chunks; c.Links < 10 || c.Peak < size || c.Most < 1 || c.InUse > c.Peak {
		t.Errorf("%+v; want 10 links of %d bytes, or more", c, size)
	}
	for _, r := range s.Resources {
		if r.Name == "stack chunks" && (r.InUse != before || r.Unit != "bytes" || r.Acquired < 10*size) {
			t.Errorf("resource %+v; want %d in use", r, before)
		}
	}
	for _, e := range s.Edges {
		var sum int64
		for i, c := range e.Changes {
			if s.Resources[i].Name == "stack chunks" {
				sum = c.Sum
			}
		}
		want := int64(0)
		switch s.NameOf(e.From) + " " + s.NameOf(e.To) {
		case "without with":
			want = 10 * size
		case "with without":
			want = -9 * size
		case "with rest":
			want = -size
		}
		if sum != want {
			t.Errorf("%s → %s changes the resource by %d, want %d", s.NameOf(e.From), s.NameOf(e.To), sum, want)
		}
	}
}
