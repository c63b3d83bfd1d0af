package feed

import (
	"slices"
	"time"

	"github.com/capriccio-go/capriccio/internal/admit"
	"github.com/capriccio-go/capriccio/internal/coro"
	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/recorder"
	"github.com/capriccio-go/capriccio/internal/sched"
)

// learnEvery is how often predictions are drawn anew.
const learnEvery = 100 * time.Millisecond

// learn draws predictions from the graph, and tells the limits how much an admitted task is going to take.
func (s *Feed) learn() {
	flows := s.cfg.Graph.Flows()
	entrances := s.cfg.Graph.Entrances()
	done := func(n recorder.NodeID) bool {
		_, is := entrances[n]
		return is || n == recorder.NodeEnd
	}
	edges := s.convert(flows, held(flows, done), done)
	resources := s.resources()
	predictions := sched.Predict(edges, resources, done)
	s.predictions.Store(&predictions)

	most := likelyMost * float64(s.cfg.Graph.MostHeld())
	expected := 0.0
	best := map[string]*sched.Prediction{}
	for n, name := range entrances {
		if int(n) >= len(predictions) {
			continue
		}
		if p := &predictions[n]; best[name] == nil || p.Steps > best[name].Steps {
			best[name] = p
		}
	}
	for i, e := range engine.Entrances() {
		if p := best[e.Name()]; p != nil && p.Steps >= learntSteps {
			demand := slices.Clone(p.Peak)
			demand[s.memory] = atMost(demand[s.memory], most)
			s.limitAt(i).SetDemand(demand)
			s.counts = s.counts || slices.ContainsFunc(s.sources, func(x source) bool { return demand[x.id].Mean > 0 })
			expected = max(expected, demand[s.memory].Mean)
		}
	}
	s.cfg.Graph.Expect(uint64(expected))
}

// lookAhead tells the ledger how much of the declared resources tasks inside may yet take, by the nodes where they are.
// Nodes from which hardly any task has gone on yet are left out, as that is not known of them.
func (s *Feed) lookAhead() {
	if !s.counts {
		return
	}
	predictions, entrances := s.predicted(), s.cfg.Graph.Entrances()
	tasks, yet := 0, make([]float64, s.resources())
	s.cfg.Graph.At(func(w recorder.Waiting) {
		if int(w.Node) >= len(predictions) {
			return
		}
		p := &predictions[w.Node]
		if _, is := entrances[w.Node]; is || !p.Inside || p.Steps < learntSteps {
			return
		}
		tasks += int(w.Tasks)
		for r, d := range p.Peak {
			yet[r] += float64(w.Tasks) * d.Likely()
		}
	})
	s.ledger.Ahead(tasks, yet)
}

// atMost bounds d, the prediction of a quantity that is never more than most. Where tasks loop through nodes and none
// has been seen to leave yet, as when a backlog is served at a slow node, the prediction is that they loop for ever;
// but no task takes many times as much as any has taken so far.
func atMost(d admit.Moments, most float64) admit.Moments {
	d.Mean = min(d.Mean, most)
	d.Variance = min(d.Variance, d.Mean*(most-d.Mean)) // no more is possible between 0 and most
	return d
}

// likelyMost is how many times as much a task may yet take as any has been seen to.
const likelyMost = 2

// learntSteps is how often a task must have gone on from an entrance before what follows
// is believed.
const learntSteps = 8

// resources is the length of the lists by resource in predictions.
func (s *Feed) resources() int {
	n := int(s.memory) + 1
	for _, id := range s.resource {
		n = max(n, id+1)
	}
	return n
}

// convert makes edges of flows. held is what a task holds of the heap at each node.
func (s *Feed) convert(flows []recorder.Flow, held map[recorder.NodeID]float64, done func(recorder.NodeID) bool) []sched.Edge {
	cycles := coro.CyclesPerSecond() / 1e9
	edges := make([]sched.Edge, len(flows))
	for i := range flows {
		f := &flows[i]
		e := &edges[i]
		*e = sched.Edge{
			From: f.From, To: f.To, Count: float64(f.Count),
			CPU:     admit.Moments{Mean: f.CPU.Mean * cycles, Variance: f.CPU.Variance * cycles * cycles},
			Changes: make([]admit.Moments, s.resources()),
		}
		for r, c := range f.Changes {
			if r < len(s.resource) && s.resource[r] >= 0 {
				e.Changes[s.resource[r]] = admit.Moments(c)
			}
		}
		heap := admit.Moments(f.Heap)
		if done(f.To) {
			heap = admit.Moments{Mean: -held[f.From], Variance: heap.Variance}
		}
		e.Changes[s.memory] = heap
	}
	return edges
}

// held estimates what tasks hold of the heap at each node: what they have allocated since
// they came in, as if it was all given back when they are done and nothing before that.
// A task that never comes to an end is taken to let go now and then: the sum is cut off.
func held(flows []recorder.Flow, done func(recorder.NodeID) bool) map[recorder.NodeID]float64 {
	const rounds = 32
	now := map[recorder.NodeID]float64{}
	for range rounds {
		sum, weight := map[recorder.NodeID]float64{}, map[recorder.NodeID]float64{}
		for i := range flows {
			f := &flows[i]
			if done(f.To) || f.From == f.To {
				continue
			}
			sum[f.To] += float64(f.Count) * (now[f.From] + f.Heap.Mean)
			weight[f.To] += float64(f.Count)
		}
		moved := false
		for n, total := range sum {
			v := total / weight[n]
			moved = moved || v > now[n]*1.01 || v < now[n]*0.99
			now[n] = v
		}
		if !moved {
			break
		}
	}
	return now
}
