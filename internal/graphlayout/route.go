package graphlayout

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// A curve is a cubic Bézier curve that begins and ends vertically: its inner points are
// halfway down. A straight vertical line is one, too.
type curve struct{ x0, y0, x1, y1 float64 }

// at is the point at t, 0 to 1.
func (c curve) at(t float64) (x, y float64) {
	u := 1 - t
	middle := (c.y0 + c.y1) / 2
	a, b, d, e := u*u*u, 3*u*u*t, 3*u*t*t, t*t*t
	return (a+b)*c.x0 + (d+e)*c.x1, a*c.y0 + (b+d)*middle + e*c.y1
}

// route draws the lines: each passes the layers between its ends where its slots are,
// straight, and bends between layers only, so that it meets no box.
func (g *drawGraph) route() {
	g.choosePorts()
	g.straighten()
	for _, e := range g.edges {
		if e.from == e.to {
			e.drawLoop()
			continue
		}
		g.drawEdge(e)
	}
}

// choosePorts spreads the lines over the sides of the boxes that they leave and enter,
// each as near as possible to where it goes.
func (g *drawGraph) choosePorts() {
	type side struct {
		node  *drawNode
		lower bool
	}
	sides := map[side][]*drawEdge{}
	for _, e := range g.edges {
		e.gap = portGap
		if e.from != e.to {
			sides[side{e.upper, true}] = append(sides[side{e.upper, true}], e)
			sides[side{e.lower, false}] = append(sides[side{e.lower, false}], e)
		}
	}
	for round := range 3 { // the ends of a line follow each other
		for _, n := range g.nodes {
			for _, lower := range []bool{true, false} {
				spreadPorts(n, sides[side{n, lower}], lower, round > 0)
			}
		}
	}
}

const (
	portGap  = 24
	portSide = 12 // from the corners
)

func spreadPorts(n *drawNode, edges []*drawEdge, lower, follow bool) {
	if len(edges) == 0 {
		return
	}
	next := func(e *drawEdge) float64 {
		if len(e.chain) == 2 && follow {
			if lower {
				return e.xLower
			}
			return e.xUpper
		}
		if lower {
			return e.chain[1].x
		}
		return e.chain[len(e.chain)-2].x
	}
	slices.SortStableFunc(edges, func(a, b *drawEdge) int {
		toA, toB := a.chain[1], b.chain[1]
		if !lower {
			toA, toB = a.chain[len(a.chain)-2], b.chain[len(b.chain)-2]
		}
		return cmp.Or(cmp.Compare(toA.pos, toB.pos), cmp.Compare(a.From, b.From))
	})
	half := max(n.W/2-portSide, 1)
	gap := min(portGap, 2*half/float64(len(edges)))
	want, weight, gaps := make([]float64, len(edges)), make([]float64, len(edges)), make([]float64, len(edges))
	for i, e := range edges {
		// No further out than where the ports beside it still fit.
		left := n.slot.x - half + gap*float64(i)
		right := n.slot.x + half - gap*float64(len(edges)-1-i)
		if len(edges) > 1 {
			e.gap = min(e.gap, gap)
		}
		want[i], weight[i], gaps[i] = min(max(next(e), left), right), e.Width, gap
	}
	for i, x := range spread(want, weight, gaps) {
		if lower {
			edges[i].xUpper = x
		} else {
			edges[i].xLower = x
		}
	}
}

// drawEdge makes the path of a line from its upper to its lower end, and turns it if
// tasks go the other way.
func (g *drawGraph) drawEdge(e *drawEdge) {
	upper, lower := e.upper, e.lower
	x, y := e.xUpper, upper.Y+upper.H
	head := arrowLength(e.Width)
	if e.Back {
		y += head
	}
	end := lower.Y
	if !e.Back {
		end -= head
	}
	for i := 1; i < len(e.chain); i++ {
		layer := upper.layer + i
		if start := g.bottom[layer-1]; start > y { // past the taller boxes beside
			e.segments = append(e.segments, curve{x, y, x, start})
			y = start
		}
		toX, toY := e.chain[i].x, g.tops[layer]
		if i == len(e.chain)-1 {
			toX, toY = e.xLower, min(toY, end)
		}
		e.segments = append(e.segments, curve{x, y, toX, toY})
		x, y = toX, toY
	}
	if end > y {
		e.segments = append(e.segments, curve{x, y, x, end})
	}
	e.Path = pathOf(e.segments, e.Back)
	if e.Back {
		e.Arrow = arrowHead(e.xUpper, upper.Y+upper.H, -1, e.Width)
	} else {
		e.Arrow = arrowHead(e.xLower, lower.Y, 1, e.Width)
	}
}

// pathOf writes curves for SVG, from the last to the first if the line goes up.
func pathOf(segments []curve, up bool) string {
	if up {
		turned := make([]curve, 0, len(segments))
		for _, c := range slices.Backward(segments) {
			turned = append(turned, curve{c.x1, c.y1, c.x0, c.y0})
		}
		segments = turned
	}
	var b strings.Builder
	b.WriteString("M" + point(segments[0].x0, segments[0].y0))
	for i := 0; i < len(segments); i++ {
		c := segments[i]
		if math.Abs(c.x0-c.x1) < 0.05 {
			b.WriteString("L" + point(c.x1, c.y1))
			continue
		}
		middle := (c.y0 + c.y1) / 2
		b.WriteString("C" + point(c.x0, middle) + " " + point(c.x1, middle) + " " + point(c.x1, c.y1))
	}
	return b.String()
}

func arrowLength(width float64) float64 { return 6 + width }

// arrowHead points down (1) or up (-1) at x, y.
func arrowHead(x, y, direction, width float64) string {
	long, wide := arrowLength(width)*direction, 3+width*0.75
	return "M" + point(x, y) + "L" + point(x-wide, y-long) + "L" + point(x+wide, y-long) + "Z"
}

// drawLoop draws a self loop at the right of its box.
func (e *drawEdge) drawLoop() {
	n := e.from
	x, y, half := n.X+n.W, n.Y+n.H/2, min(n.H/4, 14)
	head := arrowLength(e.Width)
	e.Path = "M" + point(x, y-half) + "C" + point(x+loopReach*1.2, y-half-8) + " " +
		point(x+loopReach*1.2, y+half) + " " + point(x+head, y+half)
	wide := 3 + e.Width*0.75
	e.Arrow = "M" + point(x, y+half) + "L" + point(x+head, y+half-wide) + "L" + point(x+head, y+half+wide) + "Z"
	e.LabelX, e.LabelY = Tenth(x+loopReach+e.LabelW/2), Tenth(y)
}
