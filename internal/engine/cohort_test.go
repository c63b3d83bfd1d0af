package engine

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/recorder"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// A cohortPolicy is a nodePolicy that may want the newest tasks of a node first.
type cohortPolicy struct {
	*nodePolicy
	newest bool
}

func (p cohortPolicy) NewestFirst() bool { return p.newest }

// inCohorts makes each policy of a runtime a nodePolicy that sees reasons, inside of what wrap makes of it, if there is one.
func inCohorts(t *testing.T, p **nodePolicy, newest bool, most int, wrap ...func(Policy) Policy) func(c *Config) {
	return func(c *Config) {
		byReason(c, func(*Loop) Policy {
			*p = newNodePolicy(t)
			(*p).most = most
			if len(wrap) > 0 {
				return wrap[0](cohortPolicy{*p, newest})
			}
			return cohortPolicy{*p, newest}
		})
	}
}

// endTurn makes the turn of l end with the present step.
func endTurn(l *Loop) {
	l.turn.end, l.turn.check = l.switches, l.switches
	l.pickNext()
}

// yieldFirst is a pick that lets those that have yielded go first, then the highest number.
func yieldFirst(ready map[recorder.NodeID]int) recorder.NodeID {
	if ready[recorder.NodeID(ReasonYield)] > 0 {
		return recorder.NodeID(ReasonYield)
	}
	best := recorder.NodeStart
	for n, k := range ready {
		if k > 0 {
			best = max(best, n)
		}
	}
	return best
}

// What tasks of the loop make ready runs before what came from elsewhere, the newest
// first; and what becomes ready meanwhile runs after all of that.
func TestTasksOfANodeRunNewestLocalFirst(t *testing.T) {
	for _, c := range []struct {
		newest bool
		most   int
		want   []int
	}{
		{true, 0, []int{3, 2, 1, 4, 5, 7, 6, 8}},
		{true, 2, []int{3, 2, 1, 4, 5, 7, 6, 8}},
		{false, 0, []int{1, 4, 5, 2, 3, 8, 6, 7}},
		{false, 100, []int{1, 4, 5, 2, 3, 8, 6, 7}},
	} {
		t.Run(fmt.Sprintf("newest %v, batches of %d", c.newest, c.most), func(t *testing.T) {
			var p *nodePolicy
			rt, _ := newSimRuntime(t, 1, true, inCohorts(t, &p, c.newest, c.most))
			var order []int
			run(t, rt, func() {
				l := CurrentLoop()
				waiters := make([]*Waiter, 9)
				var wg WaitGroup
				fromElsewhere := func(numbers ...int) {
					l.Post(func() {
						for _, n := range numbers {
							waiters[n].Wake()
						}
					})
					endTurn(l)
					Yield()
				}
				for n := 1; n < len(waiters); n++ {
					wg.Go(func() {
						waiters[n] = Self()
						waiters[n].Wait(ReasonRead, anywhere{})
						order = append(order, n)
						switch n {
						case 3:
							fromElsewhere(8) // ready at once, as what yields goes on first
							waiters[6].Wake()
						case 2:
							waiters[7].Wake()
						}
					})
				}
				Sleep(time.Millisecond)
				p.pick = yieldFirst
				waiters[1].Wake()
				fromElsewhere(4, 5)
				waiters[2].Wake()
				waiters[3].Wake()
				wg.Wait()
			})
			want := c.want
			if !c.newest { // 8 comes when 3 runs, after 2 has woken 7
				want = []int{1, 4, 5, 2, 3, 7, 8, 6}
			}
			testenv.EqualSlices(t, order, want, "order")
		})
	}
}

// What waits for a task to end is made ready by that task.
func TestEndOfATaskIsLocal(t *testing.T) {
	var p *nodePolicy
	rt, _ := newSimRuntime(t, 1, true, inCohorts(t, &p, true, 0))
	var order []int
	run(t, rt, func() {
		var waiters []*Waiter
		var wg WaitGroup
		for i := range 3 {
			wg.Go(func() {
				Go(func() {
					w := Self()
					waiters = append(waiters, w)
					w.Wait(ReasonRead, anywhere{})
				}).Join()
				order = append(order, i)
			})
		}
		Sleep(time.Millisecond)
		for _, w := range waiters { // they end before any that joins runs: 18 is more than 14
			w.Wake()
		}
		wg.Wait()
	})
	if want := []int{0, 1, 2}; !slices.Equal(order, want) { // the newest first, twice
		t.Errorf("order %v, want %v", order, want)
	}
}

// A task that yields lets another task of its node run, if there is one.
func TestYieldGivesWayInACohort(t *testing.T) {
	for _, most := range []int{0, 1, 100} {
		var p *nodePolicy
		rt := newRuntime(t, 1, inCohorts(t, &p, true, most), func(c *Config) { c.NoHandOver = most == 1 })
		var order []int
		run(t, rt, func() {
			var wg, both WaitGroup
			both.Add(2)
			for i := range 2 {
				wg.Go(func() {
					both.Done()
					both.Wait()
					Yield() // now both are there
					for range 50 {
						order = append(order, i)
						Yield()
					}
				})
			}
			wg.Wait()
		})
		for i := 1; i < len(order)-1; i++ {
			if order[i] == order[i-1] {
				t.Fatalf("batches of %d: a task ran again when it had yielded: %v", most, order[:i+1])
			}
		}
	}
}

