//go:build linux && !giouring

package uring

import (
	"sync/atomic"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// A fakeKernel is the other side of a ring, in ordinary memory. It knows no-ops, polls
// that never become ready, and cancellations. Faults are injected by a script.
type fakeKernel struct {
	t        testing.TB
	knows    uint32 // flags of io_uring_setup
	features uint32
	noAny    bool // no cancellation of everything, as before Linux 5.19
	stubborn bool // polls can't be cancelled
	setupErr syscall.Errno
	script   []fault // for the next enters, first first

	p       Params
	rings   map[int64][]uint64 // by offset
	mapped  int
	open    int
	enters  int
	pending []uint64 // polls
	timeout []uint64
	excess  []CompletionQueueEvent // completions that the queue had no room for
}

// A fault is what one enter does instead of its work.
type fault struct {
	e     syscall.Errno // fails with e, having done nothing
	short int           // if positive, takes at most that many entries
}

const fakeArray = 64

func newFakeKernel(t testing.TB) *fakeKernel {
	return &fakeKernel{t: t, knows: ^uint32(0), features: ^uint32(0), rings: make(map[int64][]uint64)}
}

// driver makes a driver on k.
func (k *fakeKernel) driver(cfg Config) (*Driver, error) {
	return newDriver(cfg, func() *Ring { return &Ring{kernel: k, fd: -1} })
}

func (k *fakeKernel) mustDriver(cfg Config) *Driver { return need(k.driver(cfg))(k.t) }

// onFake makes a driver on a kernel of its own, which is closed at the end of the test.
func onFake(t testing.TB, cfg Config) (*fakeKernel, *Driver) {
	k := newFakeKernel(t)
	d := k.mustDriver(cfg)
	t.Cleanup(func() {
		must(t, d.Close())
		k.allGone()
	})
	return k, d
}

func (k *fakeKernel) setup(entries uint32, p *Params) (int, syscall.Errno) {
	if k.setupErr != 0 {
		return 0, k.setupErr
	}
	if p.flags&^k.knows != 0 {
		return 0, unix.EINVAL
	}
	p.sqEntries, p.features = entries, k.features
	p.sqOff = sqOffsets{head: 0, tail: 4, ringMask: 8, ringEntries: 12, flags: 16, array: fakeArray}
	p.cqOff = cqOffsets{head: 24, tail: 28, ringMask: 32, ringEntries: 36, cqes: fakeArray + 8*entries}
	k.p = *p
	k.open++
	return 1000, 0
}

func (k *fakeKernel) mmap(fd int, offset int64, length uintptr) (unsafe.Pointer, error) {
	if k.rings == nil {
		return nil, unix.ENOMEM
	}
	k.mapped++
	m := make([]uint64, (length+7)/8)
	base := unsafe.Pointer(unsafe.SliceData(m))
	if fd < 0 {
		return base, nil
	}
	k.rings[offset] = m
	if offset == mapSQ {
		*k.at(mapSQ, k.p.sqOff.ringMask), *k.at(mapSQ, k.p.sqOff.ringEntries) = k.p.sqEntries-1, k.p.sqEntries
	}
	if offset == k.cqMap() {
		*k.at(offset, k.p.cqOff.ringMask), *k.at(offset, k.p.cqOff.ringEntries) = k.p.cqEntries-1, k.p.cqEntries
	}
	return base, nil
}

func (k *fakeKernel) munmap(unsafe.Pointer, uintptr) { k.mapped-- }

func (k *fakeKernel) close(int) { k.open-- }

func (k *fakeKernel) register(fd int, op uint32, arg unsafe.Pointer, n uint32) (int, syscall.Errno) {
	switch op {
	case RegisterPbufRing, UnregisterPbufRing:
		return 0, 0
	}
	return 0, unix.EINVAL
}

func (k *fakeKernel) cqMap() int64 {
	if k.features&FeatSingleMMap != 0 {
		return mapSQ
	}
	return mapCQ
}

func (k *fakeKernel) at(ring int64, offset uint32) *uint32 {
	return (*uint32)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(k.rings[ring])), offset))
}

