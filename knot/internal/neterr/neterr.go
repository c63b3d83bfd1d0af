//go:build linux

// Package neterr tells what an error of reading or writing is about: the client, the disk, or time that has run out.
package neterr

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// TimedOut reports whether a read or write failed at its deadline.
func TimedOut(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }

// OfDisk reports whether an error of SendFile is about the file, and so one that the owner of the server has to
// hear of; not about a client that has gone or is too slow, nor about the server's end.
func OfDisk(err error) bool {
	if TimedOut(err) || errors.Is(err, net.ErrClosed) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	var path *fs.PathError // of package aio
	if errors.As(err, &path) {
		return true
	}
	// sendfile(2) has errors of both sides.
	var errno syscall.Errno
	errors.As(err, &errno)
	return errno != 0 && !ofSocket(errno)
}

// CutOff reports whether an error of reading is that the client has gone without a word: has reset the connection, say.
func CutOff(err error) bool {
	var errno syscall.Errno
	return errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &errno) && ofSocket(errno) // the first: in a record of TLS
}

// ofSocket reports whether errno is what a socket reports of the other end, and of what is in between: ip(7), tcp(7) and
// unix(7).
func ofSocket(errno syscall.Errno) bool {
	switch errno {
	case unix.EPIPE, unix.ECONNRESET, unix.ECONNABORTED, unix.ECONNREFUSED, unix.ENOTCONN, unix.ETIMEDOUT, unix.ENETDOWN,
		unix.ENETUNREACH, unix.ENETRESET, unix.EHOSTDOWN, unix.EHOSTUNREACH, unix.ENOPROTOOPT, unix.EPROTO, unix.ENOBUFS, unix.EPERM:
		return true
	}
	return false
}
