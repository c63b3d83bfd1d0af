package graphlayout

import (
	"cmp"
	"math"
	"slices"

	"github.com/capriccio-go/capriccio/internal/words"
)

const (
	mostLabels = 60
	smallGraph = 30    // edges, up to which all have labels
	rare       = 0.002 // of all CPU and of the busiest edge's traffic
)

type rect struct{ x0, y0, x1, y1 float64 }

func (r rect) overlaps(o rect) bool {
	return r.x0 < o.x1 && o.x0 < r.x1 && r.y0 < o.y1 && o.y0 < r.y1
}

// placeLabels writes on the most important edges first what they carry, where it hides
// no box, no arrow head, no other label, and as few lines as can be. What finds no room
// has no label.
func (g *drawGraph) placeLabels() {
	var taken []rect
	for _, n := range g.nodes {
		taken = append(taken, rect{n.X - 3, n.Y - 3, n.X + n.W + 3, n.Y + n.H + 3})
		if n.loop != nil {
			taken = append(taken, n.loop.labelRect(n.loop.LabelX, n.loop.LabelY))
		}
	}
	var mostCount float64
	for _, e := range g.edges {
		mostCount = max(mostCount, float64(e.Count))
	}
	importance := func(e *drawEdge) float64 { return max(e.Share, words.Ratio(float64(e.Count), mostCount)) }
	sorted := slices.Clone(g.edges)
	slices.SortStableFunc(sorted, func(a, b *drawEdge) int { return cmp.Compare(importance(b), importance(a)) })
	sorted = slices.DeleteFunc(sorted, func(e *drawEdge) bool {
		return e.from == e.to || len(g.edges) > smallGraph && importance(e) < rare
	})
	lines := g.sampleLines()
	for _, e := range sorted[:min(len(sorted), mostLabels)] {
		e.setLabel()
		if r, ok := e.bestPlace(taken, lines, g.left, g.width); ok {
			e.LabelX, e.LabelY = Tenth((r.x0+r.x1)/2), Tenth((r.y0+r.y1)/2)
			taken = append(taken, rect{r.x0 - 1, r.y0 - 1, r.x1 + 1, r.y1 + 1}) // the others are rounded as well
		} else {
			e.Label, e.LabelW, e.LabelH = "", 0, 0
		}
	}
}

func (e *drawEdge) labelRect(x, y float64) rect {
	return rect{x - e.LabelW/2, y - e.LabelH/2, x + e.LabelW/2, y + e.LabelH/2}
}

// A linePoint is a point on the line of an edge.
type linePoint struct {
	x, y float64
	edge *drawEdge
}

// lineBand is the height of the bands by which points on lines are found again.
const lineBand = 20

// sampleLines returns points on all lines, near to each other, by bands.
func (g *drawGraph) sampleLines() map[int][]linePoint {
	bands := map[int][]linePoint{}
	for _, e := range g.edges {
		for _, c := range e.segments {
			steps := int((math.Abs(c.x1-c.x0)+math.Abs(c.y1-c.y0))/8) + 1
			for i := range steps {
				x, y := c.at(float64(i) / float64(steps))
				band := int(y / lineBand)
				bands[band] = append(bands[band], linePoint{x, y, e})
			}
		}
	}
	return bands
}

// Where labels may be: along a piece of the line, and how far aside, in widths of the
// label. The line always passes below it.
var (
	labelAlong = [7]float64{0.5, 0.4, 0.6, 0.3, 0.7, 0.2, 0.8}
	labelAside = [3]float64{0, 0.36, -0.36}
)

// bestPlace tries places along the line.
func (e *drawEdge) bestPlace(taken []rect, lines map[int][]linePoint, left, right float64) (best rect, ok bool) {
	least := math.Inf(1)
	for i, c := range e.segments {
		if c.y1-c.y0 < labelH+4 {
			continue
		}
		for try := range 7 * 3 {
			t, aside := labelAlong[try/3], labelAside[try%3]
			cost := math.Abs(t-0.5)*4 + float64(i)*0.5 + math.Abs(aside)*6
			if cost >= least {
				continue
			}
			x, y := c.at(t)
			r := e.labelRect(x+aside*e.LabelW, y)
			if r.x0 < left || r.x1 > right || slices.ContainsFunc(taken, r.overlaps) {
				continue
			}
			for band := int(r.y0 / lineBand); band <= int(r.y1/lineBand); band++ {
				for _, p := range lines[band] {
					if p.edge != e && p.x > r.x0-2 && p.x < r.x1+2 && p.y > r.y0 && p.y < r.y1 {
						cost++
					}
				}
			}
			if cost < least {
				best, least, ok = r, cost, true
			}
		}
	}
	return best, ok
}

// markAside is how far the number of a finding is from the middle of the label, to its left.
const markAside = 11

// placeMark finds where the number of a finding that is about the step stands.
func (e *drawEdge) placeMark() {
	switch {
	case e.Mark == nil:
	case e.Label != "":
		e.MarkX, e.MarkY = Tenth(e.LabelX-e.LabelW/2-markAside), e.LabelY
	case len(e.segments) > 0:
		x, y := e.segments[len(e.segments)/2].at(0.5)
		e.MarkX, e.MarkY = Tenth(x), Tenth(y)
	default: // a loop without a label
		e.MarkX, e.MarkY = Tenth(e.from.X+e.from.W+loopReach), Tenth(e.from.Y+e.from.H/2)
	}
}
