//go:build linux && !giouring

package uring

// The Prepare methods fill in an entry for the operation of that name; each clears what
// was in it, flags and user data too. Addresses are of memory on the heap that stays
// referenced until the completion (see the package comment).

func (entry *SubmissionQueueEntry) prepare(op uint8, fd int, addr uintptr, length uint32, offset uint64) {
	*entry = SubmissionQueueEntry{OpCode: op, Fd: int32(fd), Addr: uint64(addr), Len: length, Off: offset}
}

// SetFlags sets flags such as SqeAsync, replacing those set before.
func (entry *SubmissionQueueEntry) SetFlags(flags uint32) { entry.Flags = uint8(flags) }

// PrepareNop does nothing, and completes.
func (entry *SubmissionQueueEntry) PrepareNop() { entry.prepare(OpNop, -1, 0, 0, 0) }

// PrepareRead is pread(2); offset ^0 reads at the file's own position.
func (entry *SubmissionQueueEntry) PrepareRead(fd int, buf uintptr, nbytes uint32, offset uint64) {
	entry.prepare(OpRead, fd, buf, nbytes, offset)
}

// PrepareWrite is pwrite(2); offset ^0 writes at the file's own position.
func (entry *SubmissionQueueEntry) PrepareWrite(fd int, buf uintptr, nbytes uint32, offset uint64) {
	entry.prepare(OpWrite, fd, buf, nbytes, offset)
}

// PrepareRecv is recv(2).
func (entry *SubmissionQueueEntry) PrepareRecv(fd int, buf uintptr, length uint32, flags int) {
	entry.prepare(OpRecv, fd, buf, length, 0)
	entry.OpcodeFlags = uint32(flags)
}

// PrepareRecvMultishot is a recv(2) that completes again and again, each time with a
// provided buffer: set SqeBufferSelect and BufIG as well. Linux 6.0.
func (entry *SubmissionQueueEntry) PrepareRecvMultishot(fd int, addr uintptr, length uint32, flags int) {
	entry.PrepareRecv(fd, addr, length, flags)
	entry.IoPrio |= RecvMultishot
}

// PrepareAccept is accept4(2). addr and addrLen are addresses, or 0.
func (entry *SubmissionQueueEntry) PrepareAccept(fd int, addr uintptr, addrLen uint64, flags uint32) {
	entry.prepare(OpAccept, fd, addr, 0, addrLen)
	entry.OpcodeFlags = flags
}

// PrepareMultishotAccept is an accept4(2) that completes for each connection. Linux 5.19.
func (entry *SubmissionQueueEntry) PrepareMultishotAccept(fd int, addr uintptr, addrLen uint64, flags int) {
	entry.PrepareAccept(fd, addr, addrLen, uint32(flags))
	entry.IoPrio |= AcceptMultishot
}

// PreparePollAdd completes when poll(2) would report one of the events, with the events.
func (entry *SubmissionQueueEntry) PreparePollAdd(fd int, pollMask uint32) {
	entry.prepare(OpPollAdd, fd, 0, 0, 0)
	entry.OpcodeFlags = pollMask
}

// PreparePollMultishot is PreparePollAdd that completes each time. Linux 5.13.
func (entry *SubmissionQueueEntry) PreparePollMultishot(fd int, pollMask uint32) {
	entry.PreparePollAdd(fd, pollMask)
	entry.Len = PollAddMulti
}

// PrepareCancel64 cancels the request with that user data; flags are AsyncCancelAll and so on.
func (entry *SubmissionQueueEntry) PrepareCancel64(userData uint64, flags int) {
	entry.prepare(OpAsyncCancel, -1, uintptr(userData), 0, 0)
	entry.OpcodeFlags = uint32(flags)
}
