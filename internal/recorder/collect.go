//go:build linux

package recorder

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"time"
	"unsafe"

	"github.com/capriccio-go/capriccio/internal/admit"
	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/breathe"
	"github.com/capriccio-go/capriccio/internal/buckets"
	"github.com/capriccio-go/capriccio/internal/chunk"
	"github.com/capriccio-go/capriccio/internal/coro"
	"github.com/capriccio-go/capriccio/internal/graphlimits"
	"github.com/capriccio-go/capriccio/stackchunk"
)

// Snapshot adds up what all loops have learned until now. It stops no loop and waits
// for none, so a loop that is stuck in a step is seen too; numbers that belong together
// may be one step apart. It takes about 10 µs a node. The snapshot of a nil graph is nil.
func (g *Graph) Snapshot() *bgraph.Snapshot {
	if g == nil {
		return nil
	}
	defer breathe.Begin()()
	g.mu.Lock()
	places := slices.Clone(g.places)
	shards := slices.Clone(g.shards)
	overruns := slices.Clone(g.overruns)
	sched := g.sched
	g.mu.Unlock()

	c := collector{g: g, places: places, nodes: map[NodeID]*bgraph.Node{}, edges: map[[2]NodeID]*bgraph.Edge{}}
	s := &bgraph.Snapshot{
		Program: g.program(), Taken: time.Now(), Sampling: g.cfg.Sampling,
		HeapEvery: max(g.cfg.HeapEvery, 0),
		Overflow:  bgraph.Overflow{MaxNodes: g.cfg.MaxNodes, MaxEdges: g.cfg.MaxEdges},
		Overruns:  overruns,
	}
	s.Span = bgraph.Nanos(s.Taken.Sub(g.started))
	for i, sh := range shards {
		c.addCrossings(s, shards, i)
		// If the graph was used for several runtimes, their loops are told apart.
		tasks, works := sh.loop.State()
		s.Loops = append(s.Loops, bgraph.LoopStat{Index: i, Tasks: int64(tasks), Rests: !works})
		s.Loops[i].Steps = c.add(i, sh)
	}
	s.Chunks = chunksNow()
	s.Chunks.Links -= g.chunks.Links
	s.Chunks.Direct -= g.chunks.Direct
	s.Chunks.InPlace -= g.chunks.InPlace
	used := usageNow()
	s.ProcessCPU, s.CollectorCPU = max(used.process-g.before.process, 0), max(used.collector-g.before.collector, 0)
	slices.SortFunc(s.Crossings, func(a, b bgraph.Crossing) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To), cmp.Compare(a.FromLoop, b.FromLoop), cmp.Compare(a.ToLoop, b.ToLoop))
	})
	s.Overflow.Edges = c.lostEdges
	c.giveResources(s, shards)
	c.giveNodes(s)
	c.giveEdges(s)
	if sched != nil {
		s.Sched = sched()
	}
	return s
}

// chunksNow is what package stackchunk has counted in this process.
func chunksNow() bgraph.Chunks {
	n := stackchunk.ReadStats()
	c := bgraph.Chunks{Links: n.Links, Direct: n.Direct, InPlace: n.InPlace, InUse: int64(n.InUse), Peak: int64(n.Peak)}
	counts := chunk.ReadCounts()
	for _, class := range counts.Classes() {
		c.Most += class.Peak
	}
	return c
}

// A collector adds up shards.
type collector struct {
	g          *Graph
	places     []*place
	nodes      map[NodeID]*bgraph.Node
	edges      map[[2]NodeID]*bgraph.Edge
	lostEdges  uint64
	overflowed bool   // an edge leads to the overflow node
	resources  []bool // those of admit.Resources that are in the snapshot
	pause      breathe.Breather
}

// add adds what a loop has learned, and returns how many steps that were.
func (c *collector) add(loop int, sh *Shard) (steps uint64) {
	// Edges first: so that no edge lacks its node.
	sh.edges.each(func(e *edge) { steps += c.addEdge(sh, e); c.pause.Take() })
	sh.nodes.each(func(n *node) { c.addNode(loop, sh, n); c.pause.Take() })
	lost := count(&sh.lost)
	c.lostEdges += lost
	now := coro.Cycles()
	sh.notes.each(func(o *Note) {
		var words [2]uint64
		read(&words, (*[2]uint64)(unsafe.Pointer(o)))
		state, at := noteOf(words[0])
		if n := c.nodes[at]; n != nil && (state == noteWaiting || state == noteReady) && words[1] != 0 {
			n.Oldest = max(n.Oldest, bgraph.Nanos(sh.nanos(now-words[1])))
		}
	})
	return steps + lost
}

