//go:build linux

package recorder

import (
	"cmp"
	"slices"
	"unsafe"

	"github.com/capriccio-go/capriccio/internal/admit"
	"github.com/capriccio-go/capriccio/internal/bgraph"
)

// A Flow is an edge for schedulers: by node numbers, all loops together, and without
// what only people want to know. See Graph.Flows.
type Flow struct {
	From, To NodeID
	Count    uint64
	CPU      bgraph.Moments   // nanoseconds of one step, recent; zero if none was timed
	Heap     bgraph.Moments   // bytes that one step allocates, recent; zero if it was not measured
	Changes  []bgraph.Moments // of each resource, recent; may be shorter
}

// Flows returns the edges, by From and To. It stops no loop, and takes about 0.2 µs an
// edge.
func (g *Graph) Flows() []Flow {
	at := map[[2]NodeID]int{}
	var flows []Flow
	var weights []flowWeights
	for _, sh := range g.observed() {
		sh.edges.each(func(e *edge) {
			var st edgeStats
			read(&st, &e.stats)
			steps := count(e)
			pair := [2]NodeID{e.from, e.to.id}
			i, ok := at[pair]
			if !ok {
				i = len(flows)
				at[pair] = i
				flows = append(flows, Flow{From: e.from, To: e.to.id})
				weights = append(weights, flowWeights{})
			}
			f, w := &flows[i], &weights[i]
			addMoments(&f.CPU, st.recent, w.timed, float64(st.cpu.count))
			addMoments(&f.Heap, st.heap, w.heap, float64(st.heapN))
			f.addChanges(e, steps)
			f.Count += steps
			w.timed += float64(st.cpu.count)
			w.heap += float64(st.heapN)
		})
	}
	slices.SortFunc(flows, func(a, b Flow) int { return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To)) })
	return flows
}

// flowWeights are how many values are in the moments of a Flow.
type flowWeights struct{ timed, heap float64 }

// addChanges adds what e, taken count times, has changed about resources. Those that the
// edge has not changed on this loop count as 0.
func (f *Flow) addChanges(e *edge, count uint64) {
	var own [admit.MaxResources]momentsStats
	used := len(f.Changes)
	for resource, c := range e.changed(count) {
		own[resource] = c.recent
		used = max(used, resource+1)
	}
	for len(f.Changes) < used {
		f.Changes = append(f.Changes, bgraph.Moments{})
	}
	for i := range f.Changes {
		addMoments(&f.Changes[i], own[i], float64(f.Count), float64(count))
	}
}

// Entrances returns, for each node where tasks enter at a ressched.Entrance, the name of that.
func (g *Graph) Entrances() map[NodeID]string {
	g.mu.Lock()
	defer g.mu.Unlock()
	found := map[NodeID]string{}
	for id, p := range g.places {
		if p.label != "" && p.reason == ReasonEntrance.String() {
			found[NodeID(id)] = p.label
		}
	}
	return found
}

// ReadyDelays is how long tasks have been ready before they ran, in all, and how many times
// that was measured: those of a sample only. It stops no loop.
func (g *Graph) ReadyDelays() (total bgraph.Nanos, count uint64) {
	for _, sh := range g.observed() {
		sh.nodes.each(func(n *node) {
			var sums [2]uint64
			read(&sums, (*[2]uint64)(unsafe.Pointer(&n.stats.ready)))
			count += sums[0]
			total += bgraph.Nanos(sums[1])
		})
	}
	return total, count
}
