//go:build linux

package netpoll

import (
	"math"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/netpoll/internal/sys"
)

// An owner is what a descriptor belongs to: a Conn, a PacketConn, a File or a Listener.
type owner interface {
	// describe names it in dumps of what tasks wait for.
	describe() string
	// opError wraps an error for the caller of op; call is the system call of a bare errno, if
	// there is one.
	opError(op, call string, err error) error
}

// wrap has the owner wrap an error, if there is one.
func (d *desc) wrap(op, call string, err error) error {
	if err == nil {
		return nil
	}
	return d.owner.opError(op, call, err)
}

// An endpoint is what Conn, PacketConn and File have in common.
type endpoint struct{ d desc }

// Close closes the descriptor: waiting readers and writers get net.ErrClosed. Close parks for a moment until the last of
// the callers that use the descriptor has closed it, unless the calling task's context has ended. A second Close returns
// net.ErrClosed.
func (e *endpoint) Close() error {
	return e.d.wrap("close", "close", e.d.close())
}

// SetDeadline sets the read and the write deadline; the zero time means none. An operation
// that meets a deadline fails with an error that is os.ErrDeadlineExceeded. The resolution is
// about 66 µs.
func (e *endpoint) SetDeadline(t time.Time) error {
	return e.setDeadline(flagReadExpired|flagWriteExpired, t)
}

// SetReadDeadline sets the deadline of operations that read. Moving a deadline to a later time costs no
// system call and no timer operation.
func (e *endpoint) SetReadDeadline(t time.Time) error { return e.setDeadline(flagReadExpired, t) }

// SetWriteDeadline sets the deadline of operations that write.
func (e *endpoint) SetWriteDeadline(t time.Time) error { return e.setDeadline(flagWriteExpired, t) }

func (e *endpoint) setDeadline(which uint32, t time.Time) error {
	return e.d.wrap("set", "", e.d.setDeadline(which, t))
}

// SyscallConn implements syscall.Conn. Functions given to it must not park.
func (e *endpoint) SyscallConn() (syscall.RawConn, error) {
	if e.d.life.Load()&lifeClosed != 0 {
		return nil, e.d.owner.opError("raw", "", net.ErrClosed)
	}
	return &rawConn{&e.d}, nil
}

// A socket is what Conn and PacketConn have in common.
type socket struct{ endpoint }

// SetReadBuffer sets the size in bytes of the kernel's receive buffer (socket(7)).
func (s *socket) SetReadBuffer(bytes int) error {
	return s.setOption(unix.SOL_SOCKET, unix.SO_RCVBUF, bytes)
}

// SetWriteBuffer sets the size in bytes of the kernel's send buffer (socket(7)).
func (s *socket) SetWriteBuffer(bytes int) error {
	return s.setOption(unix.SOL_SOCKET, unix.SO_SNDBUF, bytes)
}

func (s *socket) setOption(level, opt, value int) error {
	return s.control("set", "setsockopt", func(fd int) error {
		return sys.SetOption(fd, level, opt, min(value, math.MaxInt32))
	})
}

// control calls f with the descriptor while it can't be closed.
func (s *socket) control(op, call string, f func(fd int) error) error {
	err := s.d.use()
	if err == nil {
		err = f(int(s.d.fd))
		s.d.unuse()
	}
	return s.d.wrap(op, call, err)
}

// File returns an os.File of a duplicate of the descriptor, as those of package net: closing
// one does not close the other. The file blocks its reader natively: it is for other programs and
// libraries. Data that a uring poller has received already is not in it. It never parks.
func (s *socket) File() (*os.File, error) { return s.d.file() }

// file duplicates the descriptor.
func (d *desc) file() (*os.File, error) {
	err := d.use()
	if err == nil {
		defer d.unuse()
		d.flags.Or(flagShared)
		var fd int
		if fd, err = unix.FcntlInt(uintptr(d.fd), unix.F_DUPFD_CLOEXEC, 0); err == nil {
			return os.NewFile(uintptr(fd), d.owner.describe()), nil
		}
	}
	return nil, d.owner.opError("file", "fcntl", err)
}
