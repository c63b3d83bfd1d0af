package tables

import (
	"slices"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/words"
)

// pruneTables takes out what is rare, see Options.Prune.
func pruneTables(s *bgraph.Snapshot, nodes *textTable[nodeRow], edges *textTable[edgeRow], share float64) {
	busy, linked := words.BusyEdges(s, share)
	all := len(edges.rows)
	edges.rows = slices.DeleteFunc(edges.rows, func(r edgeRow) bool { return !slices.Contains(busy, r.Edge) })
	edges.rare, all = all-len(edges.rows), len(nodes.rows)
	nodes.rows = slices.DeleteFunc(nodes.rows, func(r nodeRow) bool { return r.Now == 0 && r.there < 1 && !linked[r.Key] })
	nodes.rare = all - len(nodes.rows)
}
