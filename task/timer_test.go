package task

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/enginetest"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

func TestAfterFuncRunsATaskOnTheCallersLoop(t *testing.T) {
	rt, clock := enginetest.NewSimRuntime(t, 2, true)
	for i := range rt.Loops() {
		l := rt.Loop(i)
		ran := make(chan *engine.Loop, 1)
		var at time.Duration
		engine.GoOn(l, func() {
			at = l.Now() + time.Second
			AfterFunc(time.Second, func() {
				testenv.Equal(t, engine.Current() != nil, true, "a task")
				engine.Yield()
				ran <- engine.CurrentLoop()
			})
		}).Join()
		testenv.Equal(t, <-ran, l, "the loop that it ran on")
		testenv.AtLeast(t, clock.Now(), at, "ran early")
	}
	ran := make(chan struct{})
	AfterFunc(time.Millisecond, func() { close(ran) }) // from a plain goroutine
	<-ran
}

func TestTimerStop(t *testing.T) {
	rt, clock := enginetest.NewSimRuntime(t, 2, false)
	body := func() {
		timer := AfterFunc(time.Second, func() { t.Error("a stopped timer fired") })
		testenv.Equal(t, timer.Stop(), true, "Stop of a waiting timer")
		testenv.Equal(t, timer.Stop(), false, "a second Stop")
		clock.Advance(2 * time.Second)
	}
	body()
	enginetest.Run(t, rt, body)
	var fired atomic.Bool
	timer := AfterFunc(time.Second, func() { fired.Store(true) })
	testenv.Until(t, "the timer fires", func() bool { clock.Advance(time.Second); return fired.Load() })
	testenv.Equal(t, timer.Stop(), false, "Stop after the start")
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
	testenv.Until(t, "each is either started or stopped", func() bool { return started.Load()+stopped.Load() == n })
}
