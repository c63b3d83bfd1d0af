package store

import (
	"fmt"
	"math/bits"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// ChunkBytes is the unit in which contents take memory.
	ChunkBytes = 1 << 10
	// blockChunks of them make a block, whose free chunks are the bits of a word.
	blockChunks = 64
	BlockBytes  = blockChunks * ChunkBytes
)

// Memory is where a shard keeps contents of files: outside the Go heap, whose
// collector would let it grow to twice its size. A content is in as few parts as there
// is room for, so nothing is lost between contents of different sizes. What is free is
// for the shard to know: freeing a content that is still being sent would have it
// overwritten. All fields are guarded by the shard's mu.
type Memory struct {
	Mem     []byte   // mapped, a whole number of blocks; nil: not mapped
	free    []uint64 // by block, a bit for each chunk that is free
	touched []uint64 // a bit for each block that has taken memory
	left    int      // free chunks
	resting int      // chunks that are being given back to the system: neither free nor used
	blocks  int      // touched ones
	next    int      // block in which the search begins
	closed  bool     // unmap when nothing is used
}

// FreePoison, if set by a test, sees memory that has become free.
var FreePoison func([]byte)

// reserve maps memory for so many bytes, which takes none until it is used.
func (m *Memory) reserve(bytes int64) error {
	if bytes <= 0 {
		return nil
	}
	blocks := int((bytes + BlockBytes - 1) / BlockBytes)
	mem, err := unix.Mmap(-1, 0, blocks*BlockBytes, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		return fmt.Errorf("knot: no address space for %d MB of cached files: %w", bytes>>20, err)
	}
	// A huge page would take 2 MiB for the first small file.
	unix.Madvise(mem, unix.MADV_NOHUGEPAGE)
	m.Mem, m.left = mem, blocks*blockChunks
	m.free, m.touched = make([]uint64, blocks), make([]uint64, (blocks+63)/64)
	for i := range m.free {
		m.free[i] = ^uint64(0)
	}
	return nil
}

// Used is how many bytes contents take.
func (m *Memory) Used() int64 {
	return int64(len(m.free)*blockChunks-m.left-m.resting) * ChunkBytes
}

// ChunksFor is how many chunks size bytes take.
func ChunksFor(size int64) int { return int((size + ChunkBytes - 1) / ChunkBytes) }

// take returns memory of size bytes, in parts; false if there is less.
func (m *Memory) take(size int64) ([][]byte, bool) {
	need := ChunksFor(size)
	if need > m.left {
		return nil, false
	}
	m.left -= need
	var parts [][]byte
	end := -1 // of the last part, in chunks
	for b := m.next; need > 0; b = (b + 1) % len(m.free) {
		for need > 0 && m.free[b] != 0 {
			at, n := m.run(b, need)
			need -= n
			first := b*blockChunks + at
			bytes := min(int64(n)*ChunkBytes, size)
			size -= bytes
			if first == end { // goes on where the part before ended
				last := &parts[len(parts)-1]
				*last = unsafe.Slice(unsafe.SliceData(*last), int64(len(*last))+bytes)
			} else {
				from := first * ChunkBytes
				parts = append(parts, m.Mem[from:from+int(bytes):from+n*ChunkBytes])
			}
			end = first + n
		}
		m.next = b
	}
	return parts, true
}

// run takes the first free chunks of block b that follow one another, at most n.
func (m *Memory) run(b, n int) (at, taken int) {
	word := m.free[b]
	at = bits.TrailingZeros64(word)
	taken = min(bits.TrailingZeros64(^(word >> at)), n)
	m.free[b] = word &^ (ones(taken) << at)
	if bit := uint64(1) << (b % 64); m.touched[b/64]&bit == 0 {
		m.touched[b/64] |= bit
		m.blocks++
	}
	return at, taken
}

// ones are n bits that are set.
func ones(n int) uint64 { return ^uint64(0) >> (64 - n) }

// put frees what take has returned.
func (m *Memory) put(parts [][]byte) {
	for _, p := range parts {
		if FreePoison != nil {
			FreePoison(p)
		}
		first, n := m.chunkOf(p), ChunksFor(int64(len(p)))
		m.left += n
		for n > 0 {
			at := first % blockChunks
			k := min(n, blockChunks-at)
			m.free[first/blockChunks] |= ones(k) << at
			first, n = first+k, n-k
		}
	}
	if m.closed {
		m.unmap()
	}
}

func (m *Memory) chunkOf(p []byte) int {
	return int(uintptr(unsafe.Pointer(unsafe.SliceData(p)))-uintptr(unsafe.Pointer(unsafe.SliceData(m.Mem)))) / ChunkBytes
}

// A blockRun is a row of unused blocks, on their way back to the system.
type blockRun struct{ block, blocks int }

// idle takes one such row out of use, of at most that many blocks, for the caller to give
// back when it does not hold mu. Their memory counts as given back from now on.
func (m *Memory) idle(most int) (run blockRun, ok bool) {
	for b := range m.free {
		bit := uint64(1) << (b % 64)
		usable := m.touched[b/64]&bit != 0 && m.free[b] == ^uint64(0) && run.blocks < most
		switch {
		case usable:
			if run.blocks == 0 {
				run.block = b
			}
			run.blocks++
			m.free[b] = 0
			m.touched[b/64] &^= bit
			m.blocks--
			m.left -= blockChunks
			m.resting += blockChunks
		case run.blocks > 0:
			return run, true
		}
	}
	return run, run.blocks > 0
}

