package feed

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/capriccio-go/capriccio/internal/admit"
	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/sched"
)

// explainTimeout is how long a loop has to say what it thinks: one that is stuck in a
// step is left out.
const explainTimeout = 50 * time.Millisecond

// Explain reports the scheduler's state of nodes and resources. It is for
// recorder.Graph.ExplainSched and must not be called on a loop. It waits
// for the loops to end their present steps, at most 50 ms.
func (s *Feed) Explain() *bgraph.Sched {
	s.mu.Lock()
	sides := slices.Clone(s.loops)
	s.mu.Unlock()
	var mu sync.Mutex
	out := &bgraph.Sched{Policy: s.cfg.Policy, Resources: []bgraph.SchedResource{}, Nodes: []bgraph.SchedNode{}}
	closed := false
	answered := make(chan struct{}, len(sides))
	asked := 0
	for _, side := range sides {
		if side.loop.Post(func() {
			side.loop.TellPolicy()
			var r sched.Report
			side.policy.Report(&r)
			mu.Lock()
			defer mu.Unlock()
			if !closed {
				s.addNodes(out, side.loop.Index(), r.Nodes)
			}
			answered <- struct{}{}
		}) {
			asked++
		}
	}
	limit := time.NewTimer(s.patience)
	defer limit.Stop()
wait:
	for range asked {
		select {
		case <-answered:
		case <-limit.C:
			break wait
		}
	}
	mu.Lock()
	defer mu.Unlock()
	closed = true
	var r admit.Report // of what does not depend on whether a loop answers: counters never fall
	for _, side := range sides {
		if side.admission != nil {
			side.admission.Report(&r)
		}
	}
	out.Admitted, out.Deferred, out.Refused = r.Admitted, r.Deferred, r.Refused
	if s.ledger != nil {
		s.ledger.Report(&r)
		for _, x := range r.Resources {
			out.Resources = append(out.Resources, bgraph.SchedResource{
				Name: x.Name, Utilisation: x.Utilisation, Trend: x.Trend, State: x.State.String(),
			})
		}
	}
	for _, cause := range admit.Causes() {
		if n := s.refusedFor(cause); n > 0 {
			out.Refusals = append(out.Refusals, bgraph.SchedRefusal{Why: cause.String(), Count: n})
		}
	}
	slices.SortFunc(out.Nodes, func(a, b bgraph.SchedNode) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Loop, b.Loop))
	})
	return out
}

func (s *Feed) addNodes(out *bgraph.Sched, loop int, nodes []sched.NodeReport) {
	if s.cfg.Graph == nil {
		return
	}
	for _, n := range nodes {
		out.Nodes = append(out.Nodes, bgraph.SchedNode{
			Key: s.cfg.Graph.Key(n.Node), Loop: loop, Priority: n.Priority,
			Tickets: n.Tickets, Pass: n.Pass, Ready: n.Ready, Held: n.Held,
			Cohorts: n.Turns.Cohorts, Ran: n.Turns.Ran,
		})
	}
}