// addCrossings adds the crossings to a loop. It is called before the nodes are collected, so that the nodes of all
// crossings are among them.
func (c *collector) addCrossings(s *bgraph.Snapshot, shards []*Shard, loop int) {
	sh := shards[loop]
	sh.crossings.each(func(x *crossing) {
		out := bgraph.Crossing{To: c.node(x.to).Key, FromLoop: -1, ToLoop: loop, Count: coro.Peek(uintptr(unsafe.Pointer(&x.count)))}
		if x.from != NodeNone {
			out.From = c.node(x.from).Key
		}
		if x.loop >= 0 { // its number in the runtime; other runtimes may have used the graph before
			out.FromLoop = slices.IndexFunc(shards, func(from *Shard) bool {
				return from.loop.Index == x.loop && from.loop.Runtime == sh.loop.Runtime
			})
		}
		s.Crossings = append(s.Crossings, out)
		c.pause.Take()
	})
	s.Overflow.Wakes += coro.Peek(uintptr(unsafe.Pointer(&sh.uncrossed)))
}

// giveNodes puts the nodes into s, in their order.
func (c *collector) giveNodes(s *bgraph.Snapshot) {
	var all []*bgraph.Node // sorted as pointers: a Node is large
	for id, n := range c.nodes {
		if id == nodeOverflow {
			s.Overflow.Nodes = n.Arrivals
			if n.Arrivals == 0 && !c.overflowed {
				continue
			}
		}
		all = append(all, n)
	}
	c.pause.Take()
	slices.SortFunc(all, func(a, b *bgraph.Node) int { return cmp.Compare(a.Key, b.Key) })
	s.Nodes = make([]bgraph.Node, 0, len(all))
	for _, n := range all {
		s.Nodes = append(s.Nodes, *n)
		c.pause.Take()
	}
}

// giveEdges puts the edges into s, in their order.
func (c *collector) giveEdges(s *bgraph.Snapshot) {
	all := slices.Collect(maps.Values(c.edges))
	c.pause.Take()
	slices.SortFunc(all, func(a, b *bgraph.Edge) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To))
	})
	s.Edges = make([]bgraph.Edge, 0, len(all))
	for _, e := range all {
		c.trimChanges(e)
		s.Edges = append(s.Edges, *e)
		c.pause.Take()
	}
}

// node returns the Node to which the loops' parts are added.
func (c *collector) node(id NodeID) *bgraph.Node {
	n := c.nodes[id]
	if n == nil {
		p := c.place(id)
		n = &bgraph.Node{Key: p.key, Reason: p.reason, Label: p.label, Stack: slices.Clone(p.stack())}
		c.nodes[id] = n
	}
	return n
}

// place returns what is known of a node, also if that was registered a moment ago.
func (c *collector) place(id NodeID) *place {
	if int(id) >= len(c.places) {
		c.g.mu.Lock()
		c.places = slices.Clone(c.g.places)
		c.g.mu.Unlock()
	}
	return c.places[id]
}

func (c *collector) addNode(loop int, sh *Shard, from *node) {
	var st nodeStats
	read(&st, &from.stats)
	var counts counts
	read(&counts, &from.counts)
	n := c.node(from.id)
	l := bgraph.NodeLoop{
		Loop: loop, Now: int64(counts.arrivals - counts.departures), Peak: int64(counts.peak),
		Arrivals: counts.arrivals, Departures: counts.departures,
	}
	if l.Now < 0 || from.id == NodeStart || from.id == NodeEnd { // read a step apart
		l.Now = 0
	}
	n.Now += l.Now
	n.Peak += l.Peak
	n.Arrivals += l.Arrivals
	n.Departures += l.Departures
	sh.addTimes(&n.Wait, &st.wait)
	sh.addTimes(&n.Ready, &st.ready)
	if l.Arrivals > 0 {
		n.Loops = append(n.Loops, l)
	}
}

// changed are what an edge that was taken count times has changed about resources, with the steps that did not. The loop
// may have gone on since count was read, so a change may be of a later step.
func (e *edge) changed(count uint64) iter.Seq2[int, changeStats] {
	return func(yield func(int, changeStats) bool) {
		for b := range e.changes {
			p := e.changes[b].Load()
			if p == nil {
				continue
			}
			var block changeBlock
			read(&block, p)
			for i, c := range block {
				if c.at == 0 || count == 0 {
					continue
				}
				c.recent.fade(c.at, count)
				if !yield(b*len(block)+i, c) {
					return
				}
			}
		}
	}
}

// count is how often an edge was taken.
func count(e *edge) uint64 { return coro.Peek(uintptr(unsafe.Pointer(&e.count))) }

