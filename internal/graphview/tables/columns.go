package tables

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/words"
)

// A nodeRow is a node as the tables show it.
type nodeRow struct {
	*bgraph.Node
	name   string
	perSec float64 // arrivals
	there  float64 // see words.Occupancy
}

// An edgeRow is an edge as the tables show it.
type edgeRow struct {
	*bgraph.Edge
	from, to string
	perSec   float64
	share    float64 // of all CPU time
}

var nodeColumns = []column[nodeRow]{
	{name: "node", head: "node", left: true, text: func(r *nodeRow) string { return r.name }},
	{name: "now", head: "now", text: func(r *nodeRow) string { return words.Count(r.Now) },
		rank: func(r *nodeRow) float64 { return float64(r.Now) }},
	{name: "waiting", head: "waiting", text: func(r *nodeRow) string { return words.Rate(r.there) },
		rank: func(r *nodeRow) float64 { return r.there }},
	{name: "peak", head: "peak", text: func(r *nodeRow) string { return words.Count(r.Peak) },
		rank: func(r *nodeRow) float64 { return float64(r.Peak) }},
	{name: "arrivals", head: "arrivals/s", text: func(r *nodeRow) string { return words.Rate(r.perSec) },
		rank: func(r *nodeRow) float64 { return float64(r.Arrivals) }},
	durationColumn("wait", "wait", func(r *nodeRow) bgraph.Nanos { return r.MeanWait() }),
	quantileColumn("wait-p99", "wait p99", func(r *nodeRow) *bgraph.Times { return &r.Wait }),
	durationColumn("wait-max", "wait max", func(r *nodeRow) bgraph.Nanos { return r.Wait.Max }),
	durationColumn("ready", "ready", func(r *nodeRow) bgraph.Nanos { return r.Ready.Mean() }),
	quantileColumn("ready-p99", "ready p99", func(r *nodeRow) *bgraph.Times { return &r.Ready }),
	durationColumn("oldest", "oldest", func(r *nodeRow) bgraph.Nanos { return r.Oldest }),
}

var edgeColumns = []column[edgeRow]{
	{name: "from", head: "from", left: true, text: func(r *edgeRow) string { return r.from }},
	{name: "to", head: "→ to", left: true, text: func(r *edgeRow) string { return "→ " + r.to }},
	{name: "count", head: "count", text: func(r *edgeRow) string { return words.Count(r.Count) },
		rank: func(r *edgeRow) float64 { return float64(r.Count) }},
	{head: "per s", text: func(r *edgeRow) string { return words.Rate(r.perSec) }},
	ifTimed(column[edgeRow]{name: "cpu", head: "CPU", text: func(r *edgeRow) string { return words.Percent(r.share) },
		rank: func(r *edgeRow) float64 { return r.share }}),
	ifTimed(durationColumn("cpu-mean", "mean", func(r *edgeRow) bgraph.Nanos { return r.MeanCPU() })),
	ifTimed(column[edgeRow]{name: "cpu-recent", head: "recent ± sd", text: func(r *edgeRow) string { return momentsText(&r.Recent) },
		rank: func(r *edgeRow) float64 { return r.Recent.Mean }}),
	ifTimed(quantileColumn("cpu-p99", "p99", func(r *edgeRow) *bgraph.Times { return &r.CPU })),
	ifTimed(durationColumn("cpu-max", "max", func(r *edgeRow) bgraph.Nanos { return r.CPU.Max })),
	{name: "heap", head: "heap", text: func(r *edgeRow) string { return heapText(&r.Heap) },
		rank: func(r *edgeRow) float64 { return words.MeanChange(&r.Heap) }},
}

// ifTimed shows a time as unknown, not as 0, where no step of the edge was timed.
func ifTimed(c column[edgeRow]) column[edgeRow] {
	text := c.text
	c.text = func(r *edgeRow) string {
		if r.CPU.Count == 0 {
			return "–"
		}
		return text(r)
	}
	return c
}

