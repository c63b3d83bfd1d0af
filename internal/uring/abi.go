//go:build linux && !giouring

package uring

// The types and constants below are those of the kernel's header linux/io_uring.h.

// A SubmissionQueueEntry describes one request (struct io_uring_sqe). The Prepare methods
// fill it in; fields that have several meanings are named after the first.
type SubmissionQueueEntry struct {
	OpCode      uint8
	Flags       uint8  // SqeIOLink and the like
	IoPrio      uint16 // also the flags of receive, send and accept
	Fd          int32
	Off         uint64 // also a second address
	Addr        uint64
	Len         uint32
	OpcodeFlags uint32
	UserData    uint64 // comes back in the completion
	BufIG       uint16 // index of a registered buffer, or group of provided ones
	Personality uint16
	SpliceFdIn  int32 // also the slot in the table of registered files, plus one
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
	SqeFixedFile      uint8 = 1 << iota // Fd is a slot in the table of registered files
	SqeIODrain                          // begin when all before it have completed
	SqeIOLink                           // the next begins when this one has succeeded
	SqeIOHardlink                       // the next begins when this one has completed
	SqeAsync                            // do not try on the caller's thread first
	SqeBufferSelect                     // take a buffer of group BufIG
	SqeCQESkipSuccess                   // no completion if it succeeds
)

// FileIndexAlloc asks for any free slot in the table of registered files.
const FileIndexAlloc uint32 = 1<<32 - 1

// Flags of io_uring_setup(2).
const (
	SetupIOPoll uint32 = 1 << iota
	SetupSQPoll
	SetupSQAff
	SetupCQSize
	SetupClamp
	SetupAttachWQ
	SetupRDisabled
	SetupSubmitAll
	SetupCoopTaskrun
	SetupTaskrunFlag
	SetupSQE128
	SetupCQE32
	SetupSingleIssuer
	SetupDeferTaskrun
)

// Operations.
const (
	OpNop uint8 = iota
	OpReadv
	OpWritev
	OpFsync
	OpReadFixed
	OpWriteFixed
	OpPollAdd
	OpPollRemove
	OpSyncFileRange
	OpSendmsg
	OpRecvmsg
	OpTimeout
	OpTimeoutRemove
	OpAccept
	OpAsyncCancel
	OpLinkTimeout
	OpConnect
	OpFallocate
	OpOpenat
	OpClose
	OpFilesUpdate
	OpStatx
	OpRead
	OpWrite
	OpFadvise
	OpMadvise
	OpSend
	OpRecv
	OpOpenat2
	OpEpollCtl
	OpSplice
	OpProvideBuffers
	OpRemoveBuffers
	OpTee
	OpShutdown
	OpRenameat
	OpUnlinkat
	OpMkdirat
	OpSymlinkat
	OpLinkat
	OpMsgRing
	OpFsetxattr
	OpSetxattr
	OpFgetxattr
	OpGetxattr
	OpSocket
	OpUringCmd
	OpSendZC
	OpSendMsgZC
)

// Flags of polls.
const (
	PollAddMulti uint32 = 1 << iota
	PollUpdateEvents
	PollUpdateUserData
	PollAddLevel
)

// Flags of cancellations.
const (
	AsyncCancelAll uint32 = 1 << iota
	AsyncCancelFd
	AsyncCancelAny
	AsyncCancelFdFixed
)

// Flags of receive and send, in IoPrio.
const (
	RecvsendPollFirst uint16 = 1 << iota
	RecvMultishot
	RecvsendFixedBuf
	SendZCReportUsage
)

// AcceptMultishot makes one accept bring any number of connections; in IoPrio.
const AcceptMultishot uint16 = 1

// Flags of completions. From bit CQEBufferShift on there is the number of the buffer.
const (
	CQEFBuffer uint32 = 1 << iota
	CQEFMore
	CQEFSockNonempty
	CQEFNotif

	CQEBufferShift uint32 = 16
)

// Flags that the kernel sets in the submission queue.
const (
	SQNeedWakeup uint32 = 1 << iota
	SQCQOverflow
	SQTaskrun
)

// Flags of io_uring_enter(2).
const (
	EnterGetEvents uint32 = 1 << iota
	EnterSQWakeup
	EnterSQWait
	EnterExtArg
	EnterRegisteredRing
)

// Features that io_uring_setup(2) reports.
const (
	FeatSingleMMap uint32 = 1 << iota
	FeatNoDrop
	FeatSubmitStable
	FeatRWCurPos
	FeatCurPersonality
	FeatFastPoll
	FeatPoll32Bits
	FeatSQPollNonfixed
	FeatExtArg
	FeatNativeWorkers
	FeatRcrcTags
	FeatCQESkip
	FeatLinkedFile
	FeatRegRegRing
)

// Operations of io_uring_register(2).
const (
	RegisterFiles       uint32 = 2
	UnregisterFiles     uint32 = 3
	RegisterFilesUpdate uint32 = 6
	RegisterProbe       uint32 = 8
	RegisterEnableRings uint32 = 12
	RegisterRingFDs     uint32 = 20
	UnregisterRingFDs   uint32 = 21
	RegisterPbufRing    uint32 = 22
	UnregisterPbufRing  uint32 = 23

	RegisterUseRegisteredRing uint32 = 1 << 31
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

// RsrcUpdate names one registered thing.
type RsrcUpdate struct {
	Offset uint32
	_      uint32
	Data   uint64
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
