//go:build linux

package netpoll

import (
	"errors"
	"os"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/kernel"
	"github.com/capriccio-go/capriccio/netpoll/internal/sys"
)

// A resting lets an idle loop wait in the poller of the Go runtime, as goroutines do, so that its P is free meanwhile.
// In a system call the loop would keep its P until sysmon takes it away, which wakes up every 20 µs for that at first,
// and again after each wait. The Go runtime polls a set of its own, which reports p.fd once each time that it is armed:
// otherwise each event of a busy loop would be an event of the Go runtime, too.
//
//	Go runtime's epoll ── always ──▶ set ── while it rests ──▶ p.fd ──▶ descriptors
//
// p.fd is in set from the start: to put it there later, the kernel would have to look through all that is in p.fd.
//
// Loop-private. It works after open only.
type resting struct {
	set   int // epoll(7); valid if file is not nil
	file  *os.File
	conn  syscall.RawConn    // nil: it does not work here
	limit time.Time          // read deadline of file; zero: none
	try   func(uintptr) bool // looks for events, true if the wait is over

	pollerWatch runtimePollerWatch

	// Of the wait in progress.
	armed bool // set will tell of an event, or has
	n     int
	e     syscall.Errno
}

// maxResters is how many loops of the process can rest. A listener that all of them accept from is in as many sets
// that lead to the Go runtime's. The kernel allows 100 of these (EINVAL).
const maxResters = 64

// resters counts the loops of the process that can rest; the Go runtime has one poller for all of them.
var resters atomic.Int32

// open makes what r needs, before p.fd gets its first connection.
func (r *resting) open(p *epoll) {
	if kernel.Net != nil {
		return
	}
	if resters.Add(1) > maxResters {
		resters.Add(-1)
		return
	}
	set, err := sys.EpollCreate()
	if err != nil {
		resters.Add(-1)
		return
	}
	ev := unix.EpollEvent{}
	if sys.EpollAdd(set, p.fd, &ev) != nil || unix.SetNonblock(set, true) != nil { // for os.NewFile, which asks the Go runtime to poll it then
		sys.Close(set)
		resters.Add(-1)
		return
	}
	r.set, r.file = set, os.NewFile(uintptr(set), "epoll")
	conn, err := r.file.SyscallConn()
	if err != nil || r.file.SetReadDeadline(time.Time{}) != nil {
		r.close()
		return
	}
	r.conn = conn
	r.pollerWatch.poller = findGoPoller(set)
	r.try = func(uintptr) bool {
		if r.armed {
			r.take()
			if r.n, r.e = p.wait(0, blocks); r.n > 0 || r.e != 0 {
				return true
			}
		}
		if !r.armed { // an event that is there already counts
			r.armed = r.modify(p.fd, unix.EPOLLIN|unix.EPOLLONESHOT)
		}
		return !r.armed
	}
}

func (r *resting) modify(fd int, events uint32) bool {
	ev := unix.EpollEvent{Events: events}
	return unix.EpollCtl(r.set, unix.EPOLL_CTL_MOD, fd, &ev) == nil
}

// take takes the event out of set, after which there are no more.
func (r *resting) take() {
	var ev unix.EpollEvent
	n, _, e := syscall.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(r.set), uintptr(unsafe.Pointer(&ev)), 1, 0, 0, 0)
	r.armed = n != 1 || e != 0
}

// disarm is for a rest that has ended without an event. An event that came just now must not stay in set: the kernel
// would not tell the Go runtime of it when set is armed again.
func (r *resting) disarm(p *epoll) {
	r.modify(p.fd, 0)
	r.take()
	r.armed = false
	if r.n == 0 {
		r.n, r.e = p.wait(0, blocks)
	}
}

// A deadline in the Go runtime may be late by restSlack, so a rest ends before its time by as much.
const restSlack = time.Millisecond

// wait is epoll.wait with a timeout other than 0; ok is false if nothing has been done.
func (r *resting) wait(p *epoll, timeout time.Duration) (n int, e syscall.Errno, ok bool) {
	if r.conn == nil || timeout > 0 && timeout <= 2*restSlack {
		return 0, 0, false
	}
	if timeout > 0 {
		if now := time.Now(); r.limit.Before(now) || r.limit.After(now.Add(timeout-restSlack)) {
			r.limit = now.Add(timeout - restSlack)
			r.file.SetReadDeadline(r.limit)
		}
	}
	r.n, r.e = 0, 0
	err := r.conn.Read(r.try)
	switch {
	case err == nil && r.n == 0 && r.e == 0:
		err = errCannotRest
	case errors.Is(err, os.ErrDeadlineExceeded):
		r.limit = time.Time{}
		err = r.file.SetReadDeadline(r.limit)
	}
	if r.armed {
		r.disarm(p)
	}
	if err != nil {
		r.conn = nil
		return r.n, r.e, r.n > 0
	}
	return r.n, r.e, true
}

var errCannotRest = errors.New("netpoll: the set of a loop can't be armed")

func (r *resting) close() {
	if r.file != nil {
		r.file.Close()
		resters.Add(-1)
		r.file, r.conn = nil, nil
	}
}
