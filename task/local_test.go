package task

import (
	"testing"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/enginetest"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

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
