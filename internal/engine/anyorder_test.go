package engine

import (
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/recorder"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// A holdingPolicy holds all tasks back while *hold.
type holdingPolicy struct {
	Policy
	hold *bool
}

func (p holdingPolicy) Choose() (recorder.NodeID, int, uint64) {
	if *p.hold {
		return 0, 0, 0
	}
	return p.Policy.Choose()
}

// How long a round of what is ready may be for any order to do.
func TestAnyOrderForShortRounds(t *testing.T) {
	const limit = 1 << 20
	for _, c := range []struct {
		turns float64 // that a round takes
		want  bool
	}{{0, true}, {roundTurns - 0.1, true}, {roundTurns + 0.1, false}} {
		l := new(Loop)
		l.batch.n = 10
		l.stats = loopStats{stepCost: int64(c.turns * limit / 10), turnLimit: limit}
		testenv.Equal(t, l.shortRound(), c.want, "%v: any order would do", c)
	}
}

// A lenientPolicy does not mind the order while *lenient.
type lenientPolicy struct {
	Policy
	lenient *bool
}

func (p lenientPolicy) AnyOrder() bool { return *p.lenient }

// As long as the policy does not mind, tasks run in the order in which they became ready, wherever they
// were, and it is told of none; as soon as it does, it knows all that are ready.
func TestAnyOrderIsFirstInFirstOut(t *testing.T) {
	var p *nodePolicy
	lenient := false
	rt, _ := newSimRuntime(t, 1, true, inCohorts(t, &p, true, 4, func(p Policy) Policy { return lenientPolicy{p, &lenient} }))
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
			var waiters []*Waiter
			var wg WaitGroup
			for i := range 6 {
				wg.Go(func() {
					waiters = append(waiters, Self())
					Self().Wait([]Reason{ReasonRead, ReasonWrite}[i%2], anywhere{})
					order = append(order, i)
				})
			}
			Sleep(time.Millisecond)
			lenient = c.atWake
			newTurn()
			for _, w := range waiters {
				w.Wake()
			}
			wg.Go(func() { order = append(order, 6) }) // a task that has not started
			testenv.Equal(t, known(), c.known, "%v: the policy knows of N tasks", c)
			lenient = c.after
			if c.tell {
				l.Post(func() {
					if l.TellPolicy(); known() != 8 { // and the running task, which yields
						t.Errorf("%v: the policy knows of %d tasks after TellPolicy, want 8", c, known())
					}
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
