package sched

import (
	"slices"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// next runs one task: the node that is next, and what it takes.
func nextOf(t *testing.T, c *Cohort, cycles uint64) Node {
	t.Helper()
	n, ok := next(c)
	if !ok {
		t.Fatal("no node is next")
	}
	c.Ran(n, 1, cycles, 0)
	return n
}

func TestANodeMayBeMoreImpatientThanTheOthers(t *testing.T) {
	c := impatient(1000, CohortConfig{Stage: func(n Node) Stage {
		if n == 3 {
			return Stage{Longest: 100}
		}
		return Stage{}
	}})
	for range 50 {
		c.Count(1, 1)
	}
	nextOf(t, c, 10)
	c.Count(2, 1) // before node 3, but patient
	c.Count(3, 1)
	for i := 0; i < 11; i++ {
		if n := nextOf(t, c, 10); n != 1 {
			t.Fatalf("after %d: node %d, want 1: nobody is overdue", i*10, n)
		}
	}
	if n := nextOf(t, c, 10); n != 3 {
		t.Fatalf("node %d after 110, want 3, which is overdue after 100", n)
	}
	if n := nextOf(t, c, 10); n != 1 {
		t.Fatalf("node %d, want 1, which was interrupted", n)
	}
}

func TestANodeMayHaveACrowdOfItsOwn(t *testing.T) {
	c := NewCohort(CohortConfig{Stage: func(n Node) Stage {
		if n == 2 {
			return Stage{Waiting: 3}
		}
		return Stage{}
	}})
	for range 50 {
		c.Count(1, 1)
	}
	nextOf(t, c, 1)
	for range 40 { // a crowd elsewhere counts for nothing
		c.Count(3, 1)
	}
	for range 3 {
		c.Count(2, 1)
	}
	testenv.MustEqual(t, nextOf(t, c, 1), 1, "node N with three at node 2")
	c.Count(2, 1)
	testenv.MustEqual(t, nextOf(t, c, 1), 2, "node N with four at node 2")
}

// The program's order holds between the nodes that it names; the graph's order gives them their places, and all
// others theirs.
func TestNodesKeepTheOrderOfTheProgram(t *testing.T) {
	rank := map[Node]int{5: 1, 2: 2, 4: 3}
	c := NewCohort(CohortConfig{
		Edges: seq([2]Node{1, 2}, [2]Node{2, 3}, [2]Node{3, 4}, [2]Node{4, 5}, [2]Node{5, 6}),
		Stage: func(n Node) Stage { return Stage{Rank: rank[n]} },
	})
	visit := func() (order []Node) {
		for n := Node(1); n <= 6; n++ {
			c.Count(n, 1)
		}
		c.Tick(time.Duration(len(c.order)) * time.Second) // the order is drawn anew
		for range 6 {
			order = append(order, nextOf(t, c, 1))
		}
		return order
	}
	if got := visit(); !slices.Equal(got, []Node{1, 5, 3, 2, 4, 6}) {
		t.Errorf("forwards %v, want 1 5 3 2 4 6", got)
	}
	if got := visit(); !slices.Equal(got, []Node{4, 2, 3, 5, 1, 6}) {
		t.Errorf("back %v, want 4 2 3 5 1, and then 6, where it is", got)
	}
}
