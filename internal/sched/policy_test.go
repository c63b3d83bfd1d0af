package sched

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// impatient makes a policy whose nodes wait for that many cycles at most.
func impatient(cycles uint64, cfg CohortConfig) *Cohort {
	c := NewCohort(cfg)
	c.overdue = cycles
	return c
}

// policies makes one of each kind.
func policies(rng *rand.Rand) map[string]Policy {
	exclusive := map[Node]*Claim{2: NewClaim(nil), 5: NewClaim(nil)}
	claim := func(n Node) *Claim { return exclusive[n] }
	return map[string]Policy{
		"cohort":       NewCohort(CohortConfig{}),
		"cohort small": impatient(100_000, CohortConfig{Size: 1 + rng.IntN(4), Claim: claim}),
		"cohort edges": NewCohort(CohortConfig{Edges: seq([2]Node{7, 3}, [2]Node{3, 9}, [2]Node{9, 0}, [2]Node{200, 1})}),
		"resource":     NewResource(ResourceConfig{Claim: claim}),
		"resource 1":   NewResource(ResourceConfig{Size: 1}),
	}
}

// Whatever happens, a policy names nodes with ready tasks only, and all of them in the
// end.
func TestPoliciesNameReadyNodesOnly(t *testing.T) {
	eachSeed(t, 300, func(t *testing.T, rng *rand.Rand) {
		for name, p := range policies(rng) {
			ready, total := map[Node]int{}, 0
			now := time.Duration(0)
			nodes := 1 + rng.IntN(150)
			run := func(most int) {
				more, ok := runBatch(t, name, p, rng, ready, most)
				total += more
				if !ok {
					for n, k := range ready {
						if k > 0 {
							t.Fatalf("%s: names no node, but %d tasks are ready at %d", name, k, n)
						}
					}
				}
			}
			for range 500 {
				n := Node(rng.IntN(nodes))
				switch rng.IntN(20) {
				case 0:
					if k := ready[n]; k > 0 {
						k = 1 + rng.IntN(k)
						p.Count(n, -k)
						ready[n] -= k
						total -= k
					}
				case 1:
					now += time.Duration(rng.IntN(int(cohortRefresh)))
					p.Tick(now)
				case 2, 3, 4, 5, 6, 7, 8:
					run(12)
				default:
					p.Count(n, 1)
					ready[n]++
					total++
				}
			}
			var r Report
			p.Report(&r)
			for _, n := range r.Nodes {
				testenv.MustEqual(t, int(n.Ready), ready[n.Node], "%s: reports %d ready tasks at %d", name, n.Ready, n.Node)
				delete(ready, n.Node)
			}
			maps.DeleteFunc(ready, func(_ Node, k int) bool { return k == 0 })
			if len(ready) > 0 {
				t.Fatalf("%s: the report lacks %v", name, ready)
			}
			for _, n := range r.Nodes {
				ready[n.Node] = int(n.Ready)
			}
			for i := 0; total > 0; i++ {
				if i > 100_000 {
					t.Fatalf("%s: %d tasks are never run", name, total)
				}
				now += time.Microsecond
				p.Tick(now)
				run(0)
			}
			if n, ok := next(p); ok {
				t.Fatalf("%s: names %d in the end", name, n)
			}
		}
	})
}

// order runs everything that is ready and returns the nodes in order.
func order(p Policy, charge uint64) (nodes []Node) {
	for {
		n, ok := next(p)
		if !ok {
			return nodes
		}
		nodes = append(nodes, n)
		p.Ran(n, 1, charge, 0)
	}
}

func ready(p Policy, nodes ...Node) {
	for _, n := range nodes {
		p.Count(n, 1)
	}
}

func TestCohortRunsNodesInWavefrontOrder(t *testing.T) {
	c := NewCohort(CohortConfig{Edges: seq([2]Node{1, 3}, [2]Node{3, 2}, [2]Node{2, 4})})
	ready(c, 4, 3, 2, 1)
	testenv.EqualSlices(t, order(c, 1), []Node{1, 2, 3, 4}, "before the graph is known")
	c.Tick(time.Second) // it is at 4 now, the last also of the graph
	for i, want := range [][]Node{{2, 2, 3, 1, 1}, {3, 2, 2, 4}, {2, 3, 1, 1}, {3, 4, 4}} {
		ready(c, want...)
		testenv.EqualSlices(t, order(c, 1), want, "wave %d", i)
	}
}

