package engine_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/coro"
	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/enginetest"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/task"
)

// elsewhere runs fn on another thread and waits for its end, natively.
func elsewhere(fn func()) {
	done := make(chan struct{})
	go func() { fn(); close(done) }()
	<-done
}

// grantWhileCancelled lets a task on loop 1 call wait, cancels it, and, before it can
// run again, calls grant on another thread: the Wake is then on its way while the task
// finds that it is cancelled. It returns the error of wait, and checks that the Wake
// does not end another wait of the task.
func grantWhileCancelled(t *testing.T, rt *engine.Runtime, why engine.Reason, wait func() error, grant func()) error {
	t.Helper()
	l := rt.Loop(1)
	ctx, cancel := context.WithCancel(context.Background())
	var gate task.WaitGroup
	gate.Add(1)
	var opened atomic.Bool
	got := make(chan error, 1)
	k, _ := rt.Spawn(engine.Options{Loop: l, Context: ctx}, func() {
		got <- wait()
		gate.Wait()
		testenv.Equal(t, opened.Load(), true, "the wake has ended a wait that it was meant for")
	})
	enginetest.WaitParked(t, rt, 1, why)
	l.Post(func() {
		cancel()
		l.CancelTask(k)
		elsewhere(grant)
	})
	err := <-got
	enginetest.WaitParked(t, rt, 1, engine.ReasonWaitGroup)
	opened.Store(true)
	gate.Done()
	testenv.Check(t, k.Join())
	return err
}

// taken is a WaitPoint whose waiters another goroutine has removed.
type taken struct{}

func (taken) Withdraw(*engine.Waiter) bool { return false }

// A task that is granted something in the moment of being cancelled has it.
func TestGrantThatMeetsCancellationIsTaken(t *testing.T) {
	var mu task.Mutex
	s := task.NewSemaphore(1)
	var native sync.Mutex
	cond := task.NewCond(&native)
	cond.Signal() // from here on it is shared, as the channels are after Len
	c, closed, gate := task.NewChan[int](0), task.NewChan[int](0), task.NewChan[int](0)
	for _, c := range []*task.Chan[int]{c, closed, gate} {
		c.Len()
	}
	v := 0
	var end *engine.Task
	var raw *engine.Waiter
	for _, x := range []struct {
		name  string
		why   engine.Reason
		hold  func(rt *engine.Runtime) // before
		wait  func() error
		grant func()
		free  func() bool // what was granted; nil: it is no lock
		value int         // of v, if there is one
		err   error
	}{
		{name: "Mutex", why: engine.ReasonMutex, hold: func(*engine.Runtime) { mu.Lock() },
			wait: func() error { return mu.LockContext(context.Background()) }, grant: mu.Unlock, free: mu.TryLock},
		{name: "Semaphore", why: engine.ReasonSemaphore, hold: func(*engine.Runtime) { s.Acquire(1) },
			wait: func() error { return s.Acquire(1) }, grant: func() { s.Release(1) }, free: func() bool { return s.TryAcquire(1) }},
		{name: "Cond", why: engine.ReasonCond, wait: func() error {
			native.Lock()
			defer native.Unlock()
			return cond.WaitContext(context.Background())
		}, grant: cond.Signal},
		{name: "Join", why: engine.ReasonJoin, hold: func(rt *engine.Runtime) {
			end = engine.GoOn(rt.Loop(0), func() { gate.Recv(); runtime.Goexit() })
			enginetest.WaitParked(t, rt, 1, engine.ReasonChanRecv)
		}, wait: func() error { return end.Join() }, grant: func() {
			gate.TrySend(1)
			testenv.Until(t, "the end", end.Ended)
		}, err: engine.ErrGoexit},
		{name: "Recv", why: engine.ReasonChanRecv, wait: func() (err error) { v, err = c.Recv(); return err },
			grant: func() { c.TrySend(5) }, value: 5},
		{name: "Send", why: engine.ReasonChanSend, wait: func() error { return c.Send(6) },
			grant: func() { v, _, _ = c.TryRecv() }, value: 6},
		{name: "Select", why: engine.ReasonSelect, wait: func() error { return testenv.Err(task.Select(c.RecvCase(&v))) },
			grant: func() { c.TrySend(7) }, value: 7},
		{name: "Close", why: engine.ReasonChanRecv, wait: func() error { return testenv.Err(closed.Recv()) },
			grant: closed.Close, err: task.ErrChanClosed},
		{name: "Waiter", why: engine.ReasonRead, wait: func() error {
			raw = engine.Self()
			return raw.Wait(engine.ReasonRead, taken{})
		}, grant: func() { raw.Wake() }},
	} {
		t.Run(x.name, func(t *testing.T) {
			rt := enginetest.NewRuntime(t, 2)
			if x.hold != nil {
				x.hold(rt)
			}
			v = 0
			testenv.Equal(t, grantWhileCancelled(t, rt, x.why, x.wait, x.grant), x.err)
			testenv.Equal(t, v, x.value, "the value")
			if x.free != nil {
				testenv.Equal(t, x.free(), false, "it is free")
			}
		})
	}
}

