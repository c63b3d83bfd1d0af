package chunk

import (
	"math/bits"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/capriccio-go/capriccio/internal/coro"
)

// A Host is a loop, which the engine makes known. Its methods are called by the
// running member of the loop's ring.
type Host interface {
	// NewMember makes the loop's side of a chunk.
	NewMember(c *Chunk) Member
	// Current is the coroutine of the running task.
	Current() *coro.Coro
}

// A Member is a chunk as its loop sees it: a goroutine of the ring that runs a part of a
// task. The calls come in the order Start, (Link, Unlink)*, End, except that Link may come
// before Start.
type Member interface {
	// Coro is not yet initialised when it is called for the first time.
	Coro() *coro.Coro
	// Start is called on the new goroutine, first of all.
	Start()
	// Link makes this the goroutine of the running task and returns the one that it has
	// been on, which calls it.
	Link() (from *coro.Coro)
	// Nested says, while it is linked, whether the goroutine below is a chunk's too.
	Nested() bool
	// Unlink undoes Link and returns the same. It is called on the goroutine of the chunk; if that has been ended by
	// Goexit, on another. If the goroutine is locked to its thread, it undoes that too and returns the text of the
	// panic.
	Unlink() (to *coro.Coro, refusal string)
	// Panicked is called by the deferred function that recovered v on the chunk.
	Panicked(v any)
	// End is called on the goroutine at its end; if that is by Goexit, before Unlink.
	End()
}

// A Pool has the chunks of one loop. It is for the engine. Its fields are
// loop-private; counts is read by others.
type Pool struct {
	host    Host
	idle    [Classes]*Chunk // by class, the last used first, linked by next
	seed    *Chunk          // has never run; see make
	bytes   uintptr         // size of all chunks
	alive   int             // goroutines
	closing bool
	counts  poolCounts
}

// Classes is how many sizes of chunks there are: powers of two.
const (
	Classes = 12
	minSize = 4 << 10
)

func SizeOf(class int) uintptr { return minSize << class }

// overhead is at most what a chunk's own frames and the Go runtime's below take: more in
// a program that was built without optimisations (-gcflags='all=-N -l', for a debugger).
var overhead = func() uintptr {
	if at := coro.Depth(); inlinedDepth() != at {
		return unoptimized
	}
	return optimized
}()

// inlinedDepth is the depth of its caller's frame, if that has it inlined.
func inlinedDepth() uintptr { return coro.Depth() }

// RoomOf is how many bytes of stack a function on a chunk finds at least.
func RoomOf(class int) uintptr { return SizeOf(class) - overhead - Reserve }

// classOf is the least class with that much room; Classes if there is none.
func classOf(room uintptr) int {
	if room > RoomOf(Classes-1) {
		return Classes
	}
	return max(bits.Len64(uint64(room+overhead+Reserve-1))-bits.Len64(minSize-1), 0)
}

// Settings are of the process, as memory is: shared by all loops of all runtimes.
var Settings struct {
	Process, Loop, Idle atomic.Uint64 // limits
	MinChunk            atomic.Uint64
	used                atomic.Int64 // size of all chunks of the process
}

// Current returns the pool of the calling task, nil on another goroutine, and whether
// the task can leave the goroutine that it is on. The engine sets it.
var Current = func() (p *Pool, free bool) { return nil, false }

// SetHosts is called by the engine, once, at its start.
func SetHosts(find func() (p *Pool, free bool)) { Current = find }

// NewPool makes the pool of a loop, empty.
func NewPool(h Host) *Pool {
	p := &Pool{host: h}
	pools.mu.Lock()
	pools.all[p] = true
	pools.mu.Unlock()
	return p
}

// Close ends the chunks. None may be linked. It is called by the ring's own
// goroutine.
func (p *Pool) Close(own *coro.Party) {
	p.closing = true
	for class := range p.idle {
		for c := p.idle[class]; c != nil; c = c.next {
			if !c.gone {
				coro.Switch(own, &c.Coro.Party)
			}
		}
		p.idle[class] = nil
	}
	if s := p.seed; s != nil {
		p.seed = nil
		coro.Switch(own, &s.Coro.Party)
	}
	if p.alive != 0 {
		panic("stackchunk: broken invariant: goroutines are left after closing a pool")
	}
	pools.mu.Lock()
	defer pools.mu.Unlock()
	delete(pools.all, p)
	pools.ended.add(&p.counts)
}