func TestCohortIsWhatWasThereWhenItBegan(t *testing.T) {
	c := NewCohort(CohortConfig{})
	ready(c, 1, 1, 2)
	var got []Node
	for range 8 {
		n, _ := next(c)
		got = append(got, n)
		c.Ran(n, 1, 1, 0)
		if n == 1 {
			c.Count(1, 1) // it comes back at once
		}
	}
	testenv.EqualSlices(t, got, []Node{1, 1, 2, 1, 1, 1, 1, 1}, "order")
}

func TestCohortSize(t *testing.T) {
	c := NewCohort(CohortConfig{Size: 2})
	ready(c, 1, 1, 1, 1, 1, 2)
	testenv.EqualSlices(t, order(c, 1), []Node{1, 1, 2, 1, 1, 1}, "order")
}

func TestOverdueNodeIsPutInBetween(t *testing.T) {
	c := impatient(45, CohortConfig{})
	ready(c, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 3)
	// After five steps of 10 ns nodes 2 and 3 have waited for 50. Node 2 runs as a whole,
	// then node 1 gets on by one, then node 3.
	testenv.EqualSlices(t, order(c, 10), []Node{1, 1, 1, 1, 1, 2, 2, 1, 3, 1, 1}, "order")
}

// eachExclusive runs a test with the policies of two loops, of each kind, to which node 1 is exclusive, and with the loops
// that have been woken for it.
func eachExclusive(t *testing.T, test func(t *testing.T, a, b Policy, woken *[]int)) {
	for _, name := range []string{"cohort", "resource"} {
		t.Run(name, func(t *testing.T) {
			var woken []int
			claims := map[Node]*Claim{1: NewClaim(func(loop int) { woken = append(woken, loop) })}
			claim := func(n Node) *Claim { return claims[n] }
			policy := func(loop int) Policy {
				if name == "cohort" {
					return NewCohort(CohortConfig{Loop: loop, Claim: claim})
				}
				return NewResource(ResourceConfig{Loop: loop, Claim: claim})
			}
			test(t, policy(0), policy(1), &woken)
		})
	}
}

func TestExclusiveNodeRunsOnOneLoopAtATime(t *testing.T) {
	eachExclusive(t, func(t *testing.T, a, b Policy, woken *[]int) {
		ready(a, 1, 1)
		ready(b, 1, 2)
		if n, ok := next(a); n != 1 || !ok {
			t.Fatal("loop 0 does not get the node")
		}
		if n, ok := next(b); n != 2 || !ok {
			t.Errorf("loop 1 runs node %d, %v; want 2, as loop 0 works at 1", n, ok)
		}
		b.Ran(2, 1, 10, 0)
		if n, ok := next(b); ok {
			t.Errorf("loop 1 runs node %d, while loop 0 works there", n)
		}
		var r Report
		b.Report(&r)
		if i := slices.IndexFunc(r.Nodes, func(n NodeReport) bool { return n.Node == 1 }); r.Nodes[i].Held != reasonExclusive {
			t.Errorf("reported as %q", r.Nodes[i].Held)
		}
		a.Ran(1, 1, 10, 0)
		if n, ok := next(a); n != 1 || !ok {
			t.Error("loop 0 cannot go on")
		}
		a.Ran(1, 1, 10, 0)
		a.Tick(time.Second)
		if !slices.Equal(*woken, []int{1}) {
			t.Errorf("woken %v, want loop 1", *woken)
		}
		b.Tick(time.Second)
		if n, ok := next(b); n != 1 || !ok {
			t.Errorf("loop 1 runs %d, %v after the release, want 1", n, ok)
		}
	})
}

