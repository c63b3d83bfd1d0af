package engine

import (
	"context"
	"errors"
	"io"
	"math"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/coro"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/internal/wheel"
)

func TestTasksSpawnedByATaskAreCancelledWithIt(t *testing.T) {
	eachLoops(t, func(t *testing.T, rt *Runtime) {
		ctx, cancel := context.WithCancelCause(context.Background())
		cause := errors.New("the cause")
		errs := make(chan error, 4)
		top := GoWith(Options{Context: ctx}, func() {
			child := Go(func() {
				grandchild := GoOn(rt.Loop(rt.Loops()-1), func() { errs <- Sleep(time.Hour) })
				errs <- Sleep(time.Hour)
				Under(context.Background(), func() error { return grandchild.Join() })
			})
			Start(func() { errs <- Sleep(time.Hour) })
			cancel(cause)
			errs <- Sleep(time.Hour)
			for child.Join() != nil { // cancelled: returns at once until the child has ended
				Yield()
			}
		})
		testenv.Check(t, top.Join())
		for range 4 {
			err := <-errs
			testenv.ErrorIs(t, err, cause)
			testenv.ErrorIs(t, err, context.Canceled)
		}
	})
}

func TestBackgroundDetaches(t *testing.T) {
	rt := newRuntime(t, 1)
	GoWith(Options{Context: testenv.Cancelled()}, func() {
		testenv.Fails(t, Err(), "not cancelled under an ended context")
		detached := GoWith(Options{Context: context.Background()}, func() {
			testenv.Check(t, Sleep(time.Nanosecond))
		})
		for detached.Join() != nil {
			Yield()
		}
	}).Join()
	testenv.Until(t, "the end", func() bool { return len(rt.Tasks()) == 0 })
}

func TestContextFollowsTheScope(t *testing.T) {
	rt := newRuntime(t, 1)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	GoWith(Options{Context: ctx}, func() {
		testenv.Equal(t, Context(), ctx, "the one given")
		inner, stop := context.WithCancel(ctx)
		defer stop()
		Under(inner, func() error {
			testenv.Equal(t, Context(), inner, "that of Under")
			return Go(func() { testenv.Equal(t, Context(), inner, "that of Under, in a child") }).Join()
		})
	}).Join()
	run(t, rt, func() { testenv.Equal(t, Context(), rt.Context(), "the runtime's, without a scope") })
}

func TestAwait(t *testing.T) {
	rt := newRuntime(t, 1)
	cause := errors.New("cause")
	body := func() {
		ctx, cancel := context.WithCancelCause(context.Background())
		rt.Go(func() { cancel(cause) })
		err := Await(ctx)
		testenv.ErrorIs(t, err, cause)
		testenv.ErrorIs(t, err, context.Canceled)
	}
	body()
	run(t, rt, body)
	ctx, cancel := context.WithCancelCause(context.Background())
	k := GoWith(Options{Context: ctx}, func() {
		testenv.ErrorIs(t, Await(context.Background()), cause, "Await of a cancelled task")
	})
	waitParked(t, rt, 1, ReasonContext)
	cancel(cause)
	k.Join()
}

func TestUnder(t *testing.T) {
	rt := newRuntime(t, 2)
	run(t, rt, func() {
		inner, returned := errors.New("inner"), errors.New("returned")
		ctx, cancel := context.WithCancelCause(context.Background())
		got := Under(ctx, func() error {
			cancel(inner)
			testenv.ErrorIs(t, Sleep(time.Hour), inner, "Sleep under an ended context")
			testenv.ErrorIs(t, Err(), inner, "Err")
			return returned
		})
		testenv.Equal(t, got, returned, "Under")
		testenv.Check(t, Err(), "after Under")
		testenv.Check(t, Sleep(0), "after Under")
		testenv.MustPanic(t, "out of Under", func() {
			Under(ctx, func() error { panic("out of Under") })
		})
		testenv.Check(t, Err(), "after a panic out of Under")

		a, cancelA := context.WithCancel(context.Background())
		Under(a, func() error {
			Under(t.Context(), func() error {
				Go(cancelA)
				testenv.ErrorIs(t, Sleep(time.Hour), context.Canceled, "the outer context ended: Sleep")
				return nil
			})
			testenv.Fails(t, Err(), "not cancelled by the outer context after the inner Under")
			return nil
		})
		testenv.Check(t, Err(), "cancelled after all")
	})
	testenv.Check(t, Under(testenv.Cancelled(), func() error { return nil }), "on a plain goroutine")
}

