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

// closing makes a runtime that the test itself shuts down.
func closing(t *testing.T, loops int, change ...func(*Config)) (rt *Runtime, check func()) {
	t.Helper()
	before := runtime.NumGoroutine()
	cfg := Config{Loops: loops, NewPoller: newChanPoller, Log: quiet(), Grace: 5 * time.Minute}
	for _, c := range change {
		c(&cfg)
	}
	rt = testenv.Need(New(cfg))(t)
	return rt, func() {
		t.Helper()
		testenv.WaitGoroutines(t, before)
		for _, l := range rt.loops {
			if p, ok := l.poller.(*chanPoller); ok && !p.closed.Load() {
				t.Errorf("the poller of loop %d is open", l.index)
			}
		}
	}
}

func shortGrace(c *Config) { c.Grace = 20 * time.Millisecond }

func TestShutdownWaitsForTheTasks(t *testing.T) {
	rt, check := closing(t, 2)
	var ended atomic.Int32
	for range 10 {
		rt.Go(func() {
			for range 3 {
				if err := Sleep(time.Millisecond); err != nil {
					t.Error("cancelled although there was time:", err)
				}
				Go(func() { ended.Add(1) })
			}
			ended.Add(1)
		})
	}
	testenv.Check(t, rt.Shutdown(context.Background()))
	testenv.Equal(t, ended.Load(), 40, "of 40 tasks had ended")
	if err := rt.Shutdown(context.Background()); err != nil {
		t.Error("a second Shutdown:", err)
	}
	check()
}

