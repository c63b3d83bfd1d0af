package engine

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/recorder"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// inCohorts makes each policy of a runtime a nodePolicy that sees reasons.
func inCohorts(t *testing.T, p **nodePolicy, newest bool, most int) func(c *Config) {
	return func(c *Config) {
		byReason(c, func(*Loop) Policy {
			*p = newNodePolicy(t)
			(*p).newest, (*p).most = newest, most
			return *p
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
		{false, 0, []int{1, 4, 5, 2, 3, 7, 8, 6}}, // 8 comes when 3 runs, after 2 has woken 7
		{false, 100, []int{1, 4, 5, 2, 3, 7, 8, 6}},
	} {
		t.Run(fmt.Sprintf("newest %v, batches of %d", c.newest, c.most), func(t *testing.T) {
			var p *nodePolicy
			rt, _ := newSimRuntime(t, 1, true, inCohorts(t, &p, c.newest, c.most))
			var order []int
			run(t, rt, func() {
				l := CurrentLoop()
				var wg WaitGroup
				var waiters []*Waiter
				fromElsewhere := func(all ...*Waiter) {
					l.Post(func() { wake(all...) })
					endTurn(l)
					Yield()
				}
				waiters = parkEach(&wg, 9, read, func(i int) {
					if i > 0 {
						order = append(order, i)
					}
					switch i {
					case 3:
						fromElsewhere(waiters[8]) // ready at once, as what yields goes on first
						waiters[6].Wake()
					case 2:
						waiters[7].Wake()
					}
				})
				p.pick = yieldFirst
				waiters[1].Wake()
				fromElsewhere(waiters[4:6]...)
				wake(waiters[2:4]...)
				Sleep(time.Millisecond)
				waiters[0].Wake()
				wg.Wait()
			})
			testenv.EqualSlices(t, order, c.want, "order")
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
		wake(waiters...) // they end before any that joins runs: 18 is more than 14
		wg.Wait()
	})
	testenv.EqualSlices(t, order, []int{0, 1, 2}, "order, the newest first, twice")
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
						before := slices.Max(ran[:])
						Yield()
						testenv.AtMost(t, slices.Max(ran[:]), before+3, "batches of %d: steps of another, from %d, while one waited", most, before)
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
	rt, _ := newSimRuntime(t, 1, true, inCohorts(t, &p, true, 1000))
	run(t, rt, func() {
		ran := false
		var wg WaitGroup
		other := parkEach(&wg, 1, read, func(int) { ran = true })
		for range 1000 { // alone
			Yield()
		}
		wake(other...)
		Yield()
		testenv.Equal(t, ran, true, "the task that the policy prefers ran before one that yields")
		wg.Wait()
	})
}

// A batch ends when its time is over, which the loop looks at every few steps.
func TestABatchEndsWithItsTime(t *testing.T) {
	var p *nodePolicy
	rt, _ := newSimRuntime(t, 1, true, inCohorts(t, &p, false, 1000))
	run(t, rt, func() {
		p.cycles = 1
		var wg WaitGroup
		waiters := parkEach(&wg, 10*maxBudget, read, func(int) {})
		p.longest = 0
		wake(waiters...)
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
			var wg WaitGroup
			waiters := parkEach(&wg, 20, read, func(i int) {
				order = append(order, i)
				if i%4 == 2 {
					endTurn(l)
				}
			})
			p.longest = 0
			wake(waiters...)
			wg.Wait()
		})
		testenv.Check(t, rt.Close())
		inOrder(t, order, 20)
		testenv.Equal(t, p.longest, min(most, 4), "batches of %d: tasks of the longest, where a turn has four", most)
	}
}

// At an entrance the order is that in which they came, no matter which task has made room.
func TestEntranceOrderInACohort(t *testing.T) {
	e := entrance(t, "test")
	r := &room{size: 1}
	var p *nodePolicy
	rt, _ := newSimRuntime(t, 1, true, inCohorts(t, &p, true, 10), admission(r))
	var order []int
	inTasks(rt, 10, func(i int) {
		testenv.Check(t, e.Enter())
		order = append(order, i)
		if i == 0 {
			Sleep(time.Millisecond) // until all are in line
			r.size = 20             // room for all of them, when this one leaves
		}
		e.Leave()
	})
	inOrder(t, order, 10)
}

// A shutdown gets at tasks wherever in the queue of their node they are.
func TestShutdownOfTasksInACohort(t *testing.T) {
	var p *nodePolicy
	rt := newRuntime(t, 1, inCohorts(t, &p, true, 3))
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
	onLoop(rt.Loop(0), func(l *Loop) bool {
		p.hold = true
		shortSteps(l)
		return true
	})
	testenv.Check(t, rt.Close())
	testenv.Equal(t, ended, 20, "tasks ended")
}

// How long a round of what is ready may be for any order to do.
func TestAnyOrderForShortRounds(t *testing.T) {
	const limit = 1 << 20
	for turns, want := range map[float64]bool{0: true, roundTurns - 0.1: true, roundTurns + 0.1: false} {
		l := new(Loop)
		l.batch.n = 10
		l.stats = loopStats{stepCost: int64(turns * limit / 10), turnLimit: limit}
		testenv.Equal(t, l.shortRound(), want, "a round of %v turns: any order would do", turns)
	}
}

// As long as the policy does not mind, tasks run in the order in which they became ready, wherever they
// were, and it is told of none; as soon as it does, it knows all that are ready.
func TestAnyOrderIsFirstInFirstOut(t *testing.T) {
	var p *nodePolicy
	rt, _ := newSimRuntime(t, 1, true, inCohorts(t, &p, true, 4))
	run(t, rt, func() {
		l := CurrentLoop()
		newTurn := func() {
			shortSteps(l)
			endTurn(l)
			Yield()
		}
		known := func() (n int) {
			for _, k := range p.ready {
				n += k
			}
			return n
		}
		for _, c := range []struct {
			atWake, after bool // lenient
			tell          bool // TellPolicy is called
			known         int  // tasks of which the policy knows when all are ready
			want          []int
		}{
			{false, false, false, 7, []int{5, 3, 1, 4, 2, 0, 6}},
			{true, true, false, 0, []int{0, 1, 2, 3, 4, 5, 6}},
			{true, false, true, 0, []int{1, 3, 5, 0, 2, 4, 6}},  // by node, and as they came
			{false, true, false, 7, []int{6, 4, 2, 0, 5, 3, 1}}, // node by node, as each would have had them
			{true, false, false, 0, []int{1, 3, 5, 0, 2, 4, 6}},
			{true, true, false, 7, []int{5, 3, 1, 4, 2, 0, 6}}, // not so soon again
		} {
			var order []int
			var wg WaitGroup
			why := func(i int) Reason { return []Reason{ReasonRead, ReasonWrite}[i%2] }
			waiters := parkEach(&wg, 6, why, func(i int) { order = append(order, i) })
			p.lenient = c.atWake
			newTurn()
			wake(waiters...)
			wg.Go(func() { order = append(order, 6) }) // a task that has not started
			testenv.Equal(t, known(), c.known, "%v: the policy knows of N tasks", c)
			p.lenient = c.after
			if c.tell {
				l.Post(func() {
					l.TellPolicy()
					testenv.Equal(t, known(), 8, "the policy knows of N tasks after TellPolicy, with the running one, which yields")
				})
			}
			newTurn()
			wg.Wait()
			testenv.EqualSlices(t, order, c.want, "%v: order", c)
		}
	})
}

// After a turn in which others had the processor for long, steps still count as short ones.
func TestATurnWithoutTheProcessorDoesNotCount(t *testing.T) {
	const limit = 100_000
	s := loopStats{stepCost: 200, lastCost: 200, turnLimit: limit}
	for range 100 {
		s.noteTurn(maxBudget/16, 100*limit)
		s.noteTurn(maxBudget, 200*maxBudget)
	}
	testenv.Equal(t, s.stepCost, 200, "steps of 200 cycles count as N after turns that were interrupted")
	for range 20 { // but not if all are like that
		s.noteTurn(1, 100*limit)
	}
	testenv.AtLeast(t, s.stepCost, limit, "steps of 100 turns count as N cycles")
}
