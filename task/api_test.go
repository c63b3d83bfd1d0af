package task_test

import (
	"context"
	"errors"
	"runtime"
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
		var loop [2]int
		o := task.Options{OnLoop: func(loops int) int { return key % loops }}
		on := func(i int) func() { return func() { loop[i] = engine.CurrentLoop().Index() } }
		k := testenv.Need(rt.Spawn(o, on(0)))(t)
		testenv.Check(t, k.Join())
		rt.Go(func() { testenv.Need(task.Spawn(o, on(1)))(t).Join() }).Join()
		testenv.Equal(t, loop, [2]int{key % 3, key % 3}, "key %d, spawned by a goroutine and by a task, ran on loop", key)
	}
	for _, i := range []int{-1, 3} {
		err := testenv.Err(rt.Spawn(task.Options{OnLoop: func(int) int { return i }}, func() {}))
		testenv.ErrorSays(t, err, "want 0 to 2", "loop %d of 3", i)
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
		short := func(where string) {
			ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
			defer cancel()
			testenv.ErrorIs(t, wait(ctx), context.DeadlineExceeded, "%s on a %s", name, where)
		}
		short("goroutine")
		rt.Go(func() { short("task") }).Join()
		ended, cancel := context.WithCancelCause(context.Background())
		why := errors.New("why")
		cancel(why)
		err := wait(ended)
		testenv.ErrorIs(t, err, context.Canceled, "%s on a goroutine, ended before", name)
		testenv.ErrorIs(t, err, why, "%s on a goroutine, ended before", name)
		k, _ := rt.Spawn(task.Options{Context: ended}, func() { err = wait(context.Background()) })
		k.Join()
		testenv.ErrorIs(t, err, context.Canceled, "%s on a cancelled task", name)
	}
	mu.Unlock()
	units.Release(1)
	take := func() {
		testenv.ErrorIs(t, units.AcquireContext(testenv.Cancelled(), 1), context.Canceled, "of a free unit")
	}
	take()
	rt.Go(take).Join()
	testenv.Check(t, mu.LockContext(context.Background()))
	testenv.Check(t, units.AcquireContext(context.Background(), 1))
}

func TestACancelledTaskGetsWhatIsFree(t *testing.T) {
	rt := newRuntime(t, 1)
	k := testenv.Need(rt.Spawn(task.Options{Context: testenv.Cancelled()}, func() {
		testenv.Check(t, new(task.Mutex).LockContext(context.Background()), "LockContext")
		testenv.Check(t, task.NewSemaphore(1).Acquire(1), "Acquire")
		c := task.NewChan[int](1)
		testenv.Check(t, c.Send(1), "Send")
		_, err := c.Recv()
		testenv.Check(t, err, "Recv")
		testenv.ErrorIs(t, task.Err(), context.Canceled, "Err")
	}))(t)
	testenv.Check(t, k.Join())
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