func durationColumn[R any](name, head string, of func(*R) bgraph.Nanos) column[R] {
	return column[R]{name: name, head: head,
		text: func(r *R) string { return words.Duration(of(r)) },
		rank: func(r *R) float64 { return float64(of(r)) },
	}
}

// quantileColumn shows the 99th percentile of the times.
func quantileColumn[R any](name, head string, of func(*R) *bgraph.Times) column[R] {
	return column[R]{name: name, head: head,
		text: func(r *R) string { return words.QuantileText(of(r), 0.99) },
		rank: func(r *R) float64 { return float64(words.Quantile(of(r), 0.99)) },
	}
}

func momentsText(m *bgraph.Moments) string {
	if m.Mean == 0 && m.Variance == 0 {
		return "0"
	}
	return words.Duration(words.Nanos(m.Mean)) + " ± " + words.Duration(words.Nanos(math.Sqrt(max(m.Variance, 0))))
}

func heapText(c *bgraph.Change) string {
	if c.Steps == 0 {
		return ""
	}
	return words.Amount(words.MeanChange(c), "bytes")
}

// Columns returns the names by which Options.Sort knows the columns of the tables of
// nodes and edges.
func Columns() []string {
	var names []string
	for _, c := range nodeColumns {
		names = append(names, c.name)
	}
	for _, c := range edgeColumns {
		if c.name != "" {
			names = append(names, c.name)
		}
	}
	return names
}

// nodeTable has a row for every node, the nodes with the most tasks on average first. The nodes of reserved keys are left out
// if no task has been there.
func nodeTable(s *bgraph.Snapshot, names map[bgraph.Key]string) *textTable[nodeRow] {
	t := &textTable[nodeRow]{columns: nodeColumns}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if n.Key <= bgraph.KeyOverflow && n.Arrivals == 0 && n.Departures == 0 && n.Now == 0 {
			continue
		}
		t.rows = append(t.rows, nodeRow{Node: n, name: names[n.Key], perSec: words.PerSecond(s, n.Arrivals), there: words.Occupancy(s, n)})
	}
	slices.SortStableFunc(t.rows, func(a, b nodeRow) int {
		return cmp.Or(cmp.Compare(b.there, a.there), cmp.Compare(b.Arrivals, a.Arrivals), cmp.Compare(a.Key, b.Key))
	})
	return t
}

// edgeTable has a row for every edge, the edge that uses most CPU first.
func edgeTable(s *bgraph.Snapshot, names map[bgraph.Key]string) *textTable[edgeRow] {
	t := &textTable[edgeRow]{columns: edgeColumns}
	all := words.TotalCPU(s)
	for i := range s.Edges {
		e := &s.Edges[i]
		t.rows = append(t.rows, edgeRow{
			Edge: e, from: words.NameIn(names, e.From), to: words.NameIn(names, e.To),
			perSec: words.PerSecond(s, e.Count), share: words.Ratio(words.EdgeCPU(e), all),
		})
	}
	slices.SortStableFunc(t.rows, func(a, b edgeRow) int {
		return cmp.Or(cmp.Compare(b.share, a.share), cmp.Compare(b.Count, a.Count),
			cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To))
	})
	return t
}

// sortTables sorts the table that has the column; the other keeps its order. It returns the columns by which nodes and edges
// are sorted.
func sortTables(order string, nodes *textTable[nodeRow], edges *textTable[edgeRow]) (ofNodes, ofEdges string, err error) {
	ofNodes, ofEdges = "waiting", "cpu"
	if order == "" {
		return ofNodes, ofEdges, nil
	}
	switch {
	case nodes.sortBy(order):
		ofNodes = order
	case edges.sortBy(order):
		ofEdges = order
	default:
		err = fmt.Errorf("bgraph: no column %q to sort by; there are %s (a minus in front reverses the order)", order, strings.Join(Columns(), ", "))
	}
	return ofNodes, ofEdges, err
}
