//go:build linux

package recorder

import (
	"math/bits"
	"runtime/metrics"

	"github.com/capriccio-go/capriccio/internal/admit"
	"github.com/capriccio-go/capriccio/internal/breathe"
	"github.com/capriccio-go/capriccio/internal/coro"
	"github.com/capriccio-go/capriccio/internal/graphlimits"
)

// A Shard is the recorder of one loop. The loop calls it when a task starts, waits, is woken, goes on and ends. A step
// along the edge that was taken before takes a few instructions; a new or measured one takes more. Its methods are
// called on the loop, between two steps of a task, and never wait. Where they return true the loop is to call ReadHeap.
//
// Fields without a remark are loop-private.
type Shard struct {
	g      *Graph
	loop   Loop
	number int // in Graph.shards

	// Fields that each wait needs.
	left  int     // waits until one is timed
	moves uint64  // Account.Moves when it was last looked at
	turn  uint64  // cycles when the loop's iteration began
	now   uint64  // cycles at the boundary where the running task begins; 0: not known
	last  *edge   // of the step that ended last
	way   *edge   // that Knows has found
	at    []*node // by NodeID; nil: not met by this loop
	// The heap is yet to be read for a step of that note that begins, or ends along an edge; see ReadHeap.
	reading struct {
		o      *Note // nil: it is not
		e      *edge
		counts bool // for what o holds
	}

	prints hashTable[node] // by fingerprint
	pairs  hashTable[edge] // by the two nodes
	nodes  paged[node]     // read by others
	edges  paged[edge]     // read by others
	notes  paged[Note]     // read by others
	blocks paged[block]    // read by others
	gauges paged[gauge]

	crossed   hashTable[crossing] // by the two nodes and the loop, see Cross
	crossings paged[crossing]     // read by others
	uncrossed uint64              // wakes from elsewhere that found no room; read by others

	free   []*Note // to use again
	idle   uint32  // 1 + the number of a gauge to use again, or 0
	lost   edge    // stands for the edges that found no room; read by others
	heapIn int     // timed waits until the heap is measured

	samples uint8  // as how many the next timed wait counts, see nextSamples
	timedAt uint64 // cycles when a timed wait was last chosen
	drawn   int    // waits from that one to the next timed one
	random  uint64 // state of the generator
	heap    [1]metrics.Sample

	meter meter

	balance [admit.MaxResources]int64
	// tasksLimited reports whether there was a limit on tasks when the last step was settled.
	tasksLimited bool
}

// learning is how many waits at a node are timed before sampling sets in.
const learning = 64

func newShard(g *Graph, l Loop) *Shard {
	s := &Shard{
		g: g, loop: l,
		prints: newHashTable[node](6), pairs: newHashTable[edge](6), crossed: newHashTable[crossing](4),
		heap:    [1]metrics.Sample{{Name: "/gc/heap/allocs:bytes"}},
		random:  uint64(l.Index)*2 + 1, // any odd number will do
		samples: 1,
	}
	s.heapIn = s.draw(g.cfg.HeapEvery)
	for id := NodeStart; id <= nodeOverflow; id++ {
		s.node(id)
	}
	return s
}

// Close is called when the loop has ended.
func (s *Shard) Close() { breathe.AddLoops(-1) }

// node returns the node with the given id.
func (s *Shard) node(id NodeID) *node {
	for int(id) >= len(s.at) {
		s.at = append(s.at, nil)
	}
	if s.at[id] == nil {
		s.at[id] = s.nodes.add(func(n *node) { n.id = id })
	}
	return s.at[id]
}

