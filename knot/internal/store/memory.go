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

// reserve maps memory for n bytes, which takes none until it is used.
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

// A spell is a row of blocks that nobody uses, on their way back to the system.
type spell struct{ block, blocks int }

// idle takes one such row out of use, of at most that many blocks, for the caller to give
// back when it does not hold mu. Their memory counts as given back from now on.
func (m *Memory) idle(most int) (s spell, ok bool) {
	for b := range m.free {
		bit := uint64(1) << (b % 64)
		usable := m.touched[b/64]&bit != 0 && m.free[b] == ^uint64(0) && s.blocks < most
		switch {
		case usable:
			if s.blocks == 0 {
				s.block = b
			}
			s.blocks++
			m.free[b] = 0
			m.touched[b/64] &^= bit
			m.blocks--
			m.left -= blockChunks
			m.resting += blockChunks
		case s.blocks > 0:
			return s, true
		}
	}
	return s, s.blocks > 0
}

// giveBack is called without mu.
func (m *Memory) giveBack(s spell) {
	unix.Madvise(m.Mem[s.block*BlockBytes:(s.block+s.blocks)*BlockBytes], unix.MADV_DONTNEED)
}

// rested makes s usable again.
func (m *Memory) rested(s spell) {
	for b := s.block; b < s.block+s.blocks; b++ {
		m.free[b] = ^uint64(0)
	}
	m.left += s.blocks * blockChunks
	m.resting -= s.blocks * blockChunks
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