// Idle calls do for the Members of the chunks that are not linked.
func (p *Pool) Idle(do func(Member)) {
	for _, c := range p.idle {
		for ; c != nil; c = c.next {
			do(c.Member)
		}
	}
}

// make makes a chunk that has never run: a seed. One is always there when a chunk runs:
// making a goroutine takes more stack than a task that looks for a chunk has, so each
// chunk, when it begins to run, makes the next; and the end of a goroutine by Goexit
// takes one that has never run, see coro.Leave.
func (p *Pool) make() *Chunk {
	c := &Chunk{pool: p}
	c.Member = p.host.NewMember(c)
	c.Coro = c.Member.Coro()
	c.Coro.Init(c.body)
	p.alive++
	return c
}

// takeNew makes a chunk of the class, of which none is idle. If a limit forbids that, it takes an idle chunk of a
// larger class, or ends smaller ones to make room; nil if neither is possible.
func (p *Pool) takeNew(class int) *Chunk {
	if !p.reserve(class) {
		for k := class + 1; k < Classes; k++ {
			if c := p.idle[k]; c != nil {
				p.idle[k] = c.next
				return c
			}
		}
		if !p.evict(class) {
			return nil
		}
	}
	c := p.seed
	p.seed = nil
	if c == nil {
		c = p.make()
	}
	c.class = class
	c.size = SizeOf(class)
	c.Room = RoomOf(class)
	c.least = c.size - overhead
	c.most = c.size
	k := &p.counts.Class[class]
	c.counts = k
	k.Made++
	// As none of the class was idle, all are in use; there are never more until the next is made.
	k.Peak = max(k.Peak, k.Links-k.Unlinks+1)
	return c
}

// reserve takes the size of a chunk from the limits.
func (p *Pool) reserve(class int) bool {
	size := SizeOf(class)
	if p.bytes+size > uintptr(Settings.Loop.Load()) {
		return false
	}
	if Settings.used.Add(int64(size)) > int64(Settings.Process.Load()) {
		Settings.used.Add(-int64(size))
		return false
	}
	p.bytes += size
	return true
}

// release gives the size of a chunk back.
func (p *Pool) release(class int) {
	p.bytes -= SizeOf(class)
	Settings.used.Add(-int64(SizeOf(class)))
	p.counts.Class[class].Ended++
}

// evict ends idle chunks, all of them smaller, until there is room for one of the class.
func (p *Pool) evict(class int) bool {
	if p.bytes-p.idleBytes()+SizeOf(class) > uintptr(Settings.Loop.Load()) {
		return false
	}
	for k := class - 1; k >= 0; k-- {
		for c := p.idle[k]; c != nil; c = p.idle[k] {
			p.idle[k] = c.next
			from := p.host.Current()
			c.leaveTo = from
			coro.Switch(&from.Party, &c.Coro.Party)
			if p.reserve(class) {
				return true
			}
		}
	}
	return false
}

// idleBytes is the size of the chunks that are not linked.
func (p *Pool) idleBytes() uintptr { return p.bytes - uintptr(p.counts.InUse) }

// pools are those of all loops, for statistics of the process.
var pools = struct {
	mu    sync.Mutex
	all   map[*Pool]bool // guarded by mu
	ended poolCounts     // guarded by mu: of those closed
}{all: map[*Pool]bool{}}

// poolCounts consists of words only, so that it can be read while the loop runs.
type poolCounts struct {
	Class       [Classes]classCounts
	InPlace     uint64
	InUse, Peak uint64 // bytes
}

type classCounts struct {
	Unlinks            uint64 // before links, so that a reader meanwhile finds no more of them
	Links              uint64
	Peak               uint64 // in use at a time
	Made, Ended        uint64
	Grown, Regrown     uint64
	Internal, External uint64
}

const poolWords = unsafe.Sizeof(poolCounts{}) / 8

// add adds b to a, word by word.
func (a *poolCounts) add(b *poolCounts) {
	to, from := (*[poolWords]uint64)(unsafe.Pointer(a)), (*[poolWords]uint64)(unsafe.Pointer(b))
	for i := range to {
		to[i] += from[i]
	}
}

// ReadCounts adds up the counts of all pools.
func ReadCounts() poolCounts {
	pools.mu.Lock()
	defer pools.mu.Unlock()
	sum := pools.ended
	for p := range pools.all {
		var c poolCounts
		coro.CopyWords(unsafe.Pointer(&c), unsafe.Pointer(&p.counts), poolWords)
		sum.add(&c)
	}
	return sum
}
