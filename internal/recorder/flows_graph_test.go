package recorder_test

import (
	"context"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/admit"
	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/recorder"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// Flows and Snapshot are two views of one graph.
func TestFlowsAgreeWithTheSnapshot(t *testing.T) {
	res := testenv.Need(admit.NewResource("flow tokens", ""))(t)
	e := testenv.Need(engine.NewEntrance("flow"))(t)
	g := recorder.New(recorder.Config{Sampling: 1})
	rt := start(t, 2, g, func(c *engine.Config) {
		c.NewAdmission = func(*engine.Loop) engine.Admission { return admit.Open{} }
	})
	testenv.Must(t, rt.Run(context.Background(), func(context.Context) error {
		onLoops(rt, 20, func() {
			e.Enter()
			for range 10 {
				engine.YieldAt("take")
				engine.Acquire(res, 2)
				engine.YieldAt("use")
				spin(20 * time.Microsecond)
				engine.Release(res, 1)
			}
			engine.Release(res, 10)
			e.Leave()
		})
		return nil
	}))
	s := g.Snapshot()
	flows := g.Flows()
	var ready, times = bgraph.Nanos(0), uint64(0)
	for i := range s.Nodes {
		ready += s.Nodes[i].Ready.Sum
		times += s.Nodes[i].Ready.Count
	}
	if total, count := g.ReadyDelays(); total != ready || count != times || count == 0 {
		t.Errorf("ready for %d ns in %d waits, the snapshot says %d in %d", total, count, ready, times)
	}
	if len(flows) != len(s.Edges) {
		t.Fatalf("%d flows and %d edges, want as many", len(flows), len(s.Edges))
	}
	for _, f := range flows {
		from, to := g.Key(f.From), g.Key(f.To)
		var edge *bgraph.Edge
		for i := range s.Edges {
			if s.Edges[i].From == from && s.Edges[i].To == to {
				edge = &s.Edges[i]
			}
		}
		if edge == nil || edge.Count != f.Count || edge.Recent != f.CPU {
			t.Errorf("flow %+v, edge %+v; want them to agree", f, edge)
			continue
		}
		for i, c := range f.Changes {
			want := bgraph.Moments{}
			if i < len(edge.Changes) {
				want = edge.Changes[i].Recent
			}
			if d := c.Mean - want.Mean; d > 0.01 || d < -0.01 {
				t.Errorf("%s → %s: resource %d changes by %v, in the snapshot by %v", s.NameOf(from), s.NameOf(to), i, c, want)
			}
		}
	}
	found := 0
	for id, name := range g.Entrances() {
		if n := s.Node(g.Key(id)); name != "flow" || n == nil || n.Arrivals != 20 || n.Now != 0 {
			t.Errorf("entrance %q at %+v, want the one that 20 tasks have passed", name, n)
		}
		found++
	}
	testenv.Equal(t, found, 1, "entrances")
}
