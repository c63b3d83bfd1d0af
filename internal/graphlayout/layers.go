package graphlayout

import (
	"cmp"
	"math"
	"slices"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/words"
)

// breakCycles finds the edges that lead back: those to a node from which the walk got to
// where it is. The walk begins where tasks do and follows the busiest edge first, so
// that the way most tasks take leads down.
func (g *drawGraph) breakCycles() {
	const (
		fresh = iota
		open
		done
	)
	roots := slices.Clone(g.nodes)
	rank := func(n *drawNode) int {
		switch {
		case n.Key == bgraph.KeyStart:
			return 0
		case len(n.in) == 0:
			return 1
		}
		return 2
	}
	slices.SortFunc(roots, func(a, b *drawNode) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(b.Arrivals, a.Arrivals), cmp.Compare(a.Key, b.Key))
	})
	var walk func(n *drawNode)
	walk = func(n *drawNode) {
		n.mark = open
		for _, e := range byTraffic(n.out) {
			switch e.to.mark {
			case fresh:
				walk(e.to)
			case open:
				e.Back = true
			}
		}
		n.mark = done
	}
	for _, n := range roots {
		if n.mark == fresh {
			walk(n)
		}
	}
	for _, e := range g.edges {
		e.upper, e.lower = e.from, e.to
		if e.Back {
			e.upper, e.lower = e.to, e.from
		}
	}
}

func byTraffic(edges []*drawEdge) []*drawEdge {
	sorted := slices.Clone(edges)
	slices.SortStableFunc(sorted, func(a, b *drawEdge) int { return cmp.Compare(b.Count, a.Count) })
	return sorted
}

// assignLayers puts every node below the nodes from which an edge leads down to it, in the highest
// layer with room. Then it moves nodes with more edges below than above as low as they can be.
func (g *drawGraph) assignLayers() {
	order, above, below := g.downwards()
	var area, widest float64
	for _, n := range g.nodes {
		area += (n.W + nodeGap) * (n.H + leastGap)
		widest = max(widest, n.W)
	}
	room := max(1100, 2*widest, 1.5*math.Sqrt(area))
	var used []float64
	take := func(n *drawNode, layer int) {
		for len(used) <= layer {
			used = append(used, 0)
		}
		used[layer] += n.W + nodeGap
		n.layer = layer
	}
	fits := func(n *drawNode, layer int) bool {
		return layer >= len(used) || used[layer] == 0 || used[layer]+n.W+nodeGap <= room
	}
	for _, n := range order {
		layer := 0
		for _, e := range above[n] {
			layer = max(layer, e.upper.layer+1)
		}
		for !fits(n, layer) {
			layer++
		}
		take(n, layer)
	}
	for _, n := range slices.Backward(order) {
		if len(below[n]) == 0 || len(below[n]) <= len(above[n]) {
			continue
		}
		lowest := math.MaxInt
		for _, e := range below[n] {
			lowest = min(lowest, e.lower.layer-1)
		}
		if lowest > n.layer && fits(n, lowest) {
			used[n.layer] -= n.W + nodeGap
			take(n, lowest)
		}
	}
	g.closeLayers(len(used))
}

// downwards returns the nodes so that all edges lead from one to a later one, and each
// node's edges from above and to below.
func (g *drawGraph) downwards() (order []*drawNode, above, below map[*drawNode][]*drawEdge) {
	above, below = map[*drawNode][]*drawEdge{}, map[*drawNode][]*drawEdge{}
	waiting := map[*drawNode]int{}
	for _, e := range g.edges {
		if e.from != e.to {
			above[e.lower] = append(above[e.lower], e)
			below[e.upper] = append(below[e.upper], e)
			waiting[e.lower]++
		}
	}
	for _, n := range g.nodes {
		if waiting[n] == 0 {
			order = append(order, n)
		}
	}
	for i := 0; i < len(order); i++ {
		for _, e := range byTraffic(below[order[i]]) {
			if waiting[e.lower]--; waiting[e.lower] == 0 {
				order = append(order, e.lower)
			}
		}
	}
	return order, above, below
}

// closeLayers leaves out layers without nodes.
func (g *drawGraph) closeLayers(n int) {
	taken := make([]int, n)
	for _, node := range g.nodes {
		taken[node.layer] = 1
	}
	count := 0
	for i := range taken {
		taken[i], count = count, count+taken[i]
	}
	for _, node := range g.nodes {
		node.layer = taken[node.layer]
	}
	g.layers = make([][]*drawSlot, count)
}

// A drawSlot is a place in a layer: of a node, or of an edge on its way through.
type drawSlot struct {
	node        *drawNode // nil: an edge passes
	pos         int       // in its layer
	left, right float64   // how far it reaches from x
	x           float64
	up, down    []drawLink
	key         float64 // of the order
}

// A drawLink leads to a slot in the next layer.
type drawLink struct {
	slot   *drawSlot
	weight float64 // how much it wants to be straight
}

const loopReach = 34 // how far a self loop reaches from its box

// addSlots gives nodes and edges their slots, in the order of a walk from the top.
func (g *drawGraph) addSlots() {
	var mostCount float64
	for _, e := range g.edges {
		mostCount = max(mostCount, float64(e.Count))
	}
	add := func(s *drawSlot, layer int) *drawSlot {
		s.pos = len(g.layers[layer])
		g.layers[layer] = append(g.layers[layer], s)
		return s
	}
	order, _, below := g.downwards()
	var visit func(n *drawNode)
	visit = func(n *drawNode) {
		if n.slot != nil {
			return
		}
		n.slot = add(&drawSlot{node: n, left: n.W / 2, right: n.W / 2}, n.layer)
		if n.loop != nil {
			n.loop.setLabel()
			n.slot.right += loopReach + n.loop.LabelW
		}
		for _, e := range byTraffic(below[n]) {
			visit(e.lower)
		}
	}
	for _, n := range order {
		visit(n)
	}
	for _, e := range g.edges {
		if e.from == e.to {
			continue
		}
		e.chain = []*drawSlot{e.upper.slot}
		for layer := e.upper.layer + 1; layer < e.lower.layer; layer++ {
			e.chain = append(e.chain, add(&drawSlot{left: e.Width / 2, right: e.Width / 2}, layer))
		}
		e.chain = append(e.chain, e.lower.slot)
		for i := range len(e.chain) - 1 {
			a, b := e.chain[i], e.chain[i+1]
			weight := 1 + 3*words.Ratio(float64(e.Count), mostCount)
			if e.From == bgraph.KeyStart || e.To == bgraph.KeyEnd { // they are no neighbours of other nodes
				weight *= 0.15
			}
			if a.node == nil {
				weight *= 2
			}
			if b.node == nil {
				weight *= 2
			}
			a.down = append(a.down, drawLink{b, weight})
			b.up = append(b.up, drawLink{a, weight})
		}
	}
}
