package engine

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

func TestShutdownWaitsForTheTasks(t *testing.T) {
	rt, check := closing(t, 2)
	var ended atomic.Int32
	for range 10 {
		rt.Go(func() {
			for range 3 {
				testenv.Check(t, Sleep(time.Millisecond), "cancelled although there was time")
				Go(func() { ended.Add(1) })
			}
			ended.Add(1)
		})
	}
	testenv.Check(t, rt.Shutdown(context.Background()))
	testenv.Equal(t, ended.Load(), 40, "of 40 tasks had ended")
	testenv.Check(t, rt.Shutdown(context.Background()), "a second Shutdown")
	check()
}

func TestShutdownWhileOffloaded(t *testing.T) {
	working := loops.working.Load()
	rt, check := closing(t, 1, shortGrace, offloadLimit(1))
	release, running := make(chan struct{}), make(chan struct{})
	var calls atomic.Int32
	for range 3 {
		l := rt.Loop(0)
		l.Post(func() { // a task whose struct would be used again
			l.Start(func() {
				Offload(func() {
					if calls.Add(1) == 1 {
						close(running)
					}
					<-release
				})
			})
		})
	}
	<-running
	testenv.ErrorSays(t, rt.Close(), "offloaded functions 1 still run", "Close")
	testenv.Equal(t, loops.working.Load(), working, "loops of the process that work, while a task is left")
	close(release)
	check()
	testenv.Equal(t, calls.Load(), 1, "functions that were run, and none for a task that had ended")
}

// What an offloaded function writes to is not given away before it has ended: not by
// the deferred functions of its task when the runtime is shut down.
func TestShutdownLeavesBuffersToOffloadedFunctions(t *testing.T) {
	rt, check := closing(t, 1, shortGrace)
	release, running := make(chan struct{}), make(chan struct{})
	var inUse, ended atomic.Bool
	k := rt.Go(func() {
		defer func() {
			testenv.Equal(t, inUse.Load(), false, "the buffer was given away while the function used it")
			ended.Store(true)
		}()
		inUse.Store(true)
		Offload(func() { close(running); <-release; inUse.Store(false) })
		Sleep(time.Hour)
		t.Error("a wait came back after the shutdown")
	})
	<-running
	rt.Close()
	testenv.Equal(t, ended.Load(), false, "the task had ended before its function")
	close(release)
	testenv.ErrorIs(t, k.Join(), ErrGoexit, "Join")
	testenv.Equal(t, ended.Load(), true, "the task has ended in the end")
	check()
}

// A Shield has the grace time, and so has a function that is offloaded in it.
func TestShutdownEndsOffloadContextInAShield(t *testing.T) {
	rt, check := closing(t, 1, shortGrace)
	limit, cancel := context.WithCancel(context.Background())
	defer cancel()
	running, ended := make(chan struct{}), make(chan error, 1)
	k := rt.Go(func() {
		Shield(limit, func() error {
			return OffloadContext(limit, func(ctx context.Context) error {
				close(running)
				<-ctx.Done()
				ended <- context.Cause(ctx)
				return nil
			})
		})
	})
	<-running
	rt.Close()
	testenv.Until(t, "the offloaded function ends", func() bool { return len(ended) == 1 })
	testenv.ErrorIs(t, <-ended, ErrShutdown)
	k.Join()
	check()
}

// A loop that a task holds costs Close no more than the time that it is given: nothing
// else waits for it, least of all for Config.Grace, which is an hour here.
func TestAHeldLoopDoesNotHoldTheShutdown(t *testing.T) {
	rt, check := closing(t, 2, func(c *Config) { c.Grace = time.Hour })
	release := occupy(t, rt.Loop(1), Options{}, func() {})
	done := make(chan bool)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Millisecond)
		defer cancel()
		idle := rt.waitIdle(ctx) || rt.waitIdle(testenv.Cancelled())
		stop := make(chan struct{})
		close(stop)
		done <- idle || rt.tasks(stop) == nil || rt.canWake(stop)
	}()
	select {
	case bad := <-done:
		testenv.Equal(t, bad, false, "the runtime was idle, nothing was known of its tasks, or something could wake them")
	case <-time.After(time.Minute):
		t.Error("a loop that is held was waited for")
	}
	release()
	testenv.Check(t, rt.Close())
	check()
}

