package engine_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/task"
)

// selectCases plays the cases that are no communications, in a task or on a plain goroutine.
func selectCases(t *testing.T) {
	c := task.NewChan[int](1)
	ctx, cancel := context.WithCancelCause(context.Background())
	why := errors.New("why")
	testenv.Got(task.TrySelect(task.DoneCase(ctx), task.AfterCase(0), c.RecvCase(nil)))(t, -1, "nothing is ready")
	testenv.Got(task.Select(task.DoneCase(ctx), task.AfterCase(time.Millisecond), c.RecvCase(nil)))(t, 1, "time")
	stop := task.AfterCase(time.Hour)
	testenv.Got(task.Select(c.SendCase(1), stop, task.DoneCase(ctx)))(t, 0, "room")
	testenv.Got(task.Select(stop, c.RecvCase(nil), stop, task.DoneCase(ctx)))(t, 1, "a value")
	task.AfterFunc(time.Millisecond, func() { cancel(why) })
	for range 2 { // while it waits, and at once
		if i, err := task.Select((*task.Chan[int])(nil).SendCase(1), c.RecvCase(nil), task.DoneCase(ctx)); i != 2 || !errors.Is(err, context.Canceled) || !errors.Is(err, why) {
			t.Errorf("the end of the context: %d, %v", i, err)
		}
	}
}

func TestSelectOnTimeAndContext(t *testing.T) {
	for _, loops := range []int{1, 2} {
		rt, _ := engine.NewSimRuntime(t, loops, true)
		rt.Go(func() { selectCases(t) }).Join()
		for i := range rt.Loops() {
			l := rt.Loop(i)
			testenv.Equal(t, l.TimerCount(), 0, "timers are left on loop %d", l.Index())
		}
		selectCases(t)
	}
}
