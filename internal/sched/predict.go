package sched

import (
	"iter"
	"slices"

	"github.com/capriccio-go/capriccio/internal/admit"
)

// A Prediction says what running a task at a node will do. Slices are by the number of
// the resource, see Ledger.Add; they may be shorter. Quantities of a resource are in its
// own unit. The zero value means that nothing is known.
type Prediction struct {
	Steps   float64         // how many steps it is drawn from; 0: nothing is known
	Inside  bool            // tasks there have come to an entrance, or through one
	CPU     admit.Moments   // cycles until the task waits again
	Changes []admit.Moments // of each resource on that step: taken, or less than 0: given back
	Left    float64         // cycles to completion: until the task ends or is back at an entrance
	Net     []float64       // what it will take until completion, less what it will give back
	Peak    []admit.Moments // the most that it will hold until completion, beyond what it holds now
}

// An Edge is a step of tasks, between two waits.
type Edge struct {
	From, To Node
	Count    float64         // how often it was taken; old times may count less
	CPU      admit.Moments   // cycles
	Changes  []admit.Moments // of each resource
}

// Predict draws a Prediction for every node from the edges of the blocking graph; the result is indexed by Node. done
// reports whether a task that gets to a node has completed its work: it has ended, or has come to an entrance of the
// program (see admit.ConcurrencyLimit), where the next piece of work begins.
//
// The moments of one step are those of the mixture of the node's outgoing edges. What
// happens until completion follows from the steps as for a Markov chain: left(n) =
// cpu(n) + sum of p(n,m) left(m). Where tasks go round many times before they complete,
// the sum is cut off after some hundred rounds.
func Predict(edges []Edge, resources int, done func(Node) bool) []Prediction {
	g := newGraph(edges)
	out := make([]Prediction, len(g.first)-1)
	for n := range out {
		g.mix(&out[n], Node(n), resources)
	}
	over := make([]bool, len(out))
	for n := range out {
		if over[n] = done(Node(n)); over[n] && out[n].Steps > 0 {
			g.enter(out, Node(n))
		}
	}
	changed := g.changed(resources)
	for range maxSweeps {
		moved := false
		for _, n := range slices.Backward(g.order) {
			moved = g.relax(out, n, over, changed) || moved
		}
		if !moved {
			break
		}
	}
	return out
}

// A graph is a list of edges sorted by From: those of node n are
// edges[first[n]:first[n+1]].
type graph struct {
	edges []Edge
	first []int
	order []Node // of a wavefront
}

func newGraph(edges []Edge) *graph {
	g := &graph{edges: slices.Clone(edges)}
	slices.SortStableFunc(g.edges, func(a, b Edge) int { return int(a.From) - int(b.From) })
	nodes := 0
	for _, e := range edges {
		nodes = max(nodes, int(e.From)+1, int(e.To)+1)
	}
	g.first = make([]int, nodes+1)
	for _, e := range g.edges {
		g.first[e.From+1]++
	}
	for n := range nodes {
		g.first[n+1] += g.first[n]
	}
	g.order = Wavefront(func(yield func(from, to Node) bool) {
		for _, e := range g.edges {
			if !yield(e.From, e.To) {
				return
			}
		}
	})
	return g
}

// mix sets the moments of the next step.
func (g *graph) mix(p *Prediction, n Node, resources int) {
	p.Changes = make([]admit.Moments, resources)
	p.Net = make([]float64, resources)
	p.Peak = make([]admit.Moments, resources)
	out := g.edges[g.first[n]:g.first[n+1]]
	for _, e := range out {
		p.Steps += e.Count
	}
	if p.Steps <= 0 {
		return
	}
	for _, e := range out {
		p.CPU.Add(e.Count/p.Steps, e.CPU)
		for r := range min(resources, len(e.Changes)) {
			p.Changes[r].Add(e.Count/p.Steps, e.Changes[r])
		}
	}
	p.CPU.Centre()
	for r := range p.Changes {
		p.Changes[r].Centre()
	}
}

