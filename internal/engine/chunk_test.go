package engine

import (
	"strings"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/coro"
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
	g := newGraph()
	rt := newRuntime(t, 1, learn(g))
	inTasks(rt, 5, func(int) {
		for range 3 {
			callOnChunk(func() {
				Yield()
				stackchunk.Call(3*muchStack, Yield)
				Yield()
			})
			Yield()
		}
	})
	rt.Close()
	testenv.Equal(t, wholeLives(t, g)["yield"], 5*3*4, "yields")
}

func TestAHoldOnAChunkIsReportedWithTheWholeStack(t *testing.T) {
	needChunks(t)
	log := make(testenv.Records, 100)
	rt := newRuntime(t, 1, logTo(log), holdLimit(time.Millisecond))
	stop := holdOften(rt, Options{}, callOnChunk)
	log.Next(t, "held its loop too long", "engine.hold ", "known only if there is a blocking graph")
	testenv.Check(t, stop())

	g := newGraph() // which keeps the stack, and the log has none
	rt = newRuntime(t, 1, logTo(log), holdLimit(time.Millisecond), learn(g))
	stop = holdOften(rt, Options{}, callOnChunk)
	testenv.Contains(t, waitOverrun(t, g), "engine.callOnChunk(")
	testenv.Check(t, stop())
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
