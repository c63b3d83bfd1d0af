//go:build linux

package netpoll

import (
	"errors"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/kernel"
)

// A resting is how an epoll waits when it takes long: as goroutines do, in the poller of the Go runtime, which has the
// loop's processor meanwhile. In a system call the loop would keep it until sysmon takes it away, which wakes up every
// 20 µs for that at first, and again after each wait. The Go runtime knows a set of its own, in which p.fd is during the
// wait only: otherwise each event of a busy loop would be one there, too.
//
//	Go runtime's epoll ── always ──▶ set ── while it rests ──▶ p.fd ──▶ descriptors
//
// Loop-private. It works after open only.
type resting struct {
	set     int // epoll(7); valid if file is not nil
	file    *os.File
	conn    syscall.RawConn
	refused bool               // it does not work here
	limited bool               // file has a read deadline
	try     func(uintptr) bool // looks for events, true if the wait is over

	// Of the wait in progress.
	in bool // p.fd is in set
	n  int
	e  syscall.Errno
}

// open makes what r needs. It does so before the first rest, so that a process has the same number of
// descriptors all the time.
func (r *resting) open(p *epoll) {
	r.refused = true
	if kernel.Net != nil {
		return
	}
	set, err := epollCreate()
	if err != nil {
		return
	}
	if unix.SetNonblock(set, true) != nil { // for os.NewFile, which asks the Go runtime to poll it then
		closeFD(set)
		return
	}
	r.set, r.file = set, os.NewFile(uintptr(set), "epoll")
	if r.conn, err = r.file.SyscallConn(); err != nil || r.file.SetReadDeadline(time.Time{}) != nil {
		r.close()
		return
	}
	r.try = func(uintptr) bool {
		if !r.in { // before the first look, so that what comes after it is an event of set
			if r.join(p.fd); r.refused {
				return true
			}
		}
		r.n, r.e = p.wait(0)
		return r.n > 0 || r.e != 0
	}
	r.refused = false
}

func (r *resting) join(fd int) {
	ev := unix.EpollEvent{Events: unix.EPOLLIN}
	r.in = unix.EpollCtl(r.set, unix.EPOLL_CTL_ADD, fd, &ev) == nil
	r.refused = !r.in
}

// wait is epoll.wait with a timeout other than 0; ok is false if nothing has been done.
func (r *resting) wait(p *epoll, timeout time.Duration) (n int, e syscall.Errno, ok bool) {
	if r.refused {
		return 0, 0, false
	}
	if timeout > 0 {
		r.limited = true
		r.file.SetReadDeadline(time.Now().Add(timeout))
	} else if r.limited {
		r.limited = false
		r.file.SetReadDeadline(time.Time{})
	}
	r.n, r.e = 0, 0
	err := r.conn.Read(r.try)
	if r.in {
		r.in = false
		epollDelete(r.set, p.fd)
	}
	if r.refused || err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		r.refused = true
		return 0, 0, false
	}
	return r.n, r.e, true
}

func (r *resting) close() {
	if r.file != nil {
		r.file.Close()
		r.file, r.refused = nil, true
	}
}
