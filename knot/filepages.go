package knot

import (
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// entryPages tells SendFile what of an open file is in memory.
type entryPages struct {
	x *Ctx
	e *entry
}

// ReadAt implements io.ReaderAt as far as SendFile needs it.
func (p *entryPages) ReadAt(b []byte, off int64) (int, error) { return p.e.readAt(b, off) }

// Resident implements netpoll.Pages. SendFile asks before each piece that it sends, so
// this is also where the time that the client has for it begins.
func (p *entryPages) Resident(off, n int64) int64 {
	p.x.c.armWrite(p.x.srv.limits.write)
	return resident(p.e.fd, off, n)
}

// Prefetch implements netpoll.Pages.
func (p *entryPages) Prefetch(off, n int64) error { return p.e.slow().Prefetch(off, n) }

const (
	// aheadPiece is what one task reads ahead, in bytes. Package aio makes one read of
	// those that begin together.
	aheadPiece = 64 << 10
	// aheadMost is how many such tasks there are at a time, in the whole process.
	aheadMost = 128
)

var aheads atomic.Int32

// Ahead begins to read n bytes from off on, or less if much is being read already. The
// tasks need not be users of the entry: if it is released, their file is closed.
func (p *entryPages) Ahead(off, n int64) {
	file := p.e.slow()
	for end := off + n; off < end; off += aheadPiece {
		from, size := off, min(end-off, aheadPiece) // the task's own: off goes on
		if aheads.Add(1) > aheadMost {
			aheads.Add(-1)
			return
		}
		spawnApart(func() {
			defer aheads.Add(-1)
			file.Prefetch(from, size)
		})
	}
}

const (
	sysCachestat = 451 // Linux 6.5, the same number on all architectures
	pageSize     = 4 << 10
	// residentMin is the least that is looked for in one piece.
	residentMin = 32 << 10
)

type cachestatRange struct{ off, length uint64 }

type cachestatResult struct {
	cached, dirty, writeback, evicted, recentlyEvicted uint64
}

// resident returns how many bytes of fd from off on, at most n, can be sent without
// waiting for a disk; -1 if the kernel does not tell: it lacks the call, or tells only
// those who own the file or may write to it.
func resident(fd int, off, n int64) int64 {
	for {
		missing, e := missingPages(fd, off, n)
		switch {
		case e != 0:
			return -1
		case missing:
		// Pages that are only just being read count too, but can't be had.
		case byteReady(fd, off+n-1) && byteReady(fd, off):
			return n
		}
		if n <= residentMin {
			return 0
		}
		n = max(n/2, residentMin)
	}
}

func missingPages(fd int, off, n int64) (bool, syscall.Errno) {
	first, last := off/pageSize, (off+n-1)/pageSize
	at := cachestatRange{uint64(off), uint64(n)}
	var got cachestatResult
	_, _, e := unix.RawSyscall6(sysCachestat, uintptr(fd), uintptr(unsafe.Pointer(&at)),
		uintptr(unsafe.Pointer(&got)), 0, 0, 0)
	return got.cached < uint64(last-first+1), e
}

// byteReady says whether the byte at off can be read without waiting.
func byteReady(fd int, off int64) bool {
	var b [1]byte
	n, err := preadNoWait(fd, b[:], off)
	return n > 0 && err == nil
}
