//go:build linux

package recorder

import (
	"sync/atomic"
	"unsafe"

	"github.com/capriccio-go/capriccio/internal/admit"
	"github.com/capriccio-go/capriccio/internal/buckets"
	"github.com/capriccio-go/capriccio/internal/coro"
	"github.com/capriccio-go/capriccio/internal/graphlimits"
)

// The structs with counters are written by one loop, and read by any goroutine with read, word
// by word, while they change: each number is right, two of them may be a step apart.
// So they consist of words and hold no pointers.

// timesStats are measured durations in nanoseconds.
type timesStats struct {
	count, sum, max uint64
	first, firstSum uint64 // of count and sum: those before sampling set in

	// The histogram, whose parts are those of bgraph.Times.Fine, in blocks: what is measured at one place is mostly of
	// the same order, so it needs few. Each is 1 + the number of one of the Shard's, or 0: there is nothing in it.
	fine [buckets.Parts * buckets.Count / blockSize]uint32
}

// A block is a part of a histogram: of two octaves, and one cache line.
type block [blockSize]uint64

const blockSize = 8

// measured adds a duration that was measured with g to t. There must be room for a block. It calls nothing,
// so it takes no stack that a task that waits might not have.
func (s *Shard) measured(t *timesStats, ns uint64, g *gauge) {
	n := uint64(g.counts)
	t.add(ns, n, g.first)
	i := buckets.FineOf(ns)
	number := &t.fine[i/blockSize]
	if *number == 0 {
		*number = uint32(s.blocks.n.Add(1))
	}
	s.blocks.at(int64(*number - 1))[i%blockSize] += n
}

func (s *timesStats) add(ns, n uint64, isFirst bool) {
	s.count += n
	sum := min(ns, graphlimits.Number/sparingFactor) * n
	if isFirst {
		s.first++
		s.firstSum = min(s.firstSum+sum, graphlimits.Number)
	}
	if s.sum < graphlimits.Number { // 146 years: reached by many tasks that wait
		s.sum += sum
	}
	if ns > s.max {
		s.max = ns
	}
}

// momentsStats are exponentially weighted moments.
type momentsStats struct{ mean, variance float64 }

// The weight of the latest value; the n-th has at least 1/n. What is allocated varies much: a few large
// responses among many small ones.
const (
	recentWeight = 1.0 / 16
	heapWeight   = 1.0 / 256
)

func (m *momentsStats) add(v float64, n uint64) { m.addOf(v, n, recentWeight) }

func (m *momentsStats) addOf(v float64, n uint64, w float64) {
	w = max(w, 1/float64(n))
	d := v - m.mean
	step := w * d
	m.mean += step
	m.variance = (1 - w) * (m.variance + d*step)
}

// fade adds the zeros of the steps after step from, up to step to.
func (m *momentsStats) fade(from, to uint64) {
	if to > from+512 { // nothing would be left
		*m = momentsStats{}
		return
	}
	for n := from + 1; n <= to && (m.mean != 0 || m.variance != 0); n++ {
		m.add(0, n)
	}
}

type nodeStats struct {
	wait  timesStats
	ready timesStats
}

type edgeStats struct {
	overruns uint64
	heapN    uint64
	heapSum  uint64
	recent   momentsStats
	heap     momentsStats
	cpu      timesStats
}

// changeStats is what steps have changed about one resource. The steps since the last
// one that changed it are not in recent yet, see fade.
type changeStats struct {
	sum    int64
	at     uint64 // edge.count at the last change
	recent momentsStats
}

// A changeBlock holds the changes of some of the resources along an edge; most edges
// need none.
type changeBlock [8]changeStats

// read copies a struct word by word while its loop may be writing it. Each word is whole; the words may be of different
// moments.
func read[T any](to, from *T) {
	coro.CopyWords(unsafe.Pointer(to), unsafe.Pointer(from), unsafe.Sizeof(*to)/8)
}

