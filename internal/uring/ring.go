//go:build linux && !giouring

package uring

import (
	"os"
	"sync/atomic"
	"syscall"
	"unsafe"
)

// A Ring is a submission queue and a completion queue, shared with the kernel. All its
// mutable fields are loop-private. Of what is shared, the heads of the one and the tails
// of the other queue are written by the kernel, at any time: they are loaded and stored
// by package sync/atomic, whose order is at least the acquire and release that the
// kernel expects (smp_load_acquire, smp_store_release in io_uring(7)).
type Ring struct {
	kernel   kernel
	fd       int // -1: not open
	flags    uint32
	features uint32

	sq submissionQueue
	cq completionQueue

	arg GetEventsArg // of an enter with a timeout, here because the kernel reads it
	ts  syscall.Timespec

	bufRings map[int]mapping // by group
}

// mapping is memory to be given back by munmap(2).
type mapping struct {
	p      unsafe.Pointer
	length uintptr
}

type submissionQueue struct {
	head    *uint32 // atomic, written by the kernel
	tail    *uint32 // atomic, read by the kernel
	flags   *uint32 // atomic, written by the kernel
	entries unsafe.Pointer
	mask    uint32
	size    uint32
	next    uint32  // tail, when what GetSQE has given out is published
	ring    mapping // holds the words above
	sqes    mapping // holds the entries
}

type completionQueue struct {
	head   *uint32 // atomic, read by the kernel
	tail   *uint32 // atomic, written by the kernel
	events unsafe.Pointer
	mask   uint32
	size   uint32
	ring   mapping // the same as that of the submission queue, or empty
}

// NewRing makes a Ring for QueueInit.
func NewRing() *Ring { return &Ring{kernel: linux{}, fd: -1} }

// CreateRing makes a ring with the given length of the submission queue, rounded up to a
// power of two, and default flags. Errors are those of QueueInitParams.
func CreateRing(entries uint32) (*Ring, error) {
	ring := NewRing()
	if err := ring.QueueInit(entries, 0); err != nil {
		return nil, err
	}
	return ring, nil
}

// QueueInit is QueueInitParams with flags only.
func (ring *Ring) QueueInit(entries uint32, flags uint32) error {
	return ring.QueueInitParams(entries, &Params{flags: flags})
}

// QueueInitParams opens the ring (io_uring_setup(2)). The error is an errno: ENOSYS, EPERM,
// ENOMEM, EMFILE, EINVAL for what the kernel does not know, and those of mmap(2).
func (ring *Ring) QueueInitParams(entries uint32, p *Params) error {
	fd, e := ring.kernel.setup(entries, p)
	if e != 0 {
		return e
	}
	ring.fd = fd
	ring.flags, ring.features = p.flags, p.features
	if err := ring.mapQueues(p); err != nil {
		ring.QueueExit()
		return err
	}
	return nil
}

func (ring *Ring) mapQueues(p *Params) error {
	sq, cq := &ring.sq, &ring.cq
	sqLength := uintptr(p.sqOff.array) + uintptr(p.sqEntries)*4
	cqLength := uintptr(p.cqOff.cqes) + uintptr(p.cqEntries)*unsafe.Sizeof(CompletionQueueEvent{})
	single := p.features&FeatSingleMMap != 0
	if single {
		sqLength = max(sqLength, cqLength)
	}
	var err error
	if sq.ring, err = ring.mmap(mapSQ, sqLength); err != nil {
		return err
	}
	cqRing := sq.ring.p
	if !single {
		if cq.ring, err = ring.mmap(mapCQ, cqLength); err != nil {
			return err
		}
		cqRing = cq.ring.p
	}
	if sq.sqes, err = ring.mmap(mapSQEs, uintptr(p.sqEntries)*unsafe.Sizeof(SubmissionQueueEntry{})); err != nil {
		return err
	}
	word := func(base unsafe.Pointer, offset uint32) *uint32 { return (*uint32)(unsafe.Add(base, offset)) }
	sq.head, sq.tail = word(sq.ring.p, p.sqOff.head), word(sq.ring.p, p.sqOff.tail)
	sq.flags = word(sq.ring.p, p.sqOff.flags)
	sq.mask, sq.size = *word(sq.ring.p, p.sqOff.ringMask), *word(sq.ring.p, p.sqOff.ringEntries)
	sq.entries = sq.sqes.p
	sq.next = atomic.LoadUint32(sq.tail)
	cq.head, cq.tail = word(cqRing, p.cqOff.head), word(cqRing, p.cqOff.tail)
	cq.mask, cq.size = *word(cqRing, p.cqOff.ringMask), *word(cqRing, p.cqOff.ringEntries)
	cq.events = unsafe.Add(cqRing, p.cqOff.cqes)
	// Entry i of the queue is always the i-th description.
	for i := range sq.size {
		*word(sq.ring.p, p.sqOff.array+4*i) = i
	}
	return nil
}

func (ring *Ring) mmap(offset int64, length uintptr) (mapping, error) {
	p, err := ring.kernel.mmap(ring.fd, offset, length)
	if err != nil {
		return mapping{}, err
	}
	return mapping{p, length}, nil
}

func (ring *Ring) munmap(m *mapping) {
	if m.p != nil {
		ring.kernel.munmap(m.p, m.length)
		*m = mapping{}
	}
}

// QueueExit closes the ring and gives its memory back. Requests in flight are cancelled
// some time later, so memory that they point to must not be reused.
func (ring *Ring) QueueExit() {
	if ring.fd < 0 {
		return
	}
	for group := range ring.bufRings {
		ring.FreeBufRing(group)
	}
	ring.munmap(&ring.sq.sqes)
	ring.munmap(&ring.cq.ring)
	ring.munmap(&ring.sq.ring)
	ring.sq, ring.cq = submissionQueue{}, completionQueue{}
	ring.kernel.close(ring.fd)
	ring.fd = -1
}

// RingFd returns the ring's descriptor. It polls as readable while completions wait.
func (ring *Ring) RingFd() int { return ring.fd }

// Register is io_uring_register(2).
func (ring *Ring) Register(fd int, opcode uint32, arg unsafe.Pointer, nrArgs uint32) (uint, syscall.Errno) {
	n, e := ring.kernel.register(fd, opcode, arg, nrArgs)
	if e != 0 {
		return 0, e
	}
	return uint(n), 0
}

func (ring *Ring) register(opcode uint32, arg unsafe.Pointer, n uint32) (uint, error) {
	r, e := ring.Register(ring.fd, opcode, arg, n)
	if e != 0 {
		return 0, os.NewSyscallError("io_uring_register", e)
	}
	return r, nil
}