// A context that ends while Under is being left must not cancel what follows.
func TestUnderLeftWhileItsContextEnds(t *testing.T) {
	rt := newRuntime(t, 2)
	run(t, rt, func() {
		for i := range 300 {
			ctx, cancel := context.WithCancel(context.Background())
			GoOn(rt.Loop(1), cancel)
			Under(ctx, func() error {
				for range i % 5 {
					Yield()
				}
				return nil
			})
			for range 5 {
				testenv.Must(t, Sleep(0), "round %d", i)
			}
		}
	})
}

// In a Shield the waits of a cancelled task work, until its own context ends.
func TestShield(t *testing.T) {
	for _, loops := range []int{1, 2} {
		rt, _ := newSimRuntime(t, loops, true)
		forEver := func() error { return Self().Wait(ReasonRead, anywhere{}) } // not a Sleep: the simulated clock may pass it before cancel is called
		ctx, cancel := context.WithCancel(context.Background())
		k := GoWith(Options{Context: ctx}, func() {
			testenv.ErrorIs(t, forEver(), context.Canceled, "Wait")
			var inner *Task
			testenv.Check(t, Shield(context.Background(), func() error {
				inner = Go(func() { testenv.Check(t, Sleep(time.Millisecond), "a task spawned in a Shield") })
				testenv.Check(t, Err(), "in the Shield")
				testenv.Check(t, Context().Err(), "in the Shield")
				return Sleep(time.Millisecond)
			}), "Sleep in a Shield")
			inner.Join()
			short, stop := context.WithTimeout(context.Background(), time.Millisecond)
			defer stop()
			testenv.ErrorIs(t, Shield(short, forEver), context.DeadlineExceeded, "a wait in a Shield with a limit")
			testenv.ErrorIs(t, Err(), context.Canceled, "after it")
		})
		cancel()
		k.Join()

		// The end comes while the task is in the Shield, and another inside of that counts.
		ctx, cancel = context.WithCancel(context.Background())
		GoWith(Options{Context: ctx}, func() {
			testenv.Check(t, Shield(context.Background(), func() error {
				cancel()
				Offload(func() { rt.onLoops(nil, func(*Loop) {}) }) // what cancels the task has arrived
				return Sleep(time.Millisecond)
			}), "in the Shield")
			testenv.ErrorIs(t, Err(), context.Canceled, "after the Shield")
		}).Join()
	}
	testenv.Equal(t, Shield(context.Background(), func() error { return io.EOF }), io.EOF, "on a plain goroutine")
}

func TestSleepEndsAtItsTimeInOrder(t *testing.T) {
	rt, clock := newSimRuntime(t, 1, true)
	var order []int
	delays := []time.Duration{30 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond, 0, -5 * time.Millisecond}
	inTasks(rt, len(delays), func(i int) {
		start, d := clock.Now(), delays[i]
		testenv.Check(t, Sleep(d))
		testenv.AtLeast(t, clock.Now()-start, d, "Sleep(%v) took", d)
		testenv.AtMost(t, clock.Now()-start, max(d, 0)+2*wheel.Tick, "Sleep(%v) took", d)
		order = append(order, i)
	})
	testenv.EqualSlices(t, order, []int{3, 4, 1, 2, 0}, "order")
}

func TestSleepIsEndedByCancellation(t *testing.T) {
	rt, clock := newSimRuntime(t, 1, false)
	ctx, cancel := context.WithCancel(context.Background())
	sleeper := GoWith(Options{Context: ctx}, func() {
		for _, d := range []time.Duration{time.Hour, time.Hour, 0} {
			testenv.ErrorIs(t, Sleep(d), context.Canceled, "Sleep")
		}
	})
	waitParked(t, rt, 1, ReasonSleep)
	cancel()
	testenv.Check(t, sleeper.Join())
	testenv.Equal(t, clock.Now(), 0, "time passed")
	testenv.Until(t, "no timer is left", func() bool { return onLoop(rt.Loop(0), (*Loop).TimerCount) == 0 })
}

func TestSleepForEverDoesNotOverflow(t *testing.T) {
	rt, clock := newSimRuntime(t, 1, false)
	clock.Advance(time.Hour)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for _, d := range []time.Duration{math.MaxInt64, math.MaxInt64 - 1, 200 * 365 * 24 * time.Hour} {
		GoWith(Options{Context: ctx}, func() { testenv.Fails(t, Sleep(d), "Sleep(%v) has ended", d) })
	}
	startAfter(rt, math.MaxInt64, func() { t.Error("a timer for the end of time has fired") })
	waitParked(t, rt, 3, ReasonSleep)
	for range 100 {
		clock.Advance(24 * time.Hour)
	}
	waitParked(t, rt, 3, ReasonSleep)
	cancel()
	testenv.Until(t, "the end", func() bool { return len(rt.Tasks()) == 0 })
}

func TestSleepOnAPlainGoroutine(t *testing.T) {
	start := time.Now()
	testenv.Check(t, Sleep(time.Millisecond))
	testenv.AtLeast(t, time.Since(start), time.Millisecond, "it took")
}

