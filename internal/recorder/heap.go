//go:build linux

package recorder

import (
	"runtime/metrics"

	"github.com/capriccio-go/capriccio/internal/coro"
)

// enoughStack is what reading the heap's size from runtime/metrics takes of the stack, in bytes. A task that
// has less left would grow its stack for the sake of a statistic, so it is read aside.
const enoughStack = 1500

// beginHeap notes how much has been allocated at the beginning of a step.
func (s *Shard) beginHeap(o *Note) {
	if s.g.cfg.HeapEvery < 0 {
		return
	}
	s.heapIn = s.draw(s.g.cfg.HeapEvery)
	s.readHeap(o, nil)
}

// readHeap reads how much has been allocated, now or in ReadHeap.
func (s *Shard) readHeap(o *Note, e *edge) {
	counts := s.gaugeOf(o).metered > 0
	if s.g.Allocated == nil && coro.Headroom() < enoughStack {
		s.reading.o, s.reading.e, s.reading.counts = o, e, counts
		return
	}
	s.haveRead(o, e, counts, s.allocated())
}

// NeedsStack reports whether ReadHeap is to be called before any task runs.
func (s *Shard) NeedsStack() bool { return s.reading.o != nil }

// ReadHeap reads the allocated bytes where readHeap could not, as the task had too little stack left. It is called
// with more stack, best on the loop's own goroutine.
func (s *Shard) ReadHeap() {
	r := s.reading
	s.reading.o, s.reading.e = nil, nil
	s.haveRead(r.o, r.e, r.counts, s.allocated())
}

// haveRead records the allocated bytes at the beginning of a step of o (e is nil), or what the step that ends along e has
// allocated.
func (s *Shard) haveRead(o *Note, e *edge, counts bool, allocated uint64) {
	g := s.gaugeOf(o)
	if e == nil {
		g.heap = allocated
		o.since = coro.Cycles()
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
	s.now = coro.Cycles()
	if g.timed { // the wait that has begun meanwhile
		o.since = s.now
	}
	s.release(o)
}

func (s *Shard) allocated() uint64 {
	if read := s.g.Allocated; read != nil {
		return read()
	}
	metrics.Read(s.heap[:])
	return s.heap[0].Value.Uint64()
}
