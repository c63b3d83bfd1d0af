//go:build linux

package netpoll

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"strconv"
	"syscall"
)

var (
	// ErrBusy means that the connection has an OnReadable registration pending, or, from
	// OnReadable, that a caller is reading.
	ErrBusy = errors.New("netpoll: the read side is in use")

	// ErrDraining is the error of a Read that waits or begins in a handler of Serve once Serve has been draining for
	// half a second: the server stops, and the client has asked for nothing. It satisfies os.ErrDeadlineExceeded and
	// net.Error's Timeout, so that code that knows only deadlines ends the connection.
	ErrDraining error = draining{}

	// errNoRuntime means that no loop can poll for the caller.
	errNoRuntime = errors.New("netpoll: no task runtime is running; call this in capriccio.Run")
	// errForeignPoller means that the loop polls with something not of this package.
	errForeignPoller = errors.New("netpoll: the loop's poller was not made by netpoll")
	// errUnread is for callers of the socket that would skip what has been received.
	errUnread      = errors.New("bytes that have been received must be read with Read first")
	errNotPollable = errors.New("the descriptor can't be polled (a regular file or directory)")
)

type draining struct{}

func (draining) Error() string        { return "netpoll: the server stops: i/o timeout" }
func (draining) Is(target error) bool { return target == os.ErrDeadlineExceeded }
func (draining) Timeout() bool        { return true }
func (draining) Temporary() bool      { return true }

// A pollError is a failed call of a poller.
type pollError struct {
	op string
	fd int
	e  syscall.Errno
}

func (e *pollError) Error() string {
	return "netpoll: " + e.op + " on fd " + strconv.Itoa(e.fd) + ": " + e.e.Error()
}
func (e *pollError) Unwrap() error { return e.e }

// wrapErrno names the system call of a bare errno, if there is one, as package net does.
func wrapErrno(call string, err error) error {
	if e, ok := err.(syscall.Errno); ok && call != "" {
		return os.NewSyscallError(call, e)
	}
	return err
}

// opError wraps err for the caller; it is apart from the callers to keep their frames
// small. nil and io.EOF stay as they are.
//
//go:noinline
func opError(op, network string, source, addr net.Addr, err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	return &net.OpError{Op: op, Net: network, Source: source, Addr: addr, Err: err}
}

// errFileClosed is net.ErrClosed for files: it is os.ErrClosed too.
var errFileClosed error = fileClosed{}

type fileClosed struct{}

func (fileClosed) Error() string { return fs.ErrClosed.Error() }
func (fileClosed) Is(target error) bool {
	return target == fs.ErrClosed || target == net.ErrClosed
}

// A contextError is the end of the context of the task that waited. Another attempt meets it again.
type contextError struct{ err error }

// inContext stays out of the stack frame of functions that wait.
//
//go:noinline
func inContext(err error) error { return &contextError{err} }

func (e *contextError) Error() string   { return "wait abandoned: " + e.err.Error() }
func (e *contextError) Unwrap() error   { return e.err }
func (e *contextError) Timeout() bool   { return errors.Is(e.err, context.DeadlineExceeded) }
func (e *contextError) Temporary() bool { return false }
