//go:build linux

package netpoll

import (
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/uring"
	"github.com/capriccio-go/capriccio/netpoll/internal/sys"
)

// maxAccepted is how many connections may wait to be taken by Accept before the
// multishot accept is cancelled. One burst may bring the backlog's length more.
const maxAccepted = 128

// An acceptQueue holds accepted descriptors that Accept has not taken yet. Guarded by the mu
// of its requests.
type acceptQueue struct {
	fds  []int32
	next int // index in fds of the next to be taken
}

func (a *acceptQueue) len() int { return len(a.fds) - a.next }

// refuse resets the connections left, as close(2) does with those in the backlog.
func (a *acceptQueue) refuse() {
	for ; a.len() > 0; a.next++ {
		reset(a.fds[a.next])
		sys.CloseSocket(a.fds[a.next])
	}
}

// reset makes close(2) reset the connection.
func reset(fd int32) {
	unix.SetsockoptLinger(int(fd), unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
}

// accepting takes the completions of a multishot accept.
type accepting requests

func (q *accepting) Complete(res int32, flags uint32) {
	r := (*requests)(q)
	a := r.accepted
	more := flags&uring.CQEFMore != 0
	r.mu.Lock()
	tell := true
	if res >= 0 {
		a.fds = append(a.fds, res)
	}
	if !more {
		r.streaming = false
		switch e := syscall.Errno(-res); {
		case res >= 0:
		case e == unix.ECANCELED || e == unix.EINTR || e == unix.EAGAIN:
			tell = r.plain || r.loose
		default:
			r.ended, r.errno = true, e
		}
	}
	tooMany := more && a.len() >= maxAccepted
	r.mu.Unlock()
	if tooMany {
		r.p.stopReading(r)
	}
	if tell {
		r.d.deliver(true, false, 0)
	}
	if !more {
		r.p.finish(r, askedRead, false)
	}
}

// accept is accept4(2), of a descriptor that the kernel has accepted already if there is
// one.
func (d *desc) accept(rsa *unix.RawSockaddrAny) (fd int32, salen uint32, e syscall.Errno) {
	r := d.requests
	if r == nil || r.accepted == nil {
		return sys.Accept(d.fd, rsa)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	a := r.accepted
	switch {
	case a.len() > 0:
		fd = a.fds[a.next]
		if a.next++; a.next == len(a.fds) {
			a.fds, a.next = a.fds[:0], 0
		}
		// A multishot accept has no room for the peer's address, which is not known any more if the connection has been
		// reset meanwhile.
		salen, _ = sys.Name(fd, true, rsa)
		return fd, salen, 0
	case r.ended:
		r.ended = false
		return -1, 0, r.errno
	case r.streaming:
		return -1, 0, unix.EAGAIN
	}
	return sys.Accept(d.fd, rsa)
}

// acceptNoneAhead has the kernel accept only when it is asked to, for good, and reports whether it
// may still have accepted connections that the loop has not been told of. It never parks.
func (d *desc) acceptNoneAhead() (ahead bool) {
	r := d.requests
	if r == nil || r.accepted == nil || d.use() != nil {
		return false
	}
	defer d.unuse()
	r.mu.Lock()
	r.plain = true
	ahead = r.streaming
	r.mu.Unlock()
	if ahead {
		r.p.post(r)
	}
	return ahead
}
