package engine_test

import (
	"slices"
	"sync"
	"testing"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/recorder"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/task"
)

// A task that has come back from a Cond, and waits for one again without having unlocked its lock or woken
// anybody, was woken for nothing, and the policy is told so. Any other was not.
func TestWokenForNothing(t *testing.T) {
	inCohorts, passed := engine.InCohorts(t, true, 4)
	rt, _ := engine.NewSimRuntime(t, 1, true, inCohorts)
	var mu task.Mutex
	var plain sync.Mutex
	var rw task.RWMutex
	var sleeper *engine.Waiter // nil: has been woken
	wake := func() {
		w := sleeper
		sleeper = nil
		w.Wake()
	}
	other := task.NewCond(&mu)
	for name, c := range map[string]struct {
		l       sync.Locker
		between func() // two waits
		want    int    // batches of which the policy hears so
	}{
		"nothing":                   {&mu, func() {}, 1},
		"nothing, other lock":       {&plain, func() {}, 0}, // not known
		"nothing, RWMutex":          {&rw, func() {}, 0},
		"unlocked":                  {&mu, func() { mu.Unlock(); mu.Lock() }, 0},
		"locked another":            {&mu, func() { new(task.Mutex).Lock() }, 0},
		"a signal":                  {&mu, other.Signal, 0},
		"a signal without a waiter": {&mu, task.NewCond(&mu).Signal, 1},
		"another wake":              {&mu, wake, 0},
		"another wait":              {&mu, func() { engine.Sleep(1) }, 0},
		"a yield":                   {&mu, engine.Yield, 0},
	} {
		for wait, fn := range map[string]func(*task.Cond) error{
			"Wait":        func(c *task.Cond) error { c.Wait(); return nil },
			"WaitContext": func(c *task.Cond) error { return c.WaitContext(t.Context()) },
		} {
			t.Run(name+","+wait, func(t *testing.T) {
				engine.Run(t, rt, func() {
					cond := task.NewCond(c.l)
					var wg task.WaitGroup
					waiting, waits := 0, 0 // the latter also says that the last has begun, as there is one loop
					others := false
					wg.Go(func() {
						mu.Lock()
						others = true
						other.Wait()
						mu.Unlock()
					})
					wg.Go(func() {
						sleeper = engine.Self()
						sleeper.Wait(engine.ReasonRead, engine.Anywhere{})
					})
					engine.Until(func() bool { return others && sleeper != nil })
					wg.Go(func() {
						c.l.Lock()
						for waiting < 2 {
							if waiting++; waiting == 2 {
								c.between()
							}
							waits++
							testenv.Check(t, fn(cond))
						}
						c.l.Unlock()
					})
					passed() // forget the earlier ones
					for n := 1; n <= 2; n++ {
						engine.Until(func() bool { return waits == n })
						cond.Signal()
					}
					other.Signal()
					if sleeper != nil {
						wake()
					}
					wg.Wait()
					want := slices.Repeat([]recorder.NodeID{recorder.NodeID(engine.ReasonCond)}, c.want)
					testenv.EqualSlices(t, passed(), want, "nodes where a task was woken for nothing")
				})
			})
		}
	}
}
