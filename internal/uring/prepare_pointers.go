//go:build linux

package uring

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// The functions below are not methods because giouring's methods of those names take the
// address of a slice, interface or pointer instead of what it holds. They fill in an entry
// that Driver.Entry has cleared. Paths end with a zero byte. What the pointers lead to
// stays referenced by the Completer.

func fill(e *SubmissionQueueEntry, op uint8, fd int, addr unsafe.Pointer, length uint32, off unsafe.Pointer, flags uint32) {
	*e = SubmissionQueueEntry{OpCode: op, Fd: int32(fd), Addr: uint64(uintptr(addr)), Len: length,
		Off: uint64(uintptr(off)), OpcodeFlags: flags}
}

// PrepareConnect is connect(2).
func PrepareConnect(e *SubmissionQueueEntry, fd int, addr *unix.RawSockaddrAny, length uint32) {
	fill(e, OpConnect, fd, unsafe.Pointer(addr), 0, nil, 0)
	e.Off = uint64(length)
}

// PrepareSendZC is send(2) without a copy: after the completion, which has CQEFMore, comes
// one with CQEFNotif when the memory may be changed. Linux 6.0.
func PrepareSendZC(e *SubmissionQueueEntry, fd int, buf *byte, length uint32, flags int, zcFlags uint16) {
	fill(e, OpSendZC, fd, unsafe.Pointer(buf), length, nil, uint32(flags))
	e.IoPrio = zcFlags
}

// PrepareOpenat2 is openat2(2). What the kernel finds in its cache is opened on the spot.
func PrepareOpenat2(e *SubmissionQueueEntry, dfd int, path *byte, how *unix.OpenHow) {
	fill(e, OpOpenat2, dfd, unsafe.Pointer(path), uint32(unsafe.Sizeof(*how)), unsafe.Pointer(how), 0)
}

// PrepareStatx is statx(2).
func PrepareStatx(e *SubmissionQueueEntry, dfd int, path *byte, flags int, mask uint32, stat *unix.Statx_t) {
	fill(e, OpStatx, dfd, unsafe.Pointer(path), mask, unsafe.Pointer(stat), uint32(flags))
}

// PrepareMkdirat is mkdirat(2).
func PrepareMkdirat(e *SubmissionQueueEntry, dfd int, path *byte, mode uint32) {
	fill(e, OpMkdirat, dfd, unsafe.Pointer(path), mode, nil, 0)
}

// PrepareUnlinkat is unlinkat(2).
func PrepareUnlinkat(e *SubmissionQueueEntry, dfd int, path *byte, flags int) {
	fill(e, OpUnlinkat, dfd, unsafe.Pointer(path), 0, nil, uint32(flags))
}

// PrepareRenameat is renameat2(2).
func PrepareRenameat(e *SubmissionQueueEntry, oldFd int, oldPath *byte, newFd int, newPath *byte, flags uint32) {
	fill(e, OpRenameat, oldFd, unsafe.Pointer(oldPath), uint32(newFd), unsafe.Pointer(newPath), flags)
}

// PrepareLinkat is linkat(2).
func PrepareLinkat(e *SubmissionQueueEntry, oldFd int, oldPath *byte, newFd int, newPath *byte, flags int) {
	fill(e, OpLinkat, oldFd, unsafe.Pointer(oldPath), uint32(newFd), unsafe.Pointer(newPath), uint32(flags))
}

// PrepareSymlinkat is symlinkat(2).
func PrepareSymlinkat(e *SubmissionQueueEntry, target *byte, dfd int, path *byte) {
	fill(e, OpSymlinkat, dfd, unsafe.Pointer(target), 0, unsafe.Pointer(path), 0)
}

// PrepareFtruncate is ftruncate(2). Linux 6.9.
func PrepareFtruncate(e *SubmissionQueueEntry, fd int, size int64) {
	fill(e, OpFtruncate, fd, nil, 0, nil, 0)
	e.Off = uint64(size)
}

// PrepareTimeout completes with ETIME after ts, or with 0 after count completions if that
// is not 0. flags are those of Timeout.
func PrepareTimeout(e *SubmissionQueueEntry, ts *unix.Timespec, count, flags uint32) {
	fill(e, OpTimeout, -1, unsafe.Pointer(ts), 1, nil, flags)
	e.Off = uint64(count)
}

// PrepareLinkTimeout cancels the entry before it, which has SqeIOLink, after ts.
func PrepareLinkTimeout(e *SubmissionQueueEntry, ts *unix.Timespec, flags uint32) {
	fill(e, OpLinkTimeout, -1, unsafe.Pointer(ts), 1, nil, flags)
}
