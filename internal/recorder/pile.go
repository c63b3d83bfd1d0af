//go:build linux

package recorder

import (
	"slices"
	"unsafe"

	"github.com/capriccio-go/capriccio/internal/engine"
)

// A Waiting is how many tasks of one loop wait at a node, or are ready there.
type Waiting struct {
	Loop  int
	Node  engine.NodeID
	Tasks uint64
}

// Waiting returns the nodes where at least that many tasks of a loop wait for something that others
// are to do: not for time to pass, nor to be let in. With all, also those where they wait for time to
// pass, or for a client. It stops no loop, and takes some 10 ns a node.
func (g *Graph) Waiting(least uint64, all bool) (out []Waiting) {
	g.At(func(w Waiting) {
		if w.Tasks >= least && g.contended(w.Node, all) {
			out = append(out, w)
		}
	})
	return out
}

// At calls do for each node and loop at which tasks wait or are ready. It stops no loop.
func (g *Graph) At(do func(Waiting)) {
	g.mu.Lock()
	shards := slices.Clone(g.shards)
	g.mu.Unlock()
	for _, sh := range shards {
		sh.nodes.each(func(n *node) {
			var st [2]uint64 // departures, arrivals
			read(&st, (*[2]uint64)(unsafe.Pointer(&n.Spot)))
			if n.ID > idOverflow && st[1] > st[0] && st[1]-st[0] < 1<<40 {
				do(Waiting{Loop: sh.loop.Index(), Node: n.ID, Tasks: st[1] - st[0]})
			}
		})
	}
}

// contended reports whether what tasks wait for at n may be what others have or do.
func (g *Graph) contended(n engine.NodeID, all bool) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if int(n) >= len(g.places) {
		return false
	}
	switch g.places[n].reason {
	case engine.ReasonYield.String(), engine.ReasonStart.String(), engine.ReasonEntrance.String(), engine.ReasonAccept.String():
		return false
	case engine.ReasonSleep.String(), engine.ReasonContext.String(), engine.ReasonWrite.String():
		return all
	}
	return true
}
