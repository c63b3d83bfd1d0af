//go:build linux

package bgraph

import (
	"math/bits"
	"runtime"
	"runtime/metrics"
	"time"
	"unsafe"

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
	byID   []*node         // nil: not met by this loop
	nodes  paged[node]     // read by others
	edges  paged[edge]     // read by others
	notes  paged[note]     // read by others
	free   *note           // notes to use again
	lost   edge            // stands for the edges that found no room; read by others
	last   *edge           // the step that ended last
	now    uint64          // cycles at the boundary where the running task begins; 0: not known
	turn   uint64          // cycles when the loop's turn began
	next   int             // waits until one is timed
	heapIn int             // timed waits until one measures the heap
	random uint64          // state of the generator
	moves  uint64          // engine.Loop.Moves when balance was right
	heap   [1]metrics.Sample

	meter meter

	balance [engine.MaxResources]int64
	pcs     [maxPath + 16]uintptr
}

// A note is what a shard knows about one task. The loop writes it; others read the
// words. It is reused when the task has ended.
//
//	free ─▶ running ◀──────────────────── ready
//	           │  ╰───────── yield ─────────▲
//	           ╰──────▶ waiting ────────────╯
type note struct {
	state uint64 // noteFree, ...
	id    uint64 // of at
	since uint64 // cycles: when it began to wait, to be ready, or to run
	ready uint64 // cycles when it became ready; only if timed
	heap  uint64 // bytes allocated when its step began; 0: not measured
	// measured: something is measured of the step after this wait. timed: its time, and that of the wait.
	measured, timed bool
	first           bool  // if timed: because its node had hardly been met
	at              *node // where it waits or last waited

	metered uint64 // steps yet to be measured of what it has come in for
	holds   uint64 // what it counts as in shard.meter; 0: not at all
	held    uint64 // bytes allocated since it came in
	next    *note  // in free
}

const (
	noteFree = iota
	noteRunning
	noteWaiting
	noteReady
)

// learning is how many waits at a node are timed before sampling sets in.
const learning = 64

func newShard(g *Graph, l *engine.Loop) *shard {
	s := &shard{
		g: g, loop: l,
		prints: newHashTable[node](6), pairs: newHashTable[edge](6),
		heap:   [1]metrics.Sample{{Name: "/gc/heap/allocs:bytes"}},
		random: uint64(l.Index())*2 + 1, // any odd number will do
		next:   1,
	}
	s.heapIn = s.draw(g.cfg.HeapEvery)
	for id := idStart; id <= idOverflow; id++ {
		s.node(id)
	}
	return s
}

// node returns the node with the given id.
func (s *shard) node(id engine.NodeID) *node {
	for int(id) >= len(s.byID) {
		s.byID = append(s.byID, nil)
	}
	if s.byID[id] == nil {
		s.byID[id] = s.nodes.add(func(n *node) { n.id = id })
	}
	return s.byID[id]
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
	if breathing.Load() != 0 {
		runtime.Gosched()
	}
	s.turn = coro.Cycles()
	s.now = s.turn
	if s.loop.Moves() != s.moves {
		s.rebalance()
	}
}

// Parked implements engine.Observer.
func (s *shard) Parked(t *engine.Task, why engine.Reason, print uint64) engine.NodeID {
	o := (*note)(t.Note())
	e := o.at.out
	if e == nil || e.print != print {
		e = s.find(o.at, why, print)
	}
	s.last = e
	s.now = 0
	e.stats.count++
	if o.measured || s.loop.Moves() != s.moves {
		s.endStep(o, e)
	}
	if why == engine.ReasonEntrance {
		s.enter(o)
		e.target.entrance = true
	}
	to := e.target
	st := &to.stats
	st.arrivals++
	if here := st.arrivals - st.departures; here > st.peak {
		st.peak = here
	}
	o.state = noteWaiting
	o.at = to
	o.id = uint64(to.id)
	o.since = s.turn
	if s.next--; s.next <= 0 || st.arrivals <= learning {
		s.time(o, st.arrivals <= learning)
	} else if o.metered > 0 {
		o.measured = true
	}
	return to.id
}

// time lets the wait that begins, and the step after it, be timed.
func (s *shard) time(o *note, isFirst bool) {
	if s.next <= 0 {
		s.next = s.draw(s.g.cfg.Sampling)
	}
	o.measured, o.timed, o.first = true, true, isFirst
	if s.now == 0 {
		s.now = coro.Cycles()
	}
	o.since = s.now
}

