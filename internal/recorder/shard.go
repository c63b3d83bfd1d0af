//go:build linux

package recorder

import (
	"math/bits"
	"runtime"
	"runtime/metrics"
	"slices"

	"github.com/capriccio-go/capriccio/internal/breathe"
	"github.com/capriccio-go/capriccio/internal/coro"
	"github.com/capriccio-go/capriccio/internal/engine"
)

// A shard is what one loop learns. It implements engine.Observer. Fields without a remark
// are loop-private.
type shard struct {
	g      *Graph
	loop   *engine.Loop
	number int // in Graph.shards

	prints hashTable[node] // by fingerprint
	pairs  hashTable[edge] // by the two nodes
	nodes  paged[node]     // read by others
	edges  paged[edge]     // read by others
	notes  paged[note]     // read by others
	blocks paged[block]    // read by others
	gauges paged[gauge]

	crossed   hashTable[crossing] // by what tells them apart
	crossings paged[crossing]     // read by others
	uncrossed uint64              // wakes from elsewhere that found no room; read by others

	free   []*note // to use again
	idle   uint32  // 1 + the number of a gauge to use again, or 0
	lost   edge    // stands for the edges that found no room; read by others
	tally  *engine.Tally
	heapIn int // timed waits until one measures the heap

	samples uint8  // as how many the next timed wait counts, see nextSamples
	timedAt uint64 // cycles when one was last chosen
	drawn   int    // waits from there to the next
	random  uint64 // state of the generator
	heap    [1]metrics.Sample
	// The heap is yet to be read, aside, for a step of that note that begins, or ends along an edge; see readHeap.
	reading struct {
		o      *note
		e      *edge
		counts bool // for what o holds
		read   func()
	}

	meter meter

	balance [engine.MaxResources]int64
	// tasksLimited reports whether there was a limit on tasks when the last step was settled.
	tasksLimited bool
	pcs          [maxPath + 16]uintptr
}

// learning is how many waits at a node are timed before sampling sets in.
const learning = 64

func newShard(g *Graph, l *engine.Loop) *shard {
	s := &shard{
		g: g, loop: l,
		prints: newHashTable[node](6), pairs: newHashTable[edge](6), crossed: newHashTable[crossing](4),
		heap:   [1]metrics.Sample{{Name: "/gc/heap/allocs:bytes"}},
		random: uint64(l.Index())*2 + 1, // any odd number will do
		tally:  l.Tally(), samples: 1,
	}
	s.reading.read = func() { s.haveRead(s.reading.o, s.reading.e, s.reading.counts, s.allocated()) }
	s.heapIn = s.draw(g.cfg.HeapEvery)
	for id := idStart; id <= idOverflow; id++ {
		s.node(id)
	}
	return s
}

// node returns the node with the given id.
func (s *shard) node(id engine.NodeID) *node {
	y := s.tally
	for int(id) >= len(y.Spots) {
		y.Spots = append(y.Spots, nil)
	}
	if y.Spots[id] == nil {
		y.Spots[id] = &s.nodes.add(func(n *node) { n.ID = id }).Spot
	}
	return nodeOf(y.Spots[id])
}

// draw returns a number around n, by chance, so that no rhythm of the program can keep
// in step with the sampling.
func (s *shard) draw(n int) int {
	if n <= 1 {
		return 1
	}
	s.random ^= s.random << 13
	s.random ^= s.random >> 7
	s.random ^= s.random << 17
	hi, _ := bits.Mul64(s.random, uint64(2*n-1))
	return 1 + int(hi)
}

// nanos converts cycles. A difference that came out negative, because the loop has
// moved to another processor, is 0.
func (s *shard) nanos(cycles uint64) uint64 {
	if int64(cycles) < 0 {
		return 0
	}
	hi, lo := bits.Mul64(cycles, s.g.scale)
	return hi<<(64-scaleBits) | lo>>scaleBits
}

// Turn implements engine.Observer.
func (s *shard) Turn() {
	breathe.Turn()
	s.blocks.reserve(pageSize)
	s.notes.reserve(pageSize)
	s.gauges.reserve(pageSize)
	s.edges.reserve(pageSize / 4)
	s.tally.Turn = coro.Cycles()
	s.tally.Now = s.tally.Turn
	if s.loop.Moves() != s.tally.Moves {
		s.rebalance()
	}
}

