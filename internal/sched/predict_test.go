package sched

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/capriccio-go/capriccio/internal/admit"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

func near(a, b float64) bool { return math.Abs(a-b) <= 0.01*math.Max(1, math.Abs(b)) }

// A web request: node 1 reads (an entrance), 2 computes with 100 bytes, in a quarter of
// the cases 3 waits for the disk with 300 more, 4 writes and gives everything back.
func webEdges() []Edge {
	bytes := func(n, variance float64) []admit.Moments { return []admit.Moments{{Mean: n, Variance: variance}} }
	return []Edge{
		{From: 0, To: 1, Count: 10, CPU: admit.Moments{Mean: 5}},
		{From: 1, To: 2, Count: 100, CPU: admit.Moments{Mean: 10, Variance: 4}, Changes: bytes(100, 25)},
		{From: 2, To: 4, Count: 75, CPU: admit.Moments{Mean: 20}, Changes: bytes(0, 0)},
		{From: 2, To: 3, Count: 25, CPU: admit.Moments{Mean: 40}, Changes: bytes(300, 0)},
		{From: 3, To: 4, Count: 25, CPU: admit.Moments{Mean: 8}},
		{From: 4, To: 1, Count: 90, CPU: admit.Moments{Mean: 2}, Changes: bytes(-175, 0)},
		{From: 4, To: 5, Count: 10, CPU: admit.Moments{Mean: 2}, Changes: bytes(-175, 0)},
	}
}

func TestPredict(t *testing.T) {
	p := Predict(webEdges(), 1, func(n Node) bool { return n == 1 || n == 5 })
	testenv.MustEqual(t, len(p), 6, "predictions")
	// Node 2: a mixture of 0 and 300 in the proportion 3 to 1.
	if got := p[2]; !near(got.CPU.Mean, 25) || !near(got.CPU.Variance, 75) || !near(got.Changes[0].Mean, 75) || !near(got.Changes[0].Variance, 300*300*3./16) {
		t.Errorf("node 2: %+v", got)
	}
	for n, want := range []float64{5, 10 + 25 + 2 + 2, 25 + 2 + 2, 8 + 2, 2, 0} {
		if !near(p[n].Left, want) {
			t.Errorf("node %d: %v cycles left, want %v", n, p[n].Left, want)
		}
	}
	for n, want := range []float64{0, 0, -100, -175, -175, 0} {
		if math.Abs(p[n].Net[0]-want) > 0.01 {
			t.Errorf("node %d: net %v, want %v", n, p[n].Net[0], want)
		}
	}
	for n, want := range []float64{0, 175, 75, 0, 0, 0} {
		if math.Abs(p[n].Peak[0].Mean-want) > 0.01 {
			t.Errorf("node %d: peak %v, want %v", n, p[n].Peak[0].Mean, want)
		}
	}
	// A request takes 100, and in a quarter of the cases 300 more.
	if want := 25 + 300*300*3./16; !near(p[1].Peak[0].Variance, want) {
		t.Errorf("variance of the peak %v, want %v", p[1].Peak[0].Variance, want)
	}
	for n := range p {
		testenv.Equal(t, p[n].Inside, n > 0, "node %d: inside", n)
	}
	if p[5].Steps != 0 {
		t.Errorf("the end: %+v, want that nothing is known", p[5])
	}
}

// One request in 400 opens a file, and every third is the last of its connection, which gives back a
// descriptor that it did not take: that is no reason to promise it many.
func TestGivingBackIsNoDemand(t *testing.T) {
	p := Predict([]Edge{
		{From: 1, To: 2, Count: 399, Changes: []admit.Moments{{Mean: -1. / 3, Variance: 2. / 9}}},
		{From: 1, To: 3, Count: 1, Changes: []admit.Moments{{Mean: 1}}},
		{From: 3, To: 2, Count: 1, Changes: []admit.Moments{{Mean: -1}}},
	}, 1, func(n Node) bool { return n == 2 })
	if peak := p[1].Peak[0]; !near(peak.Mean*400, 1) || !near(peak.Variance*400, 1) {
		t.Errorf("the most that it holds: %+v, want mean and variance of 1/400", peak)
	}
}

