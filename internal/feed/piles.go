package feed

import (
	"cmp"
	"slices"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/recorder"
)

// A pileKey is a node on one loop.
type pileKey struct {
	loop int
	node engine.NodeID
}

// pileTasks is how many tasks must wait at a node for it to be looked at.
const pileTasks = 16

// watchPiles has loops watch the nodes where tasks have become more twice in a row; and if those inside
// hold up the others, all where tasks wait, the most first.
func (s *Feed) watchPiles(rt *engine.Runtime) {
	was := s.piles
	s.piles = nil
	heldUp, least := s.ledger.HeldUp(), uint64(pileTasks)
	if heldUp {
		least = 1
	}
	all := s.cfg.Graph.Waiting(least, heldUp)
	slices.SortStableFunc(all, func(a, b recorder.Waiting) int { return cmp.Compare(b.Tasks, a.Tasks) })
	for _, w := range all {
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
