package graphlayout

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/words"
)

// pickDrawn picks what is drawn: the nodes that were met, no more than the options
// allow, and the edges between them.
func pickDrawn(s *bgraph.Snapshot, o Options) *drawGraph {
	g := &drawGraph{s: s, o: o, names: words.Names(s)}
	byKey := map[bgraph.Key]*drawNode{}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if byKey[n.Key] != nil {
			continue
		}
		d := &drawNode{stands: 1, waits: n.Wait, left: n.Departures, readies: n.Ready, oldest: n.Oldest}
		d.Key, d.Name, d.Reason, d.Now = n.Key, g.names[n.Key], words.Clean(n.Reason), n.Now
		d.Arrivals = words.PerSecond(s, n.Arrivals)
		d.wakers, d.there = words.Wakers(n), words.Occupancy(s, n)
		byKey[n.Key] = d
		g.nodes = append(g.nodes, d)
	}
	used := map[bgraph.Key]bool{}
	for i := range s.Edges {
		e := &s.Edges[i]
		for _, k := range []bgraph.Key{e.From, e.To} {
			used[k] = true
			if byKey[k] == nil { // the snapshot has no node of this key
				d := &drawNode{stands: 1}
				d.Key, d.Name, d.Reason = k, k.String(), "unknown"
				byKey[k] = d
				g.nodes = append(g.nodes, d)
			}
		}
		byKey[e.From].cpu += words.EdgeCPU(e)
	}
	g.nodes = slices.DeleteFunc(g.nodes, func(n *drawNode) bool {
		ends := n.Key == bgraph.KeyStart || n.Key == bgraph.KeyEnd
		return !used[n.Key] && (ends || n.Now == 0 && n.Arrivals == 0)
	})
	edges := g.prune()
	g.foldNodes(byKey)
	g.joinEdges(byKey, edges)
	g.figures()
	return g
}

// prune leaves out rare edges, see Options.Prune, and the nodes that no other edge joins: where
// goroutines only wait, there would be a crowd of boxes beside the graph. Marked nodes stay, and of each node that is
// drawn the busiest edge in and out. It returns the edges that are left.
func (g *drawGraph) prune() []*bgraph.Edge {
	edges, linked := words.BusyEdges(g.s, g.o.Prune)
	for i := range g.o.Marks {
		m := &g.o.Marks[i]
		for _, k := range []bgraph.Key{m.Node, m.To} {
			if k != 0 {
				linked[k] = true
			}
		}
		for _, n := range g.nodes {
			n.named = n.named || n.Key == m.Node || n.Key == m.To && m.To != 0
			if n.Key == m.Node && !m.Step && n.Mark == nil {
				n.Mark = m
			}
		}
	}
	if g.o.Prune > 0 && (len(edges) > 0 || len(g.o.Marks) > 0) {
		edges = g.connect(edges, linked)
		all := len(g.nodes)
		g.nodes = slices.DeleteFunc(g.nodes, func(n *drawNode) bool { return !linked[n.Key] })
		g.rare = all - len(g.nodes)
	}
	g.hidden = len(g.s.Edges) - len(edges)
	return edges
}

// connect adds to edges the edges with a Mark, and the busiest edge into and out of each linked node that has none.
func (g *drawGraph) connect(edges []*bgraph.Edge, linked map[bgraph.Key]bool) []*bgraph.Edge {
	drawn, in, out := map[*bgraph.Edge]bool{}, map[bgraph.Key]bool{}, map[bgraph.Key]bool{}
	add := func(e *bgraph.Edge) {
		if !drawn[e] {
			drawn[e] = true
			edges = append(edges, e)
		}
		linked[e.From], linked[e.To] = true, true
		if e.From != e.To {
			in[e.To], out[e.From] = true, true
		}
	}
	busy := edges
	edges = nil
	for _, e := range busy {
		add(e)
	}
	byCount := make([]*bgraph.Edge, len(g.s.Edges))
	for i := range g.s.Edges {
		byCount[i] = &g.s.Edges[i]
	}
	slices.SortStableFunc(byCount, func(a, b *bgraph.Edge) int { return cmp.Compare(b.Count, a.Count) })
	for _, e := range byCount {
		if slices.ContainsFunc(g.o.Marks, func(m Mark) bool { return m.Node == e.From && m.To == e.To }) {
			add(e)
		}
	}
	for _, within := range []bool{true, false} { // nodes that are drawn anyway come first
		for again := true; again; {
			again = false
			for _, e := range byCount {
				lacks := linked[e.From] && !out[e.From] || linked[e.To] && !in[e.To]
				if e.From != e.To && lacks && (!within || linked[e.From] && linked[e.To]) {
					add(e)
					again = true
				}
			}
		}
	}
	return edges
}

