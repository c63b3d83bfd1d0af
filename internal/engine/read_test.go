package engine

import (
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// A task that a disk has served does not wait behind all those that are ready, and they go
// on between the steps of such tasks.
func TestServedByADisk(t *testing.T) {
	const others = 100
	rt, _ := newSimRuntime(t, 1, false)
	run(t, rt, func() {
		var parked *Waiter
		steps, reads, stop := 0, 0, false
		reader := Go(func() {
			for ; reads < 50; reads++ {
				parked = Self()
				testenv.Check(t, parked.Wait(ReasonDisk, anywhere{}))
				testenv.AtMost(t, steps, 2, "read %d: N steps of others before its own", reads)
			}
			stop = true
		})
		var all []*Task
		for range others {
			all = append(all, Go(func() {
				for !stop {
					if w := parked; w != nil {
						parked, steps = nil, 0
						w.WakeAhead()
					}
					Yield()
					steps++
				}
			}))
		}
		reader.Join()
		for _, k := range all {
			k.Join()
		}
	})
}

func TestDiskTasksLeaveHalfOfTheSteps(t *testing.T) {
	rt, _ := newSimRuntime(t, 1, false)
	run(t, rt, func() {
		const rounds = 1000
		served, yields, stop := 0, 0, false
		var queue []*Waiter // parked
		var all []*Task
		for range 10 {
			all = append(all, Go(func() {
				for !stop {
					for len(queue) > 0 { // all others are ready at once
						w := queue[0]
						queue = queue[1:]
						w.WakeAhead()
					}
					served++
					queue = append(queue, Self())
					testenv.Check(t, queue[len(queue)-1].Wait(ReasonDisk, anywhere{}))
				}
			}))
		}
		yielder := Go(func() {
			for ; yields < rounds; yields++ {
				Yield()
			}
			stop = true
			for _, w := range queue {
				w.WakeAhead()
			}
			queue = nil
		})
		yielder.Join()
		for _, k := range all {
			k.Join()
		}
		if served < rounds/2 || served > 2*rounds {
			t.Errorf("%d steps of tasks that a disk had served, beside %d of another", served, rounds)
		}
	})
}

// A WakeAhead from another thread goes ahead, too; with a policy it is a Wake.
func TestWakeAheadFromElsewhere(t *testing.T) {
	for _, fifo := range []bool{true, false} {
		var p *nodePolicy
		rt, _ := newSimRuntime(t, 1, true, func(c *Config) {
			if !fifo {
				inCohorts(t, &p, false, 0)(c)
			}
		})
		var order []string
		run(t, rt, func() {
			waiters := map[string]*Waiter{}
			var wg WaitGroup
			for _, name := range []string{"a", "b", "served"} {
				wg.Go(func() {
					w := Self()
					waiters[name] = w
					w.WaitFully(ReasonRead, anywhere{})
					order = append(order, name)
				})
			}
			Sleep(time.Millisecond)
			done := make(chan struct{})
			go func() {
				waiters["a"].Wake()
				waiters["b"].Wake()
				waiters["served"].WakeAhead()
				close(done)
			}()
			<-done
			wg.Wait()
		})
		want := []string{"a", "b", "served"}
		if fifo {
			want = []string{"served", "a", "b"}
		}
		testenv.EqualSlices(t, order, want, "fifo %v: order", fifo)
	}
}
