package stackchunk

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
	// Unlink undoes Link and returns the same. It is called on the goroutine of the chunk;
	// if that has been ended by Goexit, on another. If the goroutine is locked to its
	// thread, it undoes that too and says what is to be said about it.
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
	idle    [classes]*Chunk // by class, the last used first, linked by next
	seed    *Chunk          // has never run; see make
	bytes   Bytes           // size of all chunks
	alive   int             // goroutines
	closing bool
	counts  poolCounts
}

// classes is how many sizes of chunks there are: powers of two.
const (
	classes = 12
	minSize = 4 << 10
)

func sizeOf(class int) Bytes { return minSize << class }

// overhead is at most what a chunk's own frames and the Go runtime's below take: more in
// a program that was built without optimisations (-gcflags='all=-N -l', for a debugger).
var overhead = func() Bytes {
	if at := coro.Depth(); inlinedDepth() != at {
		return unoptimized
	}
	return optimized
}()

// inlinedDepth is the depth of its caller's frame, if that has it inlined.
func inlinedDepth() uintptr { return coro.Depth() }

// roomOf is what a function on a chunk finds at least.
func roomOf(class int) Bytes { return sizeOf(class) - overhead - reserve }

// classOf is the least class with that much room; classes if there is none.
func classOf(room Bytes) int {
	if room > roomOf(classes-1) {
		return classes
	}
	return max(bits.Len64(uint64(room+overhead+reserve-1))-bits.Len64(minSize-1), 0)
}

// settings are shared by all loops.
var settings struct {
	process, loop, idle atomic.Uint64 // limits
	minChunk            atomic.Uint64
	used                atomic.Int64 // size of all chunks of the process
}

// DefaultLimits are those that hold until SetLimits is called.
var DefaultLimits = Limits{Process: 1 << 30, Loop: 1 << 30, Idle: 16 << 20}

func init() { SetLimits(DefaultLimits) }

// current returns the pool of the calling task, nil on another goroutine, and whether
// the task can leave the goroutine that it is on. The engine sets it.
var current = func() (p *Pool, free bool) { return nil, false }

// SetHosts is called by the engine, once, at its start.
func SetHosts(find func() (p *Pool, free bool)) { current = find }

// NewPool makes the pool of a loop, empty.
func NewPool(h Host) *Pool {
	p := &Pool{host: h}
	pools.mu.Lock()
	pools.all[p] = true
	pools.mu.Unlock()
	return p
}

// Close ends the chunks, none of which is linked. It is called by the ring's own
// goroutine.
func (p *Pool) Close(own *coro.Party) {
	p.closing = true
	for class := range p.idle {
		for c := p.idle[class]; c != nil; c = c.next {
			if !c.gone {
				coro.Switch(own, &c.coro.Party)
			}
		}
		p.idle[class] = nil
	}
	if s := p.seed; s != nil {
		p.seed = nil
		coro.Switch(own, &s.coro.Party)
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
			do(c.member)
		}
	}
}

// make makes a chunk that has never run: a seed. One is always there when a chunk runs:
// making a goroutine takes more stack than a task that looks for a chunk has, so each
// chunk, when it begins to run, makes the next; and the end of a goroutine by Goexit
// takes one that has never run, see coro.Leave.
func (p *Pool) make() *Chunk {
	c := &Chunk{pool: p}
	c.member = p.host.NewMember(c)
	c.coro = c.member.Coro()
	c.coro.Init(c.body)
	p.alive++
	return c
}

// takeNew takes a chunk out of the pool or makes one if none of the class is idle. It
// returns nil if a limit does not let it.
func (p *Pool) takeNew(class int) *Chunk {
	if !p.reserve(class) {
		for k := class + 1; k < classes; k++ {
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
	c.size = sizeOf(class)
	c.room = roomOf(class)
	c.least = uintptr(c.size - overhead)
	c.most = uintptr(c.size)
	k := &p.counts.class[class]
	c.counts = k
	k.made++
	// As none of the class was idle, all are in use; there are never more until the next is made.
	k.peak = max(k.peak, k.links-k.unlinks+1)
	return c
}

// reserve takes the size of a chunk from the limits.
func (p *Pool) reserve(class int) bool {
	size := sizeOf(class)
	if p.bytes+size > Bytes(settings.loop.Load()) {
		return false
	}
	if settings.used.Add(int64(size)) > int64(settings.process.Load()) {
		settings.used.Add(-int64(size))
		return false
	}
	p.bytes += size
	return true
}

// release gives the size of a chunk back.
func (p *Pool) release(class int) {
	p.bytes -= sizeOf(class)
	settings.used.Add(-int64(sizeOf(class)))
	p.counts.class[class].ended++
}

// evict ends idle chunks, all of them smaller, until there is room for one of the class.
func (p *Pool) evict(class int) bool {
	if p.bytes-p.idleBytes()+sizeOf(class) > Bytes(settings.loop.Load()) {
		return false
	}
	for k := class - 1; k >= 0; k-- {
		for c := p.idle[k]; c != nil; c = p.idle[k] {
			p.idle[k] = c.next
			from := p.host.Current()
			c.leaveTo = from
			coro.Switch(&from.Party, &c.coro.Party)
			if p.reserve(class) {
				return true
			}
		}
	}
	return false
}

// idleBytes is the size of the chunks that are not linked.
func (p *Pool) idleBytes() Bytes { return p.bytes - Bytes(p.counts.inUse) }

// pools are those of all loops.
var pools = struct {
	mu    sync.Mutex
	all   map[*Pool]bool // guarded by mu
	ended poolCounts     // guarded by mu: of those closed
}{all: map[*Pool]bool{}}

// poolCounts consists of words only, so that it can be read while the loop runs.
type poolCounts struct {
	class       [classes]classCounts
	inPlace     uint64
	inUse, peak uint64 // bytes
}

type classCounts struct {
	unlinks            uint64 // before links, so that a reader meanwhile finds no more of them
	links              uint64
	peak               uint64 // in use at a time
	made, ended        uint64
	grown, regrown     uint64
	internal, external uint64
}

const poolWords = unsafe.Sizeof(poolCounts{}) / 8

// add adds b to a, word by word.
func (a *poolCounts) add(b *poolCounts) {
	to, from := (*[poolWords]uint64)(unsafe.Pointer(a)), (*[poolWords]uint64)(unsafe.Pointer(b))
	for i := range to {
		to[i] += from[i]
	}
}

// readCounts adds up the counts of all pools.
func readCounts() poolCounts {
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