// foldNodes replaces the least busy nodes by one, if there are too many.
func (g *drawGraph) foldNodes(byKey map[bgraph.Key]*drawNode) {
	if len(g.nodes) <= g.o.MaxNodes {
		return
	}
	var there, arrivals, cpu float64
	for _, n := range g.nodes {
		there, arrivals, cpu = max(there, n.there), max(arrivals, n.Arrivals), max(cpu, n.cpu)
	}
	busy := func(n *drawNode) float64 {
		if n.Key == bgraph.KeyStart || n.Key == bgraph.KeyEnd || n.named {
			return math.MaxFloat64
		}
		return words.Ratio(n.there, there) + words.Ratio(n.Arrivals, arrivals) + words.Ratio(n.cpu, cpu)
	}
	slices.SortFunc(g.nodes, func(a, b *drawNode) int {
		return cmp.Or(cmp.Compare(busy(b), busy(a)), cmp.Compare(a.Key, b.Key))
	})
	kept := g.o.MaxNodes - 1
	for kept < len(g.nodes) && g.nodes[kept].named {
		kept++
	}
	if kept == len(g.nodes) {
		return
	}
	others := &drawNode{}
	others.Key, others.Reason = KeyOthers, "others"
	for _, n := range g.nodes[kept:] {
		others.stands++
		others.Now += n.Now
		others.Arrivals += n.Arrivals
		others.cpu += n.cpu
		others.oldest = max(others.oldest, n.oldest)
		others.waits.Merge(&n.waits)
		others.left += n.left
		others.readies.Merge(&n.readies)
		byKey[n.Key] = others
	}
	others.Name = words.Count(others.stands) + " others"
	g.nodes = append(g.nodes[:kept], others)
}

// joinEdges joins all edges between the same two drawn nodes. Edges between nodes that are not drawn
// are left out.
func (g *drawGraph) joinEdges(byKey map[bgraph.Key]*drawNode, edges []*bgraph.Edge) {
	type ends struct{ from, to *drawNode }
	known := map[ends]*drawEdge{}
	for _, e := range edges {
		p := ends{byKey[e.From], byKey[e.To]}
		if p.from == p.to && p.from.Key == KeyOthers {
			continue
		}
		d := known[p]
		if d == nil {
			d = &drawEdge{from: p.from, to: p.to}
			d.From, d.To = p.from.Key, p.to.Key
			known[p] = d
			g.edges = append(g.edges, d)
			d.changes = words.Changes(g.s, e)
		} else {
			d.changes = ""
		}
		d.Count += min(e.Count, math.MaxUint64-d.Count)
		d.cpu += words.EdgeCPU(e)
		d.cpuMax = max(d.cpuMax, e.CPU.Max)
		d.overruns += e.Overruns
		d.CPU = words.Nanos(words.Ratio(d.cpu, float64(d.Count)))
	}
	for i := range g.o.Marks {
		m := &g.o.Marks[i]
		if from, to := byKey[m.Node], byKey[m.To]; m.To != 0 && known[ends{from, to}] != nil && known[ends{from, to}].Mark == nil {
			known[ends{from, to}].Mark = m
		}
	}
	if len(g.edges) > mostArrows {
		weight := func(e *drawEdge) uint64 {
			if e.Mark != nil {
				return math.MaxUint64
			}
			return e.Count
		}
		slices.SortStableFunc(g.edges, func(a, b *drawEdge) int { return cmp.Compare(weight(b), weight(a)) })
		g.hidden += len(g.edges) - mostArrows
		g.edges = g.edges[:mostArrows]
	}
	slices.SortFunc(g.edges, func(a, b *drawEdge) int { return compareDrawn(a.Edge, b.Edge) })
	for _, e := range g.edges {
		if e.from == e.to {
			e.from.loop = e
			continue
		}
		e.from.out = append(e.from.out, e)
		e.to.in = append(e.to.in, e)
	}
}

