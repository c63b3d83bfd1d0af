//go:build linux && !giouring

package uring

import (
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// rawEntries is how many requests are handed over at most without telling the Go
// scheduler: some are done on the spot, such as a read of what is in memory, and many of
// them take their time.
const rawEntries = 32

// GetSQE returns the next free entry; nil: the queue is full. The entry holds what was
// in it before. It is the kernel's at the next Submit.
func (ring *Ring) GetSQE() *SubmissionQueueEntry {
	sq := &ring.sq
	if sq.next-atomic.LoadUint32(sq.head) >= sq.size {
		return nil
	}
	sqe := (*SubmissionQueueEntry)(unsafe.Add(sq.entries, uintptr(sq.next&sq.mask)*unsafe.Sizeof(SubmissionQueueEntry{})))
	sq.next++
	return sqe
}

// SQReady returns how many entries the kernel has not taken yet.
func (ring *Ring) SQReady() uint32 { return ring.sq.next - atomic.LoadUint32(ring.sq.head) }

// CQReady returns how many completions are there.
func (ring *Ring) CQReady() uint32 {
	return atomic.LoadUint32(ring.cq.tail) - atomic.LoadUint32(ring.cq.head)
}

// needsEnter reports whether completions come only if the kernel is asked: the queue had no room for
// them, or they wait for their thread.
func (ring *Ring) needsEnter() bool {
	return atomic.LoadUint32(ring.sq.flags)&(SQCQOverflow|SQTaskrun) != 0
}

// publish shows the kernel what GetSQE has given out, and returns how many entries it has
// not taken.
func (ring *Ring) publish() uint32 {
	sq := &ring.sq
	if atomic.LoadUint32(sq.tail) != sq.next {
		atomic.StoreUint32(sq.tail, sq.next)
	}
	return ring.SQReady()
}

func (ring *Ring) enter(submit, complete, flags uint32, arg unsafe.Pointer, size uintptr) (uint, error) {
	wait := complete > 0 || submit > rawEntries
	n, e := ring.kernel.enter(ring.fd, submit, complete, flags, arg, size, wait)
	if e != 0 {
		return 0, e
	}
	return uint(n), nil
}

// Submit hands over all entries and returns how many the kernel has taken; it makes no
// system call if there are none and no completions need one. Errors are the errnos of
// io_uring_enter(2).
func (ring *Ring) Submit() (uint, error) { return ring.SubmitAndWait(0) }

// SubmitAndWait is Submit, and waits until there are waitNr completions.
func (ring *Ring) SubmitAndWait(waitNr uint32) (uint, error) {
	submit, flags := ring.publish(), uint32(0)
	if waitNr > 0 || ring.needsEnter() {
		flags = EnterGetEvents
	}
	if submit == 0 && flags == 0 {
		return 0, nil
	}
	return ring.enter(submit, waitNr, flags, nil, 0)
}

// SubmitAndWaitTimeout is SubmitAndWait with a timeout; nil: none. It returns the first
// completion, or an errno: ETIME if there was none in time. It needs FeatExtArg.
func (ring *Ring) SubmitAndWaitTimeout(waitNr uint32, ts *syscall.Timespec, sigmask *unix.Sigset_t) (*CompletionQueueEvent, error) {
	return ring.wait(ring.publish(), waitNr, ts, sigmask)
}

// WaitCQETimeout waits for a completion, handing nothing over.
func (ring *Ring) WaitCQETimeout(ts *syscall.Timespec) (*CompletionQueueEvent, error) {
	return ring.wait(0, 1, ts, nil)
}

// WaitCQE waits for a completion, handing nothing over.
func (ring *Ring) WaitCQE() (*CompletionQueueEvent, error) { return ring.wait(0, 1, nil, nil) }

func (ring *Ring) wait(submit, waitNr uint32, ts *syscall.Timespec, sigmask *unix.Sigset_t) (*CompletionQueueEvent, error) {
	var err error
	if waitNr > ring.CQReady() || ring.needsEnter() {
		ring.arg = GetEventsArg{sigMask: uint64(uintptr(unsafe.Pointer(sigmask))), sigMaskSz: 8}
		if ts != nil {
			ring.ts = *ts
			ring.arg.ts = uint64(uintptr(unsafe.Pointer(&ring.ts)))
		}
		_, err = ring.enter(submit, waitNr, EnterGetEvents|EnterExtArg, unsafe.Pointer(&ring.arg), unsafe.Sizeof(ring.arg))
	} else if submit > 0 {
		_, err = ring.enter(submit, 0, 0, nil, 0)
	}
	if ring.CQReady() == 0 {
		return nil, err
	}
	return ring.event(atomic.LoadUint32(ring.cq.head)), nil
}

func (ring *Ring) event(at uint32) *CompletionQueueEvent {
	cq := &ring.cq
	return (*CompletionQueueEvent)(unsafe.Add(cq.events, uintptr(at&cq.mask)*unsafe.Sizeof(CompletionQueueEvent{})))
}

// PeekBatchCQE fills cqes with the completions that are there, as many as fit, and returns
// their number. They stay in the queue until CQAdvance. It makes a system call only if
// there are none and the kernel holds some.
func (ring *Ring) PeekBatchCQE(cqes []*CompletionQueueEvent) uint32 {
	n := ring.CQReady()
	if n == 0 {
		if !ring.needsEnter() {
			return 0
		}
		ring.enter(0, 0, EnterGetEvents, nil, 0)
		n = ring.CQReady()
	}
	n = min(n, uint32(len(cqes)))
	head := atomic.LoadUint32(ring.cq.head)
	for i := range n {
		cqes[i] = ring.event(head + i)
	}
	return n
}

// CQAdvance takes completions out of the queue; what PeekBatchCQE returned of them may be
// overwritten then.
func (ring *Ring) CQAdvance(numberOfCQEs uint32) {
	atomic.StoreUint32(ring.cq.head, atomic.LoadUint32(ring.cq.head)+numberOfCQEs)
}

// CQESeen takes one completion out of the queue.
func (ring *Ring) CQESeen(event *CompletionQueueEvent) {
	if event != nil {
		ring.CQAdvance(1)
	}
}
