package stackchunk_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/coro"
	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/poller"
	"github.com/capriccio-go/capriccio/internal/testenv"
	_ "github.com/capriccio-go/capriccio/netpoll" // its pollers
	"github.com/capriccio-go/capriccio/stackchunk"
)

// large is more than any task of these tests has.
const large = 100 << 10

// eachLoops runs the test with 1, 2 and 8 loops, and where chunks can't be linked because
// tasks switch through their loop.
func eachLoops(t *testing.T, test func(t *testing.T, rt *engine.Runtime)) {
	for _, n := range []int{1, 2, 8} {
		t.Run(fmt.Sprint(n, "loops"), func(t *testing.T) { test(t, newRuntime(t, n)) })
	}
	t.Run("no hand-over", func(t *testing.T) {
		test(t, newRuntime(t, 1, func(c *engine.Config) { c.NoHandOver = true }))
	})
}

// during returns what f adds to the statistics.
func during(f func()) stackchunk.Stats {
	before := stackchunk.ReadStats()
	f()
	s := stackchunk.ReadStats()
	s.Links -= before.Links
	s.Unlinks -= before.Unlinks
	s.InPlace -= before.InPlace
	s.Outside -= before.Outside
	return s
}

func needChunks(t *testing.T) {
	t.Helper()
	if !coro.Exact {
		t.Skip("with the portable stubs chunks are never linked")
	}
}

func TestAPlainGoroutineCallsInPlace(t *testing.T) {
	needChunks(t)
	done := make(chan stackchunk.Stats)
	go func() {
		called := false
		s := during(func() { stackchunk.Call(large, func() { called = true }) })
		testenv.Equal(t, called, true, "not called")
		done <- s
	}()
	if s := <-done; s.Links != 0 || s.Outside != 1 || s.InPlace != 0 {
		t.Errorf("%d links, %d outside, %d in place; want 0, 1, 0", s.Links, s.Outside, s.InPlace)
	}
}

func TestTheReportOfAPanicShowsTheWholeStack(t *testing.T) {
	reports := make(chan *engine.PanicError, 1)
	rt := newRuntime(t, 1, func(c *engine.Config) { c.OnPanic = func(p *engine.PanicError) { reports <- p } })
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
		func() {
			defer func() { recover() }()
			callsDeep()
		}()
		panic("another")
	}).Join()
	if p := <-reports; strings.Contains(string(p.Stack), "panicsOnChunk") {
		t.Errorf("the report shows the stack of an earlier panic:\n%s", p.Stack)
	}
}

