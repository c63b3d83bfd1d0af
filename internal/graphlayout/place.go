package graphlayout

import "math"

// Distances between what is drawn, in pixels.
const (
	drawMargin  = 10
	nodeGap     = 34 // between boxes side by side
	lineGap     = 16 // between lines side by side, and boxes and lines
	looseGap    = 38 // the same in a small graph, where all lines have labels
	leastGap    = 60 // between layers
	mostGap     = 130
	placeSweeps = 12
)

// separation is how far the x of neighbours in a layer are apart.
func (g *drawGraph) separation(a, b *drawSlot) float64 {
	switch {
	case a.node != nil && b.node != nil:
		return a.right + nodeGap + b.left
	case len(g.edges) <= smallGraph:
		return a.right + looseGap + b.left
	}
	return leastSeparation(a, b)
}

// leastSeparation is how near a line may get to what is beside it.
func leastSeparation(a, b *drawSlot) float64 { return a.right + lineGap + b.left }

// placeSlots chooses every x: each slot is drawn to those it is linked to, above, below,
// and at last both, and neighbours keep their distance.
func (g *drawGraph) placeSlots() {
	for _, layer := range g.layers {
		x := 0.0
		for i, s := range layer {
			if i > 0 {
				x += g.separation(layer[i-1], s)
			}
			s.x = x
		}
		for _, s := range layer {
			s.x -= x / 2
		}
	}
	up := func(s *drawSlot) [][]drawLink { return [][]drawLink{s.up} }
	down := func(s *drawSlot) [][]drawLink { return [][]drawLink{s.down} }
	both := func(s *drawSlot) [][]drawLink { return [][]drawLink{s.up, s.down} }
	for range placeSweeps {
		for _, layer := range g.layers {
			g.align(layer, up)
		}
		for i := range g.layers {
			g.align(g.layers[len(g.layers)-1-i], down)
		}
	}
	for i := range placeSweeps {
		for k := range g.layers {
			if i%2 == 1 {
				k = len(g.layers) - 1 - k
			}
			g.align(g.layers[k], both)
		}
	}
	g.moveToOrigin()
}

// align moves each slot of a layer towards the mean x of the slots that links returns for it. It keeps the
// distances between neighbours, and minimizes the sum of the squares of the deviations.
func (g *drawGraph) align(layer []*drawSlot, links func(*drawSlot) [][]drawLink) {
	want, weight := make([]float64, len(layer)), make([]float64, len(layer))
	gap := make([]float64, len(layer))
	for i, s := range layer {
		var sum, all float64
		for _, list := range links(s) {
			for _, l := range list {
				sum += l.slot.x * l.weight
				all += l.weight
			}
		}
		want[i], weight[i] = s.x, 0.01
		if all > 0 {
			want[i], weight[i] = sum/all, all
		}
		if i > 0 {
			gap[i] = g.separation(layer[i-1], s)
		}
	}
	for i, x := range spread(want, weight, gap) {
		layer[i].x = x
	}
}

// spread returns positions in ascending order, each gap[i] or more from the one before,
// with the least sum of weight·(position-want)². Without the gaps that is isotonic
// regression, solved by pooling neighbours that are in the wrong order.
func spread(want, weight, gap []float64) []float64 {
	type pool struct {
		mean, weight float64
		n            int
	}
	var pools []pool
	offset := 0.0
	offsets := make([]float64, len(want))
	for i := range want {
		if i > 0 {
			offset += gap[i]
		}
		offsets[i] = offset
		p := pool{want[i] - offset, weight[i], 1}
		for len(pools) > 0 && pools[len(pools)-1].mean > p.mean {
			last := pools[len(pools)-1]
			pools = pools[:len(pools)-1]
			all := last.weight + p.weight
			p = pool{(last.mean*last.weight + p.mean*p.weight) / all, all, last.n + p.n}
		}
		pools = append(pools, p)
	}
	out := make([]float64, 0, len(want))
	for _, p := range pools {
		for range p.n {
			out = append(out, p.mean+offsets[len(out)])
		}
	}
	return out
}

// moveToOrigin lets the leftmost slot begin at the margin.
func (g *drawGraph) moveToOrigin() {
	left, right := math.Inf(1), math.Inf(-1)
	for _, layer := range g.layers {
		for _, s := range layer {
			left, right = min(left, s.x-s.left), max(right, s.x+s.right)
		}
	}
	if left > right {
		left, right = 0, 0
	}
	for _, layer := range g.layers {
		for _, s := range layer {
			s.x += drawMargin - left
		}
	}
	g.width = math.Ceil(right - left + 2*drawMargin)
}

// placeLayers chooses every y. Layers are further apart where lines go far to the side,
// so that they don't get flat.
func (g *drawGraph) placeLayers() {
	y := float64(drawMargin)
	for i, layer := range g.layers {
		var height, side float64
		for _, s := range layer {
			if s.node != nil {
				height = max(height, s.node.H)
			}
			for _, l := range s.down {
				side = max(side, math.Abs(l.slot.x-s.x))
			}
		}
		g.tops = append(g.tops, y)
		g.bottom = append(g.bottom, y+height)
		for _, s := range layer {
			if n := s.node; n != nil {
				n.X, n.Y = Tenth(s.x-n.W/2), Tenth(y+(height-n.H)/2)
				n.setText()
			}
		}
		y += height
		if i < len(g.layers)-1 {
			y += min(leastGap+side*0.14, mostGap)
		}
	}
	g.height = math.Ceil(y + drawMargin)
}
