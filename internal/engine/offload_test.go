package engine

import (
	"context"
	"errors"
	"io"
	"runtime"
	"runtime/pprof"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/coro"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

func TestOffloadLetsTheLoopGoOn(t *testing.T) {
	rt := newRuntime(t, 1)
	release := make(chan struct{})
	blocked := rt.Go(func() {
		l := CurrentLoop()
		Offload(func() {
			testenv.Equal(t, Current(), nil, "the task of an offloaded function")
			testenv.Equal(t, CurrentLoop(), nil, "the loop of an offloaded function")
			<-release
		})
		testenv.Equal(t, CurrentLoop(), l, "came back elsewhere")
	})
	run(t, rt, func() { close(release) }) // would never run if the loop were blocked
	testenv.Check(t, blocked.Join())
}

func TestOffloadOnAPlainGoroutineJustCalls(t *testing.T) {
	me, in := coro.G(), uintptr(0)
	Offload(func() { in = coro.G() })
	testenv.Equal(t, in, me, "the goroutine that it ran on")
}

// At most as many functions run as the limit has it. What waits for its turn is not run once its context has ended, and
// the log says that there is a limit.
func TestOffloadAtItsLimit(t *testing.T) {
	log := make(testenv.Records, 100)
	rt := newRuntime(t, 2, offloadLimit(3), logTo(log))
	var now, most, ran atomic.Int32
	release := make(chan struct{})
	var wg sync.WaitGroup
	wg.Add(20)
	for range 20 {
		rt.Go(func() {
			defer wg.Done()
			Offload(func() {
				if n := now.Add(1); n > most.Load() {
					most.Store(n)
				}
				<-release
				now.Add(-1)
				ran.Add(1)
			})
		})
	}
	waitParked(t, rt, 20, ReasonOffload)
	testenv.Until(t, "three run", func() bool { return now.Load() == 3 })
	ctx, cancel := context.WithCancel(context.Background())
	late := rt.Go(func() {
		err := OffloadContext(ctx, func(context.Context) error { t.Error("it ran"); return nil })
		testenv.ErrorIs(t, err, context.Canceled)
	})
	waitParked(t, rt, 21, ReasonOffload)
	cancel()
	testenv.Check(t, late.Join())
	close(release)
	wg.Wait()
	testenv.Equal(t, most.Load(), 3, "at a time")
	testenv.Equal(t, ran.Load(), 20, "in all")
	rt.Close()
	log.Next(t, "Config.OffloadLimit", "limit=3 waiting=1")
	testenv.Equal(t, len(log), 0, "lines that are logged besides")
}

func TestOffloadPanicComesBack(t *testing.T) {
	var seen atomic.Pointer[PanicError]
	rt := newRuntime(t, 1, offloadLimit(1), func(c *Config) { c.OnPanic = func(p *PanicError) { seen.Store(p) } })
	oops := errors.New("oops")
	run(t, rt, func() {
		for what, end := range map[error]func(){oops: func() { panic(oops) }, ErrGoexit: runtime.Goexit} {
			p, _ := testenv.MustPanic(t, "in the offloaded function", func() { Offload(end) }).(*PanicError)
			testenv.ErrorIs(t, p, what, "panicked")
			if what == oops {
				testenv.Contains(t, string(p.Stack), "TestOffloadPanic")
			}
		}
		ok := false
		Offload(func() { ok = true }) // the one place of the limit is free again
		testenv.Equal(t, ok, true, "ran")
	})
	err := rt.Go(func() { Offload(func() { panic(oops) }) }).Join()
	testenv.ErrorIs(t, err, oops, "Join")
	testenv.Equal(t, seen.Load() != nil, true, "OnPanic was called")
}

// A function may leave its goroutine locked to a thread whose state it has changed. The thread ends, and no other function
// runs on it.
func TestOffloadThatLeavesItsThreadLocked(t *testing.T) {
	rt := newRuntime(t, 1, offloadLimit(1))
	release := make(chan struct{})
	locked, other := 0, 0
	first := rt.Go(func() {
		Offload(func() {
			runtime.LockOSThread()
			locked = unix.Gettid()
			<-release
		})
	})
	waitParked(t, rt, 1, ReasonOffload)
	second := rt.Go(func() { Offload(func() { other = unix.Gettid() }) })
	waitParked(t, rt, 2, ReasonOffload)
	close(release)
	testenv.Check(t, first.Join())
	testenv.Check(t, second.Join())
	testenv.Equal(t, other == locked, false, "the next function runs on the thread")
}

func TestOffloadIsNotEndedByCancellation(t *testing.T) {
	newRuntime(t, 1)
	k := GoWith(Options{Context: testenv.Cancelled()}, func() {
		done := false
		Offload(func() { done = true })
		testenv.Equal(t, done, true, "done when it came back")
	})
	testenv.Check(t, k.Join())
}

// A fieldContext can't be compared, as contexts of programs need not be.
type fieldContext struct {
	context.Context
	_ map[string]string
}

// outerKey is the key of a value in a context.
type outerKey struct{}

func TestOffloadContext(t *testing.T) {
	rt, _ := newSimRuntime(t, 2, true)
	until := func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) }
	for name, how := range map[string]func(end context.Context) error{
		"its argument":                 func(end context.Context) error { return OffloadContext(end, until) },
		"one that can't be compared":   func(end context.Context) error { return OffloadContext(fieldContext{Context: end}, until) },
		"its argument, ended long ago": func(end context.Context) error { Await(end); return OffloadContext(end, nil) },
		"the task's": func(end context.Context) (err error) {
			GoWith(Options{Context: end}, func() { err = OffloadContext(context.Background(), until) }).Join()
			return err
		},
		"an outer one": func(end context.Context) (err error) {
			Under(end, func() error {
				return Under(context.WithValue(context.Background(), outerKey{}, 2), func() error {
					err = OffloadContext(context.Background(), until)
					return nil
				})
			})
			return err
		},
		"on a plain goroutine": func(end context.Context) (err error) {
			Offload(func() { err = OffloadContext(end, until) })
			return err
		},
	} {
		run(t, rt, func() {
			end, cancel := context.WithCancel(context.Background())
			go cancel()
			testenv.ErrorIs(t, how(end), context.Canceled, name)
		})
	}
	run(t, rt, func() {
		err := OffloadContext(context.Background(), func(context.Context) error { return io.EOF })
		testenv.Equal(t, err, io.EOF, "the error of the function")
	})
}