// giveBack is called without mu.
func (m *Memory) giveBack(run blockRun) {
	unix.Madvise(m.Mem[run.block*BlockBytes:(run.block+run.blocks)*BlockBytes], unix.MADV_DONTNEED)
}

// rested makes run usable again.
func (m *Memory) rested(run blockRun) {
	for b := run.block; b < run.block+run.blocks; b++ {
		m.free[b] = ^uint64(0)
	}
	m.left += run.blocks * blockChunks
	m.resting -= run.blocks * blockChunks
	if m.closed {
		m.unmap()
	}
}

// close unmaps the memory when nothing of it is used any more.
func (m *Memory) close() {
	m.closed = true
	m.unmap()
}

func (m *Memory) unmap() {
	if m.Mem == nil || m.left < len(m.free)*blockChunks {
		return
	}
	unix.Munmap(m.Mem)
	m.Mem, m.free, m.touched, m.left, m.blocks = nil, nil, nil, 0, 0
}

// entryBytes is what an entry takes besides its header lines, path and content: itself, its
// place in the map, what the allocator adds.
const entryBytes = 384

// evictTries is how many entries in use are passed over in search of one that is not.
const evictTries = 64

// Overhead is what an entry with a content takes on the Go heap, twice, because the
// collector lets that grow to twice what is in use.
func (e *Entry) Overhead() int64 { return 2 * int64(entryBytes+cap(e.Lines)+len(e.Key)+len(e.name)) }

// charged is what is charged to the shard for e.
func (e *Entry) charged() int64 { return int64(ChunksFor(e.Length))*ChunkBytes + e.Overhead() }

// fits reports whether there would be room for the content of e if there was nothing else.
func (s *shard) fits(e *Entry) bool { return e.charged() <= s.Most }

// reserve gives e memory for the content of its file, at the cost of what has not been
// used for longest; hash is that of its path. It refuses a file that is asked for the
// first time when others would have to go for it, so that files that are asked for once,
// by a robot, say, don't drive out files that are asked for often.
func (s *shard) reserve(e *Entry, hash uint64) bool {
	var out *Entry
	defer func() { releaseAll(out) }()
	if !s.fits(e) {
		return false
	}
	size := e.charged()
	s.Mu.Lock()
	defer s.Mu.Unlock()
	if s.Bytes+size > s.Most && !s.known(hash) {
		s.stats.Refused++
		return false
	}
	freed, tries := int64(0), 0
	for old := s.Held.Last; s.Bytes+size-freed > s.Most; {
		if old == nil || tries == evictTries {
			break
		}
		prev := old.Prev
		if old.users.Load() == 1 { // only the cache itself, and no other user comes while mu is held
			freed += old.size
			s.stats.Evictions++
			out = s.evict(old, out)
		} else {
			tries++
		}
		old = prev
	}
	for old := out; old != nil; old = old.Next {
		s.discharge(old) // not only at its release, in a moment
	}
	if s.Bytes+size > s.Most {
		return false
	}
	var ok bool
	if e.Parts, ok = s.Memory.take(e.Length); !ok {
		return false
	}
	e.size = size
	s.charge(size)
	s.trim()
	return true
}

// welcome reports whether reserve would find room for about that many bytes, and notes that the path
// was asked for.
func (s *shard) welcome(size int64, hash uint64) bool {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	return s.Bytes+size <= s.Most || size <= s.Most && s.known(hash)
}

// trim gives memory back to the system that entries of another kind need now: larger
// ones take less on the heap. Caller holds mu, which is let go meanwhile.
func (s *shard) trim() {
	m := &s.Memory
	excess := s.Bytes + int64(m.blocks)*BlockBytes - m.Used() - s.Most
	if excess < BlockBytes {
		return
	}
	if part, ok := m.idle(int(excess / BlockBytes)); ok {
		s.Mu.Unlock()
		m.giveBack(part)
		s.Mu.Lock()
		m.rested(part)
	}
}

// charge needs mu.
func (s *shard) charge(n int64) {
	s.Bytes += n
	if n < 0 {
		contents.Release(-n)
	} else {
		contents.Acquire(n)
	}
}

// discharge takes its memory from e, which no response uses. Caller holds mu.
func (s *shard) discharge(e *Entry) {
	s.Bytes -= e.size
	contents.Release(e.size)
	s.Memory.put(e.Parts)
	e.size, e.Parts = 0, nil
}

// known reports whether the path with this hash was asked for before, not too long ago, and
// notes it. Caller holds mu.
func (s *shard) known(hash uint64) bool {
	if len(s.Seen) == 0 { // a test: everything is welcome
		return true
	}
	at := &s.Seen[hash>>8&uint64(len(s.Seen)-1)]
	mark := uint32(hash>>32) | 1
	was := *at == mark
	*at = mark
	return was
}

// giveBack is discharge for a caller that does not hold mu.
func (e *Entry) giveBack() {
	e.Shard.Mu.Lock()
	e.Shard.discharge(e)
	e.Shard.Mu.Unlock()
}
