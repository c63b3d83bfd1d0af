package engine

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// grantWhileCancelled lets a task on loop 1 call wait, cancels it, and, before it can
// run again, calls grant on another thread: the Wake is then on its way while the task
// finds that it is cancelled. It returns the error of wait, and checks that the Wake
// does not end another wait of the task.
func grantWhileCancelled(t *testing.T, rt *Runtime, why Reason, wait func() error, grant func()) error {
	t.Helper()
	l := rt.Loop(1)
	ctx, cancel := context.WithCancel(context.Background())
	var gate WaitGroup
	gate.Add(1)
	opened := make(chan struct{})
	got := make(chan error, 1)
	k, _ := rt.Spawn(Options{Loop: l, Context: ctx}, func() {
		got <- wait()
		gate.Wait()
		select {
		case <-opened:
		default:
			t.Error("the wake ended a wait that it was not meant for")
		}
	})
	waitParked(t, rt, 1, why)
	l.Post(func() {
		cancel()
		l.cancel(k)
		granted := make(chan struct{})
		go func() { grant(); close(granted) }()
		<-granted
	})
	err := <-got
	waitParked(t, rt, 1, ReasonWaitGroup)
	close(opened)
	gate.Done()
	testenv.Check(t, k.Join())
	return err
}

// A task that is granted something in the moment of being cancelled has it.
func TestGrantThatMeetsCancellationIsTaken(t *testing.T) {
	rt := newRuntime(t, 2)

	var mu Mutex
	mu.Lock()
	if err := grantWhileCancelled(t, rt, ReasonMutex, func() error { return mu.LockContext(context.Background()) }, mu.Unlock); err != nil || mu.TryLock() {
		t.Error("Mutex:", err)
	}

	s := NewSemaphore(1)
	s.Acquire(1)
	acquire := func() error { return s.Acquire(1) }
	if err := grantWhileCancelled(t, rt, ReasonSemaphore, acquire, func() { s.Release(1) }); err != nil || s.TryAcquire(1) {
		t.Error("Semaphore:", err)
	}

	var native sync.Mutex
	cond := NewCond(&native)
	cond.Signal() // from here on it is shared
	wait := func() error { native.Lock(); defer native.Unlock(); return cond.WaitContext(context.Background()) }
	if err := grantWhileCancelled(t, rt, ReasonCond, wait, cond.Signal); err != nil {
		t.Error("Cond:", err)
	}

	var gate Chan[int]
	gate.Len()
	end := GoOn(rt.Loop(0), func() { gate.Recv(); runtime.Goexit() })
	waitParked(t, rt, 1, ReasonChanRecv)
	open := func() {
		gate.TrySend(1)
		waitFor(t, "the end", func() bool { e := end.extra(); e.mu.Lock(); defer e.mu.Unlock(); return e.done })
	}
	if err := grantWhileCancelled(t, rt, ReasonJoin, end.Join, open); err != ErrGoexit {
		t.Error("Join:", err)
	}
}

func TestValueThatMeetsCancellationIsTaken(t *testing.T) {
	rt := newRuntime(t, 2)
	c := NewChan[int](0)
	c.Len()
	v := 0
	receive := func() (err error) { v, err = c.Recv(); return err }
	send := func() { c.TrySend(5) }
	if err := grantWhileCancelled(t, rt, ReasonChanRecv, receive, send); err != nil || v != 5 {
		t.Error("Recv:", v, err)
	}
	take := func() { v, _, _ = c.TryRecv() }
	if err := grantWhileCancelled(t, rt, ReasonChanSend, func() error { return c.Send(6) }, take); err != nil || v != 6 {
		t.Error("Send:", v, err)
	}
	choose := func() error { _, err := Select(c.RecvCase(&v)); return err }
	if err := grantWhileCancelled(t, rt, ReasonSelect, choose, func() { c.TrySend(7) }); err != nil || v != 7 {
		t.Error("Select:", v, err)
	}
	closed := NewChan[int](0)
	closed.Len()
	receive = func() error { _, err := closed.Recv(); return err }
	if err := grantWhileCancelled(t, rt, ReasonChanRecv, receive, closed.Close); err != ErrChanClosed {
		t.Error("Close:", err)
	}

	var raw *Waiter
	park := func() error {
		raw = Self()
		err := raw.Wait(ReasonRead, taken{})
		return err
	}
	if err := grantWhileCancelled(t, rt, ReasonRead, park, func() { raw.Wake() }); err != nil {
		t.Error("Waiter:", err)
	}
}

