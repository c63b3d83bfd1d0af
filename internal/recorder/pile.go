//go:build linux

package recorder

// A Waiting is how many tasks of one loop wait at a node, or are ready there.
type Waiting struct {
	Loop  int
	Node  NodeID
	Tasks uint64
}

// Waiting returns the nodes where at least that many tasks of a loop wait for other tasks: not for time to
// pass, nor at an entrance. With all it also returns nodes where tasks wait for time to
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
	for _, sh := range g.observed() {
		sh.nodes.each(func(n *node) {
			var c counts
			read(&c, &n.counts)
			if n.id > nodeOverflow && c.arrivals > c.departures && c.arrivals-c.departures < 1<<40 {
				do(Waiting{Loop: sh.loop.Index, Node: n.id, Tasks: c.arrivals - c.departures})
			}
		})
	}
}

// contended reports whether tasks at n may be waiting for other tasks.
func (g *Graph) contended(n NodeID, all bool) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if int(n) >= len(g.places) {
		return false
	}
	switch g.places[n].reason {
	case ReasonYield.String(), ReasonStart.String(), ReasonEntrance.String(), ReasonAccept.String():
		return false
	case ReasonSleep.String(), ReasonContext.String(), ReasonWrite.String():
		return all
	}
	return true
}