func (k *fakeKernel) enter(fd int, submit, complete, flags uint32, arg unsafe.Pointer, size uintptr, wait bool) (int, syscall.Errno) {
	k.enters++
	var f fault
	if len(k.script) > 0 {
		f, k.script = k.script[0], k.script[1:]
		if f.e != 0 {
			return 0, f.e
		}
	}
	taken := submit
	if f.short > 0 {
		taken = min(taken, uint32(f.short))
	}
	for range taken {
		k.take()
	}
	if flags&EnterGetEvents == 0 {
		return int(taken), 0
	}
	k.flush()
	if taken < submit || k.ready() >= complete {
		return int(taken), 0
	}
	if taken > 0 {
		return int(taken), 0 // a wait that failed is not reported
	}
	if flags&EnterExtArg == 0 || (*GetEventsArg)(arg).ts == 0 {
		k.t.Fatal("a wait for ever that nothing will end")
	}
	return 0, unix.ETIME
}

func (k *fakeKernel) ready() uint32 {
	return *k.at(k.cqMap(), k.p.cqOff.tail) - *k.at(k.cqMap(), k.p.cqOff.head)
}

// take works off one entry.
func (k *fakeKernel) take() {
	head := k.at(mapSQ, k.p.sqOff.head)
	if *head == atomic.LoadUint32(k.at(mapSQ, k.p.sqOff.tail)) {
		k.t.Fatal("asked to take more entries than there are")
	}
	i := *k.at(mapSQ, k.p.sqOff.array+4*(*head&(k.p.sqEntries-1)))
	e := *(*SubmissionQueueEntry)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(k.rings[mapSQEs])), 64*i))
	*head++
	switch e.OpCode {
	case OpNop:
		k.post(e.UserData, 0, 0)
	case OpPollAdd:
		k.pending = append(k.pending, e.UserData)
	case OpTimeout:
		k.timeout = append(k.timeout, e.UserData)
	case OpAsyncCancel:
		k.cancel(e)
	default:
		k.post(e.UserData, -int32(unix.EINVAL), 0)
	}
}

func (k *fakeKernel) cancel(e SubmissionQueueEntry) {
	all := e.OpcodeFlags&AsyncCancelAny != 0
	if all && k.noAny {
		k.post(e.UserData, -int32(unix.EINVAL), 0)
		return
	}
	answer := -int32(unix.ENOENT)
	var left []uint64
	for _, u := range k.pending {
		match := all || u == e.Addr
		switch {
		case match && k.stubborn:
			answer = -int32(unix.EALREADY)
		case match:
			answer = 0
			k.post(u, -int32(unix.ECANCELED), 0)
			continue
		}
		left = append(left, u)
	}
	k.pending = left
	k.post(e.UserData, answer, 0)
	if all {
		k.fire()
	}
}

// fire ends the timeouts.
func (k *fakeKernel) fire() {
	for _, u := range k.timeout {
		k.post(u, -int32(unix.ETIME), 0)
	}
	k.timeout = nil
}

func (k *fakeKernel) post(data uint64, res int32, flags uint32) {
	k.excess = append(k.excess, CompletionQueueEvent{data, res, flags})
	if len(k.excess) == 1 {
		k.flush()
	}
}

// flush moves completions into the queue while there is room.
func (k *fakeKernel) flush() {
	m := k.cqMap()
	tail := k.at(m, k.p.cqOff.tail)
	for len(k.excess) > 0 && k.ready() < k.p.cqEntries {
		at := k.p.cqOff.cqes + 16*(*tail&(k.p.cqEntries-1))
		*(*CompletionQueueEvent)(unsafe.Pointer(k.at(m, at))) = k.excess[0]
		k.excess = k.excess[1:]
		*tail++
	}
	flags := k.at(mapSQ, k.p.sqOff.flags)
	if *flags = 0; len(k.excess) > 0 {
		*flags = SQCQOverflow
	}
}

func (k *fakeKernel) allGone() {
	k.t.Helper()
	testenv.True(k.t, k.mapped == 0 && k.open == 0, "%d mappings and %d descriptors are left", k.mapped, k.open)
}
