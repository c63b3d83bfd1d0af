package sched

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// grant takes some of the tasks of n that p grants, and has others become ready there and
// elsewhere. It returns how many more are ready in the end.
func grant(p Policy, rng *rand.Rand, n Node, ready map[Node]int) (more int) {
	left, cycles := p.Grant()
	if left <= 0 || cycles == 0 {
		return 0
	}
	taken, came := 0, 0
	for range rng.IntN(20) {
		switch other := Node(rng.IntN(10)); {
		case rng.IntN(2) == 0:
			if left > 0 && ready[n] > 0 {
				left--
				taken++
				ready[n]--
				more--
			}
		case other == n || rng.IntN(2) == 0:
			came++
			ready[n]++
			more++
		default:
			p.Ready(other)
			ready[other]++
			more++
			left = min(left, ready[n])
		}
	}
	p.Granted(n, taken, came)
	return more
}

// What is granted of a node is what Next would have named, as long as nothing else happens;
// and more only if there is nobody else.
func TestGrantsKeepToTheThresholds(t *testing.T) {
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
		"another is overdue":      {impatient(100, CohortConfig{}), []Node{1, 1, 2}, 100, 0, 0},
		"a crowd is to be seen":   {NewCohort(CohortConfig{Stage: func(Node) Stage { return Stage{Waiting: 5} }}), []Node{1, 1, 2}, 10, 0, 0},
		"alone":                   {NewCohort(CohortConfig{}), []Node{1}, 10, aloneTasks, noKey - 10},
		"alone, but exclusive":    {NewCohort(CohortConfig{Stage: func(Node) Stage { return Stage{Claim: NewClaim(nil)} }}), []Node{1, 1}, 10, 1, noKey - 10},
		"resource":                {NewResource(ResourceConfig{}), []Node{1, 1, 1, 2}, 10, 2, 200e3 - 10},
		"resource, size":          {NewResource(ResourceConfig{Size: 2}), []Node{1, 1, 1, 2}, 10, 1, 200e3 - 10},
		"resource, time is over":  {NewResource(ResourceConfig{}), []Node{1, 1, 1, 2}, 200e3, 0, 0},
		"resource, alone":         {NewResource(ResourceConfig{}), []Node{1}, 10, aloneTasks, 200e3 - 10},
		"resource, exclusive":     {NewResource(ResourceConfig{Stage: func(Node) Stage { return Stage{Claim: NewClaim(nil)} }}), []Node{1, 1}, 10, 1, 200e3 - 10},
	} {
		p := c.policy
		ready(p, c.ready...)
		if n, ok := p.Next(); n != 1 || !ok {
			t.Fatalf("%s: chose %d, want 1", name, n)
		}
		p.Charge(1, c.charge)
		if tasks, cycles := p.Grant(); tasks != c.tasks || cycles != c.cycles {
			t.Errorf("%s: grant of %d tasks, %d cycles; want %d, %d", name, tasks, cycles, c.tasks, c.cycles)
		}
	}
}

// A node that went on alone, beyond its cohort, is bounded by the size of one when there
// are others.
func TestAloneIsNoLongerThanThat(t *testing.T) {
	for name, p := range map[string]Policy{
		"cohort": NewCohort(CohortConfig{Size: 4}), "resource": NewResource(ResourceConfig{Size: 4}),
	} {
		p.Ready(1)
		p.Next()
		if tasks, _ := p.Grant(); tasks != aloneTasks {
			t.Fatalf("%s: a grant of %d tasks, want %d", name, tasks, aloneTasks)
		}
		p.Ready(2)
		p.Granted(1, 30, 40)
		p.Charge(1, 300)
		got := order(p, 10)
		if len(got) != 11 || slices.Index(got, 2) > 4 {
			t.Errorf("%s: ran %v, want node 2 after four of node 1 at most", name, got)
		}
	}
}
