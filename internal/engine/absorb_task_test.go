package engine_test

import (
	"context"
	"runtime"
	"sync"
	"testing"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/task"
)

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
	opened := make(chan struct{})
	got := make(chan error, 1)
	k, _ := rt.Spawn(engine.Options{Loop: l, Context: ctx}, func() {
		got <- wait()
		gate.Wait()
		select {
		case <-opened:
		default:
			t.Error("the wake ended a wait that it was not meant for")
		}
	})
	engine.WaitParked(t, rt, 1, why)
	l.Post(func() {
		cancel()
		l.CancelTask(k)
		granted := make(chan struct{})
		go func() { grant(); close(granted) }()
		<-granted
	})
	err := <-got
	engine.WaitParked(t, rt, 1, engine.ReasonWaitGroup)
	close(opened)
	gate.Done()
	testenv.Check(t, k.Join())
	return err
}

// A task that is granted something in the moment of being cancelled has it.
func TestGrantThatMeetsCancellationIsTaken(t *testing.T) {
	rt := engine.NewRuntime(t, 2)

	var mu task.Mutex
	mu.Lock()
	if err := grantWhileCancelled(t, rt, engine.ReasonMutex, func() error { return mu.LockContext(context.Background()) }, mu.Unlock); err != nil || mu.TryLock() {
		t.Error("Mutex:", err)
	}

	s := task.NewSemaphore(1)
	s.Acquire(1)
	acquire := func() error { return s.Acquire(1) }
	if err := grantWhileCancelled(t, rt, engine.ReasonSemaphore, acquire, func() { s.Release(1) }); err != nil || s.TryAcquire(1) {
		t.Error("Semaphore:", err)
	}

	var native sync.Mutex
	cond := task.NewCond(&native)
	cond.Signal() // from here on it is shared
	wait := func() error { native.Lock(); defer native.Unlock(); return cond.WaitContext(context.Background()) }
	if err := grantWhileCancelled(t, rt, engine.ReasonCond, wait, cond.Signal); err != nil {
		t.Error("Cond:", err)
	}

	var gate task.Chan[int]
	gate.Len()
	end := engine.GoOn(rt.Loop(0), func() { gate.Recv(); runtime.Goexit() })
	engine.WaitParked(t, rt, 1, engine.ReasonChanRecv)
	open := func() {
		gate.TrySend(1)
		engine.WaitFor(t, "the end", end.Ended)
	}
	if err := grantWhileCancelled(t, rt, engine.ReasonJoin, end.Join, open); err != engine.ErrGoexit {
		t.Error("Join:", err)
	}
}

func TestValueThatMeetsCancellationIsTaken(t *testing.T) {
	rt := engine.NewRuntime(t, 2)
	c := task.NewChan[int](0)
	c.Len()
	v := 0
	receive := func() (err error) { v, err = c.Recv(); return err }
	send := func() { c.TrySend(5) }
	if err := grantWhileCancelled(t, rt, engine.ReasonChanRecv, receive, send); err != nil || v != 5 {
		t.Error("Recv:", v, err)
	}
	take := func() { v, _, _ = c.TryRecv() }
	if err := grantWhileCancelled(t, rt, engine.ReasonChanSend, func() error { return c.Send(6) }, take); err != nil || v != 6 {
		t.Error("Send:", v, err)
	}
	choose := func() error { _, err := task.Select(c.RecvCase(&v)); return err }
	if err := grantWhileCancelled(t, rt, engine.ReasonSelect, choose, func() { c.TrySend(7) }); err != nil || v != 7 {
		t.Error("Select:", v, err)
	}
	closed := task.NewChan[int](0)
	closed.Len()
	receive = func() error { _, err := closed.Recv(); return err }
	if err := grantWhileCancelled(t, rt, engine.ReasonChanRecv, receive, closed.Close); err != task.ErrChanClosed {
		t.Error("Close:", err)
	}

	var raw *engine.Waiter
	park := func() error {
		raw = engine.Self()
		err := raw.Wait(engine.ReasonRead, taken{})
		return err
	}
	if err := grantWhileCancelled(t, rt, engine.ReasonRead, park, func() { raw.Wake() }); err != nil {
		t.Error("Waiter:", err)
	}
}

// taken is a WaitPoint whose waiters another goroutine has removed.
type taken struct{}

func (taken) Withdraw(*engine.Waiter) bool { return false }

// A task that is granted something in the moment when the runtime unwinds has it, and gives it
// back in its deferred functions.
func TestGrantThatMeetsUnwindingIsTaken(t *testing.T) {
	for _, inMail := range []bool{true, false} {
		rt, check := engine.Closing(t, 2)
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
		engine.WaitParked(t, rt, 1, engine.ReasonMutex)
		l.Post(func() {
			granted := make(chan struct{})
			go func() { mu.Unlock(); close(granted) }()
			<-granted
			if !inMail {
				l.DrainInbox()
			}
			l.Unwind(k)
		})
		testenv.ErrorIs(t, k.Join(), engine.ErrGoexit)
		if !inside || !mu.TryLock() {
			t.Errorf("in mail %v: inside %v, or the lock is lost", inMail, inside)
		}
		testenv.Check(t, rt.Close())
		check()
	}
}
