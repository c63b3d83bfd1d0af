package task_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/sim/programs"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/task"
)

// newRuntime makes a simulated runtime that the test closes.
func newRuntime(t *testing.T, loops int) *task.Runtime {
	t.Helper()
	rt := programs.Simulated(t, loops, 0, func(c *engine.Config) { c.OnPanic = nil })
	t.Cleanup(func() { rt.Close() })
	return (*task.Runtime)(rt)
}

func TestOnLoop(t *testing.T) {
	rt := newRuntime(t, 3)
	for key := range 9 {
		loop := -1
		o := task.Options{OnLoop: func(loops int) int { return key % loops }}
		k := testenv.Need(rt.Spawn(o, func() { loop = engine.CurrentLoop().Index() }))(t)
		if err := k.Join(); err != nil || loop != key%3 {
			t.Errorf("key %d ran on loop %d: %v", key, loop, err)
		}
		rt.Go(func() {
			k, err := task.Spawn(o, func() { loop = -engine.CurrentLoop().Index() })
			if err != nil {
				t.Error(err)
				return
			}
			k.Join()
		}).Join()
		if loop != -(key % 3) {
			t.Errorf("key %d, spawned by a task, ran on loop %d", key, -loop)
		}
	}
	for _, i := range []int{-1, 3} {
		if k, err := rt.Spawn(task.Options{OnLoop: func(int) int { return i }}, func() {}); k != nil || err == nil || !strings.Contains(err.Error(), "want 0 to 2") {
			t.Errorf("loop %d of 3: %v, %v", i, k, err)
		}
	}
}

func TestNoHandle(t *testing.T) {
	rt := newRuntime(t, 1)
	rt.Go(func() {
		var wg task.WaitGroup
		for _, o := range []task.Options{{NoHandle: true}, {NoHandle: true, Name: "named"}} {
			wg.Add(1)
			if k, err := task.Spawn(o, wg.Done); k != nil || err != nil {
				t.Errorf("%+v: %v, %v", o, k, err)
			}
			wg.Wait()
		}
	}).Join()
	rt.Close()
	for _, o := range []task.Options{{}, {NoHandle: true}} {
		testenv.ErrorIs(t, testenv.Err(rt.Spawn(o, func() { t.Error("ran") })), task.ErrShutdown, "%+v after the end", o)
	}
}

// Waits that a context ends, on a task and on a plain goroutine.
func TestContextsEndWaits(t *testing.T) {
	rt := newRuntime(t, 1)
	var mu, other task.Mutex
	cond, units := task.NewCond(&other), task.NewSemaphore(1)
	mu.Lock()
	units.Acquire(1)
	waits := map[string]func(ctx context.Context) error{
		"LockContext":    mu.LockContext,
		"AcquireContext": func(ctx context.Context) error { return units.AcquireContext(ctx, 1) },
		"WaitContext": func(ctx context.Context) error {
			other.Lock()
			defer other.Unlock()
			return cond.WaitContext(ctx)
		},
	}
	for name, wait := range waits {
		var err error
		check := func(where string, want error) {
			t.Helper()
			testenv.ErrorIs(t, err, want, "%s on a %s", name, where)
		}
		short := func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
			defer cancel()
			err = wait(ctx)
		}
		short()
		check("goroutine", context.DeadlineExceeded)
		rt.Go(short).Join()
		check("task", context.DeadlineExceeded)
		ended, cancel := context.WithCancelCause(context.Background())
		why := errors.New("why")
		cancel(why)
		err = wait(ended)
		check("goroutine, ended before", context.Canceled)
		check("goroutine, ended before", why)
		k, _ := rt.Spawn(task.Options{Context: ended}, func() { err = wait(context.Background()) })
		k.Join()
		check("cancelled task", context.Canceled)
	}
	mu.Unlock()
	units.Release(1)
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	take := func() { testenv.ErrorIs(t, units.AcquireContext(ended, 1), context.Canceled, "of a free unit") }
	take()
	rt.Go(take).Join()
	testenv.Check(t, mu.LockContext(context.Background()))
	testenv.Check(t, units.AcquireContext(context.Background(), 1))
}

// A finalizer and a clean-up run on a goroutine of the Go runtime: what waits there waits as a
// goroutine does, and holds up no task.
func TestAFinalizerThatWaits(t *testing.T) {
	rt := newRuntime(t, 1)
	var mu task.Mutex
	begun, done := task.NewChan[int](2), task.NewChan[error](2)
	rt.Go(func() {
		mu.Lock()
		type big [1 << 10]byte
		func() {
			x, y := new(big), new(big)
			runtime.SetFinalizer(x, func(*big) {
				begun.Send(1)
				mu.Lock()
				mu.Unlock()
				done.Send(task.Sleep(time.Microsecond))
			})
			runtime.AddCleanup(y, func(int) {
				begun.Send(1)
				mu.Lock()
				mu.Unlock()
				done.Send(task.Err())
			}, 0)
		}()
		for found := false; !found; _, found, _ = begun.TryRecv() {
			runtime.GC()
			task.Yield()
		}
		mu.Unlock()
		for n := 0; n < 2; {
			runtime.GC()
			task.Yield()
			err, ok, lost := done.TryRecv()
			if err != nil || lost != nil {
				t.Errorf("in a finalizer: %v, %v", err, lost)
			}
			if ok {
				n++
			}
		}
	}).Join()
}

// The error of main is returned as it is: it may be compared, or be of a type that is looked for.
func TestRunReturnsTheErrorOfMain(t *testing.T) {
	for _, want := range []error{nil, errors.New("of main")} {
		if err := newRuntime(t, 1).Run(context.Background(), func(context.Context) error { return want }); err != want {
			t.Errorf("Run returned %#v, want %#v", err, want)
		}
	}
}