// enter marks n and all that can be reached from it as inside.
func (g *graph) enter(all []Prediction, n Node) {
	todo := []Node{n}
	for len(todo) > 0 {
		n, todo = todo[len(todo)-1], todo[:len(todo)-1]
		if all[n].Inside {
			continue
		}
		all[n].Inside = true
		for _, e := range g.edges[g.first[n]:g.first[n+1]] {
			todo = append(todo, e.To)
		}
	}
}

// changed are the resources that any edge changes: of most programs few.
func (g *graph) changed(resources int) (some []int) {
	for r := range resources {
		if slices.ContainsFunc(g.edges, func(e Edge) bool { return r < len(e.Changes) && e.Changes[r] != admit.Moments{} }) {
			some = append(some, r)
		}
	}
	return some
}

// relax recomputes what lies ahead of a task at n from its successors, and reports whether
// that changed anything. Nodes where tasks complete are over.
func (g *graph) relax(all []Prediction, n Node, over []bool, changed []int) (moved bool) {
	p := &all[n]
	if p.Steps <= 0 {
		return false
	}
	out := g.edges[g.first[n]:g.first[n+1]]
	left := p.CPU.Mean
	for _, e := range out {
		if !over[e.To] {
			left += e.Count / p.Steps * all[e.To].Left
		}
	}
	moved = far(p.Left, left)
	p.Left = left
	for _, r := range changed {
		net := p.Changes[r].Mean
		var peak admit.Moments
		for _, e := range out {
			var then admit.Moments
			if r < len(e.Changes) {
				then = e.Changes[r]
			}
			if !over[e.To] {
				net += e.Count / p.Steps * all[e.To].Net[r]
				then.Mean += all[e.To].Peak[r].Mean
				then.Variance += all[e.To].Peak[r].Variance
			}
			if then.Mean <= 0 { // what is given back, be it sometimes, is never held
				then = admit.Moments{}
			}
			peak.Add(e.Count/p.Steps, then)
		}
		peak.Centre()
		moved = moved || far(p.Net[r], net) || far(p.Peak[r].Mean, peak.Mean)
		p.Net[r], p.Peak[r] = net, peak
	}
	return moved
}

func far(a, b float64) bool {
	d := a - b
	return d*d > precision*precision*b*b
}

// Wavefront orders the nodes of a graph so that, as far as its cycles allow, every edge
// leads forward: a processor that visits nodes in this order meets a task's next node
// after its last (Cohort Scheduling, section 4.1.2). Nodes without incoming edges come
// first; it depends on the order of the edges only where several orders are as good.
func Wavefront(edges iter.Seq2[Node, Node]) []Node {
	var next [][]Node
	var entered []bool
	for from, to := range edges {
		for len(next) <= int(max(from, to)) {
			next = append(next, nil)
			entered = append(entered, false)
		}
		next[from] = append(next[from], to)
		if from != to {
			entered[to] = true
		}
	}
	w := wavefront{next: next, seen: make([]bool, len(next))}
	// Depth first: a node is done with, and noted, after all that it leads to. The order
	// is turned round in the end, so what is to come first is visited last.
	for n := len(next) - 1; n >= 0; n-- {
		if !entered[n] && !w.seen[n] {
			w.visit(Node(n))
		}
	}
	for n := range next { // cycles that nothing leads to
		if !w.seen[n] {
			w.visit(Node(n))
		}
	}
	slices.Reverse(w.post)
	return w.post
}

type wavefront struct {
	next [][]Node
	seen []bool
	post []Node // visited to the end, in this order
}

// visit is a depth-first search with a stack of its own, as graphs can be deep.
func (w *wavefront) visit(root Node) {
	type frame struct {
		n Node
		i int
	}
	stack := []frame{{n: root}}
	w.seen[root] = true
	for len(stack) > 0 {
		top := &stack[len(stack)-1]
		if top.i == len(w.next[top.n]) {
			w.post = append(w.post, top.n)
			stack = stack[:len(stack)-1]
			continue
		}
		to := w.next[top.n][top.i]
		top.i++
		if !w.seen[to] {
			w.seen[to] = true
			stack = append(stack, frame{n: to})
		}
	}
}
