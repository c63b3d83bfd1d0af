package sched

import (
	"math"
	"testing"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// A cohort of a node at which a task was woken for nothing is one task, then two, and so on, until it is as
// large as any again.
func TestHerdGrowsAgain(t *testing.T) {
	var h herd
	testenv.Equal(t, h.begin(1000), 1000, "a cohort of N tasks although none was woken for nothing")
	for range 2 {
		h.inVain()
		for limit := 1; limit < cohortSize; limit *= 2 {
			for range herdTrials {
				testenv.MustEqual(t, h.begin(1000), limit, "a cohort of N tasks")
				got := h
				testenv.MustEqual(t, got.begin(0), 0, "a cohort of more tasks than are ready")
			}
		}
		testenv.MustEqual(t, h.begin(1000), 1000, "a cohort of N tasks after all these")
		h.begin(1000)
	}
}

// A node that is passed over is not the next one, unless it is the only one; and it runs as soon as its turn
// comes again.
func TestPassOver(t *testing.T) {
	for name, c := range map[string]struct {
		p    Policy
		want []Node // order of the rest
	}{
		"cohort":   {NewCohort(CohortConfig{}), []Node{2, 1, 1}},
		"resource": {NewResource(ResourceConfig{}), []Node{2, 1, 1}},
	} {
		ready(c.p, 1, 1, 1, 2)
		if n, _ := next(c.p); n != 1 {
			t.Fatalf("%s: node %d is first, want 1", name, n)
		}
		c.p.Ran(1, 1, 0, engine.WokenForNothing)
		testenv.EqualSlices(t, order(c.p, 0), c.want, "%s: order after node 1 was passed over", name)
		ready(c.p, 1, 1)
		next(c.p)
		c.p.Ran(1, 1, 0, engine.WokenForNothing)
		testenv.EqualSlices(t, order(c.p, 0), []Node{1}, "%s: order where there is no other node", name)
	}
}

// A task that yields until others have done something has a step for each of their cohorts, not as much of the
// processor as all of them; and all of it if there are no others.
func TestATaskThatYieldsGivesWay(t *testing.T) {
	const spins, works = 1, 2
	for name, p := range map[string]Policy{"cohort": NewCohort(CohortConfig{}), "resource": NewResource(ResourceConfig{})} {
		ready(p, spins)
		steps := map[Node]int{}
		step := func() {
			n, _ := next(p)
			steps[n]++
			if n == spins {
				ready(p, spins)
				p.Ran(spins, 1, 100, engine.GaveWay)
				return
			}
			p.Ran(works, 1, 10_000, 0)
		}
		for range 10 {
			step()
		}
		testenv.Equal(t, steps[spins], 10, "%s: steps alone", name)
		for range 10 {
			ready(p, works)
		}
		for steps[works] < 10 {
			step()
		}
		if extra := steps[spins] - 10; extra > 10 {
			t.Errorf("%s: a task that yields had %d steps while others had 10, want 10 at most", name, extra)
		}
	}
}

// Two nodes at which tasks are woken for nothing run in turn, whatever their tickets.
func TestHerdsAlternate(t *testing.T) {
	p := NewResource(ResourceConfig{})
	for range 20 {
		ready(p, 1, 2, 3)
	}
	p.stride.SetTickets(1, 100*DefaultTickets)
	for seen := 0; seen != 0b110; {
		n, _ := next(p)
		if n < 3 {
			p.Ran(n, 1, 1000, engine.WokenForNothing)
			seen |= 1 << n
			continue
		}
		p.Ran(n, 1, 1000, 0)
	}
	var got []Node
	for range 20 {
		n, _ := next(p)
		p.Ran(n, 1, map[Node]uint64{1: 1, 2: 1000, 3: 1_000_000}[n], 0)
		got = append(got, n)
	}
	for i := range got[1:] {
		if got[i] == got[i+1] {
			t.Fatalf("order %v, want no node twice in a row", got)
		}
	}
}

// Other is the node that would be next if n left, and PassOver puts n right behind it.
func TestStrideOtherAndPassOver(t *testing.T) {
	var s Stride
	s.PassOver(3)
	s.Join(0)
	s.PassOver(0)
	if _, ok := s.Other(0); ok {
		t.Error("there is another node besides the only one")
	}
	passes := []uint64{500, 100, 900, math.MaxUint64, 100}
	for n := range passes {
		s.Join(Node(n))
	}
	for n, cycles := range passes {
		s.Charge(Node(n), cycles)
		s.PassOver(Node(n + 20)) // takes no part
	}
	for _, c := range []struct{ over, other, next Node }{{1, 4, 4}, {4, 1, 1}, {2, 1, 1}, {1, 4, 4}} {
		other, ok := s.Other(c.over)
		s.PassOver(c.over)
		if next, _ := s.Min(); other != c.other || next != c.next || !ok {
			t.Errorf("besides %d the next is %d, %v, and after it was passed over it is %d; want %d and %d", c.over, other, ok, next, c.other, c.next)
		}
	}
	if s.Pass(2) < s.Pass(0) || s.Pass(1)-s.Pass(4) != 1 {
		t.Error("a node that was behind, or is just behind, is elsewhere now")
	}
}
