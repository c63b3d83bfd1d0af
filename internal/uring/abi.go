//go:build linux && !giouring

package uring

// The types and constants below are those of the kernel's header linux/io_uring.h.

// A SubmissionQueueEntry describes one request (struct io_uring_sqe). The Prepare methods
// fill it in; fields that have several meanings are named after the first.
type SubmissionQueueEntry struct {
	OpCode      uint8
	Flags       uint8  // SqeAsync and the like
	IoPrio      uint16 // also the flags of receive, send and accept
	Fd          int32
	Off         uint64 // also a second address
	Addr        uint64
	Len         uint32
	OpcodeFlags uint32
	UserData    uint64 // comes back in the completion
	BufIG       uint16 // index of a registered buffer, or group of provided ones
	Personality uint16
	SpliceFdIn  int32 // also a length
	Addr3       uint64
	_           uint64
}

// A CompletionQueueEvent says what has become of a request (struct io_uring_cqe).
type CompletionQueueEvent struct {
	UserData uint64
	Res      int32 // what the system call would return, or minus the errno
	Flags    uint32
}

// Flags of every entry.
const (
	SqeAsync          uint8 = 1 << 4 // do not try on the caller's thread first
	SqeBufferSelect   uint8 = 1 << 5 // take a buffer of group BufIG
	SqeCQESkipSuccess uint8 = 1 << 6 // no completion if it succeeds
)

// Flags of io_uring_setup(2).
const (
	SetupCQSize      uint32 = 1 << 3
	SetupClamp       uint32 = 1 << 4
	SetupSubmitAll   uint32 = 1 << 7
	SetupCoopTaskrun uint32 = 1 << 8
	SetupTaskrunFlag uint32 = 1 << 9
)

// Operations.
const (
	OpNop         uint8 = 0
	OpReadv       uint8 = 1
	OpFsync       uint8 = 3
	OpPollAdd     uint8 = 6
	OpTimeout     uint8 = 11
	OpAccept      uint8 = 13
	OpAsyncCancel uint8 = 14
	OpFallocate   uint8 = 17
	OpClose       uint8 = 19
	OpStatx       uint8 = 21
	OpRead        uint8 = 22
	OpWrite       uint8 = 23
	OpRecv        uint8 = 27
	OpOpenat2     uint8 = 28
	OpRenameat    uint8 = 35
	OpUnlinkat    uint8 = 36
	OpMkdirat     uint8 = 37
)

// Flags of polls.
const PollAddMulti uint32 = 1

// Flags of cancellations.
const (
	AsyncCancelAll uint32 = 1 << 0
	AsyncCancelAny uint32 = 1 << 2
)

// Flags of receive and send, in IoPrio.
const (
	RecvMultishot uint16 = 1 << 1
)

// AcceptMultishot makes one accept bring any number of connections; in IoPrio.
const AcceptMultishot uint16 = 1

// Flags of completions. From bit CQEBufferShift on there is the number of the buffer.
const (
	CQEFBuffer uint32 = 1 << 0
	CQEFMore   uint32 = 1 << 1

	CQEBufferShift uint32 = 16
)

// Flags that the kernel sets in the submission queue.
const (
	SQCQOverflow uint32 = 1 << 1
	SQTaskrun    uint32 = 1 << 2
)

// Flags of io_uring_enter(2).
const (
	EnterGetEvents uint32 = 1 << 0
	EnterExtArg    uint32 = 1 << 3
)

// Features that io_uring_setup(2) reports.
const (
	FeatSingleMMap   uint32 = 1 << 0
	FeatNoDrop       uint32 = 1 << 1
	FeatSubmitStable uint32 = 1 << 2
	FeatFastPoll     uint32 = 1 << 5
	FeatExtArg       uint32 = 1 << 8
)

// Operations of io_uring_register(2).
const (
	RegisterPbufRing   uint32 = 22
	UnregisterPbufRing uint32 = 23
)

// Params are the parameters and the answer of io_uring_setup(2).
type Params struct {
	sqEntries    uint32
	cqEntries    uint32
	flags        uint32
	sqThreadCPU  uint32
	sqThreadIdle uint32
	features     uint32
	wqFd         uint32
	_            [3]uint32
	sqOff        sqOffsets
	cqOff        cqOffsets
}

// sqOffsets says where things are in the mapping of the submission queue.
type sqOffsets struct {
	head, tail, ringMask, ringEntries, flags, dropped, array, _ uint32
	_                                                           uint64
}

// cqOffsets says where things are in the mapping of the completion queue.
type cqOffsets struct {
	head, tail, ringMask, ringEntries, overflow, cqes, flags, _ uint32
	_                                                           uint64
}

// Offsets for mmap(2) of a ring's descriptor.
const (
	mapSQ   = 0
	mapCQ   = 0x8000000
	mapSQEs = 0x10000000
)

// GetEventsArg is the argument of io_uring_enter(2) with EnterExtArg.
type GetEventsArg struct {
	sigMask   uint64
	sigMaskSz uint32
	_         uint32
	ts        uint64
}

// BufReg registers a ring of provided buffers.
type BufReg struct {
	RingAddr    uint64
	RingEntries uint32
	Bgid        uint16
	_           uint16
	_           [3]uint64
}

// BufAndRing is one buffer in such a ring. Tail counts only in the first.
type BufAndRing struct {
	Addr uint64
	Len  uint32
	Bid  uint16
	Tail uint16
}