// Parked implements engine.Observer.
func (s *shard) Parked(t *engine.Task, why engine.Reason, print uint64) engine.NodeID {
	o, from := noteOf(t), s.at(t)
	h := from.Out
	if h == nil || edgeOf(h).print != print {
		h = &s.find(from, why, print).Hop
	}
	s.ended(o, h)
	to := h.To
	if why == engine.ReasonEntrance {
		s.reading.counts = false // what ends here was before
		s.gauges.reserve(1)
		s.enter(o, from)
		nodeOf(to).entrance = true
	} else if to.Arrivals >= learning {
		h.Print = print // what comes this way next need not be shown to s
	}
	to.Arrivals++
	if here := to.Arrivals - to.Departures; here > to.Peak {
		to.Peak = here
	}
	o.State, o.ID, o.Since = engine.SeatRunning, to.ID, s.tally.Turn
	if why.Waits() {
		o.State = engine.SeatWaiting
	}
	quiet := false
	if due := s.due(); due > 0 || to.Arrivals <= learning {
		s.gauges.reserve(1)
		s.time(o, due, to.Arrivals <= learning)
	} else if g := s.gaugeOf(o); g != nil && g.metered > 0 {
		g.measured = true
	} else {
		quiet = true
	}
	t.Quiet(quiet)
	return to.ID
}

// at is the node where t is, or last was.
func (s *shard) at(t *engine.Task) *node { return nodeOf(s.tally.Spots[t.Node()]) }

// ended is called when the task of o has ended a step along h.
func (s *shard) ended(o *note, h *engine.Hop) {
	s.tally.Last, s.tally.Now = h, 0
	h.Count++
	if s.measures(o) || s.loop.Moves() != s.tally.Moves {
		s.endStep(o, edgeOf(h))
	}
}

// due counts a wait. If it is to be timed, as chance has it, due returns how many samples it counts as, else 0.
func (s *shard) due() uint8 {
	if s.tally.Left > 0 {
		s.tally.Left--
		return 0
	}
	counts := s.samples
	s.samples = s.nextSamples()
	s.drawn = s.draw(int(s.samples) * s.g.cfg.Sampling)
	s.tally.Left = s.drawn - 1
	return counts
}

// nextSamples returns how many samples the next that is timed counts as. To time one takes as long as several of the
// tiniest steps, and of those there are more than enough: where steps are tiny it is fewer, each of which counts more.
func (s *shard) nextSamples() uint8 {
	if s.g.tinyStep == 0 {
		return 1
	}
	s.tally.Now = coro.Cycles()
	took := s.tally.Now - s.timedAt
	s.timedAt = s.tally.Now
	if took < s.g.tinyStep*uint64(s.drawn) {
		return sparingFactor
	}
	return 1
}

// time lets the wait that begins, and the step after it, be timed.
func (s *shard) time(o *note, counts uint8, isFirst bool) {
	s.timed(o, counts, isFirst)
	if s.tally.Now == 0 {
		s.tally.Now = coro.Cycles()
	}
	o.Since = s.tally.Now
}

// timed calls nothing, see giveGauge.
func (s *shard) timed(o *note, counts uint8, isFirst bool) {
	if isFirst {
		counts = 1
	}
	g := s.giveGauge(o)
	g.measured, g.timed = true, true
	g.first, g.counts = isFirst, counts
}

// endStep records what the step along e, already counted, has changed about resources,
// and its time if that is measured: then tally.Now is the present time afterwards.
func (s *shard) endStep(o *note, e *edge) {
	if s.loop.Moves() != s.tally.Moves {
		s.settle(e)
	}
	g := s.gaugeOf(o)
	if g == nil || !g.measured {
		return
	}
	g.measured = false
	if g.timed {
		g.timed = false
		s.tally.Now = coro.Cycles()
		ns := s.nanos(s.tally.Now - o.Since)
		s.blocks.reserve(1)
		s.measured(&e.stats.cpu, ns, g)
		e.stats.recent.add(float64(ns), e.stats.cpu.count/uint64(g.counts))
	}
	if g.heap != 0 {
		s.readHeap(o, e)
	}
	s.release(o)
}

