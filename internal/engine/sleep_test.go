package engine

import (
	"context"
	"math"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/coro"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/internal/wheel"
)

func TestSleepEndsAtItsTimeInOrder(t *testing.T) {
	rt, clock := newSimRuntime(t, 1, true)
	var order []int
	run(t, rt, func() {
		var wg WaitGroup
		for i, d := range []time.Duration{30, 10, 20, 0, -5} {
			wg.Go(func() {
				start := clock.Now()
				testenv.Check(t, Sleep(d*time.Millisecond))
				if slept := clock.Now() - start; slept < d*time.Millisecond || slept > d*time.Millisecond+2*wheel.Tick && d > 0 {
					t.Errorf("Sleep(%v) took %v", d*time.Millisecond, slept)
				}
				order = append(order, i)
			})
		}
		wg.Wait()
	})
	if want := []int{3, 4, 1, 2, 0}; !equal(order, want) {
		t.Errorf("order %v, want %v", order, want)
	}
}

func equal(a, b []int) bool {
	for i := range a {
		if i >= len(b) || a[i] != b[i] {
			return false
		}
	}
	return len(a) == len(b)
}

func TestSleepIsEndedByCancellation(t *testing.T) {
	rt, clock := newSimRuntime(t, 1, false)
	ctx, cancel := context.WithCancel(context.Background())
	sleeper := GoWith(Options{Context: ctx}, func() {
		testenv.ErrorIs(t, Sleep(time.Hour), context.Canceled, "Sleep")
		testenv.ErrorIs(t, Sleep(time.Hour), context.Canceled, "a second Sleep")
		testenv.ErrorIs(t, Sleep(0), context.Canceled, "Sleep(0)")
	})
	waitParked(t, rt, 1, ReasonSleep)
	cancel()
	testenv.Check(t, sleeper.Join())
	testenv.Equal(t, clock.Now(), 0, "time passed")
	waitFor(t, "no timer is left", func() bool { return onLoop(rt.Loop(0), func(l *Loop) bool { return l.timers.wheel.Len() == 0 }) })
}

// onLoop calls fn on the loop's own goroutine and returns its result.
func onLoop(l *Loop, fn func(l *Loop) bool) bool {
	got := make(chan bool)
	l.Post(func() { got <- fn(l) })
	return <-got
}

func TestSleepForEverDoesNotOverflow(t *testing.T) {
	rt, clock := newSimRuntime(t, 1, false)
	clock.Advance(time.Hour)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for _, d := range []time.Duration{math.MaxInt64, math.MaxInt64 - 1, 200 * 365 * 24 * time.Hour} {
		GoWith(Options{Context: ctx}, func() {
			testenv.Fails(t, Sleep(d), "Sleep(%v) has ended", d)
		})
	}
	fired := false
	startAfter(rt, math.MaxInt64, func() { fired = true })
	waitParked(t, rt, 3, ReasonSleep)
	for range 100 {
		clock.Advance(24 * time.Hour)
	}
	waitParked(t, rt, 3, ReasonSleep)
	if fired {
		t.Error("a timer for the end of time has fired")
	}
	cancel()
	waitFor(t, "the end", func() bool { return len(rt.Tasks()) == 0 })
}

func TestSleepOnAPlainGoroutine(t *testing.T) {
	start := time.Now()
	if err := Sleep(time.Millisecond); err != nil || time.Since(start) < time.Millisecond {
		t.Errorf("%v after %v", err, time.Since(start))
	}
}

// An alarm client as networking code has them: it looks for itself what is due.
type alarmClient struct {
	Alarm
	due   atomic.Int64 // deadline now, 0: none
	fired chan time.Duration
}

func TestAlarmMovedAndStopped(t *testing.T) {
	rt, clock := newSimRuntime(t, 2, false)
	l := rt.Loop(1)
	fired := make(chan time.Duration, 10)
	var a Alarm
	fn := func() {
		if CurrentLoop() != l || Current() != nil {
			t.Error("not on the loop's own goroutine")
		}
		fired <- clock.Now()
	}
	settle := func() { onLoop(l, func(*Loop) bool { return true }); onLoop(l, func(*Loop) bool { return true }) }
	set := func(at time.Duration) { a.Set(l, at, RingFunc(fn)); settle() }
	step := func(d time.Duration) { clock.Advance(d); settle() }
	expect := func(n int, what string) {
		t.Helper()
		testenv.Equal(t, len(fired), n, "%s: fired N times", what)
		for len(fired) > 0 {
			<-fired
		}
	}
	set(10 * time.Millisecond)
	set(30 * time.Millisecond)
	step(20 * time.Millisecond)
	expect(0, "moved to a later time")
	step(11 * time.Millisecond)
	expect(1, "at the later time")
	set(clock.Now() + 100*time.Millisecond)
	set(clock.Now() + 10*time.Millisecond)
	step(11 * time.Millisecond)
	expect(1, "moved to an earlier time")
	step(200 * time.Millisecond)
	set(clock.Now() + 10*time.Millisecond)
	a.Stop()
	testenv.Equal(t, a.Deadline(), 0, "a stopped Alarm has a deadline")
	for len(fired) > 0 {
		<-fired
	}
	step(20 * time.Millisecond)
	expect(0, "stopped")
	set(clock.Now() - time.Millisecond)
	step(wheel.Tick * 2)
	expect(1, "set for the past")
	set(clock.Now() + time.Millisecond)
	onLoop(l, func(*Loop) bool { a.Drop(); return true })
	step(10 * time.Millisecond)
	expect(0, "dropped")
}

// Deadlines are set and moved by tasks of two loops in turn; none is missed.
func TestAlarmFromSeveralLoops(t *testing.T) {
	rt, clock := newSimRuntime(t, 2, true)
	rnd := newRand(t)
	home := rt.Loop(0)
	c := &alarmClient{fired: make(chan time.Duration, 1)}
	expire := func() {
		if at := c.due.Load(); at != 0 && clock.Now() >= time.Duration(at) && c.due.CompareAndSwap(at, 0) {
			c.fired <- clock.Now()
		}
	}
	for i := range 200 {
		GoOn(rt.Loop(i%2), func() {
			var at time.Duration
			for range 1 + rnd.IntN(3) {
				at = clock.Now() + time.Duration(rnd.Int64N(int64(10*time.Millisecond)))
				c.due.Store(int64(at))
				c.Set(home, at, RingFunc(expire))
				if rnd.IntN(2) == 0 {
					Yield()
				}
			}
		}).Join()
		got := <-c.fired
		testenv.MustEqual(t, c.due.Load(), 0, "fired although nothing was due")
		_ = got
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
	waitFor(t, "the alarm rings", func() bool { run(t, rt, func() {}); return rung.Load() == 1 })
}

// A sleep that ended without returning leaves no timer, which would end a later wait.
func TestASleepThatIsRefusedLeavesNoTimer(t *testing.T) {
	if !coro.Exact {
		t.Skip("thread locks are not seen without the assembly stubs")
	}
	rt := newRuntime(t, 1)
	l := rt.Loop(0)
	run(t, rt, func() {
		mustPanic(t, "asleep with a locked thread", func() {
			runtime.LockOSThread()
			Sleep(time.Hour)
		})
		mustPanic(t, "awaiting with a locked thread", func() {
			runtime.LockOSThread()
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			Await(ctx)
		})
		testenv.Equal(t, l.timers.wheel.Len(), 0, "timers are left")
		Yield() // what cancel has sent would arrive now
		if l.cur.notified {
			t.Error("a wait that is over has woken the task")
		}
	})
}
