//go:build linux

package netpoll

import (
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/engine"
)

// A rawConn is what SyscallConn returns. All its methods fail with net.ErrClosed, and call
// nothing, once the descriptor is closed.
type rawConn struct{ d *desc }

// Control implements syscall.RawConn. f may duplicate the descriptor.
func (r *rawConn) Control(f func(fd uintptr)) error {
	if err := r.d.use(); err != nil {
		return r.d.owner.opError("raw-control", "", err)
	}
	defer r.d.unuse()
	r.d.flags.Or(flagShared)
	f(uintptr(r.d.fd))
	return nil
}

// Read implements syscall.RawConn: f is called until it returns true. It parks.
func (r *rawConn) Read(f func(fd uintptr) bool) error {
	return r.repeat("raw-read", readSide, f)
}

// Write implements syscall.RawConn: f is called until it returns true. It parks.
func (r *rawConn) Write(f func(fd uintptr) bool) error {
	return r.repeat("raw-write", writeSide, f)
}

// repeat calls f at least once without waiting for readiness first, as it may not want
// to read or write at all.
func (r *rawConn) repeat(op string, sd side, f func(fd uintptr) bool) error {
	why := engine.ReasonRead
	s := &r.d.read
	if sd == writeSide {
		why, s = engine.ReasonWrite, &r.d.write
	}
	s.more()
	r.d.flags.Or(flagShared)
	if sd == readSide {
		if err := r.d.surrender(); err != nil {
			return r.d.owner.opError(op, "", err)
		}
	}
	return r.d.wrap(op, "", r.d.attempt(sd, why, func() syscall.Errno {
		if f(uintptr(r.d.fd)) {
			return 0
		}
		return unix.EAGAIN
	}))
}

// A rawListener is the rawConn of a listener: there is nothing to read or write, and a
// connection that f accepted would be missing in an Accept that waits.
type rawListener struct{ rawConn }

// Read fails with EINVAL, as that of package net.
func (*rawListener) Read(func(fd uintptr) bool) error { return unix.EINVAL }

// Write fails with EINVAL, as that of package net.
func (*rawListener) Write(func(fd uintptr) bool) error { return unix.EINVAL }