func TestTaskThatNeverWaitsIsReported(t *testing.T) {
	rt, check := closing(t, 2, shortGrace)
	release := occupy(t, rt.Loop(1), Options{}, func() {})
	queued := GoOn(rt.Loop(1), func() { t.Error("ran after the end") })
	run(t, rt, func() {
		var wg WaitGroup
		wg.Go(func() {})
		wg.Wait()
	})
	err := rt.Close()
	testenv.ErrorSays(t, err, "never wait", "Close")
	testenv.ErrorSays(t, err, "loop 1", "Close")
	release()
	testenv.ErrorIs(t, queued.Join(), ErrShutdown, "a task that never started: Join")
	check()
}

// Shutdown does not wait without limit for a task that a plain goroutine starts when all the others have ended.
func TestTaskThatStartsInTheLastMoment(t *testing.T) {
	rt, check := closing(t, 2, shortGrace)
	begun, release := make(chan struct{}), make(chan struct{})
	cancel := rt.cancel
	rt.cancel = func(why error) {
		cancel(why)
		rt.Go(func() { close(begun); <-release })
		<-begun
	}
	ended := make(chan error)
	go func() { ended <- rt.Shutdown(context.Background()) }()
	select {
	case err := <-ended:
		testenv.ErrorSays(t, err, "tasks are left", "Shutdown")
		close(release)
	case <-time.After(time.Minute):
		t.Error("Shutdown waits for a task without limit")
		close(release)
		<-ended
	}
	check()
}

// taken is a WaitPoint from which another caller has removed every Waiter.
type taken struct{}

func (taken) Withdraw(*Waiter) bool { return false }

// A disk that does not answer, for one: the kernel has the task's buffer.
func TestAWaitThatCannotBeBrokenOffIsNamed(t *testing.T) {
	rt, check := closing(t, 2, shortGrace)
	var waiter atomic.Pointer[Waiter]
	k := GoOn(rt.Loop(1), func() {
		waiter.Store(Self())
		Self().Wait(ReasonDisk, taken{})
	})
	waitParked(t, rt, 1, ReasonDisk)
	testenv.Fails(t, rt.Close(), "Close")
	testenv.Until(t, "the loops answer, and the wait is named", func() bool {
		return strings.Contains(rt.stuckError().Error(), "1 wait for what can't be broken off (disk)")
	})
	waiter.Load().Wake()
	testenv.Check(t, k.Join())
	check()
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
		testenv.Equal(t, p, cutPoint{cut: true}, "cancelled")
		p = cutPoint{}
		for {
			Self().Wait(ReasonRead, &p) // ignores that it was cancelled
		}
	})
	waitParked(t, rt, 1, ReasonRead)
	cancel()
	l := rt.Loop(0)
	l.Post(func() { l.Unwind(k) })
	testenv.ErrorIs(t, k.Join(), ErrGoexit)
	testenv.Equal(t, p, cutPoint{true, true}, "unwound")
	testenv.Check(t, rt.Close())
	check()
}

// A Wait without a point is over with the Wake only.
func TestWaitWithoutAPoint(t *testing.T) {
	rt := newRuntime(t, 1)
	var w *Waiter
	woken := false
	k := GoWith(Options{Context: testenv.Cancelled()}, func() {
		w = Self()
		testenv.Check(t, w.Wait(ReasonRead, nil))
		testenv.Equal(t, woken, true, "woken")
	})
	waitParked(t, rt, 1, ReasonRead)
	rt.Loop(0).Post(func() { woken = true; w.Wake() })
	k.Join()
}

func TestUseAfterClose(t *testing.T) {
	rt, check := closing(t, 2)
	l := rt.Loop(1)
	rt.Close()
	never := func() { t.Error("ran") }
	k, err := rt.Spawn(Options{}, never)
	testenv.ErrorIs(t, err, ErrShutdown, "Spawn")
	for _, k := range []*Task{k, rt.Go(never), GoOn(l, never)} {
		testenv.ErrorIs(t, k.Join(), ErrShutdown, "Join")
	}
	testenv.Equal(t, l.Post(never), false, "Post was accepted")
	var a Alarm
	a.Set(l, 1, RingFunc(never))
	a.Stop()
	ctx, cancel := context.WithCancel(context.Background())
	rt.Spawn(Options{Context: ctx}, func() {})
	cancel()
	testenv.Equal(t, rt.Tasks() != nil, true, "there are Tasks on a plain goroutine")
	testenv.Fails(t, rt.Context().Err(), "the runtime's context goes on")
	check()
	run(t, newRuntime(t, 1), func() { // a task of another runtime
		testenv.ErrorIs(t, GoOn(l, never).Join(), ErrShutdown, "Join")
	})
}