// find returns the edge from a node to the place with the given fingerprint.
func (s *shard) find(from *node, why engine.Reason, print uint64) *edge {
	to := s.prints.get(print)
	if to == nil {
		to = s.meet(why, print)
	}
	e := s.edge(from, to)
	e.print = print
	return e
}

// edge returns the edge between two nodes, and makes it the one that will be looked at
// first the next time.
func (s *shard) edge(from, to *node) *edge {
	pair := uint64(from.ID)<<32 | uint64(to.ID)
	e := s.pairs.get(pair)
	if e == nil {
		if int(s.edges.n.Load()) >= s.g.cfg.MaxEdges {
			s.lost.To = &to.Spot
			return &s.lost
		}
		e = s.edges.add(func(e *edge) { e.from, e.to, e.To = from.ID, to.ID, &to.Spot })
		s.pairs.put(pair, e)
	}
	from.Out = &e.Hop
	return e
}

// meet is called at a place that the shard has not met. It is the only part of the
// observer that needs much stack.
//
//go:noinline
func (s *shard) meet(why engine.Reason, print uint64) *node {
	k := runtime.Callers(1, s.pcs[:])
	n := s.node(s.g.register(print, why, s.loop.Label(), s.loop.AppendCallers(s.pcs[:k])))
	if s.prints.used < s.g.maxPrints() {
		s.prints.put(print, n)
	}
	return n
}

// Crossed implements engine.Observer.
func (s *shard) Crossed(t *engine.Task, from engine.NodeID, loop int) {
	id := uint64(from+1)<<40 | uint64(t.Node())<<16 | uint64(loop+1) // NodeNone+1 is 0
	c := s.crossed.get(id)
	if c == nil {
		if int(s.crossings.n.Load()) >= s.g.cfg.MaxEdges {
			s.uncrossed++
			return
		}
		c = s.crossings.add(func(c *crossing) { c.from, c.to, c.loop = from, t.Node(), loop })
		s.crossed.put(id, c)
	}
	c.count++
}

// Ready implements engine.Observer.
func (s *shard) Ready(t *engine.Task) {
	o := noteOf(t)
	o.State = engine.SeatReady
	if g := s.gaugeOf(o); g != nil && g.timed {
		g.ready = coro.Cycles()
	}
}

// Resumed implements engine.Observer.
func (s *shard) Resumed(t *engine.Task) {
	o := noteOf(t)
	if o == nil {
		o = s.begin(t)
	}
	at := s.at(t)
	if s.measures(o) {
		s.endWait(o, at)
	}
	at.Departures++
	o.State = engine.SeatRunning
}

// endWait records the times of a wait, and begins to measure the step after it.
func (s *shard) endWait(o *note, at *node) {
	g := s.gaugeOf(o)
	if !g.timed {
		s.beginHeap(o)
		return
	}
	now := s.tally.Now
	if now == 0 {
		now = coro.Cycles()
	}
	since := o.Since
	s.blocks.reserve(2)
	if o.State == engine.SeatReady {
		s.measured(&at.stats.wait, s.nanos(g.ready-since), g)
		since = g.ready
	}
	if o.State != engine.SeatFree {
		s.measured(&at.stats.ready, s.nanos(now-since), g)
	}
	o.Since = coro.Cycles() // what it took to record the wait is no part of the step
	if s.heapIn--; s.heapIn <= 0 || g.first || g.metered > 0 {
		s.beginHeap(o)
	}
}

// begin is called when t starts.
func (s *shard) begin(t *engine.Task) *note {
	var o *note
	if last := len(s.free) - 1; last >= 0 {
		o, s.free = s.free[last], s.free[:last]
	} else {
		o = s.notes.add(func(*note) {})
	}
	t.SetSeat(&o.Seat)
	start := nodeOf(s.tally.Spots[idStart])
	start.Arrivals++
	*o = note{Seat: engine.Seat{ID: idStart, Since: s.tally.Turn}}
	due := s.due()
	quiet := due == 0 && start.Arrivals > learning
	if !quiet {
		s.gauges.reserve(1)
		s.timed(o, due, start.Arrivals <= learning)
	}
	t.Quiet(quiet)
	return o
}

