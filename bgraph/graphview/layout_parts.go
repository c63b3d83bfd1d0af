package graphview

import (
	"cmp"
	"slices"
)

// packedWidth is how wide a drawing may get before a part goes to the next row.
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

// pack puts the parts, which have their sizes, side by side in rows, the largest first.
func (g *drawGraph) pack(parts []*drawGraph) {
	sorted := slices.Clone(parts)
	slices.SortStableFunc(sorted, func(a, b *drawGraph) int { return cmp.Compare(b.height, a.height) })
	widest := float64(packedWidth)
	for _, p := range parts {
		widest = max(widest, p.width)
	}
	x, y, row := 0.0, 0.0, 0.0
	for _, p := range sorted {
		if x > 0 && x+p.width > widest {
			x, y, row = 0, y+row, 0
		}
		row = max(row, p.height)
		p.move(x, y)
		x = p.width
		g.width, g.height = max(g.width, p.width), max(g.height, p.height)
	}
}

// move lets the part begin at x and y.
func (g *drawGraph) move(x, y float64) {
	g.left, g.width, g.height = x, g.width+x, g.height+y
	for i, layer := range g.layers {
		g.tops[i] += y
		g.bottom[i] += y
		for _, s := range layer {
			s.x += x
			if n := s.node; n != nil {
				n.X, n.Y = tenth(n.X+x), tenth(n.Y+y)
				n.setText()
			}
		}
	}
}
