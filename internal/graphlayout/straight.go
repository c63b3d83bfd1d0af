package graphlayout

import (
	"cmp"
	"math"
	"slices"
)

const straightRounds = 3

// straighten lets lines that pass several layers run straight for as long as they can,
// and bend seldom, without getting past what is beside them. The ends follow.
func (g *drawGraph) straighten() {
	var long []*drawEdge
	for _, e := range g.edges {
		if len(e.chain) > 2 {
			long = append(long, e)
		}
	}
	slices.SortStableFunc(long, func(a, b *drawEdge) int { return cmp.Compare(b.Count, a.Count) })
	for range straightRounds {
		for _, e := range long {
			g.straightenEdge(e)
		}
		g.choosePorts()
	}
	for _, e := range long {
		g.straightenEdge(e)
	}
	for _, e := range g.edges {
		if e.from != e.to {
			g.snap(e)
		}
	}
}

const snapped = 0.42 // of the distance to the next line: less than half

// snap makes a line straight that is nearly so.
func (g *drawGraph) snap(e *drawEdge) {
	if math.Abs(e.xUpper-e.xLower) > snapped*e.gap {
		return
	}
	inner := e.chain[1 : len(e.chain)-1]
	for _, x := range []float64{e.xUpper, e.xLower} {
		free := e.upper.reaches(x) && e.lower.reaches(x)
		for i, s := range inner {
			free = free && g.roomOf(s, e.upper.layer+1+i).has(x)
		}
		if free {
			e.xUpper, e.xLower = x, x
			for _, s := range inner {
				s.x = x
			}
			return
		}
	}
}

func (g *drawGraph) straightenEdge(e *drawEdge) {
	inner := e.chain[1 : len(e.chain)-1]
	rooms := make([]room, len(inner))
	for i, s := range inner {
		rooms[i] = g.roomOf(s, e.upper.layer+1+i)
	}
	i, j := 0, len(inner)
	for i < j && rooms[i].has(e.xUpper) { // straight down from the upper end
		inner[i].x = e.xUpper
		i++
	}
	for j > i && rooms[j-1].has(e.xLower) { // and up from the lower one
		j--
		inner[j].x = e.xLower
	}
	x := e.xUpper
	for i < j { // in between as far as what all rooms have in common
		shared, end := rooms[i], i+1
		for end < j && shared.with(rooms[end]).from <= shared.with(rooms[end]).to {
			shared = shared.with(rooms[end])
			end++
		}
		x = min(max(x, shared.from), shared.to)
		for ; i < end; i++ {
			inner[i].x = x
		}
	}
}

// reaches reports whether a line at x meets the box where it is not round.
func (n *drawNode) reaches(x float64) bool {
	return math.Abs(x-n.slot.x) <= n.W/2-portSide/2
}

// A room is where a line can pass a layer.
type room struct{ from, to float64 }

func (r room) has(x float64) bool { return r.from <= x && x <= r.to }
func (r room) with(o room) room   { return room{max(r.from, o.from), min(r.to, o.to)} }

func (g *drawGraph) roomOf(s *drawSlot, layer int) room {
	r := room{g.left + drawMargin + s.left, g.width - drawMargin - s.right}
	slots := g.layers[layer]
	if s.pos > 0 {
		before := slots[s.pos-1]
		r.from = before.x + leastSeparation(before, s)
	}
	if s.pos < len(slots)-1 {
		after := slots[s.pos+1]
		r.to = after.x - leastSeparation(s, after)
	}
	// Rounding must not take away the place that it has.
	return room{math.Min(r.from, s.x), math.Max(r.to, s.x)}
}
