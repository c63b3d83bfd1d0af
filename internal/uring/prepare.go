//go:build linux && !giouring

package uring

import (
	"syscall"
	"unsafe"
)

// The Prepare methods fill in an entry for the operation of that name; each clears what
// was in it, flags and user data too. Addresses are of memory on the heap that stays
// referenced until the completion (see the package comment).

func (entry *SubmissionQueueEntry) prepare(op uint8, fd int, addr uintptr, length uint32, offset uint64) {
	*entry = SubmissionQueueEntry{OpCode: op, Fd: int32(fd), Addr: uint64(addr), Len: length, Off: offset}
}

// target names the slot of registered files that receives a new descriptor.
func (entry *SubmissionQueueEntry) target(fileIndex uint32) {
	if fileIndex == FileIndexAlloc {
		fileIndex-- // the kernel adds one and knows the largest number as "any"
	}
	entry.SpliceFdIn = int32(fileIndex + 1)
}

// SetData64 sets what comes back in the completion. Driver.Track does it.
func (entry *SubmissionQueueEntry) SetData64(data uint64) { entry.UserData = data }

// SetFlags sets flags such as SqeIOLink, replacing those set before.
func (entry *SubmissionQueueEntry) SetFlags(flags uint32) { entry.Flags = uint8(flags) }

// PrepareNop does nothing, and completes.
func (entry *SubmissionQueueEntry) PrepareNop() { entry.prepare(OpNop, -1, 0, 0, 0) }

// PrepareRead is pread(2); offset ^0 reads at the file's own position.
func (entry *SubmissionQueueEntry) PrepareRead(fd int, buf uintptr, nbytes uint32, offset uint64) {
	entry.prepare(OpRead, fd, buf, nbytes, offset)
}

// PrepareReadFixed reads into a registered buffer, or a part of it.
func (entry *SubmissionQueueEntry) PrepareReadFixed(fd int, buf uintptr, nbytes uint32, offset uint64, bufIndex int) {
	entry.prepare(OpReadFixed, fd, buf, nbytes, offset)
	entry.BufIG = uint16(bufIndex)
}

// PrepareReadv is preadv(2).
func (entry *SubmissionQueueEntry) PrepareReadv(fd int, iovecs uintptr, nrVecs uint32, offset uint64) {
	entry.prepare(OpReadv, fd, iovecs, nrVecs, offset)
}

// PrepareReadv2 is preadv2(2).
func (entry *SubmissionQueueEntry) PrepareReadv2(fd int, iovecs uintptr, nrVecs uint32, offset uint64, flags int) {
	entry.PrepareReadv(fd, iovecs, nrVecs, offset)
	entry.OpcodeFlags = uint32(flags)
}

// PrepareWrite is pwrite(2); offset ^0 writes at the file's own position.
func (entry *SubmissionQueueEntry) PrepareWrite(fd int, buf uintptr, nbytes uint32, offset uint64) {
	entry.prepare(OpWrite, fd, buf, nbytes, offset)
}

// PrepareWriteFixed writes from a registered buffer, or a part of it.
func (entry *SubmissionQueueEntry) PrepareWriteFixed(fd int, vectors uintptr, length uint32, offset uint64, index int) {
	entry.prepare(OpWriteFixed, fd, vectors, length, offset)
	entry.BufIG = uint16(index)
}

// PrepareWritev is pwritev(2).
func (entry *SubmissionQueueEntry) PrepareWritev(fd int, iovecs uintptr, nrVecs uint32, offset uint64) {
	entry.prepare(OpWritev, fd, iovecs, nrVecs, offset)
}

