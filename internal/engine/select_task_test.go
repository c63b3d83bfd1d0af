package engine_test

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/coro"
	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/task"
)

// A hookedContext counts what waits for its end, which does not come.
type hookedContext struct {
	context.Context
	done  chan struct{}
	hooks atomic.Int32
}

func (c *hookedContext) Done() <-chan struct{} { return c.done }

func (c *hookedContext) AfterFunc(func()) (stop func() bool) {
	c.hooks.Add(1)
	return func() bool { c.hooks.Add(-1); return true }
}

// A Select that does not return leaves nothing behind: one that panics, as the task has locked its thread, and one
// that the end of the runtime ends.
func TestASelectThatDoesNotReturnLeavesNothing(t *testing.T) {
	rt, check := engine.Closing(t, 1, engine.ShortGrace)
	ctx := &hookedContext{Context: context.Background(), done: make(chan struct{})}
	c := task.NewChan[int](0)
	wait := func() { task.Select(c.RecvCase(nil), task.AfterCase(time.Hour), task.DoneCase(ctx)) }
	left := func(when string, wheel int) {
		t.Helper()
		received, _ := c.TrySend(1)
		if n := ctx.hooks.Load(); n != 0 || wheel != 0 || received {
			t.Errorf("%s: %d timers and %d watches over the context are left, in the channel: %v", when, wheel, n, received)
		}
	}
	if coro.Exact { // thread locks are seen
		testenv.Check(t, rt.Go(func() {
			engine.MustPanic(t, "a Select with a locked thread", func() {
				runtime.LockOSThread()
				wait()
			})
			left("refused", engine.CurrentLoop().TimerCount())
		}).Join())
	}
	rt.Go(func() {
		for {
			wait() // and ignores that it is cancelled
		}
	})
	engine.WaitParked(t, rt, 1, engine.ReasonSelect)
	rt.Close()
	rt.Loop(0).AwaitStop()
	left("ended", rt.Loop(0).TimerCount())
	check()
}
