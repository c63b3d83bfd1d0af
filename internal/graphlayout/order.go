package graphlayout

import (
	"cmp"
	"slices"
)

const (
	orderSweeps   = 24
	orderPatience = 6    // sweeps without gain
	mostExchanged = 4000 // slots, above which neighbours are not exchanged: it takes too long
)

// orderSlots looks for an order of the slots in each layer with few crossings: it brings
// each slot to the middle of those it is linked to above, then below, and so on, then
// exchanges neighbours, and keeps the best order that it meets.
func (g *drawGraph) orderSlots() {
	slots := 0
	for _, layer := range g.layers {
		slots += len(layer)
	}
	best, least := g.copyOrder(), g.crossings()
	for sweep, since := 0, 0; sweep < orderSweeps && since < orderPatience && least > 0; sweep++ {
		g.sweep(sweep%2 == 0)
		if slots <= mostExchanged {
			g.exchange()
		}
		since++
		if n := g.crossings(); n < least {
			best, least, since = g.copyOrder(), n, 0
		}
	}
	for i, layer := range best {
		g.layers[i] = layer
		number(layer)
	}
}

func (g *drawGraph) copyOrder() [][]*drawSlot {
	out := make([][]*drawSlot, len(g.layers))
	for i := range g.layers {
		out[i] = slices.Clone(g.layers[i])
	}
	return out
}

func number(layer []*drawSlot) {
	for i, s := range layer {
		s.pos = i
	}
}

// sweep orders each layer: a slot goes to the mean position of the slots that it is linked to in
// the layer before. A slot without such links stays where it is.
func (g *drawGraph) sweep(downwards bool) {
	for i := range g.layers {
		layer := g.layers[i]
		if !downwards {
			layer = g.layers[len(g.layers)-1-i]
		}
		for _, s := range layer {
			links := s.up
			if !downwards {
				links = s.down
			}
			s.key = float64(s.pos)
			if len(links) > 0 {
				s.key = 0
				for _, l := range links {
					s.key += float64(l.slot.pos) / float64(len(links))
				}
			}
		}
		slices.SortStableFunc(layer, func(a, b *drawSlot) int { return cmp.Compare(a.key, b.key) })
		number(layer)
	}
}

// exchange swaps neighbours as long as that takes crossings away.
func (g *drawGraph) exchange() {
	for range 4 {
		improved := false
		for _, layer := range g.layers {
			for i := range len(layer) - 1 {
				a, b := layer[i], layer[i+1]
				now := crossed(a.up, b.up) + crossed(a.down, b.down)
				then := crossed(b.up, a.up) + crossed(b.down, a.down)
				if then < now {
					layer[i], layer[i+1] = b, a
					a.pos, b.pos = i+1, i
					improved = true
				}
			}
		}
		if !improved {
			return
		}
	}
}

// crossed counts the crossings between links of two neighbours, left and right.
func crossed(left, right []drawLink) (n int) {
	for _, l := range left {
		for _, r := range right {
			if l.slot.pos > r.slot.pos {
				n++
			}
		}
	}
	return n
}

// crossings counts those between all pairs of layers.
func (g *drawGraph) crossings() (sum int) {
	for i := range len(g.layers) - 1 {
		var ends []int
		for _, s := range g.layers[i] {
			from := len(ends)
			for _, l := range s.down {
				ends = append(ends, l.slot.pos)
			}
			slices.Sort(ends[from:])
		}
		sum += inversions(ends, len(g.layers[i+1]))
	}
	return sum
}

// inversions counts the pairs in the wrong order of numbers below n, with a tree of
// partial sums (Barth, Jünger and Mutzel 2002).
func inversions(list []int, n int) (sum int) {
	tree := make([]int, n+1)
	for seen, v := range list {
		notAbove := 0
		for i := v + 1; i > 0; i &= i - 1 {
			notAbove += tree[i]
		}
		sum += seen - notAbove
		for i := v + 1; i <= n; i += i & -i {
			tree[i]++
		}
	}
	return sum
}
