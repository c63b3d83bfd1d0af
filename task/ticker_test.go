package task_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/sim"
	"github.com/capriccio-go/capriccio/internal/sim/programs"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/task"
)

func TestTicker(t *testing.T) {
	rt := programs.Simulated(t, 2, 0)
	defer rt.Close()
	rt.Go(func() {
		l := engine.CurrentLoop()
		from := l.Now()
		tick := task.NewTicker(10 * time.Millisecond)
		for i := 1; i <= 5; i++ {
			testenv.Check(t, testenv.Err(tick.C.Recv()))
			want := time.Duration(i) * 10 * time.Millisecond
			testenv.AtLeast(t, l.Now()-from, want, "tick %d after", i)
			testenv.AtMost(t, l.Now()-from, want+5*time.Millisecond, "tick %d after", i)
		}
		task.Sleep(100 * time.Millisecond) // ticks are missed: one waits
		for _, want := range []bool{true, false} {
			_, ok, _ := tick.C.TryRecv()
			testenv.Equal(t, ok, want, "a tick waits")
		}
		tick.Reset(time.Second)
		from = l.Now()
		tick.C.Recv()
		testenv.AtLeast(t, l.Now()-from, time.Second, "after Reset a tick came after")
		tick.Stop()
		tick.Stop()
		testenv.Got(task.Select(tick.C.RecvCase(nil), task.AfterCase(5*time.Second)))(t, 1, "a tick after Stop")
		testenv.MustPanic(t, "NewTicker(0)", func() { task.NewTicker(0) })
	}).Join()
}

// A slowClock moves on by step after each reading: whoever reads it then loses the processor.
type slowClock struct {
	*sim.Clock
	step atomic.Int64 // nanoseconds
}

func (c *slowClock) Now() time.Duration {
	now := c.Clock.Now()
	c.Advance(time.Duration(c.step.Load()))
	return now
}

// The first tick is not followed by another one at once, however long NewTicker has taken.
func TestTheFirstTickComesOnce(t *testing.T) {
	clock := new(slowClock)
	rt := programs.Simulated(t, 1, 0, func(c *engine.Config) {
		clock.Clock = c.Clock.(*sim.Clock)
		c.Clock = clock
	})
	defer rt.Close()
	testenv.Check(t, rt.Go(func() {
		l := engine.CurrentLoop()
		clock.step.Store(int64(5 * time.Millisecond))
		tick := task.NewTicker(10 * time.Millisecond)
		clock.step.Store(0)
		defer tick.Stop()
		var at [2]time.Duration
		for i := range at {
			testenv.Check(t, testenv.Err(tick.C.Recv()))
			at[i] = l.Now()
		}
		testenv.AtLeast(t, at[1]-at[0], 9*time.Millisecond, "the second tick came N after the first")
	}).Join())
}