func TestShutdownWhileOffloaded(t *testing.T) {
	working := loops.working.Load()
	rt, check := closing(t, 1, shortGrace, func(c *Config) { c.OffloadLimit = 1 })
	release := make(chan struct{})
	var second atomic.Bool
	running := make(chan struct{})
	for range 3 {
		l := rt.Loop(0)
		l.Post(func() { // a task whose struct would be used again
			l.Start(func() {
				Offload(func() {
					select {
					case running <- struct{}{}:
					default:
						second.Store(true)
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
	if second.Load() {
		t.Error("a function was run for a task that had ended")
	}
}

// What an offloaded function writes to is not given away before it has ended: not by
// the deferred functions of its task when the runtime is shut down.
func TestShutdownLeavesBuffersToOffloadedFunctions(t *testing.T) {
	rt, check := closing(t, 1, shortGrace)
	release, running := make(chan struct{}), make(chan struct{})
	var inUse, ended atomic.Bool
	k := rt.Go(func() {
		defer func() {
			if inUse.Load() {
				t.Error("the buffer was given away while the function used it")
			}
			ended.Store(true)
		}()
		inUse.Store(true)
		Offload(func() { close(running); <-release; inUse.Store(false) })
		Sleep(time.Hour)
		t.Error("a wait came back after the shutdown")
	})
	<-running
	rt.Close()
	if ended.Load() {
		t.Error("the task had ended before its function")
	}
	close(release)
	if err := k.Join(); !errors.Is(err, ErrGoexit) || !ended.Load() {
		t.Errorf("Join returned %v", err)
	}
	check()
}

// A loop that a task holds costs Close no more than the time that it is given: nothing
// else waits for it, least of all for Config.Grace, which is an hour here.
func TestAHeldLoopDoesNotHoldTheShutdown(t *testing.T) {
	rt, check := closing(t, 2, func(c *Config) { c.Grace = time.Hour })
	started, free := make(chan struct{}), make(chan struct{})
	hog := GoOn(rt.Loop(1), func() { close(started); <-free }) // natively, so that it holds its loop
	<-started
	done := make(chan bool)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Millisecond)
		defer cancel()
		idle := rt.waitIdle(ctx) || rt.waitIdle(cancelled())
		stop := make(chan struct{})
		close(stop)
		done <- idle || rt.tasks(stop) == nil || rt.canWake(stop)
	}()
	select {
	case bad := <-done:
		if bad {
			t.Error("the runtime was idle, nothing was known of its tasks, or something could wake them")
		}
	case <-time.After(time.Minute):
		t.Error("a loop that is held was waited for")
	}
	close(free)
	testenv.Check(t, hog.Join())
	testenv.Check(t, rt.Close())
	check()
}

func TestTaskThatNeverWaitsIsReported(t *testing.T) {
	rt, check := closing(t, 2, shortGrace)
	var free atomic.Bool
	started := make(chan struct{})
	hog := GoOn(rt.Loop(1), func() {
		close(started)
		for !free.Load() {
		}
	})
	<-started
	var wg WaitGroup
	queued := GoOn(rt.Loop(1), func() { t.Error("ran after the end") })
	GoOn(rt.Loop(0), func() { wg.Go(func() {}) }).Join()
	wg.Wait()
	err := rt.Close()
	if err == nil || !strings.Contains(err.Error(), "never wait") || !strings.Contains(err.Error(), "loop 1") {
		t.Errorf("Close returned %v", err)
	}
	free.Store(true)
	testenv.Check(t, hog.Join())
	testenv.ErrorIs(t, queued.Join(), ErrShutdown, "a task that never started: Join")
	check()
}

// A disk that does not answer, for one: the kernel has the task's buffer.
func TestAWaitThatCannotBeBrokenOffIsNamed(t *testing.T) {
	rt, check := closing(t, 2, shortGrace)
	var waiter atomic.Pointer[Waiter]
	k := GoOn(rt.Loop(1), func() {
		waiter.Store(Self())
		Self().Wait(ReasonDisk, taken{})
	})
	waitFor(t, "the task waits", func() bool { return waiter.Load() != nil && rt.Loop(1).Tasks() == 1 })
	err := rt.Close()
	testenv.ErrorSays(t, err, "1 wait for what can't be broken off (disk)", "Close")
	waiter.Load().Wake()
	testenv.Check(t, k.Join())
	check()
}

func TestUseAfterClose(t *testing.T) {
	rt, check := closing(t, 2)
	l := rt.Loop(1)
	rt.Close()
	k, err := rt.Spawn(Options{}, func() { t.Error("ran") })
	testenv.ErrorIs(t, err, ErrShutdown, "Spawn")
	for _, k := range []*Task{k, rt.Go(func() { t.Error("ran") }), GoOn(l, func() { t.Error("ran") })} {
		testenv.ErrorIs(t, k.Join(), ErrShutdown, "Join")
	}
	if l.Post(func() { t.Error("ran") }) {
		t.Error("Post was accepted")
	}
	var a Alarm
	a.Set(l, 1, RingFunc(func() { t.Error("fired") }))
	a.Stop()
	ctx, cancel := context.WithCancel(context.Background())
	rt.Spawn(Options{Context: ctx}, func() {})
	cancel()
	if rt.Tasks() == nil {
		t.Error("Tasks is nil on a plain goroutine")
	}
	testenv.Fails(t, rt.Context().Err(), "the runtime's context goes on")
	check()
	other := newRuntime(t, 1)
	run(t, other, func() { // a task of another runtime
		testenv.ErrorIs(t, GoOn(l, func() { t.Error("ran") }).Join(), ErrShutdown, "Join")
	})
}

func TestShutdownCalledByATask(t *testing.T) {
	rt := newRuntime(t, 1)
	run(t, rt, func() {
		if rt.Close() == nil || rt.Tasks() != nil {
			t.Error("a task may shut down the runtime that it runs on")
		}
	})
}

func TestTasksSpawnedWhileShuttingDown(t *testing.T) {
	for range 30 {
		rt, check := closing(t, 2)
		var stop atomic.Bool
		var plain sync.WaitGroup
		var made, ran, dropped atomic.Int32
		for range 3 {
			plain.Go(func() {
				for !stop.Load() {
					made.Add(1)
					k := rt.Go(func() { Yield() })
					switch err := k.Join(); {
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
		waitFor(t, "some ran", func() bool { return ran.Load() > 20 })
		testenv.Check(t, rt.Close())
		stop.Store(true)
		plain.Wait()
		if made.Load() != ran.Load()+dropped.Load() {
			t.Errorf("%d made, %d ran, %d dropped", made.Load(), ran.Load(), dropped.Load())
		}
		check()
	}
}

func TestIdleWorkersAreTrimmed(t *testing.T) {
	rt := newRuntime(t, 1)
	l := rt.Loop(0)
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
		if !onLoop(l, func(l *Loop) bool { return len(l.crew.idle) <= maxIdleWorkers && l.crew.workers <= maxIdleWorkers+1 }) {
			t.Errorf("more than %d idle workers are kept", maxIdleWorkers)
		}
	}
}
