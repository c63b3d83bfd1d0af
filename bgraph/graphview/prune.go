package graphview

import (
	"slices"

	"github.com/capriccio-go/capriccio/bgraph"
)

// busyEdges are the edges with at least that share of all steps or of all CPU time, linked the
// nodes that they join. A share of 0 or less keeps all.
func busyEdges(s *bgraph.Snapshot, share float64) (edges []*bgraph.Edge, linked map[bgraph.Key]bool) {
	var count float64
	for i := range s.Edges {
		count += float64(s.Edges[i].Count)
	}
	cpu := totalCPU(s)
	linked = map[bgraph.Key]bool{}
	for i := range s.Edges {
		e := &s.Edges[i]
		if share > 0 && float64(e.Count) < share*count && cpuTotal(e) < share*cpu {
			continue
		}
		linked[e.From], linked[e.To] = true, true
		edges = append(edges, e)
	}
	return edges, linked
}

// pruneTables takes out what is rare, see TextOptions.Prune.
func pruneTables(s *bgraph.Snapshot, nodes *textTable[nodeRow], edges *textTable[edgeRow], share float64) {
	busy, linked := busyEdges(s, share)
	all := len(edges.rows)
	edges.rows = slices.DeleteFunc(edges.rows, func(r edgeRow) bool { return !slices.Contains(busy, r.Edge) })
	edges.rare, all = all-len(edges.rows), len(nodes.rows)
	nodes.rows = slices.DeleteFunc(nodes.rows, func(r nodeRow) bool { return r.Now == 0 && !linked[r.Key] })
	nodes.rare = all - len(nodes.rows)
}
