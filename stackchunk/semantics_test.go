package stackchunk_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/chunk"
	"github.com/capriccio-go/capriccio/internal/coro"
	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/enginetest"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/stackchunk"
)

// large is more than any task of these tests has.
const large = 100 << 10

// calls are what the statistics count.
type calls struct{ links, unlinks, inPlace, outside uint64 }

// during returns what f adds to the statistics.
func during(f func()) calls {
	before, unlinked := stackchunk.ReadStats(), unlinks()
	f()
	s := stackchunk.ReadStats()
	return calls{s.Links - before.Links, unlinks() - unlinked, s.InPlace - before.InPlace, s.Outside - before.Outside}
}

func needChunks(t *testing.T) {
	t.Helper()
	if !coro.Exact {
		t.Skip("with the portable stubs chunks are never linked")
	}
}

// onLoop runs f as a task of a runtime with one loop.
func onLoop(t *testing.T, f func(rt *engine.Runtime)) {
	t.Helper()
	needChunks(t)
	rt := enginetest.NewRuntime(t, 1)
	enginetest.Run(t, rt, func() { f(rt) })
}

func TestAPlainGoroutineCallsInPlace(t *testing.T) {
	needChunks(t)
	done := make(chan calls)
	called := false
	go func() { done <- during(func() { stackchunk.Call(large, func() { called = true }) }) }()
	testenv.Equal(t, <-done, calls{outside: 1})
	testenv.Equal(t, called, true, "called")
}

func TestTheReportOfAPanicShowsTheWholeStack(t *testing.T) {
	reports := make(chan *engine.PanicError, 1)
	rt := enginetest.NewRuntime(t, 1, func(c *engine.Config) { c.OnPanic = func(p *engine.PanicError) { reports <- p } })
	err := rt.Go(callsDeep).Join()
	p := <-reports
	testenv.ErrorIs(t, err, p, "Join")
	for _, f := range []string{"panicsOnChunk", "betweenChunks", "callsDeep"} {
		testenv.Contains(t, string(p.Stack), f, "the report")
	}
	if at, below := strings.Index(string(p.Stack), "panicsOnChunk"), strings.Index(string(p.Stack), "callsDeep"); at > below {
		t.Errorf("the innermost function is not first:\n%s", p.Stack)
	}
	// A later panic has nothing to do with the first.
	rt.Go(func() {
		testenv.MustPanic(t, "deep", callsDeep)
		panic("another")
	}).Join()
	testenv.Equal(t, strings.Contains(string((<-reports).Stack), "panicsOnChunk"), false, "the report shows the stack of an earlier panic")

	if !coro.Exact {
		return
	}
	enginetest.Run(t, rt, func() { stackchunk.Call(40<<10, func() {}) })
	need := stackchunk.Bytes(class(64<<10).Room) - 16 // all of a chunk
	rt.Go(func() { chunkOnChunk(50, need) })
	stack := string((<-reports).Stack)
	testenv.Equal(t, strings.Count(stack, "on a linked stack chunk"), 8, "chunks of 50 whose stacks are shown, the innermost ones")
	testenv.Contains(t, stack, "panicsOnChunk", "the report lacks where the panic")
}

func chunkOnChunk(n int, need stackchunk.Bytes) {
	if n == 0 {
		panicsOnChunk()
	}
	stackchunk.Call(need, func() { chunkOnChunk(n-1, need) })
}

//go:noinline
func callsDeep() { stackchunk.Call(large, betweenChunks) }

//go:noinline
func betweenChunks() { stackchunk.Call(4*large, panicsOnChunk) }

//go:noinline
func panicsOnChunk() { panic("deep") }

