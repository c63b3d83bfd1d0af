//go:build linux

package uring

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// PrepareTimeout completes with ETIME after ts, or with 0 after count completions if that
// is not 0. flags are those of Timeout. The Completer keeps a reference to ts. It is no method
// because giouring's of that name takes the address of the pointer.
func PrepareTimeout(e *SubmissionQueueEntry, ts *unix.Timespec, count, flags uint32) {
	*e = SubmissionQueueEntry{OpCode: OpTimeout, Fd: -1, Addr: uint64(uintptr(unsafe.Pointer(ts))), Len: 1,
		Off: uint64(count), OpcodeFlags: flags}
}
