package engine

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/bgraph"
	"github.com/capriccio-go/capriccio/internal/coro"
	"github.com/capriccio-go/capriccio/internal/recorder"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/stackchunk"
)

func needChunks(t *testing.T) {
	t.Helper()
	if !coro.Exact {
		t.Skip("with the portable stubs chunks are never linked")
	}
}

const muchStack = 100 << 10

//go:noinline
func callOnChunk(f func()) { stackchunk.Call(muchStack, f) }

// TestLivesOnChunksAreRecordedWhole: a task that waits on chunks, and on chunks from there, is one life in the graph.
func TestLivesOnChunksAreRecordedWhole(t *testing.T) {
	needChunks(t)
	g := recorder.New(bgraph.Config{})
	rt := newRuntime(t, 1, func(c *Config) { c.Graph = g })
	run(t, rt, func() {
		var all WaitGroup
		for range 5 {
			all.Go(func() {
				for range 3 {
					callOnChunk(func() {
						Yield()
						stackchunk.Call(3*muchStack, Yield)
						Yield()
					})
					Yield()
				}
			})
		}
		all.Wait()
	})
	rt.Close()
	s, yields := g.Snapshot(), uint64(0)
	for _, n := range s.Nodes {
		testenv.Equal(t, n.Departures, n.Arrivals, "%s: N departures, not as many as arrivals", n.Name())
		if n.Reason == "yield" {
			yields += n.Arrivals
		}
	}
	testenv.Equal(t, yields, 5*3*4, "yields")
	testenv.Equal(t, s.Node(bgraph.KeyEnd).Arrivals, s.Node(bgraph.KeyStart).Departures, "tasks that have ended")
}

func TestAHoldOnAChunkIsReportedWithTheWholeStack(t *testing.T) {
	needChunks(t)
	for _, observed := range []bool{false, true} {
		log, g := make(testenv.Records, 100), recorder.New(bgraph.Config{})
		rt := newRuntime(t, 1, logTo(log), holdLimit(time.Millisecond), func(c *Config) {
			if observed {
				c.Graph = g
			}
		})
		stop := holdOften(rt, Options{}, callOnChunk)
		if observed { // it keeps the stack, and the log has none
			contains(t, waitOverrun(t, g), "engine.callOnChunk(")
		} else {
			line := log.Next(t, "held its loop too long")
			contains(t, line, "engine.hold(")
			contains(t, line, "known only if there is a blocking graph")
		}
		testenv.Check(t, stop())
	}
}

func TestAHoldOnAChunkThatGoesOnIsReported(t *testing.T) {
	needChunks(t)
	log := make(testenv.Records, 100)
	rt := newRuntime(t, 1, logTo(log), holdLimit(100*time.Microsecond))
	var stop atomic.Bool
	k := rt.Go(func() { callOnChunk(func() { spinUntil(stop.Load) }) })
	contains(t, log.Next(t, "still does", "loop=0"), "spinUntil")
	stop.Store(true)
	k.Join()
}

func TestPathsToLinksAreForgottenBeyondALimit(t *testing.T) {
	var p linkPaths
	for i := range 2 * maxLinkPaths {
		p.meet(uint64(i))
	}
	testenv.Equal(t, len(p.known), maxLinkPaths, "paths are known")
}

// A task that has 2 KB of stack shall not outgrow them in order to spare stack.
func TestLinkingTakesLittleStack(t *testing.T) {
	needChunks(t)
	rt := newRuntime(t, 1)
	run(t, rt, func() { callOnChunk(func() {}) }) // the first chunk is made by its user
	var before, after uintptr
	run(t, rt, func() {
		before = coro.Depth() + coro.Headroom()
		stackchunk.Call(muchStack, func() {})
		after = coro.Depth() + coro.Headroom()
	})
	testenv.Equal(t, before, after, "a stack of N bytes has grown to %d", after)
}

//go:noinline
func panicsDeepBelow() { panic("deep below") }

// A task that recovers a panic that came over a link sees where it began.
func TestPanicStackShowsTheChunk(t *testing.T) {
	rt := newRuntime(t, 1)
	run(t, rt, func() {
		defer func() {
			stack := string(PanicStack(recover()))
			if !strings.Contains(stack, "panicsDeepBelow") || !strings.Contains(stack, "TestPanicStackShowsTheChunk") {
				t.Errorf("want the function that panicked and the one that recovered in:\n%s", stack)
			}
		}()
		stackchunk.Call(1<<20, panicsDeepBelow)
	})
	testenv.Contains(t, string(PanicStack("nothing")), "TestPanicStackShowsTheChunk", "on a plain goroutine")
}