// A task that is granted something in the moment when the runtime unwinds has it, and gives it
// back in its deferred functions.
func TestGrantThatMeetsUnwindingIsTaken(t *testing.T) {
	for _, inMail := range []bool{true, false} {
		rt, check := enginetest.Closing(t, 2)
		l := rt.Loop(1)
		var mu task.Mutex
		mu.Lock()
		inside := false
		k := engine.GoOn(l, func() {
			mu.Lock()
			defer mu.Unlock()
			inside = true
			engine.Yield() // ends the task
			t.Error("went on")
		})
		enginetest.WaitParked(t, rt, 1, engine.ReasonMutex)
		l.Post(func() {
			elsewhere(mu.Unlock)
			if !inMail {
				l.DrainInbox()
			}
			l.Unwind(k)
		})
		testenv.ErrorIs(t, k.Join(), engine.ErrGoexit)
		testenv.Equal(t, inside, true, "in mail %v: the task had the lock", inMail)
		testenv.Equal(t, mu.TryLock(), true, "in mail %v: the lock is free", inMail)
		testenv.Check(t, rt.Close())
		check()
	}
}

func TestAfterFuncWithoutRuntime(t *testing.T) {
	engine.ForgetLastRuntime()
	testenv.MustPanic(t, "AfterFunc without runtime", func() { task.AfterFunc(0, func() {}) })
}

// selectCases plays the cases that are no communications, in a task or on a plain goroutine.
func selectCases(t *testing.T) {
	c := task.NewChan[int](1)
	ctx, cancel := context.WithCancelCause(context.Background())
	why := errors.New("why")
	testenv.Got(task.TrySelect(task.DoneCase(ctx), task.AfterCase(0), c.RecvCase(nil)))(t, -1, "nothing is ready")
	testenv.Got(task.Select(task.DoneCase(ctx), task.AfterCase(time.Millisecond), c.RecvCase(nil)))(t, 1, "time")
	stop := task.AfterCase(time.Hour)
	testenv.Got(task.Select(c.SendCase(1), stop, task.DoneCase(ctx)))(t, 0, "room")
	testenv.Got(task.Select(stop, c.RecvCase(nil), stop, task.DoneCase(ctx)))(t, 1, "a value")
	task.AfterFunc(time.Millisecond, func() { cancel(why) })
	for range 2 { // while it waits, and at once
		i, err := task.Select((*task.Chan[int])(nil).SendCase(1), c.RecvCase(nil), task.DoneCase(ctx))
		testenv.Equal(t, i, 2, "the end of the context")
		testenv.ErrorIs(t, err, context.Canceled)
		testenv.ErrorIs(t, err, why)
	}
}

func TestSelectOnTimeAndContext(t *testing.T) {
	for _, loops := range []int{1, 2} {
		rt, _ := enginetest.NewSimRuntime(t, loops, true)
		enginetest.Run(t, rt, func() { selectCases(t) })
		for i := range rt.Loops() {
			testenv.Equal(t, rt.Loop(i).TimerCount(), 0, "timers are left on loop %d", i)
		}
		selectCases(t)
	}
}

// A hookedContext counts what waits for its end, which does not come.
type hookedContext struct {
	context.Context
	done  chan struct{}
	hooks atomic.Int32
}

func (c *hookedContext) Done() <-chan struct{} { return c.done }

func (c *hookedContext) AfterFunc(func()) (stop func() bool) {
	c.hooks.Add(1)
	return func() bool { c.hooks.Add(-1); return true }
}

// A Select that does not return leaves nothing behind: one that panics, as the task has locked its thread, and one
// that the end of the runtime ends.
func TestASelectThatDoesNotReturnLeavesNothing(t *testing.T) {
	rt, check := enginetest.Closing(t, 1, enginetest.ShortGrace)
	ctx := &hookedContext{Context: context.Background(), done: make(chan struct{})}
	c := task.NewChan[int](0)
	wait := func() { task.Select(c.RecvCase(nil), task.AfterCase(time.Hour), task.DoneCase(ctx)) }
	left := func(when string) {
		t.Helper()
		testenv.Equal(t, ctx.hooks.Load(), 0, "%s: watches over the context are left", when)
		testenv.Equal(t, rt.Loop(0).TimerCount(), 0, "%s: timers are left", when)
		testenv.Got(c.TrySend(1))(t, false, "%s: a receiver is left", when)
	}
	if coro.Exact { // thread locks are seen
		enginetest.Run(t, rt, func() {
			testenv.MustPanic(t, "a Select with a locked thread", func() {
				runtime.LockOSThread()
				wait()
			})
			left("refused")
		})
	}
	rt.Go(func() {
		for {
			wait() // and ignores that it is cancelled
		}
	})
	enginetest.WaitParked(t, rt, 1, engine.ReasonSelect)
	rt.Close()
	rt.Loop(0).AwaitStop()
	left("ended")
	check()
}