// A loop whose tasks at an exclusive node have run gives it up with the last step, as it may sleep then.
func TestExclusiveNodeIsGivenUpWithItsLastStep(t *testing.T) {
	eachExclusive(t, func(t *testing.T, a, b Policy, woken *[]int) {
		ready(a, 1, 1)
		ready(b, 1)
		for left := 1; left >= 0; left-- {
			if n, ok := next(a); n != 1 || !ok {
				t.Fatalf("loop 0 runs %d, %v; want 1", n, ok)
			}
			if n, ok := next(b); ok {
				t.Errorf("loop 1 runs %d while loop 0 works there", n)
			}
			a.Ran(1, 1, 10, 0)
			if (len(*woken) > 0) != (left == 0) {
				t.Errorf("woken %v when loop 0 has %d more tasks there", *woken, left)
			}
		}
		b.Tick(time.Second)
		if n, ok := next(b); n != 1 || !ok {
			t.Errorf("loop 1 runs %d, %v while loop 0 sleeps; want 1", n, ok)
		}
	})
}

// An overdue node that another loop works at is left out, and asked for later.
func TestOverdueExclusiveNode(t *testing.T) {
	claim := NewClaim(nil)
	c := impatient(25, CohortConfig{Claim: func(n Node) *Claim {
		if n == 2 {
			return claim
		}
		return nil
	}})
	claim.take(1)
	ready(c, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2)
	var got []Node
	for i := range 10 {
		n, ok := next(c)
		if !ok {
			t.Fatalf("nothing after %v", got)
		}
		got = append(got, n)
		c.Ran(n, 1, 10, 0)
		if i == 4 {
			claim.release()
		}
	}
	if i := slices.Index(got, 2); i < 5 || i > 8 {
		t.Errorf("order %v: want node 2 some time after the fifth, when it was released", got)
	}
}

// Loops in goroutines of their own: never two inside, and nobody waits for ever although
// they sleep until they are woken.
func TestClaimUnderContention(t *testing.T) {
	const loops = 4
	wake := make([]chan struct{}, loops)
	for i := range wake {
		wake[i] = make(chan struct{}, 1)
	}
	claim := NewClaim(func(loop int) {
		select {
		case wake[loop] <- struct{}{}:
		default:
		}
	})
	var inside, done atomic.Int32
	var wg sync.WaitGroup
	for loop := range loops {
		wg.Go(func() {
			c := NewCohort(CohortConfig{Loop: loop, Claim: func(Node) *Claim { return claim }})
			for range 2000 {
				ready(c, 1, 1)
				for run := 0; run < 2; {
					n, ok := next(c)
					if !ok {
						<-wake[loop]
						continue
					}
					testenv.Equal(t, inside.Add(1), 1, "two loops run tasks of an exclusive node")
					inside.Add(-1)
					c.Ran(n, 1, 1, 0)
					run++
				}
				c.Tick(0)
			}
			done.Add(1)
		})
	}
	wg.Wait()
	testenv.Equal(t, done.Load(), loops, "loops are done")
}

func TestNodeBeyondTheLimit(t *testing.T) {
	for name, p := range map[string]Policy{"cohort": NewCohort(CohortConfig{}), "resource": NewResource(ResourceConfig{})} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: node %d was accepted", name, MaxNodes)
				}
			}()
			p.Count(MaxNodes, 1)
		}()
	}
}

// BenchmarkPolicy is what a policy costs for each step of a task: it becomes ready, is
// chosen, and is charged.
func BenchmarkPolicy(b *testing.B) {
	for _, nodes := range []int{10, 1000} {
		for _, tasks := range []int{1, 100} { // at each node
			for _, name := range []string{"cohort", "resource"} {
				b.Run(fmt.Sprintf("%s/nodes=%d/tasks=%d", name, nodes, tasks), func(b *testing.B) {
					p := policies(rand.New(rand.NewPCG(1, 1)))[name]
					for range tasks {
						for n := range Node(nodes) {
							p.Count(n, 1)
						}
					}
					q := quanta()
					b.ReportAllocs()
					for i := 0; b.Loop(); i++ {
						n, _ := next(p)
						p.Ran(n, 1, q[i&4095], 0)
						p.Count(n, 1)
					}
				})
			}
		}
	}
}
