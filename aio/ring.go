//go:build linux

package aio

import (
	"cmp"
	"slices"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/kernel"
	"github.com/capriccio-go/capriccio/internal/uring"
)

type token = uring.Token

// A driverHost is a poller that shares its io_uring.
type driverHost interface {
	Driver() (*uring.Driver, error)
}

// A ring is what aio keeps for the io_uring of one loop. Loop-private.
type ring struct {
	d        *uring.Driver
	gathered []*request // reads of this iteration, which may be merged
	flush    func()     // sendGathered
	working  int        // requests that the kernel has and that take a worker of its own
}

// maxWorking bounds ring.working. The kernel has at least four workers for what the thread of a loop asks for
// (min(entries, 4 per processor), io_uring/io-wq.c), first come, first served: were they all in a file system that does
// not answer, nothing else would be done. Further requests go to the pool, which leaves threads to each file system.
const maxWorking = 4

// A read of another file, or more than gatherWithin bytes away, will hardly be merged with the gathered ones. If there
// are gatherApart of these, they are submitted before the iteration ends: a device that gets 64 reads at once has run
// dry meanwhile. With 4 it does a tenth more with 64 readers than without.
const (
	gatherApart  = 4
	gatherWithin = 8 << 20
)

// ringOf returns what belongs to l, on which the caller runs; nil if there is no
// io_uring.
func ringOf(l *engine.Loop) *ring {
	host, ok := l.Poller().(driverHost)
	if !ok {
		return nil
	}
	d, err := host.Driver()
	if err != nil || d == nil {
		return nil
	}
	if q, ok := d.Attachment.(*ring); ok {
		return q
	}
	q := &ring{d: d}
	q.flush = q.sendGathered
	d.Attachment = q
	return q
}

// submit takes r over; false: it can't. Reads at an offset wait for the end of the iteration, to be merged.
func (q *ring) submit(r *request) bool {
	r.ring = q
	if r.op == opRead && r.off >= 0 && r.file.traits.Load()&traitRegular != 0 {
		if len(q.gathered) == 0 {
			q.d.BeforeFlush(q.flush)
		}
		r.state = stateGathered
		if len(q.gathered) >= gatherApart && r.farFrom(q.gathered[0]) {
			q.d.Flush()
			q.d.BeforeFlush(q.flush)
		}
		q.gathered = append(q.gathered, r)
		return true
	}
	return q.send(r)
}

// send gives r to the kernel by itself.
func (q *ring) send(r *request) bool {
	takesWorker := r.takesWorker()
	e, err := q.entry(takesWorker)
	if err != nil {
		return false
	}
	q.countWorker(&r.hasWorker, takesWorker)
	r.state = stateSubmitted
	r.fill(e)
	r.token = q.d.Track(e, r)
	return true
}

// entry makes room for something to be sent, which takes a worker or not.
func (q *ring) entry(takesWorker bool) (*uring.SubmissionQueueEntry, error) {
	if takesWorker && q.working >= maxWorking {
		return nil, uring.ErrFull
	}
	return q.d.Entry()
}

// countWorker counts a request that is sent, if it takes a worker, and uncountWorker counts it no longer.
func (q *ring) countWorker(hasWorker *bool, takesWorker bool) {
	if *hasWorker = takesWorker; takesWorker {
		q.working++
	}
}

func (q *ring) uncountWorker(hasWorker *bool) {
	if *hasWorker {
		*hasWorker = false
		q.working--
	}
}

// takesWorker reports whether the kernel has a thread of its own wait for r: it has for all but the
// reads and writes of file systems that can be asked not to wait.
func (r *request) takesWorker() bool {
	switch r.op {
	case opPoll:
		return false
	case opRead, opFetch:
		return r.file.traits.Load()&traitRefusesRead != 0
	case opWrite:
		return r.file.traits.Load()&traitRefusesWrite != 0
	}
	return true
}

func (r *request) Complete(res int32, _ uint32) {
	r.ring.uncountWorker(&r.hasWorker)
	r.state = stateIdle
	if res < 0 {
		r.finish(0, syscall.Errno(-res))
		return
	}
	r.finish(int(res), 0)
}

// cancel asks for the end of r, which is gathered or submitted.
func (q *ring) cancel(r *request) {
	if r.state == stateSubmitted {
		q.d.Cancel(r.token) // if this fails, r ends by itself
		return
	}
	for i, g := range q.gathered {
		if g == r {
			// Its place stays: an empty queue would ask for another flush.
			q.gathered[i] = nil
			break
		}
	}
	r.state = stateIdle
	r.finish(0, unix.ECANCELED)
}

