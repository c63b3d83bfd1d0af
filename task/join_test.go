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
			if most.Load() > 3 || ran.Load() != 50 {
				t.Errorf("%d at a time, %d ran; want 3, 50", most.Load(), ran.Load())
			}
			g.SetLimit(1)
			hold := NewChan[int](0)
			if !g.TryGo(func() error { hold.Recv(); return nil }) {
				t.Error("TryGo of an empty group refused")
			}
			if g.TryGo(func() error { return nil }) {
				t.Error("TryGo beyond the limit accepted")
			}
			hold.Send(1)
			g.Wait()
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
			if err := g.Wait(); err == nil || ctx.Err() == nil {
				t.Errorf("error %v, context %v", err, ctx.Err())
			}
		})
	}
}

func TestLocalIsPerTask(t *testing.T) {
	rt := enginetest.NewRuntime(t, 1)
	number := NewLocal(7)
	failure := NewLocal[error](nil)
	enginetest.MustPanic(t, "Set on a plain goroutine", func() { number.Set(1) })
	testenv.Equal(t, number.Get(), 7, "no initial value on a plain goroutine")
	enginetest.Run(t, rt, func() {
		number.Set(8)
		failure.Set(nil)
		if number.Get() != 8 || failure.Get() != nil {
			t.Errorf("got %d, %v", number.Get(), failure.Get())
		}
		engine.Go(func() {
			testenv.Equal(t, number.Get(), 7, "inherited")
		}).Join()
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

func TestTasksOfGroupsAreNamedAfterTheirFunctions(t *testing.T) {
	rt := enginetest.NewRuntime(t, 2)
	var names [2]string
	enginetest.Run(t, rt, func() {
		g, _ := NewGroup(t.Context())
		g.Go(func() error { names[0] = Current().Name(); return nil })
		testenv.Check(t, g.Wait())
		var wg WaitGroup
		wg.Go(func() { names[1] = Current().Name() })
		wg.Wait()
	})
	for _, name := range names {
		testenv.Contains(t, name, "TestTasksOfGroupsAreNamedAfterTheirFunctions")
	}
}