func TestShutdownCalledByATask(t *testing.T) {
	rt := newRuntime(t, 1)
	run(t, rt, func() {
		testenv.Fails(t, rt.Close(), "Close by a task of the runtime")
		testenv.Equal(t, len(rt.Tasks()), 0, "Tasks by a task of the runtime")
	})
}

func TestTasksSpawnedWhileShuttingDown(t *testing.T) {
	for range testenv.Rounds(15, 30) {
		rt, check := closing(t, 2)
		const each = 500
		var plain sync.WaitGroup
		var ran, dropped atomic.Int32
		for range 3 {
			plain.Go(func() {
				for range each {
					switch err := rt.Go(Yield).Join(); {
					case err == nil:
						ran.Add(1)
					case errors.Is(err, ErrShutdown) || errors.Is(err, ErrGoexit):
						dropped.Add(1)
					default:
						t.Error(err)
					}
				}
			})
		}
		testenv.Until(t, "some ran", func() bool { return ran.Load() > 20 })
		testenv.Check(t, rt.Close())
		plain.Wait()
		testenv.Equal(t, ran.Load()+dropped.Load(), 3*each, "ran or were dropped")
		check()
	}
}

func TestIdleWorkersAreTrimmed(t *testing.T) {
	rt := newRuntime(t, 1)
	for range 2 {
		var gate WaitGroup
		gate.Add(1)
		run(t, rt, func() {
			var all WaitGroup
			for range maxIdleWorkers + 500 {
				all.Go(gate.Wait)
			}
			Yield()
			gate.Done()
			all.Wait()
		})
		onLoop(rt.Loop(0), func(l *Loop) bool {
			testenv.AtMost(t, len(l.crew.idle), maxIdleWorkers, "idle workers are kept")
			testenv.AtMost(t, l.crew.workers, maxIdleWorkers+1, "workers are kept")
			return true
		})
	}
}

func TestGoWithoutRuntime(t *testing.T) {
	testenv.MustEqual(t, Default(), nil, "a runtime is left from another test")
	defaultRuntimes.last.Store(nil)
	testenv.ErrorSays(t, testenv.Err(Spawn(Options{}, func() {})), "no runtime", "Spawn")
	testenv.MustPanic(t, "Go without runtime", func() { Go(func() {}) })
}

// While one runtime runs, plain goroutines find it, whatever others come and go.
func TestDefaultIsThereWhileOthersComeAndGo(t *testing.T) {
	newRuntime(t, 1)
	var done atomic.Bool
	go func() {
		other := new(Runtime)
		for range 100_000 {
			other.setDefault(true)
			other.setDefault(false)
		}
		done.Store(true)
	}()
	missing := 0
	for !done.Load() {
		for range 1000 {
			if Default() == nil {
				missing++
			}
		}
	}
	testenv.Equal(t, missing, 0, "there was no default runtime N times")
}

func TestDefaultIsTheLatestThatRuns(t *testing.T) {
	a := newRuntime(t, 1)
	testenv.Equal(t, Default(), a, "not the only one")
	var open WaitGroup
	open.Add(1)
	waits := Go(func() {
		me := Current()
		open.Wait()
		testenv.Equal(t, Current(), me, "the task that has waited while there was an only loop")
	})
	waitParked(t, a, 1, ReasonWaitGroup)
	b := oneOfMany(t, 1)
	testenv.Equal(t, Default(), b, "not the latest")
	open.Done()
	testenv.Check(t, waits.Join())
	var in *Runtime
	Go(func() { in = CurrentLoop().Runtime() }).Join()
	testenv.Equal(t, in, b, "Go of a plain goroutine does not use the latest")
	b.Close()
	testenv.Equal(t, Default(), a, "not the one left")
}

// Maps that are collected before the loop ends take no memory of it.
func TestALoopForgetsMapsThatAreCollected(t *testing.T) {
	rt := newRuntime(t, 1)
	run(t, rt, func() {
		l := CurrentLoop()
		for len(l.end.keyedBy) < 8 || len(l.end.keyedBy) < cap(l.end.keyedBy) {
			l.DeleteAtEnd(new(sync.Map))
		}
		runtime.GC()
		l.DeleteAtEnd(new(sync.Map))
		testenv.Equal(t, len(l.end.keyedBy), 1, "maps that the loop knows")
	})
}