func TestTheReportOfAPanicThroughManyChunksIsBounded(t *testing.T) {
	needChunks(t)
	reports := make(chan *engine.PanicError, 1)
	rt := newRuntime(t, 1, func(c *engine.Config) { c.OnPanic = func(p *engine.PanicError) { reports <- p } })
	run(t, rt, func() { stackchunk.Call(40<<10, func() {}) })
	need := class(64<<10).Room - 16 // all of a chunk
	rt.Go(func() { chunkOnChunk(50, need) })
	p := <-reports
	if n := strings.Count(string(p.Stack), "on a linked stack chunk"); n != 8 {
		t.Errorf("the stacks of %d chunks are shown, want those of the innermost 8", n)
	}
	testenv.Contains(t, string(p.Stack), "panicsOnChunk", "the report lacks where the panic")
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

func TestATaskOnAChunkParksAndIsCancelled(t *testing.T) {
	eachLoops(t, func(t *testing.T, rt *engine.Runtime) {
		ctx, cancel := context.WithCancelCause(context.Background())
		cause := errors.New("because")
		var tasks []*engine.Task
		parked := make(chan struct{}, 50)
		for range cap(parked) {
			tk := testenv.Need(rt.Spawn(engine.Options{Context: ctx}, func() {
				var err error
				stackchunk.Call(large, func() {
					engine.Yield()
					me := engine.Current()
					stackchunk.Call(2*large, func() {
						testenv.Equal(t, engine.Current(), me, "another task runs on the chunk")
						engine.Yield()
						parked <- struct{}{}
						err = engine.Sleep(time.Hour)
					})
					engine.Yield()
				})
				testenv.ErrorIs(t, err, cause, "Sleep on a chunk")
			}))(t)
			tasks = append(tasks, tk)
		}
		for range cap(parked) {
			<-parked
		}
		cancel(cause)
		for _, tk := range tasks {
			testenv.Check(t, tk.Join())
		}
	})
}

func TestAThreadLockIsRefused(t *testing.T) {
	needChunks(t)
	rt := newRuntime(t, 1)
	run(t, rt, func() {
		stackchunk.Call(large, func() { runtime.LockOSThread(); runtime.UnlockOSThread() })

		func() {
			defer func() {
				if v := fmt.Sprint(recover()); !strings.Contains(v, "LockOSThread") {
					t.Errorf("a function that stays locked: recovered %s", v)
				}
			}()
			stackchunk.Call(large, runtime.LockOSThread)
		}()

		func() {
			defer func() {
				if v := recover(); v != "own" {
					t.Errorf("a function that stays locked and panics: recovered %v", v)
				}
			}()
			stackchunk.Call(large, func() { runtime.LockOSThread(); panic("own") })
		}()

		func() {
			defer func() {
				if v := fmt.Sprint(recover()); !strings.Contains(v, "LockOSThread") {
					t.Errorf("a function that waits locked: recovered %s", v)
				}
			}()
			stackchunk.Call(large, func() { runtime.LockOSThread(); engine.Yield() })
		}()

		// What is locked already stays where it is.
		runtime.LockOSThread()
		s := during(func() { stackchunk.Call(large, func() {}) })
		runtime.UnlockOSThread()
		if s.Links != 0 || s.InPlace != 1 {
			t.Errorf("locked to a thread: %d links, %d in place, want 0, 1", s.Links, s.InPlace)
		}
		engine.Yield()
	})
	if err := rt.Go(func() {
		stackchunk.Call(large, func() { runtime.LockOSThread(); runtime.Goexit() })
	}).Join(); err != engine.ErrGoexit {
		t.Error(err)
	}
	run(t, rt, func() { stackchunk.Call(large, func() {}) })
}

// The goroutines of an only loop enroll when a second one comes.
func TestARuntimeIsMadeWhileChunksAreInUse(t *testing.T) {
	rt := newRuntime(t, 1)
	reached, goOn := make(chan struct{}), make(chan struct{})
	task1 := rt.Go(func() {
		stackchunk.Call(large, func() {})
		stackchunk.Call(large, func() {
			stackchunk.Call(2*large, func() {
				me := engine.Current()
				close(reached)
				engine.Offload(func() { <-goOn })
				testenv.Equal(t, engine.Current(), me, "the task on the chunk is not known")
				engine.Yield()
			})
			engine.Yield()
			if engine.Current() == nil {
				t.Error("the task on the first chunk is not known")
			}
		})
		if engine.Current() == nil {
			t.Error("the task is not known")
		}
		stackchunk.Call(large, func() { engine.Yield() })
	})
	<-reached
	newRuntime(t, 2)
	close(goOn)
	testenv.Check(t, task1.Join())
}

// With GODEBUG=panicnil=1, recover returns nil for a panic too.
func TestAPanicWithNilGoesOnInTheCaller(t *testing.T) {
	needChunks(t)
	t.Setenv("GODEBUG", "panicnil=1")
	rt := newRuntime(t, 1)
	run(t, rt, func() {
		for range 3 { // the chunk serves on
			calls, returned := 0, false
			func() {
				defer func() {
					if v := recover(); v != nil {
						t.Errorf("panicked with %v", v)
					}
				}()
				stackchunk.Call(large, func() { calls++; panic(nil) })
				returned = true
			}()
			if calls != 1 || returned {
				t.Errorf("the function ran %d times; the caller went on: %v", calls, returned)
			}
		}
	})
}

// newRuntime makes a runtime that the test closes, and checks that nothing is left.
func newRuntime(t testing.TB, loops int, change ...func(*engine.Config)) *engine.Runtime {
	t.Helper()
	before := runtime.NumGoroutine()
	cfg := engine.Config{Loops: loops, NewPoller: func(int) (engine.Poller, error) { return poller.Epoll() }, Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Grace: time.Minute}
	for _, c := range change {
		c(&cfg)
	}
	rt := testenv.Need(engine.New(cfg))(t)
	t.Cleanup(func() {
		if err := rt.Close(); err != nil && cfg.Grace >= time.Minute { // a short one is over soon on a slow machine
			t.Error(err)
		}
		testenv.WaitGoroutines(t, before)
	})
	return rt
}

func run(t testing.TB, rt *engine.Runtime, f func()) {
	t.Helper()
	testenv.Must(t, rt.Go(f).Join())
}