// PrepareWritev2 is pwritev2(2).
func (entry *SubmissionQueueEntry) PrepareWritev2(fd int, iovecs uintptr, nrVecs uint32, offset uint64, flags int) {
	entry.PrepareWritev(fd, iovecs, nrVecs, offset)
	entry.OpcodeFlags = uint32(flags)
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

// PrepareRecvMsg is recvmsg(2).
func (entry *SubmissionQueueEntry) PrepareRecvMsg(fd int, msg *syscall.Msghdr, flags uint32) {
	entry.prepare(OpRecvmsg, fd, uintptr(unsafe.Pointer(msg)), 1, 0)
	entry.OpcodeFlags = flags
}

// PrepareRecvMsgMultishot is to PrepareRecvMsg what PrepareRecvMultishot is to PrepareRecv.
func (entry *SubmissionQueueEntry) PrepareRecvMsgMultishot(fd int, msg *syscall.Msghdr, flags uint32) {
	entry.PrepareRecvMsg(fd, msg, flags)
	entry.IoPrio |= RecvMultishot
}

// PrepareSend is send(2). With MSG_WAITALL the kernel goes on after a short send.
func (entry *SubmissionQueueEntry) PrepareSend(fd int, addr uintptr, length uint32, flags int) {
	entry.prepare(OpSend, fd, addr, length, 0)
	entry.OpcodeFlags = uint32(flags)
}

// PrepareSendMsg is sendmsg(2).
func (entry *SubmissionQueueEntry) PrepareSendMsg(fd int, msg *syscall.Msghdr, flags uint32) {
	entry.prepare(OpSendmsg, fd, uintptr(unsafe.Pointer(msg)), 1, 0)
	entry.OpcodeFlags = flags
}

// PrepareSendmsgZC is sendmsg(2) without a copy: after the completion, which has CQEFMore,
// comes one with CQEFNotif when the memory may be changed. Linux 6.1.
func (entry *SubmissionQueueEntry) PrepareSendmsgZC(fd int, msg *syscall.Msghdr, flags uint32) {
	entry.PrepareSendMsg(fd, msg, flags)
	entry.OpCode = OpSendMsgZC
}

// PrepareAccept is accept4(2). addr and addrLen are addresses, or 0.
func (entry *SubmissionQueueEntry) PrepareAccept(fd int, addr uintptr, addrLen uint64, flags uint32) {
	entry.prepare(OpAccept, fd, addr, 0, addrLen)
	entry.OpcodeFlags = flags
}

// PrepareAcceptDirect is PrepareAccept into a slot of the registered files.
func (entry *SubmissionQueueEntry) PrepareAcceptDirect(fd int, addr uintptr, addrLen uint64, flags uint32, fileIndex uint32) {
	entry.PrepareAccept(fd, addr, addrLen, flags)
	entry.target(fileIndex)
}

// PrepareMultishotAccept is an accept4(2) that completes for each connection. Linux 5.19.
func (entry *SubmissionQueueEntry) PrepareMultishotAccept(fd int, addr uintptr, addrLen uint64, flags int) {
	entry.PrepareAccept(fd, addr, addrLen, uint32(flags))
	entry.IoPrio |= AcceptMultishot
}

// PrepareMultishotAcceptDirect is PrepareMultishotAccept into free slots of the registered
// files.
func (entry *SubmissionQueueEntry) PrepareMultishotAcceptDirect(fd int, addr uintptr, addrLen uint64, flags int) {
	entry.PrepareMultishotAccept(fd, addr, addrLen, flags)
	entry.target(FileIndexAlloc)
}

// PrepareSocket is socket(2). Linux 5.19.
func (entry *SubmissionQueueEntry) PrepareSocket(domain, socketType, protocol int, flags uint32) {
	entry.prepare(OpSocket, domain, 0, uint32(protocol), uint64(socketType))
	entry.OpcodeFlags = flags
}

// PrepareShutdown is shutdown(2).
func (entry *SubmissionQueueEntry) PrepareShutdown(fd, how int) {
	entry.prepare(OpShutdown, fd, 0, uint32(how), 0)
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

// PreparePollRemove ends a poll.
func (entry *SubmissionQueueEntry) PreparePollRemove(userData uint64) {
	entry.prepare(OpPollRemove, -1, uintptr(userData), 0, 0)
}

// PreparePollUpdate changes a poll; flags says what of it.
func (entry *SubmissionQueueEntry) PreparePollUpdate(oldUserData, newUserData uint64, pollMask, flags uint32) {
	entry.prepare(OpPollRemove, -1, uintptr(oldUserData), flags, newUserData)
	entry.OpcodeFlags = pollMask
}

// PrepareCancel64 cancels the request with that user data; flags are those of AsyncCancel.
func (entry *SubmissionQueueEntry) PrepareCancel64(userData uint64, flags int) {
	entry.prepare(OpAsyncCancel, -1, uintptr(userData), 0, 0)
	entry.OpcodeFlags = uint32(flags)
}

// PrepareCancelFd cancels a request on that descriptor. Linux 5.19.
func (entry *SubmissionQueueEntry) PrepareCancelFd(fd int, flags uint32) {
	entry.prepare(OpAsyncCancel, fd, 0, 0, 0)
	entry.OpcodeFlags = flags | AsyncCancelFd
}

// PrepareClose is close(2).
func (entry *SubmissionQueueEntry) PrepareClose(fd int) { entry.prepare(OpClose, fd, 0, 0, 0) }

// PrepareCloseDirect frees a slot of the registered files.
func (entry *SubmissionQueueEntry) PrepareCloseDirect(fileIndex uint32) {
	entry.PrepareClose(0)
	entry.target(fileIndex)
}

// PrepareFsync is fsync(2), or fdatasync(2) with FsyncDatasync.
func (entry *SubmissionQueueEntry) PrepareFsync(fd int, flags uint32) {
	entry.prepare(OpFsync, fd, 0, 0, 0)
	entry.OpcodeFlags = flags
}

// PrepareSyncFileRange is sync_file_range(2).
func (entry *SubmissionQueueEntry) PrepareSyncFileRange(fd int, length uint32, offset uint64, flags int) {
	entry.prepare(OpSyncFileRange, fd, 0, length, offset)
	entry.OpcodeFlags = uint32(flags)
}

// PrepareFallocate is fallocate(2).
func (entry *SubmissionQueueEntry) PrepareFallocate(fd int, mode int, offset, length uint64) {
	entry.prepare(OpFallocate, fd, uintptr(length), uint32(mode), offset)
}

// PrepareFadvise is posix_fadvise(2).
func (entry *SubmissionQueueEntry) PrepareFadvise(fd int, offset uint64, length int, advise uint32) {
	entry.prepare(OpFadvise, fd, 0, uint32(length), offset)
	entry.OpcodeFlags = advise
}

// PrepareMadvise is madvise(2).
func (entry *SubmissionQueueEntry) PrepareMadvise(addr uintptr, length uint, advice int) {
	entry.prepare(OpMadvise, -1, addr, uint32(length), 0)
	entry.OpcodeFlags = uint32(advice)
}

// PrepareSplice is splice(2); an offset of -1 stands for the file's own position, and for
// a pipe.
func (entry *SubmissionQueueEntry) PrepareSplice(fdIn int, offIn int64, fdOut int, offOut int64, nbytes, spliceFlags uint32) {
	entry.prepare(OpSplice, fdOut, uintptr(offIn), nbytes, uint64(offOut))
	entry.SpliceFdIn = int32(fdIn)
	entry.OpcodeFlags = spliceFlags
}

// PrepareTee is tee(2).
func (entry *SubmissionQueueEntry) PrepareTee(fdIn, fdOut int, nbytes, spliceFlags uint32) {
	entry.prepare(OpTee, fdOut, 0, nbytes, 0)
	entry.SpliceFdIn = int32(fdIn)
	entry.OpcodeFlags = spliceFlags
}

// PrepareMsgRing puts a completion into the ring with descriptor fd: data becomes its
// UserData, length its Res. Linux 5.18.
func (entry *SubmissionQueueEntry) PrepareMsgRing(fd int, length uint32, data uint64, flags uint32) {
	entry.prepare(OpMsgRing, fd, 0, length, data)
	entry.OpcodeFlags = flags
}

// PrepareMsgRingCqeFlags is PrepareMsgRing with flags for the completion. Linux 6.3.
func (entry *SubmissionQueueEntry) PrepareMsgRingCqeFlags(fd int, length uint32, data uint64, flags, cqeFlags uint32) {
	entry.PrepareMsgRing(fd, length, data, flags|MsgRingFlagsPass)
	entry.SpliceFdIn = int32(cqeFlags)
}