// endStep records what the step along e, already counted, has changed about resources,
// and its time if that is measured: then s.now is the present time afterwards.
func (s *shard) endStep(o *note, e *edge) {
	if s.loop.Moves() != s.moves {
		s.settle(e)
	}
	if !o.measured {
		return
	}
	o.measured = false
	if o.timed {
		o.timed = false
		s.now = coro.Cycles()
		ns := s.nanos(s.now - o.since)
		e.stats.cpu.add(ns, o.first)
		e.stats.recent.add(float64(ns), e.stats.cpu.count)
	}
	if o.heap != 0 {
		s.endHeap(o, e)
	}
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
	pair := uint64(from.id)<<32 | uint64(to.id)
	e := s.pairs.get(pair)
	if e == nil {
		if int(s.edges.n.Load()) >= s.g.cfg.MaxEdges {
			s.lost.target = to
			return &s.lost
		}
		e = s.edges.add(func(e *edge) { e.from, e.to, e.target = from.id, to.id, to })
		s.pairs.put(pair, e)
	}
	from.out = e
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

// Ready implements engine.Observer.
func (s *shard) Ready(t *engine.Task) {
	o := (*note)(t.Note())
	o.state = noteReady
	if o.timed {
		o.ready = coro.Cycles()
	}
}

// Resumed implements engine.Observer.
func (s *shard) Resumed(t *engine.Task) {
	o := (*note)(t.Note())
	if o == nil {
		o = s.begin(t)
	}
	if o.measured {
		s.endWait(o)
	}
	o.at.stats.departures++
	o.state = noteRunning
}

// endWait records the times of a wait, and begins to measure the step after it.
func (s *shard) endWait(o *note) {
	if !o.timed {
		s.beginHeap(o)
		return
	}
	now := s.now
	if now == 0 {
		now = coro.Cycles()
	}
	since := o.since
	if o.state == noteReady {
		o.at.stats.wait.add(s.nanos(o.ready-since), o.first)
		since = o.ready
	}
	if o.state != noteFree {
		o.at.stats.ready.add(s.nanos(now-since), o.first)
	}
	o.since = now
	if s.heapIn--; s.heapIn <= 0 || o.first || o.metered > 0 {
		s.beginHeap(o)
	}
}

// begin is called when t starts.
func (s *shard) begin(t *engine.Task) *note {
	o := s.free
	if o != nil {
		s.free = o.next
	} else {
		o = s.notes.add(func(*note) {})
	}
	t.SetNote(unsafe.Pointer(o))
	start := s.byID[idStart]
	start.stats.arrivals++
	*o = note{at: start, id: uint64(idStart), since: s.turn}
	if s.next--; s.next <= 0 || start.stats.arrivals <= learning {
		if s.next <= 0 {
			s.next = s.draw(s.g.cfg.Sampling)
		}
		o.measured, o.timed, o.first = true, true, start.stats.arrivals <= learning
	}
	return o
}

// Finished implements engine.Observer.
func (s *shard) Finished(t *engine.Task) {
	o := (*note)(t.Note())
	end := s.byID[idEnd]
	s.leave(o)
	e := s.edge(o.at, end)
	s.last = e
	s.now = 0
	e.stats.count++
	s.endStep(o, e)
	end.stats.arrivals++
	end.stats.departures++
	o.state = noteFree
	o.next = s.free
	s.free = o
}

// enoughStack is what reading the heap's size from runtime/metrics takes of the stack, in bytes: a task that
// has less left would grow its stack for the sake of a statistic.
const enoughStack = 1500

// beginHeap notes how much has been allocated at the beginning of a step.
func (s *shard) beginHeap(o *note) {
	if s.g.cfg.HeapEvery < 0 {
		return
	}
	s.heapIn = s.draw(s.g.cfg.HeapEvery)
	if s.g.cfg.Allocated == nil && coro.Headroom() < enoughStack && o.at.stats.departures > learning {
		if o.holds == 0 {
			o.metered = 0 // what it takes in this step would be missing
		}
		return
	}
	o.heap = s.allocated()
	o.since = coro.Cycles()
}

// endHeap records what the step has allocated.
func (s *shard) endHeap(o *note, e *edge) {
	d := s.allocated() - o.heap
	o.heap = 0
	e.stats.heapN++
	e.stats.heapSum += d
	if o.metered > 0 {
		s.holds(o, d)
	}
	s.meter.stats.most = max(s.meter.stats.most, o.held, d)
	e.stats.heap.addOf(float64(d), e.stats.heapN, heapWeight)
	s.now = coro.Cycles()
}

func (s *shard) allocated() uint64 {
	if read := s.g.cfg.Allocated; read != nil {
		return read()
	}
	metrics.Read(s.heap[:])
	return s.heap[0].Value.Uint64()
}

// settle records what the step along e has changed about resources.
func (s *shard) settle(e *edge) {
	s.moves = s.loop.Moves()
	for i := range s.balance {
		d := s.loop.Balance(i) - s.balance[i]
		if d == 0 {
			continue
		}
		s.balance[i] += d
		p := &e.changes[i/8]
		block := p.Load()
		if block == nil {
			block = new(changeBlock)
			p.Store(block)
		}
		c := &block[i%8]
		c.sum += d
		c.recent.fade(c.at, e.stats.count-1)
		c.recent.add(float64(d), e.stats.count)
		c.at = e.stats.count
	}
}

// rebalance leaves out what the loop's own goroutine has taken or given.
func (s *shard) rebalance() {
	s.moves = s.loop.Moves()
	for i := range s.balance {
		s.balance[i] = s.loop.Balance(i)
	}
}

// Overran implements engine.OverrunObserver.
func (s *shard) Overran(name string, lasted time.Duration, stack string, ended bool) {
	o := Overrun{Loop: s.number, At: time.Now(), Held: Nanos(lasted), Task: name, Stack: stack, To: KeyStart}
	if !ended { // on another thread
		s.notes.each(func(n *note) {
			var words [2]uint64
			coro.CopyWords(unsafe.Pointer(&words), unsafe.Pointer(n), 2)
			if words[0] == noteRunning {
				o.From = s.g.Key(engine.NodeID(words[1]))
			}
		})
		if o.From != 0 {
			s.g.overran(o)
		}
		return
	}
	e := s.last
	if e == nil || e == &s.lost {
		return
	}
	e.stats.overruns++
	if stack != "" {
		o.From, o.To = s.g.Key(e.from), s.g.Key(e.to)
		s.g.overran(o)
	}
}
