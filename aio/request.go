//go:build linux

package aio

import (
	"cmp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/kernel"
)

// An opcode is what a request asks of the kernel.
type opcode uint8

const (
	opRead opcode = iota
	opWrite
	opFetch // n bytes into the page cache, the last of them to p
	opSync
	opTruncate
	opStat   // of the path p below fd, or of fd itself
	opOpen   // with the unix.OpenHow in q
	opClose  // off: the device
	opUnlink // flags: AT_REMOVEDIR
	opRename // from p below fd to q below fd2
	opLink   // likewise
	opMkdir  // of the path p below fd, with mode
	opPoll   // wait for the events in mode (poll(2))
	opFunc   // call fn; never by the ring
	opcodes
)

var opNames = [opcodes]string{"read", "write", "read", "sync", "truncate", "stat",
	"open", "close", "remove", "rename", "link", "mkdir", "poll", "call"}

func (o opcode) String() string { return opNames[o] }

// The states of a request. All but the pool's are loop-private.
//
//	         ┌──▶ gathered ──▶ submitted or merged ──┐
//	idle ────┤       └── cancelled ──────────────────┼──▶ idle
//	         ├──▶ submitted ─────────────────────────┤
//	         └──▶ pooled (see pool) ─────────────────┘
const (
	stateIdle      = iota // not under way
	stateGathered         // waits for the end of the loop's iteration
	stateSubmitted        // the kernel has it, under its own token
	stateMerged           // the kernel has it, as a part of something larger
	statePooled           // with the pool
)

// A request is one operation that has to wait. The caller fills it in and calls
// perform, which gives it back to the pool of requests. What p and q point to must be
// on the heap, which storing the pointers here ensures.
type request struct {
	op        opcode
	state     uint8
	firm      bool // no cancellation of the task ends it
	cut       bool // it was asked to end early, as the task is cancelled
	slow      bool // the ring has refused it, or there is none: to the pool of threads
	hasWorker bool // the ring has it, and it takes a worker of the kernel: see maxWorking
	fd        int32
	fd2       int32
	flags     uint32
	mode      uint32
	n         int
	off       int64
	p, q      unsafe.Pointer
	fn        func()
	file      *File // whose descriptor fd is; nil: the operation goes by path

	res    int           // written before the wake
	errno  syscall.Errno // likewise
	forced syscall.Errno // by tests: becomes errno

	dropped atomic.Bool // no task waits for it any more; for opPoll on a thread

	w          *engine.Waiter
	loop       *engine.Loop // of w
	ring       *ring        // where it is gathered or submitted
	token      token
	next, prev *request // in a queue of the pool, guarded by pool.mu
	dev        *device  // guarded by pool.mu while queued

	beside, above *request // the file's other requests under way, guarded by File.mu

	how         unix.OpenHow // where q points to, for opOpen
	path, path2 []byte       // where p and q point to, in operations by path; kept for reuse
	kept        bool         // perform does not free it
}

var requests = sync.Pool{New: func() any { return new(request) }}

func newRequest(op opcode, fd int32) *request {
	r := requests.Get().(*request)
	r.op, r.fd = op, fd
	return r
}

// free gives r back.
func (r *request) free() {
	*r = request{path: r.path[:0], path2: r.path2[:0]}
	requests.Put(r)
}

// keep makes perform leave it to the caller to free r.
func (r *request) keep() *request {
	r.kept = true
	return r
}

// setPath makes p point to name, followed by NUL; false if name has a NUL itself.
func (r *request) setPath(name string) (ok bool) {
	r.path, r.p, ok = terminated(r.path, name)
	return ok
}

// setSecondPath is setPath for q.
func (r *request) setSecondPath(name string) (ok bool) {
	r.path2, r.q, ok = terminated(r.path2, name)
	return ok
}

// terminated returns name followed by NUL, in buf if there is room, and its address.
func terminated(buf []byte, name string) ([]byte, unsafe.Pointer, bool) {
	buf = append(append(buf[:0], name...), 0)
	return buf, unsafe.Pointer(unsafe.SliceData(buf)), strings.IndexByte(name, 0) < 0
}

// newTransfer asks for a read or write of p.
func (f *File) newTransfer(op opcode, p []byte, off int64) *request {
	r := newRequest(op, f.fd)
	r.file = f
	r.p, r.n, r.off = unsafe.Pointer(unsafe.SliceData(p)), min(len(p), maxTransfer), off
	return r
}

