package steer

import (
	"github.com/capriccio-go/capriccio/internal/engine"
)

// A pileKey is a node on one loop.
type pileKey struct {
	loop int
	node engine.NodeID
}

// pileTasks is how many tasks must wait at a node for it to be looked at.
const pileTasks = 16

// watchPiles has loops watch the nodes where tasks have become more twice in a row; and all where they
// are many if they hold up the others.
func (s *Steering) watchPiles(rt *engine.Runtime) {
	was := s.piles
	s.piles = nil
	heldUp := s.ledger.HeldUp()
	for _, w := range s.cfg.Graph.Waiting(pileTasks, heldUp) {
		k := pileKey{w.Loop, w.Node}
		before := was[k]
		now := pileSeen{tasks: w.Tasks}
		if w.Tasks > before.tasks && before.tasks > 0 {
			now.grew = before.grew + 1
		}
		if s.piles == nil {
			s.piles = map[pileKey]pileSeen{}
		}
		s.piles[k] = now
		if now.grew >= 2 || heldUp {
			l := rt.Loop(w.Loop)
			l.Post(func() { l.Watch(w.Node) })
		}
	}
}

// A pileSeen is how many tasks were at a node, and how many times in a row they had become more.
type pileSeen struct {
	tasks uint64
	grew  int
}