// A node is one loop's part in a node of the graph. Fields without a remark are
// loop-private.
type node struct {
	counts             // read by others
	out      *edge     // the edge that was last taken from here, or nil
	id       NodeID    // fixed
	entrance bool      // tasks come in here
	stats    nodeStats // read by others
}

// counts are how many tasks have come to a node and have left it, and how many were there at most.
type counts struct{ departures, arrivals, peak uint64 }

// An edge is one loop's part in an edge of the graph. Fields without a remark are
// loop-private.
type edge struct {
	count   uint64                                              // read by others
	print   uint64                                              // the fingerprint that to was last reached with
	to      *node                                               // fixed
	known   bool                                                // steps along it are only counted, unless they are measured
	from    NodeID                                              // fixed
	stats   edgeStats                                           // read by others
	changes [admit.MaxResources / 8]atomic.Pointer[changeBlock] // written by the loop only; the blocks are read by others
}

// A crossing is what one loop knows of a Crossing to it.
type crossing struct {
	count    uint64 // read by others
	from, to NodeID // fixed
	loop     int    // fixed: index of the waker's loop in the runtime, -1: none
}

// A paged list grows without moving its elements. Its loop adds; any goroutine may read.
type paged[T any] struct {
	pages atomic.Pointer[[]*[pageSize]T]
	n     atomic.Int64
	room  int64 // elements that fit into the pages; loop-private
}

const pageSize = 32

// add adds an element, which init makes before others see it.
func (p *paged[T]) add(init func(*T)) *T {
	p.reserve(1)
	n := p.n.Load()
	v := p.at(n)
	init(v)
	p.n.Store(n + 1)
	return v
}

func (p *paged[T]) at(i int64) *T { return &(*p.pages.Load())[i/pageSize][i%pageSize] }

// reserve makes room for k elements, at most pageSize. A task has less stack than that takes, so its loop sees to it.
func (p *paged[T]) reserve(k int64) {
	if p.n.Load()+k > p.room {
		p.addPage()
	}
}

//go:noinline
func (p *paged[T]) addPage() {
	var pages []*[pageSize]T
	if d := p.pages.Load(); d != nil {
		pages = *d
	}
	pages = append(pages, new([pageSize]T)) // readers hold shorter slices, maybe of the same array
	p.pages.Store(&pages)
	p.room += pageSize
}

// each calls fn for the elements.
func (p *paged[T]) each(fn func(*T)) {
	n := p.n.Load()
	d := p.pages.Load()
	if d == nil {
		return
	}
	for i := range n {
		fn(&(*d)[i/pageSize][i%pageSize])
	}
}

// A hashTable is an open-addressed hash table of pointers, at most half full.
type hashTable[V any] struct {
	slots []hashSlot[V]
	shift uint
	used  int
}

type hashSlot[V any] struct {
	key uint64
	v   *V // nil: empty
}

func newHashTable[V any](bits uint) hashTable[V] {
	return hashTable[V]{slots: make([]hashSlot[V], 1<<bits), shift: 64 - bits}
}

func (t *hashTable[V]) get(key uint64) *V {
	mask := uint64(len(t.slots) - 1)
	for i := (key * 0x9e3779b97f4a7c15) >> t.shift; ; i++ {
		s := &t.slots[i&mask]
		if s.key == key || s.v == nil {
			return s.v
		}
	}
}

func (t *hashTable[V]) put(key uint64, v *V) {
	if t.used++; t.used > len(t.slots)/2 {
		old := t.slots
		*t = newHashTable[V](64 - t.shift + 1)
		for _, s := range old {
			if s.v != nil {
				t.put(s.key, s.v)
			}
		}
		t.used++
	}
	mask := uint64(len(t.slots) - 1)
	for i := (key * 0x9e3779b97f4a7c15) >> t.shift; ; i++ {
		if s := &t.slots[i&mask]; s.v == nil {
			s.key, s.v = key, v
			return
		}
	}
}