// draw returns a number around n, by chance, so that no rhythm of the program can keep
// in step with the sampling.
func (s *Shard) draw(n int) int {
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
func (s *Shard) nanos(cycles uint64) uint64 {
	if int64(cycles) < 0 {
		return 0
	}
	hi, lo := bits.Mul64(cycles, s.g.scale)
	return hi<<(64-scaleBits) | lo>>scaleBits
}

// Turn is called on the loop's own goroutine before it hands over to a task: unlike
// when one task hands over to the next, time has passed since the last step.
func (s *Shard) Turn() {
	breathe.Turn()
	s.blocks.reserve(pageSize)
	s.notes.reserve(pageSize)
	s.gauges.reserve(pageSize)
	s.edges.reserve(pageSize / 4)
	s.turn = coro.Cycles()
	s.now = s.turn
	if s.loop.Account.Moves != s.moves {
		s.rebalance()
	}
}

// Park records that a task is about to wait, or to yield, for the given reason, at the place with that fingerprint, if the
// task has gone the same way before and nothing is measured. Else it returns false, and has recorded nothing: then Arrive is
// to be called if Knows says so, or Meet. None calls the next one, as the stack of the task may be small.
func (s *Shard) Park(t *Task, o *Note, why Reason, print uint64) bool {
	e := s.at[t.node].out
	if e != nil && e.print == print && e.known && t.quiet && s.left > 0 && s.moves == s.loop.Account.Moves {
		s.left--
		s.now = 0
		s.last = e
		e.count++
		e.to.arrive()
		t.node = uint16(e.to.id)
		if why.Waits() {
			o.state, o.node, o.since = noteWaiting, e.to.id, s.turn
		}
		return true
	}
	return false
}

// arrive notes that one more task waits at n.
func (n *node) arrive() {
	n.arrivals++
	n.peak = max(n.peak, n.arrivals-n.departures)
}

// Knows reports whether the place with that fingerprint is known, and finds the way there for Arrive.
func (s *Shard) Knows(t *Task, print uint64) bool {
	from := s.at[t.node]
	if e := from.out; e != nil && e.print == print {
		s.way = e
		return true
	}
	to := s.prints.get(print)
	if to == nil {
		return false
	}
	s.way = s.edge(from, to)
	s.way.print = print
	return true
}

// Meet is Park at a place that is not known: pcs is the call path, as runtime.Callers gives it, and label the name that
// the place has been given, or empty.
func (s *Shard) Meet(t *Task, o *Note, why Reason, print uint64, label string, pcs []uintptr) {
	to := s.node(s.g.register(print, why, label, pcs))
	if s.prints.used < s.g.maxPrints() {
		s.prints.put(print, to)
	}
	s.way = s.edge(s.at[t.node], to)
	s.way.print = print
	s.Arrive(t, o, why)
}

// Arrive is Park at the place that Knows has found.
func (s *Shard) Arrive(t *Task, o *Note, why Reason) {
	e := s.way
	from, to := s.at[t.node], e.to
	s.ended(o, e)
	if why == ReasonEntrance {
		s.reading.counts = false // what ends here was before
		s.gauges.reserve(1)
		s.enter(o, from)
		to.entrance = true
	} else if to.arrivals >= learning {
		e.known = true
	}
	to.arrive()
	t.node = uint16(to.id)
	o.state, o.node, o.since = noteRunning, to.id, s.turn
	if why.Waits() {
		o.state = noteWaiting
	}
	t.quiet = false
	if due := s.due(); due > 0 || to.arrivals <= learning {
		s.gauges.reserve(1)
		s.time(o, due, to.arrivals <= learning)
	} else if g := s.gaugeOf(o); g != nil && g.metered > 0 {
		g.measured = true
	} else {
		t.quiet = true
	}
}

// ended counts the step that the task of o has just ended along e, and records what was measured of it.
func (s *Shard) ended(o *Note, e *edge) {
	s.last, s.now = e, 0
	e.count++
	if s.measures(o) || s.loop.Account.Moves != s.moves {
		s.endStep(o, e)
	}
}

// due counts a wait. If it is to be timed, as chance has it, due returns how many samples it counts as, else 0.
func (s *Shard) due() uint8 {
	if s.left > 0 {
		s.left--
		return 0
	}
	counts := s.samples
	s.samples = s.nextSamples()
	s.drawn = s.draw(int(s.samples) * s.g.cfg.Sampling)
	s.left = s.drawn - 1
	return counts
}

// nextSamples returns how many samples the next timed wait counts as. Timing one costs as much as several of the
// tiniest steps. So where steps are tiny fewer waits are timed, and each counts as sparingFactor samples.
func (s *Shard) nextSamples() uint8 {
	if s.g.tinyStep == 0 {
		return 1
	}
	s.now = coro.Cycles()
	took := s.now - s.timedAt
	s.timedAt = s.now
	if took < s.g.tinyStep*uint64(s.drawn) {
		return sparingFactor
	}
	return 1
}

// time lets the wait that begins, and the step after it, be timed.
func (s *Shard) time(o *Note, counts uint8, isFirst bool) {
	s.timed(o, counts, isFirst)
	if s.now == 0 {
		s.now = coro.Cycles()
	}
	o.since = s.now
}

// timed marks the wait that begins, and the step after it, as timed; counts is how many samples they count as. It calls no
// function that needs stack, see giveGauge.
func (s *Shard) timed(o *Note, counts uint8, isFirst bool) {
	if isFirst {
		counts = 1
	}
	g := s.giveGauge(o)
	g.measured, g.timed = true, true
	g.first, g.counts = isFirst, counts
}

// endStep records what the step along e, already counted, has changed about resources,
// and its time if that is measured: then s.now is the present time afterwards.
func (s *Shard) endStep(o *Note, e *edge) {
	if s.loop.Account.Moves != s.moves {
		s.settle(e)
	}
	g := s.gaugeOf(o)
	if g == nil || !g.measured {
		return
	}
	g.measured = false
	if g.timed {
		g.timed = false
		s.now = coro.Cycles()
		ns := s.nanos(s.now - o.since)
		s.blocks.reserve(1)
		s.measured(&e.stats.cpu, ns, g)
		e.stats.recent.add(float64(ns), e.stats.cpu.count/uint64(g.counts))
	}
	if g.heap != 0 {
		s.readHeap(o, e)
	}
	s.release(o)
}

// edge returns the edge between two nodes, and makes it the one that will be looked at
// first the next time.
func (s *Shard) edge(from, to *node) *edge {
	pair := uint64(from.id)<<32 | uint64(to.id)
	e := s.pairs.get(pair)
	if e == nil {
		if int(s.edges.n.Load()) >= s.g.cfg.MaxEdges {
			s.lost.to = to
			return &s.lost
		}
		e = s.edges.add(func(e *edge) { e.from, e.to = from.id, to })
		s.pairs.put(pair, e)
	}
	from.out = e
	return e
}

// Cross records that a task, which waits or has not started yet, is woken or started on another loop of the runtime, of
// that index, in a task that was at node from last; NodeNone: on the loop's own goroutine, or it had ended. loop -1 is a
// plain goroutine, also that of a task which runs detached from its loop. It is called before Wake.
func (s *Shard) Cross(t *Task, from NodeID, loop int) {
	id := uint64(from+1)<<40 | uint64(t.node)<<16 | uint64(loop+1) // NodeNone+1 is 0
	c := s.crossed.get(id)
	if c == nil {
		all := &s.g.crossings
		if int(s.crossings.n.Load()) >= s.g.cfg.MaxEdges || all.Load() >= graphlimits.Edges || all.Add(1) > graphlimits.Edges {
			s.uncrossed++
			return
		}
		c = s.crossings.add(func(c *crossing) { c.from, c.to, c.loop = from, t.Node(), loop })
		s.crossed.put(id, c)
	}
	c.count++
}

// Wake records that the wait of a task is over. The task is about to be put into the run queue. It need not be called for
// one that is Quiet.
func (s *Shard) Wake(o *Note) {
	o.state = noteReady
	if g := s.gaugeOf(o); g != nil && g.timed {
		g.ready = coro.Cycles()
	}
}

// Resume records that a task which has waited runs again.
func (s *Shard) Resume(t *Task, o *Note) bool {
	if t.quiet {
		s.at[t.node].departures++
		o.state = noteRunning
		return false
	}
	return s.resumeSlow(t, o)
}

// ResumeYield is Resume for a task that has yielded. Only if something is measured it touches the Note.
func (s *Shard) ResumeYield(t *Task, o *Note) bool {
	if t.quiet {
		s.at[t.node].departures++
		return false
	}
	return s.resumeSlow(t, o)
}

func (s *Shard) resumeSlow(t *Task, o *Note) bool {
	at := s.at[t.node]
	if s.measures(o) {
		s.endWait(o, at)
	}
	at.departures++
	o.state = noteRunning
	return s.NeedsStack()
}

// endWait records the times of a wait, and begins to measure the step after it.
func (s *Shard) endWait(o *Note, at *node) {
	g := s.gaugeOf(o)
	if !g.timed {
		s.beginHeap(o)
		return
	}
	now := s.now
	if now == 0 {
		now = coro.Cycles()
	}
	since := o.since
	s.blocks.reserve(2)
	if o.state == noteReady {
		s.measured(&at.stats.wait, s.nanos(g.ready-since), g)
		since = g.ready
	}
	if o.state != noteFree {
		s.measured(&at.stats.ready, s.nanos(now-since), g)
	}
	o.since = coro.Cycles() // what it took to record the wait is no part of the step
	if s.heapIn--; s.heapIn <= 0 || g.first || g.metered > 0 {
		s.beginHeap(o)
	}
}

// Start records that a task runs for the first time. The Note that it returns is the task's until it finishes.
func (s *Shard) Start(t *Task) (o *Note, needsStack bool) {
	if last := len(s.free) - 1; last >= 0 {
		o, s.free = s.free[last], s.free[:last]
	} else {
		o = s.notes.add(func(*Note) {})
	}
	start := s.at[NodeStart]
	start.arrivals++
	*o = Note{node: NodeStart, since: s.turn}
	due := s.due()
	*t = Task{quiet: due == 0 && start.arrivals > learning}
	if !t.quiet {
		s.gauges.reserve(1)
		s.timed(o, due, start.arrivals <= learning)
	}
	return o, s.resumeSlow(t, o)
}

// Finish records that the function of a task has returned.
func (s *Shard) Finish(t *Task, o *Note) bool {
	at, end := s.at[t.node], s.at[NodeEnd]
	s.leave(o) // and so the last step does not count for what it holds
	e := at.out
	if e == nil || e.to != end {
		e = s.edge(at, end)
	}
	s.ended(o, e)
	end.arrivals++
	end.departures++
	o.state = noteFree
	s.free = append(s.free, o)
	return s.NeedsStack()
}
