package feed

import (
	"cmp"
	"slices"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/recorder"
)

// A waitKey is a node on one loop.
type waitKey struct {
	loop int
	node recorder.NodeID
}

// watchedTasks is how many tasks must wait at a node for it to be looked at.
const watchedTasks = 16

// watchBottlenecks has loops watch the nodes where tasks have become more twice in a row; and if tasks inside hold up
// the others (Ledger.Stalled), all nodes where tasks wait, those with the most tasks first.
func (s *Feed) watchBottlenecks(rt *engine.Runtime) {
	was := s.waits
	s.waits = nil
	stalled, least := s.ledger.Stalled(), uint64(watchedTasks)
	if stalled {
		least = 1
	}
	all := s.cfg.Graph.Waiting(least, stalled)
	slices.SortStableFunc(all, func(a, b recorder.Waiting) int { return cmp.Compare(b.Tasks, a.Tasks) })
	for _, w := range all {
		k := waitKey{w.Loop, w.Node}
		before := was[k]
		now := waitSeen{tasks: w.Tasks}
		if w.Tasks > before.tasks && before.tasks > 0 {
			now.grew = before.grew + 1
		}
		if s.waits == nil {
			s.waits = map[waitKey]waitSeen{}
		}
		s.waits[k] = now
		if now.grew >= 2 || stalled {
			l := rt.Loop(w.Loop)
			l.Post(func() { l.Watch(w.Node) })
		}
	}
}

// A waitSeen is how many tasks were at a node, and how many times in a row they had become more.
type waitSeen struct {
	tasks uint64
	grew  int
}