// transfer reads or writes p at off, and waits for a file that does not by itself.
func (f *File) transfer(op opcode, p []byte, off int64) (int, error) {
	for {
		n, err := f.newTransfer(op, p, off).perform()
		if err != unix.EAGAIN || f.traits.Load()&traitPolled == 0 {
			return n, err
		}
		r := newRequest(opPoll, f.fd).on(f)
		r.mode = unix.POLLIN
		if op == opWrite {
			r.mode = unix.POLLOUT
		}
		if _, err := r.perform(); err != nil {
			return 0, err
		}
		if f.life.Load()&lifeClosed != 0 {
			return 0, errClosed
		}
	}
}

// on makes r work on the descriptor of f.
func (r *request) on(f *File) *request {
	r.file = f
	return r
}

// perform carries out r and returns its result. A task parks meanwhile, a plain
// goroutine blocks. r must not be used any more.
func (r *request) perform() (int, error) {
	l := engine.CurrentLoop()
	if r.file != nil {
		r.file.settle()
	}
	for {
		r.errno, r.forced, r.res = 0, 0, 0
		var err error
		if l == nil {
			r.call()
		} else {
			err = r.wait(l)
		}
		if err == nil {
			if r.errno != 0 && r.again() {
				continue
			}
			if r.errno != 0 {
				err = r.errno
			}
		}
		n := r.res
		if !r.kept {
			r.free()
		}
		return n, err
	}
}

// again reports whether r, which has failed, should be tried once more. After a close that was not cancelled the
// descriptor is closed, also after EINTR, which is no failure (close(2)).
func (r *request) again() bool {
	if r.op == opClose {
		if r.errno == unix.EINTR {
			r.errno = 0
		}
		return r.errno == unix.ECANCELED
	}
	switch r.errno {
	case unix.EINTR, unix.ECANCELED: // the kernel cancels when a thread ends, too
		return true
	case unix.EAGAIN, unix.EOPNOTSUPP, unix.ENOSYS:
		// The ring can't do this, or won't for this file.
	case unix.EINVAL:
		if r.op == opRead || r.op == opWrite {
			return false
		}
	default:
		return false
	}
	if r.slow || r.loop == nil {
		return false
	}
	r.slow = true
	return true
}

// wait carries out r while the calling task, of l, is parked. An error means that r was
// given up. If the runtime ends meanwhile, the task does not return from here, but what
// r points to is no longer in use then.
func (r *request) wait(l *engine.Loop) error {
	engine.CheckWait()
	r.w, r.loop, r.state, r.cut = engine.Self(), l, stateIdle, false
	if f := r.file; f != nil && !f.begin(r) {
		return errClosed
	}
	r.submit()
	r.w.Wait(engine.ReasonDisk, r)
	r.leave()
	if e := r.errno; e == unix.ECANCELED || e == unix.EINTR {
		if r.cut {
			return &contextError{cmp.Or(engine.Err(), engine.ErrShutdown)}
		}
		if f := r.file; f != nil && f.life.Load()&lifeClosed != 0 {
			return errClosed
		}
	}
	return nil
}

// Withdraw implements engine.WaitPoint: r can be cut short, but must come out of the kernel's hands.
func (r *request) Withdraw(*engine.Waiter) bool {
	if !r.firm {
		r.cut = true
		r.cancel()
	}
	return false
}

func (r *request) Unwound(*engine.Waiter) {
	r.leave()
	if r.op == opOpen && r.errno == 0 {
		sysClose(int32(r.res))
	}
}

// leave ends what begin of the file has begun.
func (r *request) leave() {
	if r.file != nil {
		r.file.end(r)
	}
}

// submit sends r on its way. Own loop only.
func (r *request) submit() {
	if r.op != opFunc && !r.slow {
		if q := ringOf(r.loop); q != nil && q.submit(r) {
			return
		}
	}
	r.slow = true
	threads.submit(r)
}

// cancel asks for the end of r, which still comes by itself. Own loop only.
func (r *request) cancel() {
	switch r.state {
	case statePooled:
		threads.cancel(r)
	case stateGathered, stateSubmitted:
		r.ring.cancel(r)
	}
}

// finish notes the result and wakes the task; r is the task's again then.
func (r *request) finish(res int, e syscall.Errno) {
	if r.forced != 0 {
		res, e = 0, r.forced
	}
	if r.op == opRead && e == 0 {
		kernel.RaceRead(unsafe.Slice((*byte)(r.p), res))
	}
	r.res, r.errno = res, e
	r.w.WakeAhead()
}

func (r *request) DescribeWait() string {
	if r.file != nil {
		return r.op.String() + " " + r.file.name
	}
	if n := len(r.path); n > 0 {
		return r.op.String() + " " + string(r.path[:n-1])
	}
	return r.op.String()
}

