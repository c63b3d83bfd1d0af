//go:build linux

package netpoll

import (
	"net"
	"syscall"
	"time"
)

// An owner is what a descriptor belongs to: a Conn, a PacketConn, a File or a Listener.
type owner interface {
	// describe names it in dumps of what tasks wait for.
	describe() string
	// opError wraps an error for the caller of op; call is the system call of a bare errno, if
	// there is one.
	opError(op, call string, err error) error
}

// An endpoint is what Conn, PacketConn and File have in common.
type endpoint struct{ d desc }

// Close closes the descriptor: waiting readers and writers get net.ErrClosed, and when
// it returns the descriptor has been closed. It may park for a moment if another
// thread is in the middle of a system call. A second Close returns net.ErrClosed.
func (e *endpoint) Close() error {
	if err := e.d.close(); err != nil {
		return e.d.owner.opError("close", "close", err)
	}
	return nil
}

// SetDeadline sets the read and the write deadline; the zero time means none. An operation
// that meets a deadline fails with an error that is os.ErrDeadlineExceeded. The resolution is
// about 66 µs.
func (e *endpoint) SetDeadline(t time.Time) error {
	return e.setDeadline(flagReadExpired|flagWriteExpired, t)
}

// SetReadDeadline sets the deadline of what reads. Moving a deadline to a later time costs no
// system call and no timer operation.
func (e *endpoint) SetReadDeadline(t time.Time) error { return e.setDeadline(flagReadExpired, t) }

// SetWriteDeadline sets the deadline of what writes.
func (e *endpoint) SetWriteDeadline(t time.Time) error { return e.setDeadline(flagWriteExpired, t) }

func (e *endpoint) setDeadline(which uint32, t time.Time) error {
	if err := e.d.setDeadline(which, t); err != nil {
		return e.d.owner.opError("set", "", err)
	}
	return nil
}

// SyscallConn implements syscall.Conn. Functions given to it must not park.
func (e *endpoint) SyscallConn() (syscall.RawConn, error) {
	if e.d.life.Load()&lifeClosed != 0 {
		return nil, e.d.owner.opError("raw", "", net.ErrClosed)
	}
	return &rawConn{&e.d}, nil
}
