package sched

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// runBatch has p choose a batch and runs part of it, while most tasks, at most, become ready there and elsewhere. It returns
// how many more are ready in the end, and whether there was a batch.
func runBatch(t *testing.T, name string, p Policy, rng *rand.Rand, ready map[Node]int, most int) (more int, ok bool) {
	n, steps, cycles := p.Choose()
	if steps == 0 {
		return 0, false
	}
	if ready[n] < steps || cycles == 0 {
		t.Fatalf("%s: chooses %d tasks of node %d for %d cycles; %d are ready", name, steps, n, cycles, ready[n])
	}
	ran := 1 + rng.IntN(steps)
	for range rng.IntN(most + 1) {
		m := n
		if rng.IntN(2) == 0 {
			m = Node(rng.IntN(10))
		}
		p.Count(m, 1)
		ready[m]++
		more++
	}
	ready[n] -= ran
	p.Ran(n, ran, uint64(rng.IntN(60_000)), engine.Outcome(rng.IntN(4)*rng.IntN(2)))
	return more - ran, true
}

// A batch is what is left of the cohort, and of the time until another node must have its turn.
func TestBatchesKeepToTheThresholds(t *testing.T) {
	for name, c := range map[string]struct {
		policy Policy
		ready  []Node
		charge uint64 // of the first step
		tasks  int
		cycles uint64
	}{
		"rest of the cohort":      {NewCohort(CohortConfig{}), []Node{1, 1, 1, 2}, 10, 2, 20e6 - 10},
		"size":                    {NewCohort(CohortConfig{Size: 2}), []Node{1, 1, 1, 2}, 10, 1, 20e6 - 10},
		"another is soon overdue": {impatient(100, CohortConfig{}), []Node{1, 1, 2}, 10, 1, 90},
		"another is overdue now":  {impatient(100, CohortConfig{}), []Node{1, 1, 1, 2}, 100, 1, 1},
		"alone":                   {NewCohort(CohortConfig{}), []Node{1, 1}, 10, 1, noKey - 10},
		"resource":                {NewResource(ResourceConfig{}), []Node{1, 1, 1, 2}, 10, 2, 200e3 - 10},
		"resource, size":          {NewResource(ResourceConfig{Size: 2}), []Node{1, 1, 1, 2}, 10, 1, 200e3 - 10},
		"resource, alone":         {NewResource(ResourceConfig{}), []Node{1, 1}, 10, 1, 200e3 - 10},
	} {
		p := c.policy
		ready(p, c.ready...)
		if n, steps, _ := p.Choose(); n != 1 || steps == 0 {
			t.Fatalf("%s: chose %d, want 1", name, n)
		}
		p.Ran(1, 1, c.charge, 0)
		if n, tasks, cycles := p.Choose(); n != 1 || tasks != c.tasks || cycles != c.cycles {
			t.Errorf("%s: %d tasks of %d for %d cycles; want %d, of 1, for %d", name, tasks, n, cycles, c.tasks, c.cycles)
		}
	}
}

// When the time of a cohort is over, the other node has its turn, although tasks of the cohort are left.
func TestTheTimeOfACohortEnds(t *testing.T) {
	p := NewResource(ResourceConfig{})
	ready(p, 1, 1, 1, 2)
	_, _, cycles := p.Choose()
	p.Ran(1, 1, cycles, 0)
	n, _ := next(p)
	testenv.Equal(t, n, 2, "after the time of node 1 the policy chooses node N")
}

// A node that was alone has the turn of a cohort, and no more, when there are others.
func TestAloneIsNoLongerThanACohort(t *testing.T) {
	for name, p := range map[string]Policy{
		"cohort": NewCohort(CohortConfig{Size: 4}), "resource": NewResource(ResourceConfig{Size: 4}),
	} {
		ready(p, 1)
		for range 30 {
			n, ok := next(p)
			if n != 1 || !ok {
				t.Fatalf("%s: chose node %d, %v; want 1, the only one", name, n, ok)
			}
			p.Count(1, 2)
			p.Ran(1, 1, 10, 0)
		}
		p.Count(2, 1)
		got := order(p, 10)
		if len(got) != 32 || slices.Index(got, 2) > 4 {
			t.Errorf("%s: ran %v, want node 2 after four of node 1 at most", name, got)
		}
	}
}