func compareDrawn(a, b Edge) int {
	return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To))
}

// figures works out shares, colours, widths and what is shown when the pointer rests.
func (g *drawGraph) figures() {
	all := words.TotalCPU(g.s)
	g.scale = heatScale{color: g.o.Color}
	var mostCount float64
	for _, n := range g.nodes {
		n.Share = words.Ratio(n.cpu, all)
		n.Wait = (&bgraph.Node{Wait: n.waits, Departures: n.left}).MeanWait()
		if n.left == 0 && n.Now > 0 && n.Key > bgraph.KeyOverflow { // none has come to an end
			n.Wait = n.oldest
		}
		if n.Key != KeyOthers { // else all other nodes would look idle
			g.scale.most = max(g.scale.most, n.Share)
		}
	}
	for _, e := range g.edges {
		mostCount = max(mostCount, float64(e.Count))
	}
	for _, n := range g.nodes {
		n.Heat = g.scale.heat(n.Share, n.Wait)
		n.Fill = g.scale.fill(n.Heat)
		if n.Key == KeyOthers {
			n.Heat, n.Fill = 0, othersFill
		}
		n.Ink = inkOn(n.Fill)
		n.Title = n.tooltip()
	}
	for _, e := range g.edges {
		e.Rate, e.Share = words.PerSecond(g.s, e.Count), words.Ratio(e.cpu, all)
		e.Heat = g.scale.heat(e.Share, e.to.Wait)
		e.Stroke = g.scale.stroke(e.Heat)
		if e.Mark != nil && e.Mark.Color != "" {
			e.Stroke = e.Mark.Color
		}
		e.Width = thinnest + (thickest-thinnest)*math.Sqrt(words.Ratio(float64(e.Count), mostCount))
		e.Title = e.tooltip()
	}
}

// The widths of lines.
const (
	thinnest = 1.4
	thickest = 7
)

func (n *drawNode) tooltip() string {
	lines := []string{
		n.Name,
		fmt.Sprintf("%s now, %s arrivals/s", words.Count(n.Now), words.Rate(n.Arrivals)),
	}
	if n.waits.Max > 0 {
		lines = append(lines, fmt.Sprintf("waits: mean %s, max %s; oldest now %s", words.Duration(n.Wait), words.Duration(n.waits.Max), words.Duration(n.oldest)))
	}
	if n.readies.Max > 0 {
		lines = append(lines, fmt.Sprintf("ready before running: mean %s, max %s", words.Duration(n.readies.Mean()), words.Duration(n.readies.Max)))
	}
	if n.wakers != "" {
		lines = append(lines, n.wakers)
	}
	return strings.Join(append(lines, words.Percent(n.Share)+" of CPU in the steps from here"), "\n")
}

func (e *drawEdge) tooltip() string {
	lines := []string{
		e.from.Name + " → " + e.to.Name,
		fmt.Sprintf("%s steps, %s/s, %s of CPU", words.Count(e.Count), words.Rate(e.Rate), words.Percent(e.Share)),
		fmt.Sprintf("a step: mean %s, max %s", words.Duration(e.CPU), words.Duration(e.cpuMax)),
	}
	if e.changes != "" {
		lines = append(lines, words.Clean(e.changes))
	}
	if e.overruns > 0 {
		lines = append(lines, words.TooLong(e.overruns)+" for the watchdog")
	}
	return strings.Join(lines, "\n")
}