// A task at a node where many come and go all the time has its turn.
func TestNobodyStarvesInACohort(t *testing.T) {
	for _, most := range []int{0, 64} {
		var p *nodePolicy
		rt := newRuntime(t, 1, inCohorts(t, &p, true, most))
		run(t, rt, func() {
			const tasks = 50
			var ran [tasks]int
			var wg WaitGroup
			for i := range tasks {
				wg.Go(func() {
					Yield() // until all have started
					for range 200 {
						ran[i]++
						others := slices.Max(ran[:])
						Yield()
						if now := slices.Max(ran[:]); now > others+3 {
							t.Errorf("batches of %d: from %d to %d steps of another while one waited", most, others, now)
						}
					}
				})
			}
			wg.Wait()
		})
	}
}

// shortSteps makes the loop take its steps for short ones, however slow the machine is, for some turns.
func shortSteps(l *Loop) { l.stats.stepCost = -1 << 50 }

// A task that becomes ready at another node has its turn when the batch is over.
func TestABatchEndsWhereAnotherNodeIsReady(t *testing.T) {
	var p *nodePolicy
	rt := newRuntime(t, 1, inCohorts(t, &p, true, 1000))
	run(t, rt, func() {
		var other *Waiter
		ran := false
		task := Go(func() {
			other = Self()
			other.Wait(ReasonRead, anywhere{})
			ran = true
		})
		until(func() bool { return other != nil })
		for range 1000 { // alone
			Yield()
		}
		other.Wake()
		Yield()
		if !ran {
			t.Error("a task went on alone although another was ready, which the policy prefers")
		}
		task.Join()
	})
}

// A batch ends when its time is over, which the loop looks at every few steps.
func TestABatchEndsWithItsTime(t *testing.T) {
	var p *nodePolicy
	rt, _ := newSimRuntime(t, 1, true, inCohorts(t, &p, false, 1000))
	run(t, rt, func() {
		p.cycles = 1
		var waiters []*Waiter
		var wg WaitGroup
		for range 10 * maxBudget {
			wg.Go(func() {
				waiters = append(waiters, Self())
				Self().Wait(ReasonRead, anywhere{})
			})
		}
		Sleep(time.Millisecond)
		p.longest = 0
		for _, w := range waiters {
			w.Wake()
		}
		wg.Wait()
	})
	testenv.Check(t, rt.Close())
	testenv.AtMost(t, p.longest, maxBudget/timeChecks, "steps of a batch whose time is over at once")
}

// A batch has as many steps as the policy has chosen, and the tasks of one that is cut short run in the order in which
// they would have run.
func TestTasksThatABatchLeavesKeepTheirOrder(t *testing.T) {
	for _, most := range []int{1, 3, 100} {
		var p *nodePolicy
		rt, _ := newSimRuntime(t, 1, true, inCohorts(t, &p, false, most))
		var order []int
		run(t, rt, func() {
			l := CurrentLoop()
			var waiters []*Waiter
			var wg WaitGroup
			for i := range 20 {
				wg.Go(func() {
					waiters = append(waiters, Self())
					Self().Wait(ReasonRead, anywhere{})
					order = append(order, i)
					if i%4 == 2 {
						endTurn(l)
					}
				})
			}
			Sleep(time.Millisecond)
			p.longest = 0
			for _, w := range waiters {
				w.Wake()
			}
			wg.Wait()
		})
		testenv.Check(t, rt.Close())
		if len(order) != 20 || !slices.IsSorted(order) {
			t.Errorf("batches of %d: order %v, want that of the wakes", most, order)
		}
		testenv.Equal(t, p.longest, min(most, 4), "batches of %d: tasks of the longest, where a turn has four", most)
	}
}

// At an entrance the order is that in which they came, no matter which task has made room.
func TestEntranceOrderInACohort(t *testing.T) {
	e := entrance(t, "test")
	r := &room{size: 1}
	var p *nodePolicy
	rt, _ := newSimRuntime(t, 1, true, inCohorts(t, &p, true, 10), func(c *Config) {
		c.NewAdmission = func(*Loop) Admission { return r }
	})
	var order []int
	inTasks(rt, 10, func(i int) {
		if err := e.Enter(); err != nil {
			t.Error(err)
			return
		}
		order = append(order, i)
		if i == 0 {
			Sleep(time.Millisecond) // until all are in line
			r.size = 20             // room for all of them, when this one leaves
		}
		e.Leave()
	})
	if len(order) != 10 || !slices.IsSorted(order) {
		t.Errorf("let in in the order %v, want first come, first served", order)
	}
}

// A shutdown gets at tasks wherever in the queue of their node they are.
func TestShutdownOfTasksInACohort(t *testing.T) {
	var p *nodePolicy
	hold := false
	rt := newRuntime(t, 1, inCohorts(t, &p, true, 3, func(p Policy) Policy { return holdingPolicy{p, &hold} }))
	ended := 0
	run(t, rt, func() {
		var all WaitGroup
		all.Add(20)
		for i := range 20 {
			Go(func() {
				defer func() { ended++ }()
				all.Done()
				all.Wait()
				Sleep(time.Duration(i%2) * time.Hour)
				for Err() == nil {
					Yield()
				}
			})
		}
		all.Wait()
	})
	done := make(chan struct{})
	l := rt.Loop(0)
	l.Post(func() {
		hold = true
		shortSteps(l)
		close(done)
	})
	<-done
	testenv.Check(t, rt.Close())
	testenv.Equal(t, ended, 20, "tasks ended")
}
