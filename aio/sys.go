//go:build linux

package aio

import (
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/kernel"
)

// rawMax is the largest transfer, in bytes, done without telling the Go scheduler.
// Below it the kernel copies for a few microseconds; above it the loop's processor
// could be missed.
const rawMax = 64 << 10

// maxTransfer is the most that one request asks for, in bytes: the kernel's own limit
// is 4 KiB less than 2 GiB.
const maxTransfer = 1 << 30

// maxAtOnce is how many bytes the loop copies before other tasks run; twice as many the first time.
const maxAtOnce = 1 << 20

// currentOffset is the offset that stands for the file's own position.
const currentOffset = -1

// A fault is what tests put in place of the kernel: it is told of a system call about
// to be made and how many bytes it would move, and returns how many it may, or an error
// with which it fails.
type fault func(op opcode, where via, fd int32, n int) (int, syscall.Errno)

// A via is the way that a system call takes.
type via uint8

const (
	viaLoop   via = iota // at once, never waiting
	viaRing              // io_uring
	viaThread            // on a thread of the pool, or the caller's own
)

var faults atomic.Pointer[fault]

// inject asks the tests or a simulation, if there are any.
func inject(op opcode, where via, fd int32, n int) (int, syscall.Errno) {
	if d := kernel.Disk; d != nil {
		if where == viaLoop {
			return d.Now(fd, op == opWrite, n)
		}
		return d.Wait(fd, op.String(), n)
	}
	if f := faults.Load(); f != nil {
		return (*f)(op, where, fd, n)
	}
	return n, 0
}

// now reads or writes at once (preadv2(2), pwritev2(2)): with flag RWF_NOWAIT as much as the page cache has or takes,
// EAGAIN if that is nothing; flag 0 is for files that are in memory only. It does not retry EINTR.
func now(op opcode, fd int32, p []byte, off int64, flag uintptr) (int, syscall.Errno) {
	n, e := inject(op, viaLoop, fd, len(p))
	if e != 0 {
		return 0, e
	}
	trap := uintptr(unix.SYS_PREADV2)
	if op == opWrite {
		trap = unix.SYS_PWRITEV2
		kernel.RaceWrite(p[:n])
	}
	v := unix.Iovec{Base: unsafe.SliceData(p), Len: uint64(n)}
	r, e := vectorNow(trap, fd, &v, off, flag)
	if e != 0 {
		return 0, e
	}
	if op == opRead {
		kernel.RaceRead(p[:r])
	}
	return r, 0
}

// atOnce is the part of p that may be moved before other tasks run.
func atOnce(p []byte) []byte { return p[:min(len(p), maxAtOnce)] }

// quick moves p by now, and lets others run after each maxAtOnce bytes. There is an error only if
// nothing was moved. The task may end in between, so what is to be undone then is deferred.
func quick(op opcode, fd int32, p []byte, off int64, flag uintptr) (n int, e syscall.Errno) {
	for {
		var k int
		part := atOnce(p[n:])
		k, e = now(op, fd, part, off, flag)
		if n += k; n == len(p) || k < len(part) {
			if n > 0 {
				e = 0
			}
			return n, e
		}
		if off != currentOffset {
			off += int64(k)
		}
		engine.Yield()
	}
}

// vectorNow needs no high half of the offset: both architectures have 64 bits. Without a flag that forbids it, it may
// wait: pages of a file in memory may be in the swap space.
func vectorNow(trap uintptr, fd int32, v *unix.Iovec, off int64, flag uintptr) (int, syscall.Errno) {
	var r uintptr
	var e syscall.Errno
	if kernel.Disk != nil {
		flag = 0 // it has said what is in memory
	}
	if v.Len <= rawMax && flag != 0 {
		r, _, e = syscall.RawSyscall6(trap, uintptr(fd), uintptr(unsafe.Pointer(v)), 1, uintptr(off), 0, flag)
	} else {
		r, _, e = syscall.Syscall6(trap, uintptr(fd), uintptr(unsafe.Pointer(v)), 1, uintptr(off), 0, flag)
	}
	return int(r), e
}

// sysClose does not retry: on Linux the descriptor is gone even after EINTR (close(2)). It
// tells the Go scheduler, as the last close of a file that was removed frees its blocks.
func sysClose(fd int32) syscall.Errno {
	_, _, e := syscall.Syscall(unix.SYS_CLOSE, uintptr(fd), 0, 0)
	return e
}