func TestAlarmMovedAndStopped(t *testing.T) {
	rt, clock := newSimRuntime(t, 2, false)
	l := rt.Loop(1)
	fired := 0
	var a Alarm
	// set sets a, which was not to fire before.
	set := func(at time.Duration) {
		a.Set(l, at, RingFunc(func() {
			testenv.Equal(t, CurrentLoop(), l, "the loop")
			testenv.Equal(t, Current(), nil, "the task, on the loop's own goroutine")
			fired++
		}))
		settle(l)
		settle(l)
	}
	// step lets time pass, in which a fires want times.
	step := func(d time.Duration, want int, what string) {
		t.Helper()
		clock.Advance(d)
		settle(l)
		settle(l)
		testenv.Equal(t, fired, want, "%s: fired N times", what)
		fired = 0
	}
	set(10 * time.Millisecond)
	set(30 * time.Millisecond)
	step(20*time.Millisecond, 0, "moved to a later time")
	step(11*time.Millisecond, 1, "at the later time")
	set(clock.Now() + 100*time.Millisecond)
	set(clock.Now() + 10*time.Millisecond)
	step(11*time.Millisecond, 1, "moved to an earlier time")
	step(200*time.Millisecond, 0, "at the time that it was moved from")
	set(clock.Now() + 10*time.Millisecond)
	a.Stop()
	testenv.Equal(t, a.Deadline(), 0, "a stopped Alarm has a deadline")
	step(20*time.Millisecond, 0, "stopped")
	set(clock.Now() - time.Millisecond)
	step(wheel.Tick*2, 1, "set for the past")
	set(clock.Now() + time.Millisecond)
	onLoop(l, func(*Loop) bool { a.Drop(); return true })
	step(10*time.Millisecond, 0, "dropped")
}

// Deadlines are set and moved by tasks of two loops in turn; none is missed.
func TestAlarmFromSeveralLoops(t *testing.T) {
	rt, clock := newSimRuntime(t, 2, true)
	rnd := newRand(t)
	var a Alarm
	var due atomic.Int64 // deadline now, 0: none
	fired := make(chan bool, 1)
	expire := func() { // as networking code does, which looks for itself what is due
		if at := due.Load(); at != 0 && clock.Now() >= time.Duration(at) && due.CompareAndSwap(at, 0) {
			fired <- true
		}
	}
	for i := range 200 {
		GoOn(rt.Loop(i%2), func() {
			for range 1 + rnd.IntN(3) {
				at := clock.Now() + time.Duration(rnd.Int64N(int64(10*time.Millisecond)))
				due.Store(int64(at))
				a.Set(rt.Loop(0), at, RingFunc(expire))
				if rnd.IntN(2) == 0 {
					Yield()
				}
			}
		}).Join()
		<-fired
		testenv.MustEqual(t, due.Load(), 0, "fired although nothing was due")
	}
}

// A deadline that is set while the alarm's timer is being moved is not lost: the Set has
// found the place that the timer is leaving.
func TestAlarmSetWhileItsTimerMoves(t *testing.T) {
	rt, clock := newSimRuntime(t, 1, false)
	l := rt.Loop(0)
	var rung atomic.Int32
	ring := RingFunc(func() { rung.Add(1) })
	var a Alarm
	run(t, rt, func() {
		now := l.Now()
		a.Set(l, now+10*time.Millisecond, ring)
		a.Set(l, now+time.Hour, ring) // leaves the timer where it is
		read := a.deadline.Load()     // the first load of queue
		a.Set(l, now+50*time.Millisecond, ring)
		for read != 0 { // the rest of it
			read = a.queueFor(read)
		}
	})
	clock.Advance(60 * time.Millisecond)
	testenv.Until(t, "the alarm rings", func() bool { settle(l); return rung.Load() == 1 })
}

// A sleep that ended without returning leaves no timer, which would end a later wait.
func TestASleepThatIsRefusedLeavesNoTimer(t *testing.T) {
	if !coro.Exact {
		t.Skip("thread locks are not seen without the assembly stubs")
	}
	rt := newRuntime(t, 1)
	l := rt.Loop(0)
	run(t, rt, func() {
		testenv.MustPanic(t, "asleep with a locked thread", func() {
			runtime.LockOSThread()
			Sleep(time.Hour)
		})
		testenv.MustPanic(t, "awaiting with a locked thread", func() {
			runtime.LockOSThread()
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			Await(ctx)
		})
		testenv.Equal(t, l.timers.wheel.Len(), 0, "timers are left")
		Yield() // what cancel has sent would arrive now
		testenv.Equal(t, l.cur.notified, false, "a wait that is over has woken the task")
	})
}