// fill describes r to the kernel.
func (r *request) fill(e *uring.SubmissionQueueEntry) {
	n, errno := inject(r.op, viaRing, r.fd, r.n)
	r.forced = errno
	*e = uring.SubmissionQueueEntry{Fd: r.fd}
	if errno != 0 {
		e.OpCode = uring.OpNop
		return
	}
	p, q := uint64(uintptr(r.p)), uint64(uintptr(r.q))
	switch r.op {
	case opRead:
		e.OpCode, e.Addr, e.Len, e.Off = uring.OpRead, p, uint32(n), uint64(r.off)
	case opWrite:
		kernel.RaceWrite(unsafe.Slice((*byte)(r.p), n))
		e.OpCode, e.Addr, e.Len, e.Off = uring.OpWrite, p, uint32(n), uint64(r.off)
		if r.file.synced {
			e.Flags = uring.SqeAsync // the first attempt would be made by the loop's thread, and wait
		}
	case opFetch:
		willNeed(uintptr(r.fd), r.off, n) // a read would begin as much from here
		e.OpCode, e.Addr, e.Len, e.Off = uring.OpRead, p, 1, uint64(r.off)+uint64(n)-1
	case opSync:
		e.OpCode = uring.OpFsync
	case opTruncate:
		e.OpCode, e.Off = opFtruncate, uint64(r.off)
	case opStat:
		e.OpCode, e.Addr, e.Off, e.Len, e.OpcodeFlags = uring.OpStatx, p, q, r.mode, r.flags
	case opOpen:
		e.OpCode, e.Addr, e.Off, e.Len = uring.OpOpenat2, p, q, uint32(unsafe.Sizeof(unix.OpenHow{}))
	case opClose:
		e.OpCode = uring.OpClose
	case opUnlink:
		e.OpCode, e.Addr, e.OpcodeFlags = uring.OpUnlinkat, p, r.flags
	case opRename:
		e.OpCode, e.Addr, e.Off, e.Len, e.OpcodeFlags = uring.OpRenameat, p, q, uint32(r.fd2), r.flags
	case opLink:
		e.OpCode, e.Addr, e.Off, e.Len, e.OpcodeFlags = opLinkat, p, q, uint32(r.fd2), r.flags
	case opPoll:
		e.OpCode, e.OpcodeFlags = uring.OpPollAdd, r.mode
	case opMkdir:
		e.OpCode, e.Addr, e.Len = uring.OpMkdirat, p, r.mode
	}
}

const (
	opLinkat    = 39 // IORING_OP_LINKAT, Linux 5.15
	opFtruncate = 55 // IORING_OP_FTRUNCATE, Linux 6.9; before, EINVAL sends it to the pool
)

// Limits of one merged read. Beyond a mebibyte the kernel splits it anyway.
const (
	maxMergedParts = 64
	maxMergedBytes = 1 << 20
)

// A batch is one read for several tasks, of neighbouring parts of a file.
type batch struct {
	ring      *ring
	parts     []*request
	vecs      []unix.Iovec
	hasWorker bool // takes a worker
}

// sendGathered sends the reads of this iteration, those of neighbouring parts of a file as one. It runs when the loop
// is about to submit.
func (q *ring) sendGathered() {
	all := q.gathered
	reads := slices.DeleteFunc(all, func(r *request) bool { return r == nil })
	slices.SortFunc(reads, func(a, b *request) int {
		return cmp.Or(cmp.Compare(a.fd, b.fd), cmp.Compare(a.off, b.off))
	})
	for len(reads) > 0 {
		k := neighbours(reads)
		q.sendMerged(reads[:k])
		reads = reads[k:]
	}
	clear(all)
	q.gathered = all[:0]
}

// farFrom reports whether r reads another file than other, which is nil if it was cancelled, or
// far away from it.
func (r *request) farFrom(other *request) bool {
	return other == nil || r.file != other.file || max(r.off, other.off)-min(r.off, other.off) > gatherWithin
}

// neighbours reports how many of the sorted reads, from the first on, follow one another.
func neighbours(reads []*request) int {
	k, bytes := 1, reads[0].n
	for k < len(reads) && k < maxMergedParts {
		last, r := reads[k-1], reads[k]
		if r.file != last.file || r.off != last.off+int64(last.n) || bytes > maxMergedBytes-r.n {
			break
		}
		bytes += r.n
		k++
	}
	return k
}

// sendMerged sends reads that follow one another.
func (q *ring) sendMerged(reads []*request) {
	if len(reads) == 1 {
		q.sendAlone(reads[0])
		return
	}
	takesWorker := reads[0].takesWorker()
	e, err := q.entry(takesWorker)
	if err != nil {
		for _, r := range reads {
			q.sendAlone(r)
		}
		return
	}
	b := batches.Get().(*batch)
	b.ring = q
	q.countWorker(&b.hasWorker, takesWorker)
	for _, r := range reads {
		r.state = stateMerged
		b.parts = append(b.parts, r)
		b.vecs = append(b.vecs, unix.Iovec{Base: (*byte)(r.p), Len: uint64(r.n)})
	}
	first := reads[0]
	*e = uring.SubmissionQueueEntry{OpCode: uring.OpReadv, Fd: first.fd, Off: uint64(first.off),
		Addr: uint64(uintptr(unsafe.Pointer(&b.vecs[0]))), Len: uint32(len(b.vecs))}
	if n, errno := inject(opRead, viaRing, first.fd, b.bytes()); errno != 0 || n < b.bytes() {
		// The parts, tried each by itself, meet their own faults.
		*e = uring.SubmissionQueueEntry{OpCode: uring.OpNop}
	}
	q.d.Track(e, b)
}

// sendAlone sends r by itself, or gives it to the threads if the ring has no room.
func (q *ring) sendAlone(r *request) {
	if !q.send(r) {
		r.state = stateIdle
		threads.submit(r)
	}
}

func newBatch() any { return &batch{parts: make([]*request, 0, 8), vecs: make([]unix.Iovec, 0, 8)} }

var batches = sync.Pool{New: newBatch}

func (b *batch) bytes() int {
	n := 0
	for i := range b.vecs {
		n += int(b.vecs[i].Len)
	}
	return n
}

// Complete implements uring.Completer: it deals out what has been read. Parts that got
// nothing, and all parts after an error, are tried again, each by itself, to find out which part
// is to blame.
func (b *batch) Complete(res int32, _ uint32) {
	b.ring.uncountWorker(&b.hasWorker)
	left := max(int(res), 0)
	for _, r := range b.parts {
		if n := min(left, r.n); n > 0 {
			left -= n
			r.state = stateIdle
			r.finish(n, 0)
			continue
		}
		b.ring.sendAlone(r)
	}
	clear(b.parts)
	clear(b.vecs)
	b.ring, b.parts, b.vecs = nil, b.parts[:0], b.vecs[:0]
	batches.Put(b)
}
