package graphlayout

import (
	"cmp"
	"math"
	"slices"
)

// packedWidth is how wide a drawing gets, unless one of its parts is wider.
const packedWidth = 1400

// split returns the parts of the graph that no edge connects, each to be laid out by
// itself; where everything is connected that is g itself, without a copy.
func (g *drawGraph) split() []*drawGraph {
	root := make(map[*drawNode]*drawNode, len(g.nodes))
	find := func(n *drawNode) *drawNode {
		for root[n] != nil {
			n = root[n]
		}
		return n
	}
	for _, e := range g.edges {
		if a, b := find(e.from), find(e.to); a != b {
			root[b] = a
		}
	}
	of := map[*drawNode]*drawGraph{}
	var parts []*drawGraph
	part := func(n *drawNode) *drawGraph {
		r := find(n)
		p := of[r]
		if p == nil {
			copied := *g
			p = &copied
			p.nodes, p.edges = nil, nil
			of[r] = p
			parts = append(parts, p)
		}
		return p
	}
	for _, n := range g.nodes {
		p := part(n)
		p.nodes = append(p.nodes, n)
	}
	for _, e := range g.edges {
		p := part(e.from)
		p.edges = append(p.edges, e)
	}
	if len(parts) == 0 {
		copied := *g
		parts = append(parts, &copied)
	}
	return parts
}

// pack places the parts, which are laid out already: the highest first, each as far up as there is room,
// so that small parts fill the room beside large ones.
func (g *drawGraph) pack(parts []*drawGraph) {
	sorted := slices.Clone(parts)
	slices.SortStableFunc(sorted, func(a, b *drawGraph) int { return cmp.Compare(b.height, a.height) })
	widest := float64(packedWidth)
	for _, p := range parts {
		widest = max(widest, p.width)
	}
	edge := []rect{{x1: widest}} // the lower border of what is placed, from left to right; y1 is where it is
	for _, p := range sorted {
		x, y := 0.0, math.Inf(1)
		for _, from := range edge {
			top := 0.0
			for _, e := range edge {
				if e.x0 < from.x0+p.width && e.x1 > from.x0 {
					top = max(top, e.y1)
				}
			}
			if from.x0+p.width <= widest && top < y {
				x, y = from.x0, top
			}
		}
		placed := rect{x, y, x + p.width, y + p.height}
		var left, right []rect
		for _, e := range edge {
			if e.x0 < placed.x0 {
				left = append(left, rect{x0: e.x0, x1: min(e.x1, placed.x0), y1: e.y1})
			}
			if e.x1 > placed.x1 {
				right = append(right, rect{x0: max(e.x0, placed.x1), x1: e.x1, y1: e.y1})
			}
		}
		edge = slices.Concat(left, []rect{placed}, right)
		p.move(x, y)
		g.width, g.height = max(g.width, p.width), max(g.height, p.height)
	}
}

// move moves all of the part by x and y.
func (g *drawGraph) move(x, y float64) {
	g.left, g.width, g.height = x, g.width+x, g.height+y
	for i, layer := range g.layers {
		g.tops[i] += y
		g.bottom[i] += y
		for _, s := range layer {
			s.x += x
			if n := s.node; n != nil {
				n.X, n.Y = Tenth(n.X+x), Tenth(n.Y+y)
				n.setText()
			}
		}
	}
}