// call carries out r on the calling thread, which blocks. It retries EINTR, except
// where that is left to perform.
func (r *request) call() {
	n, e := inject(r.op, viaThread, r.fd, r.n)
	if e == 0 {
		if r.op == opWrite {
			kernel.RaceWrite(unsafe.Slice((*byte)(r.p), n))
		}
		n, e = r.system(n)
		if r.op == opRead && e == 0 {
			kernel.RaceRead(unsafe.Slice((*byte)(r.p), n))
		}
	}
	if e != 0 {
		n = 0
	}
	r.res, r.errno = n, e
}

func (r *request) system(n int) (int, syscall.Errno) {
	fd, p, q := uintptr(r.fd), uintptr(r.p), uintptr(r.q)
	var v uintptr
	var e syscall.Errno
	switch r.op {
	case opRead:
		if r.off == currentOffset {
			v, _, e = syscall.Syscall(unix.SYS_READ, fd, p, uintptr(n))
		} else {
			v, _, e = syscall.Syscall6(unix.SYS_PREAD64, fd, p, uintptr(n), uintptr(r.off), 0, 0)
		}
	case opWrite:
		if r.off == currentOffset {
			v, _, e = syscall.Syscall(unix.SYS_WRITE, fd, p, uintptr(n))
		} else {
			v, _, e = syscall.Syscall6(unix.SYS_PWRITE64, fd, p, uintptr(n), uintptr(r.off), 0, 0)
		}
	case opFetch:
		willNeed(fd, r.off, n)
		v, _, e = syscall.Syscall6(unix.SYS_PREAD64, fd, p, 1, uintptr(r.off)+uintptr(n)-1, 0, 0)
	case opSync:
		_, _, e = syscall.Syscall(unix.SYS_FSYNC, fd, 0, 0)
	case opTruncate:
		_, _, e = syscall.Syscall(unix.SYS_FTRUNCATE, fd, uintptr(r.off), 0)
	case opStat:
		_, _, e = syscall.Syscall6(unix.SYS_STATX, fd, p, uintptr(r.flags), uintptr(r.mode), q, 0)
	case opOpen:
		v, _, e = syscall.Syscall6(unix.SYS_OPENAT2, fd, p, q, unsafe.Sizeof(unix.OpenHow{}), 0, 0)
		if e == unix.ENOSYS || e == unix.EPERM {
			v, e = r.openOld(e)
		}
	case opClose:
		_, _, e = syscall.Syscall(unix.SYS_CLOSE, fd, 0, 0)
	case opUnlink:
		_, _, e = syscall.Syscall(unix.SYS_UNLINKAT, fd, p, uintptr(r.flags))
	case opRename:
		_, _, e = syscall.Syscall6(unix.SYS_RENAMEAT2, fd, p, uintptr(r.fd2), q, uintptr(r.flags), 0)
	case opLink:
		_, _, e = syscall.Syscall6(unix.SYS_LINKAT, fd, p, uintptr(r.fd2), q, uintptr(r.flags), 0)
	case opMkdir:
		_, _, e = syscall.Syscall(unix.SYS_MKDIRAT, fd, p, uintptr(r.mode))
	case opPoll:
		e = r.poll()
	case opFunc:
		r.fn()
	}
	return int(v), e
}

// willNeed has the kernel begin to read n bytes from off on. A failure is no error: it is advice.
func willNeed(fd uintptr, off int64, n int) {
	syscall.Syscall6(unix.SYS_FADVISE64, fd, uintptr(off), uintptr(n), unix.FADV_WILLNEED, 0, 0)
}

// pollTime is how long, in milliseconds, a thread in poll does not see that it is to end.
const pollTime = 50

// poll waits for events, and returns too when the file is closed.
func (r *request) poll() syscall.Errno {
	for r.file.life.Load()&lifeClosed == 0 {
		if r.dropped.Load() {
			return unix.ECANCELED
		}
		fds := [...]unix.PollFd{{Fd: r.fd, Events: int16(r.mode)}}
		n, err := unix.Poll(fds[:], pollTime)
		if n > 0 {
			return 0
		}
		if err != nil && err != unix.EINTR {
			return err.(syscall.Errno)
		}
	}
	return 0
}

// openOld is for kernels, and filters, that know no openat2. Without its Resolve flags
// the call would mean something else.
func (r *request) openOld(e syscall.Errno) (uintptr, syscall.Errno) {
	how := (*unix.OpenHow)(r.q)
	if how.Resolve != 0 {
		return 0, e
	}
	v, _, e := syscall.Syscall6(unix.SYS_OPENAT, uintptr(r.fd), uintptr(r.p), uintptr(how.Flags), uintptr(how.Mode), 0, 0)
	return v, e
}