// What a task sets for the profiler is what its offloaded function has, but not what the next task on its goroutine has,
// nor what another has in its Offload, which begins when that of the first ends.
func TestLabelsEndWithTheirTask(t *testing.T) {
	if !coro.Exact {
		t.Skip("labels are left alone in this build")
	}
	rt, _ := newSimRuntime(t, 1, false, offloadLimit(1))
	run(t, rt, func() {
		var g uintptr
		release := make(chan struct{})
		first := Go(func() {
			g = coro.G()
			pprof.SetGoroutineLabels(pprof.WithLabels(context.Background(), pprof.Labels("task", "first")))
			Offload(func() {
				testenv.Equal(t, coro.Labels() != nil, true, "an offloaded function has the labels of its task")
				<-release
			})
		})
		Yield()
		second := Go(func() {
			Offload(func() { testenv.Equal(t, coro.Labels(), nil, "the labels of another task") })
		})
		Yield()
		close(release)
		first.Join()
		second.Join()
		same := false
		var wg WaitGroup
		for range 10 {
			wg.Go(func() {
				same = same || coro.G() == g
				testenv.Equal(t, coro.Labels(), nil, "a task has the labels of one before it")
				Yield()
			})
		}
		wg.Wait()
		testenv.Equal(t, same, true, "a task had the goroutine of the first: else nothing was tested")
	})
}