// With several loops, and where chunks can't be linked because tasks switch through their loop.
func TestATaskOnAChunkParksAndIsCancelled(t *testing.T) {
	enginetest.EachLoops(t, func(t *testing.T, rt *engine.Runtime) {
		ctx, cancel := context.WithCancelCause(context.Background())
		cause := errors.New("because")
		var tasks []*engine.Task
		for range 50 {
			tasks = append(tasks, engine.GoWith(engine.Options{Context: ctx}, func() {
				var err error
				stackchunk.Call(large, func() {
					engine.Yield()
					me := engine.Current()
					stackchunk.Call(2*large, func() {
						testenv.Equal(t, engine.Current(), me, "another task runs on the chunk")
						engine.Yield()
						err = engine.Sleep(time.Hour)
					})
					engine.Yield()
				})
				testenv.ErrorIs(t, err, cause, "Sleep on a chunk")
			}))
		}
		enginetest.WaitParked(t, rt, 50, engine.ReasonSleep)
		cancel(cause)
		for _, tk := range tasks {
			testenv.Check(t, tk.Join())
		}
	})
}

func TestAThreadLockIsRefused(t *testing.T) {
	onLoop(t, func(rt *engine.Runtime) {
		stackchunk.Call(large, func() { runtime.LockOSThread(); runtime.UnlockOSThread() })
		for _, c := range []struct {
			what string
			fn   func()
			want string
		}{
			{"a function that stays locked", runtime.LockOSThread, "LockOSThread"},
			{"a function that stays locked and panics", func() { runtime.LockOSThread(); panic("own") }, "own"},
			{"a function that waits locked", func() { runtime.LockOSThread(); engine.Yield() }, "LockOSThread"},
		} {
			v := testenv.MustPanic(t, c.what, func() { stackchunk.Call(large, c.fn) })
			testenv.Contains(t, fmt.Sprint(v), c.want, c.what)
		}
		// What is locked already stays where it is.
		runtime.LockOSThread()
		s := during(func() { stackchunk.Call(large, func() {}) })
		runtime.UnlockOSThread()
		testenv.Equal(t, s, calls{inPlace: 1}, "locked to a thread")
		engine.Yield()
		ends := engine.Go(func() { stackchunk.Call(large, func() { runtime.LockOSThread(); runtime.Goexit() }) })
		testenv.Equal(t, ends.Join(), engine.ErrGoexit, "a function that stays locked and ends the task")
		stackchunk.Call(large, func() {})
	})
}

// The goroutines of an only loop enroll when a second one comes.
func TestARuntimeIsMadeWhileChunksAreInUse(t *testing.T) {
	rt := enginetest.NewRuntime(t, 1)
	reached, goOn := make(chan struct{}), make(chan struct{})
	me := rt.Go(func() {
		me := engine.Current()
		known := func(where string) { testenv.Equal(t, engine.Current(), me, "the task on %s", where) }
		stackchunk.Call(large, func() {})
		stackchunk.Call(large, func() {
			stackchunk.Call(2*large, func() {
				close(reached)
				engine.Offload(func() { <-goOn })
				known("the second chunk")
				engine.Yield()
			})
			engine.Yield()
			known("the first chunk")
		})
		known("its own stack")
		stackchunk.Call(large, func() { engine.Yield() })
	})
	<-reached
	enginetest.OneOfMany(t, 2)
	close(goOn)
	testenv.Check(t, me.Join())
}

// With GODEBUG=panicnil=1, recover returns nil for a panic too.
func TestAPanicWithNilGoesOnInTheCaller(t *testing.T) {
	t.Setenv("GODEBUG", "panicnil=1")
	onLoop(t, func(*engine.Runtime) {
		for range 3 { // the chunk serves on
			calls, returned := 0, false
			func() {
				defer func() { testenv.Equal(t, recover(), nil, "the panic") }()
				stackchunk.Call(large, func() { calls++; panic(nil) })
				returned = true
			}()
			testenv.Equal(t, calls, 1, "the function ran N times")
			testenv.Equal(t, returned, false, "the caller went on")
		}
	})
}

// unlinks returns how many chunks were given back, of whatever size.
func unlinks() (n uint64) {
	counts := chunk.ReadCounts()
	for _, class := range counts.Classes() {
		n += class.Unlinks
	}
	return n
}