// taken is a WaitPoint from which somebody else has removed everybody.
type taken struct{}

func (taken) Withdraw(*Waiter) bool { return false }

// A task that is granted something in the moment when the runtime unwinds has it, and gives it
// back in its deferred functions.
func TestGrantThatMeetsUnwindingIsTaken(t *testing.T) {
	for _, inMail := range []bool{true, false} {
		rt, check := closing(t, 2)
		l := rt.Loop(1)
		var mu Mutex
		mu.Lock()
		inside := false
		k := GoOn(l, func() {
			mu.Lock()
			defer mu.Unlock()
			inside = true
			Yield() // ends the task
			t.Error("went on")
		})
		waitParked(t, rt, 1, ReasonMutex)
		l.Post(func() {
			granted := make(chan struct{})
			go func() { mu.Unlock(); close(granted) }()
			<-granted
			if !inMail {
				l.drainInbox()
			}
			l.unwinding = true // as Shutdown does
			if k.state == stateParked {
				l.makeReady(k)
			}
		})
		testenv.ErrorIs(t, k.Join(), ErrGoexit)
		if !inside || !mu.TryLock() {
			t.Errorf("in mail %v: inside %v, or the lock is lost", inMail, inside)
		}
		testenv.Check(t, rt.Close())
		check()
	}
}

// A cutPoint is an Unwinder whose waits can only be cut short.
type cutPoint struct{ cut, unwound bool }

func (p *cutPoint) Withdraw(w *Waiter) bool {
	p.cut = true
	go w.Wake()
	return false
}

func (p *cutPoint) Unwound(*Waiter) { p.unwound = true }

// A wait that can only be cut short returns when it is cancelled, and ends the task when the
// runtime unwinds: in both cases after the Wake.
func TestWaitThatIsCutShort(t *testing.T) {
	rt, check := closing(t, 1)
	var p cutPoint
	ctx, cancel := context.WithCancel(context.Background())
	k := rt.Go(func() {
		Under(ctx, func() error {
			testenv.Check(t, Self().Wait(ReasonRead, &p))
			return nil
		})
		if !p.cut || p.unwound {
			t.Errorf("cancelled: %+v", p)
		}
		p = cutPoint{}
		for {
			Self().Wait(ReasonRead, &p) // ignores that it was cancelled
		}
	})
	waitParked(t, rt, 1, ReasonRead)
	cancel()
	l := rt.Loop(0)
	l.Post(func() {
		l.unwinding = true // as Shutdown does
		if k.state == stateParked {
			l.makeReady(k)
		}
	})
	if err := k.Join(); !errors.Is(err, ErrGoexit) || !p.cut || !p.unwound {
		t.Errorf("Join returned %v; %+v", err, p)
	}
	testenv.Check(t, rt.Close())
	check()
}

// A Wait without a point is over with the Wake only.
func TestWaitWithoutAPoint(t *testing.T) {
	rt := newRuntime(t, 1)
	var w *Waiter
	woken := false
	k, _ := rt.Spawn(Options{Context: cancelled()}, func() {
		w = Self()
		if err := w.Wait(ReasonRead, nil); err != nil || !woken {
			t.Errorf("Wait returned %v; woken: %v", err, woken)
		}
	})
	waitParked(t, rt, 1, ReasonRead)
	rt.Loop(0).Post(func() { woken = true; w.Wake() })
	k.Join()
}
