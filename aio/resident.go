//go:build linux

package aio

import (
	"math"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// pageSize is that of the page cache's accounts, in bytes: 4 KiB, or, on some kernels of arm64, 16 or 64.
var pageSize = int64(unix.Getpagesize())

// noCachestat is set once the kernel turns out to lack cachestat(2) (before 6.5).
var noCachestat atomic.Bool

// Resident returns how many of the n bytes from offset off on can be read without waiting for the disk: how far the
// page cache has them without a gap, as far as can be told without reading them (cachestat(2), and a look at some
// pages). It may be too much if memory is short, or if the disk is slower with some pages than with those behind them.
// Bytes beyond the end of the file do not count. If the kernel does not tell, because it is older than 6.5 or we
// neither own the file nor may write to it, some pages of a mebibyte at most are tried. It never parks. The result is 0
// if f is closed.
func (f *File) Resident(off, n int64) int64 {
	if _, ok := f.enter(); !ok || off < 0 || n <= 0 {
		if ok {
			f.exit()
		}
		return 0
	}
	defer f.exit()
	n = min(n, math.MaxInt64-off)
	if f.traits.Load()&traitMemory != 0 {
		return max(f.clamp(off, n), 0)
	}
	var probe [1]byte
	have, told := f.cachedPrefix(off, n)
	if !told {
		return f.sampled(off, n)
	}
	if have <= 0 {
		return 0
	}
	// A page counts as soon as there is a place for it. Whether it has been read shows
	// when one tries; the last tells of those before it, which the disk was asked for
	// earlier.
	if f.readable(probe[:], off+have-1) && f.readable(probe[:], off) {
		return have
	}
	if have = f.clamp(off, have); have <= 0 || f.readable(probe[:], off+have-1) {
		return max(have, 0)
	}
	return f.sampled(off, have)
}

// clamp is how many of n bytes from off on are before the end of the file.
func (f *File) clamp(off, n int64) int64 {
	st := statBuffers.Get().(*unix.Statx_t)
	defer statBuffers.Put(st)
	_, _, e := syscall.RawSyscall6(unix.SYS_STATX, uintptr(f.fd), uintptr(unsafe.Pointer(&noPath)),
		unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, unix.STATX_SIZE, uintptr(unsafe.Pointer(st)), 0)
	if e != 0 {
		return n
	}
	return min(n, int64(st.Size)-off)
}

// readable reports whether the byte at offset off can be read without waiting.
func (f *File) readable(probe []byte, off int64) bool {
	n, e := now(opRead, f.fd, probe, off, unix.RWF_NOWAIT)
	return n == 1 && e == 0
}

// cachedPrefix is how many of the n bytes from off on have a page in the cache, before
// the first that has none; told is false if the kernel does not tell.
func (f *File) cachedPrefix(off, n int64) (have int64, told bool) {
	if noCachestat.Load() {
		return 0, false
	}
	first, last := off/pageSize, (off+n-1)/pageSize
	low, high := first, last+1 // before low all have, and if not all before high have, the gap is there
	for low < high {
		middle := (low + high) / 2
		if low == first && high == last+1 {
			middle = last // the common case: everything
		}
		pages, e := f.cachedPages(low, middle+1-low)
		if e != 0 { // EPERM: the file is another user's, see cachestat(2)
			if e == unix.ENOSYS {
				noCachestat.Store(true)
			}
			return 0, false
		}
		if pages == middle+1-low {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return min(max(low*pageSize-off, 0), n), true
}

// sampleStep is the distance of the pages that sampled tries, in bytes. A try takes half
// a microsecond, in which a processor copies 16 KiB.
var sampleStep = max(16<<10, pageSize)

// sampleMost bounds what sampled looks at, in bytes.
const sampleMost = 1 << 20

// sampled is Resident by trying to read some of the pages. What lies between two that are
// in memory was mostly read together with them, and goes together with them.
func (f *File) sampled(off, n int64) int64 {
	var probe [1]byte
	n = min(n, sampleMost)
	if !f.readable(probe[:], off+n-1) {
		n = f.clamp(off, n)
	}
	last := off + n - 1
	for at, sure := off, off; n > 0; at = min(at+sampleStep, last) {
		if !f.readable(probe[:], at) {
			return sure - off
		}
		if at == last {
			break
		}
		sure = (at/pageSize + 1) * pageSize
	}
	return max(n, 0)
}

// cachedPages counts the pages in the cache, of n from the first on.
func (f *File) cachedPages(first, n int64) (int64, syscall.Errno) {
	span := [2]uint64{uint64(first * pageSize), uint64(n * pageSize)}
	var stat [5]uint64 // cached, dirty, under write-back, evicted, recently evicted
	_, _, e := syscall.RawSyscall6(unix.SYS_CACHESTAT, uintptr(f.fd), uintptr(unsafe.Pointer(&span)), uintptr(unsafe.Pointer(&stat)), 0, 0, 0)
	return int64(stat[0]), e
}

// Prefetch reads the n bytes from offset off on, or as many as there are, into the page
// cache, and returns when they are there. It parks.
func (f *File) Prefetch(off, n int64) error {
	if _, ok := f.enter(); !ok {
		return f.fail("read", errClosed)
	}
	defer f.exit()
	if off < 0 {
		return f.fail("read", errNegativeOffset)
	}
	sink := copyBuffers.Get().(*[copySize]byte)
	defer copyBuffers.Put(sink)
	for done := f.fetch(sink[:1], off, n); done < n; {
		k, err := f.readSome(sink[:min(n-done, copySize)], off+done, false)
		if err != nil {
			return f.fail("read", err)
		}
		if k == 0 {
			break
		}
		done += int64(k)
	}
	return nil
}

// fetch is Prefetch by advice, and returns how many of the n bytes need no reading any more, as far as the kernel
// tells. Pages that were read here and then sent the kernel would take for pages in use, and drop others for them (ADR
// 0018).
func (f *File) fetch(last []byte, off, n int64) int64 {
	want := f.clamp(off, n)
	if want <= 0 || want > maxTransfer || f.direct || noCachestat.Load() {
		return 0
	}
	r := f.newTransfer(opFetch, last, off)
	r.n = int(want)
	if _, err := r.perform(); err != nil {
		return 0
	}
	if have, _ := f.cachedPrefix(off, want); have < want {
		return have
	}
	return n
}

// SyscallConn implements syscall.Conn. The functions given to it must not park, and must
// not wait for the disk.
func (f *File) SyscallConn() (syscall.RawConn, error) {
	if f.life.Load()&lifeClosed != 0 {
		return nil, f.fail("raw", errClosed)
	}
	return rawFile{f}, nil
}

// A rawFile is what SyscallConn returns.
type rawFile struct{ f *File }

// Control implements syscall.RawConn.
func (r rawFile) Control(do func(fd uintptr)) error {
	if _, ok := r.f.enter(); !ok {
		return r.f.fail("raw-control", errClosed)
	}
	defer r.f.exit()
	do(uintptr(r.f.fd))
	return nil
}

// Read implements syscall.RawConn. Nothing says when a file is worth another attempt, so
// there is only one.
func (r rawFile) Read(do func(fd uintptr) bool) error { return r.once("raw-read", do) }

// Write implements syscall.RawConn; see Read.
func (r rawFile) Write(do func(fd uintptr) bool) error { return r.once("raw-write", do) }

func (r rawFile) once(op string, do func(fd uintptr) bool) error {
	done := false
	if err := r.Control(func(fd uintptr) { done = do(fd) }); err != nil {
		return r.f.fail(op, errClosed)
	}
	if !done {
		return r.f.fail(op, unix.EAGAIN)
	}
	return nil
}