// A task that goes round ten times on average, and one that does so for ever.
func TestPredictCycles(t *testing.T) {
	one := []admit.Moments{{Mean: 1}}
	p := Predict([]Edge{
		{From: 0, To: 1, Count: 1, CPU: admit.Moments{Mean: 1}},
		{From: 1, To: 1, Count: 9, CPU: admit.Moments{Mean: 1}, Changes: one},
		{From: 1, To: 2, Count: 1, CPU: admit.Moments{Mean: 1}, Changes: []admit.Moments{{Mean: -9}}},
		{From: 3, To: 3, Count: 5, CPU: admit.Moments{Mean: 7}, Changes: one},
	}, 1, func(n Node) bool { return n == 2 })
	if !near(p[1].Left, 10) || math.Abs(p[1].Net[0]) > 0.05 {
		t.Errorf("node 1: %v left, net %v; want 10 and 0", p[1].Left, p[1].Net[0])
	}
	if p[3].Left < 500 || math.IsInf(p[3].Left, 0) || p[3].Net[0] < 50 {
		t.Errorf("a loop without end: %v left, net %v; want both large", p[3].Left, p[3].Net[0])
	}
}

// The chain's equations against walking through it, on random graphs.
func TestPredictEqualsTheAverageOfWalks(t *testing.T) {
	eachSeed(t, 20, func(t *testing.T, rng *rand.Rand) {
		nodes := 3 + rng.IntN(6)
		var edges []Edge
		for from := range nodes - 1 {
			for range 1 + rng.IntN(3) {
				to := min(rng.IntN(nodes), from+1+rng.IntN(3)) // mostly forward
				edges = append(edges, Edge{
					From: Node(from), To: Node(max(to, 1)), Count: float64(1 + rng.IntN(9)),
					CPU:     admit.Moments{Mean: float64(1 + rng.IntN(100))},
					Changes: []admit.Moments{{Mean: float64(rng.IntN(21) - 10)}},
				})
			}
			edges = append(edges, Edge{From: Node(from), To: Node(nodes - 1), Count: 3, CPU: admit.Moments{Mean: 5}})
		}
		done := func(n Node) bool { return n == Node(nodes-1) }
		p := Predict(edges, 1, done)
		const walks = 40_000
		left, net := 0.0, 0.0
		for range walks {
			for n := Node(0); !done(n); {
				x := rng.Float64() * p[n].Steps
				for _, e := range edges {
					if e.From != n {
						continue
					}
					if x -= e.Count; x < 0 {
						left += e.CPU.Mean / walks
						if len(e.Changes) > 0 {
							net += e.Changes[0].Mean / walks
						}
						n = e.To
						break
					}
				}
			}
		}
		if math.Abs(p[0].Left-left) > 0.05*left || math.Abs(p[0].Net[0]-net) > 1 {
			t.Errorf("predicted %.1f cycles and %.2f net; walks took %.1f and %.2f", p[0].Left, p[0].Net[0], left, net)
		}
	})
}

func seq(edges ...[2]Node) func(func(from, to Node) bool) {
	return func(yield func(from, to Node) bool) {
		for _, e := range edges {
			if !yield(e[0], e[1]) {
				return
			}
		}
	}
}

func TestWavefront(t *testing.T) {
	for _, c := range []struct {
		edges [][2]Node
		want  []Node
	}{
		{nil, nil},
		{[][2]Node{{0, 1}, {1, 2}, {2, 3}}, []Node{0, 1, 2, 3}},
		{[][2]Node{{3, 2}, {2, 1}, {1, 0}}, []Node{3, 2, 1, 0}},
		{[][2]Node{{0, 2}, {2, 1}, {1, 3}, {3, 2}}, []Node{0, 2, 1, 3}}, // a cycle
		{[][2]Node{{0, 1}, {1, 0}}, []Node{0, 1}},                       // and nothing else
		{[][2]Node{{1, 1}, {1, 0}}, []Node{1, 0}},                       // to itself
	} {
		testenv.EqualSlices(t, Wavefront(seq(c.edges...)), c.want, "%v: order", c.edges)
	}
}

func TestWavefrontHasAllNodesAndLeadsForward(t *testing.T) {
	eachSeed(t, 200, func(t *testing.T, rng *rand.Rand) {
		nodes := 2 + rng.IntN(50)
		var edges [][2]Node
		label := rng.Perm(nodes)
		for range rng.IntN(100) {
			a, b := rng.IntN(nodes), rng.IntN(nodes)
			if a != b { // no cycles
				edges = append(edges, [2]Node{Node(label[min(a, b)]), Node(label[max(a, b)])})
			}
		}
		order := Wavefront(seq(edges...))
		place := map[Node]int{}
		for i, n := range order {
			if _, twice := place[n]; twice {
				t.Fatalf("node %d is twice in %v", n, order)
			}
			place[n] = i
		}
		for _, e := range edges {
			if place[e[0]] >= place[e[1]] {
				t.Fatalf("edge %v leads backwards in %v", e, order)
			}
		}
	})
}
