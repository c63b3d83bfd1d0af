package task

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/enginetest"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

func TestWaitGroupWaitsForAll(t *testing.T) {
	enginetest.EachLoops(t, func(t *testing.T, rt *engine.Runtime) {
		for range 20 {
			var wg WaitGroup
			var done atomic.Int32
			wg.Add(12)
			waited := enginetest.StartAll(t, rt, 6, func(int) {
				wg.Wait()
				testenv.Equal(t, done.Load(), 12, "Wait came back after N of 12")
			})
			enginetest.Everyone(t, rt, 12, func(int) { done.Add(1); wg.Done() })
			waited()
		}
	})
}

func TestWaitGroupMisuseAndReuse(t *testing.T) {
	var wg WaitGroup
	wg.Wait()
	testenv.MustPanic(t, "Done below 0", wg.Done)
	wg.Add(2)
	testenv.MustPanic(t, "Add below 0", func() { wg.Add(-3) })
	wg.Done()
	wg.Done()
	wg.Wait()
	rt := enginetest.NewRuntime(t, 2, enginetest.PanicsPass)
	enginetest.Run(t, rt, func() {
		for range 3 {
			wg.Go(func() {})
			wg.Go(func() { panic("boom") }) // still counts as done
			wg.Wait()
		}
	})
}

func TestOnceThatPanics(t *testing.T) {
	rt := enginetest.NewRuntime(t, 1)
	enginetest.Run(t, rt, func() {
		for _, end := range []func(){func() { panic("boom") }, runtime.Goexit} {
			var o Once
			engine.Go(func() { defer func() { recover() }(); o.Do(end) }).Join()
			o.Do(func() { t.Error("ran again") })
		}
	})
}

func TestGroupReturnsTheFirstErrorAndCancels(t *testing.T) {
	enginetest.EachLoops(t, func(t *testing.T, rt *engine.Runtime) {
		first := errors.New("first")
		body := func() {
			g, ctx := NewGroup(context.Background())
			for range 10 {
				g.Go(func() error { return engine.Sleep(time.Hour) })
			}
			g.Go(func() error { engine.Yield(); return first })
			testenv.Equal(t, g.Wait(), first, "Wait")
			testenv.ErrorIs(t, context.Cause(ctx), first, "cause")
		}
		body()
		enginetest.Run(t, rt, body)
	})
}

func TestGroupLimit(t *testing.T) {
	enginetest.EachLoops(t, func(t *testing.T, rt *engine.Runtime) {
		enginetest.Run(t, rt, func() {
			var now, most, ran atomic.Int32
			var g Group
			g.SetLimit(3)
			for range 50 {
				g.Go(func() error {
					if n := now.Add(1); n > most.Load() {
						most.Store(n)
					}
					engine.Yield()
					now.Add(-1)
					ran.Add(1)
					return nil
				})
			}
			g.Wait()
			testenv.AtMost(t, most.Load(), 3, "at a time")
			testenv.Equal(t, ran.Load(), 50, "ran")
		})
	})
}

func TestGroupGoWhileCancelled(t *testing.T) {
	enginetest.NewRuntime(t, 1)
	ctx, cancel := context.WithCancel(context.Background())
	k := engine.GoWith(engine.Options{Context: ctx}, func() {
		var g Group
		g.SetLimit(1)
		var gate WaitGroup
		gate.Add(1)
		g.Go(func() error { gate.Wait(); return nil })
		cancel()
		g.Go(func() error { t.Error("ran"); return nil })
		gate.Done()
		testenv.ErrorIs(t, g.Wait(), context.Canceled, "Wait")
	})
	testenv.Check(t, k.Join())
}

func TestGroupMemberThatDoesNotReturn(t *testing.T) {
	rt := enginetest.NewRuntime(t, 2, enginetest.PanicsPass)
	for _, end := range []func(){func() { panic("boom") }, runtime.Goexit} {
		enginetest.Run(t, rt, func() {
			g, ctx := NewGroup(engine.Context())
			g.Go(func() error { return engine.Sleep(time.Hour) })
			g.Go(func() error { end(); return nil })
			testenv.Fails(t, g.Wait(), "Wait")
			testenv.Fails(t, ctx.Err(), "the context")
		})
	}
}

func TestLocalIsPerTask(t *testing.T) {
	rt := enginetest.NewRuntime(t, 1)
	number := NewLocal(7)
	failure := NewLocal[error](nil)
	testenv.MustPanic(t, "Set on a plain goroutine", func() { number.Set(1) })
	testenv.Equal(t, number.Get(), 7, "the initial value on a plain goroutine")
	enginetest.Run(t, rt, func() {
		number.Set(8)
		failure.Set(nil)
		testenv.Equal(t, number.Get(), 8, "what was set")
		testenv.Check(t, failure.Get())
		engine.Go(func() { testenv.Equal(t, number.Get(), 7, "inherited") }).Join()
	})
	for range 3 { // Loop.Start uses its tasks again
		done := make(chan struct{})
		rt.Loop(0).Post(func() {
			rt.Loop(0).Start(func() {
				defer close(done)
				testenv.Equal(t, number.Get(), 7, "left over from another task")
				number.Set(9)
			})
		})
		<-done
	}
}

func TestPerLoop(t *testing.T) {
	rt, _ := enginetest.NewSimRuntime(t, 2, false)
	p := PerLoop[int]{New: func() int { return 10 }}
	enginetest.Spread(t, rt, 3*rt.Loops(), func(int) { *p.Get() += 1 + engine.CurrentLoop().Index() })()
	enginetest.Spread(t, rt, rt.Loops(), func(i int) { testenv.Equal(t, *p.Get(), 10+3*(1+i), "loop %d", i) })()
	testenv.Equal(t, *p.Get(), 10, "plain goroutines have")
	testenv.Equal(t, p.Get(), p.Get(), "two values for plain goroutines")
	var zero PerLoop[[4]byte]
	testenv.Equal(t, *zero.Get(), [4]byte{}, "without New it is not the zero value")
}

// A PerLoop that lives as long as the process does not keep the runtimes that have ended.
func TestAPerLoopLetsGoOfLoops(t *testing.T) {
	var p PerLoop[int]
	for range 3 {
		rt, check := enginetest.Closing(t, 2)
		enginetest.Spread(t, rt, rt.Loops(), func(int) { p.Get() })()
		testenv.Check(t, rt.Close())
		check()
	}
	p.values.Range(func(l, _ any) bool {
		t.Errorf("it holds a %T of a runtime that has ended", l)
		return true
	})
}

func TestTasksOfGroupsAreNamedAfterTheirFunctions(t *testing.T) {
	rt := enginetest.NewRuntime(t, 2)
	enginetest.Run(t, rt, func() {
		named := func() {
			testenv.Contains(t, Current().String(), "TestTasksOfGroupsAreNamedAfterTheirFunctions")
		}
		g, _ := NewGroup(t.Context())
		g.Go(func() error { named(); return nil })
		testenv.Check(t, g.Wait())
		var wg WaitGroup
		wg.Go(func() { named() })
		wg.Wait()
	})
}