func (c *collector) addEdge(sh *Shard, from *edge) uint64 {
	var st edgeStats
	read(&st, &from.stats)
	steps := count(from)
	to := from.to.id
	pair := [2]NodeID{from.from, to}
	e := c.edges[pair]
	if e == nil {
		e = &bgraph.Edge{From: c.place(from.from).key, To: c.place(to).key}
		c.edges[pair] = e
	}
	c.node(from.from)
	c.node(to)
	c.overflowed = c.overflowed || to == nodeOverflow
	var recent [admit.MaxResources]momentsStats
	for resource, ch := range from.changed(steps) {
		if e.Changes == nil {
			e.Changes = make([]bgraph.Change, admit.MaxResources)
		}
		recent[resource] = ch.recent
		e.Changes[resource].Sum += ch.sum
	}
	for i := range e.Changes { // a loop that has not changed a resource adds zeros
		addMoments(&e.Changes[i].Recent, recent[i], float64(e.Count), float64(steps))
	}
	addMoments(&e.Recent, st.recent, float64(e.CPU.Count), float64(st.cpu.count))
	addMoments(&e.Heap.Recent, st.heap, float64(e.Heap.Steps), float64(st.heapN))
	e.Heap.Steps += st.heapN
	e.Heap.Sum += int64(st.heapSum)
	sh.addTimes(&e.CPU, &st.cpu)
	e.Count += steps
	e.Overruns += st.overruns
	return steps
}

// addTimes adds what t has measured to to.
func (s *Shard) addTimes(to *bgraph.Times, t *timesStats) {
	to.Count += t.count
	to.Sum = bgraph.Nanos(min(uint64(to.Sum)+min(t.sum, graphlimits.Number), graphlimits.Number))
	to.Max = max(to.Max, bgraph.Nanos(min(t.max, graphlimits.Number)))
	to.First += t.first
	to.FirstSum = min(to.FirstSum, graphlimits.Number-bgraph.Nanos(t.firstSum)) + bgraph.Nanos(t.firstSum)
	var fine [buckets.Parts * buckets.Count]uint64
	last := 0
	for i, number := range t.fine {
		if number == 0 {
			continue
		}
		counts := (*block)(fine[i*blockSize:])
		read(counts, s.blocks.at(int64(number-1)))
		for k, n := range counts {
			if n != 0 {
				last = i*blockSize + k + 1
			}
		}
	}
	if more := last - len(to.Fine); more > 0 {
		to.Fine = append(to.Fine, make([]uint64, more)...)
		to.Hist = append(to.Hist, make([]uint64, (last+buckets.Parts-1)/buckets.Parts-len(to.Hist))...)
	}
	for i, n := range fine[:last] {
		to.Fine[i] += n
		to.Hist[i/buckets.Parts] += n
	}
}

// giveResources puts the resources into s that matter to the runtime of the loops; of no or of several runtimes all of the
// process, with its sums.
func (c *collector) giveResources(s *bgraph.Snapshot, shards []*Shard) {
	var rt *Runtime
	alone := false
	if len(shards) > 0 {
		rt = shards[0].loop.Runtime
		alone = !slices.ContainsFunc(shards, func(sh *Shard) bool { return sh.loop.Runtime != rt })
	}
	for _, r := range admit.Resources() {
		counts := !alone || rt.Counts(r)
		c.resources = append(c.resources, counts)
		if !counts {
			continue
		}
		acquired, released := r.Totals()
		if alone {
			acquired, released = rt.Books.Totals(r)
		}
		s.Resources = append(s.Resources, bgraph.Resource{
			Name: r.Name(), Unit: r.Unit(), InUse: int64(acquired - released),
			Acquired: acquired, Released: released, Limit: max(r.Limit(), 0),
		})
	}
}

// trimChanges drops the changes of resources that are not in the snapshot, and zeros at the end. All changes
// were measured on all steps.
func (c *collector) trimChanges(e *bgraph.Edge) {
	n, last := 0, 0
	for i := range min(len(e.Changes), len(c.resources)) {
		if !c.resources[i] {
			continue
		}
		e.Changes[n] = e.Changes[i]
		if n++; e.Changes[n-1] != (bgraph.Change{}) {
			last = n
		}
	}
	e.Changes = e.Changes[:last:last]
	for i := range e.Changes {
		e.Changes[i].Steps = e.Count
	}
}

// addMoments lets b, of k values, join the moments of n values.
func addMoments(m *bgraph.Moments, b momentsStats, n, k float64) {
	if k == 0 {
		return
	}
	w := k / (n + k)
	d := b.mean - m.Mean
	m.Mean += w * d
	m.Variance = (1-w)*m.Variance + w*b.variance + w*(1-w)*d*d
}
