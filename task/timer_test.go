package task

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/enginetest"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// onLoop calls fn on the loop's own goroutine and returns its result.
func TestAfterFuncRunsATaskOnTheCallersLoop(t *testing.T) {
	rt, clock := enginetest.NewSimRuntime(t, 2, true)
	for i := range rt.Loops() {
		l := rt.Loop(i)
		ran := make(chan *engine.Loop, 1)
		var at time.Duration
		engine.GoOn(l, func() {
			at = l.Now() + time.Second
			AfterFunc(time.Second, func() {
				if engine.Current() == nil {
					t.Error("not a task")
				}
				engine.Yield()
				ran <- engine.CurrentLoop()
			})
		}).Join()
		if got := <-ran; got != l {
			t.Errorf("ran on loop %d, want %d", got.Index(), l.Index())
		}
		testenv.AtLeast(t, clock.Now(), at, "ran early")
	}
	ran := make(chan struct{})
	AfterFunc(time.Millisecond, func() { close(ran) }) // from a plain goroutine
	<-ran
}

func TestTimerStop(t *testing.T) {
	rt, clock := enginetest.NewSimRuntime(t, 2, false)
	body := func() {
		var fired atomic.Bool
		timer := AfterFunc(time.Second, func() { fired.Store(true) })
		if !timer.Stop() {
			t.Error("Stop of a waiting timer returned false")
		}
		if timer.Stop() {
			t.Error("a second Stop returned true")
		}
		clock.Advance(2 * time.Second)
		for i := range rt.Loops() {
			l := rt.Loop(i)
			l.Post(func() {})
		}
		if fired.Load() {
			t.Error("a stopped timer fired")
		}
	}
	body()
	enginetest.Run(t, rt, body)
	fired := make(chan struct{})
	timer := AfterFunc(time.Second, func() { close(fired) })
	enginetest.WaitFor(t, "the timer fires", func() bool {
		clock.Advance(time.Second)
		select {
		case <-fired:
			return true
		default:
			return false
		}
	})
	if timer.Stop() {
		t.Error("Stop after the start returned true")
	}
}

// Many goroutines and tasks stop timers at about the time when they fire.
func TestTimerStopRaces(t *testing.T) {
	rt := enginetest.NewRuntime(t, 2)
	rnd := newRand(t)
	var started, stopped atomic.Int64
	const n = 300
	delays := make([]time.Duration, n)
	for i := range delays {
		delays[i] = time.Duration(rnd.Int64N(int64(200 * time.Microsecond)))
	}
	enginetest.Everyone(t, rt, n, func(i int) {
		timer := AfterFunc(delays[i], func() { started.Add(1) })
		for range i % 7 {
			engine.Yield()
		}
		if timer.Stop() {
			stopped.Add(1)
		}
	})
	enginetest.WaitFor(t, "each is either started or stopped", func() bool { return started.Load()+stopped.Load() == n })
}