// Finished implements engine.Observer.
func (s *shard) Finished(t *engine.Task) {
	o, at, end := noteOf(t), s.at(t), nodeOf(s.tally.Spots[idEnd])
	s.leave(o) // and so the last step does not count for what it holds
	h := at.Out
	if h == nil || h.To != &end.Spot {
		h = &s.edge(at, end).Hop
	}
	s.ended(o, h)
	end.Arrivals++
	end.Departures++
	o.State = engine.SeatFree
	s.free = append(s.free, o)
}

// enoughStack is what reading the heap's size from runtime/metrics takes of the stack, in bytes. A task that
// has less left would grow its stack for the sake of a statistic, so it is read aside.
const enoughStack = 1500

// beginHeap notes how much has been allocated at the beginning of a step.
func (s *shard) beginHeap(o *note) {
	if s.g.cfg.HeapEvery < 0 {
		return
	}
	s.heapIn = s.draw(s.g.cfg.HeapEvery)
	s.readHeap(o, nil)
}

// readHeap reads how much has been allocated, now or as soon as the observer has returned.
func (s *shard) readHeap(o *note, e *edge) {
	counts := s.gaugeOf(o).metered > 0
	if s.g.Allocated == nil && coro.Headroom() < enoughStack {
		s.reading.o, s.reading.e, s.reading.counts = o, e, counts
		s.loop.Aside(s.reading.read)
		return
	}
	s.haveRead(o, e, counts, s.allocated())
}

// haveRead notes how much had been allocated when a step of o began, or what it has allocated when it ends along e.
func (s *shard) haveRead(o *note, e *edge, counts bool, allocated uint64) {
	g := s.gaugeOf(o)
	if e == nil {
		g.heap = allocated
		o.Since = coro.Cycles()
		return
	}
	d := allocated - g.heap
	g.heap = 0
	e.stats.heapN++
	e.stats.heapSum += d
	if counts {
		s.holds(o, d)
	}
	s.meter.stats.most = max(s.meter.stats.most, g.held, d)
	e.stats.heap.addOf(float64(d), e.stats.heapN, heapWeight)
	s.tally.Now = coro.Cycles()
	if g.timed { // the wait that has begun meanwhile
		o.Since = s.tally.Now
	}
	s.release(o)
}

func (s *shard) allocated() uint64 {
	if read := s.g.Allocated; read != nil {
		return read()
	}
	metrics.Read(s.heap[:])
	return s.heap[0].Value.Uint64()
}

// tasksAt is where engine.Tasks is in a loop's accounts.
var tasksAt = slices.Index(engine.Resources(), engine.Tasks)

// settle records what the step along e has changed about resources.
func (s *shard) settle(e *edge) {
	s.tally.Moves = s.loop.Moves()
	tasksLimited := engine.Tasks.Limit() != 0
	learnt := tasksLimited && s.tasksLimited // not what was spawned before there was a limit
	s.tasksLimited = tasksLimited
	// Tasks are counted without a move as long as there is no limit.
	for moved := s.loop.Moved() | 1<<tasksAt; moved != 0; moved &= moved - 1 {
		i := bits.TrailingZeros32(moved)
		d := s.loop.Balance(i) - s.balance[i]
		if d == 0 {
			continue
		}
		s.balance[i] += d
		if i == tasksAt && !learnt {
			continue
		}
		p := &e.changes[i/8]
		block := p.Load()
		if block == nil {
			block = new(changeBlock)
			p.Store(block)
		}
		c := &block[i%8]
		c.sum += d
		c.recent.fade(c.at, e.Count-1)
		c.recent.add(float64(d), e.Count)
		c.at = e.Count
	}
}

// rebalance leaves out what the loop's own goroutine has taken or given.
func (s *shard) rebalance() {
	s.tally.Moves = s.loop.Moves()
	s.loop.Moved()
	for i := range s.balance {
		s.balance[i] = s.loop.Balance(i)
	}
}
