//go:build linux

package netpoll

import (
	"errors"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/netpoll/internal/sockaddr"
)

// ListenOn makes a listener of a stream socket that listens already: one that systemd has opened (sd_listen_fds(3)), or
// one that another process has handed over. It takes fd over, if there is no error, and belongs to the caller's loop.
// shared means that other processes have the socket too and go on listening: then Drain closes ln at once, and what
// waits to be accepted is left to them. All loops accept from the one socket. A file of a unix socket is not removed,
// unless SetUnlinkOnClose says so. ListenOn never parks.
func ListenOn(fd int, shared bool) (*Listener, error) {
	fail := func(err error) (*Listener, error) {
		return nil, opError("listen", "", nil, nil, fmt.Errorf("descriptor %d: %w", fd, err))
	}
	for option, want := range map[int]int{unix.SO_TYPE: unix.SOCK_STREAM, unix.SO_ACCEPTCONN: 1} {
		if got, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, option); err != nil {
			return fail(wrapErrno("getsockopt", err))
		} else if got != want {
			return fail(errors.New("this is no stream socket that listens"))
		}
	}
	family, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN)
	if err != nil {
		return fail(wrapErrno("getsockopt", err))
	}
	ln := &Listener{network: "tcp", family: family, adopted: true, shared: shared}
	switch family {
	case unix.AF_INET, unix.AF_INET6:
		if err := setStreamDefaults(fd, net.KeepAliveConfig{Enable: true}); err != nil {
			return fail(err)
		}
	case unix.AF_UNIX:
		ln.network = "unix"
	default:
		return fail(fmt.Errorf("sockets of family %d are not served", family))
	}
	unix.CloseOnExec(fd)
	if err := unix.SetNonblock(fd, true); err != nil {
		return fail(wrapErrno("fcntl", err))
	}
	if ln.local, err = sockaddr.Local(int32(fd)); err != nil {
		return fail(wrapErrno("getsockname", err))
	}
	l, err := ownLoop()
	if err != nil {
		return fail(err)
	}
	if err := ln.begin(fd, l, ln.sharedFlags()); err != nil {
		return fail(err)
	}
	return ln, nil
}

// sharedFlags are those of a listener whose socket others accept from too. If they are loops of this
// process it is enough that one of them hears of a connection. Not if they are of a process that
// hands over: the one that hears of it may be about to stop accepting.
func (ln *Listener) sharedFlags() uint32 {
	if ln.adopted && !ln.shared {
		return flagShared
	}
	return flagShared | flagExclusive
}

// Files returns duplicates of the listening sockets, for another process to go on with: see ListenOn. Serve may have
// made several. Connections in the backlog go to whichever process accepts next. The caller closes the files. It never
// parks.
func (ln *Listener) Files() (files []*os.File, err error) {
	all, _ := ln.all()
	for _, each := range all {
		if each.copied {
			continue // the same socket as another
		}
		if err = each.d.use(); err != nil {
			break
		}
		each.d.flags.Or(flagShared)
		each.d.acceptNoneAhead() // it would be lost to the others
		fd, dupErr := unix.FcntlInt(uintptr(each.d.fd), unix.F_DUPFD_CLOEXEC, 0)
		each.d.unuse()
		if err = dupErr; err != nil {
			break
		}
		files = append(files, os.NewFile(uintptr(fd), ln.Addr().String()))
	}
	if err != nil {
		for _, f := range files {
			f.Close()
		}
		return nil, ln.opError("dup", "", err)
	}
	return files, nil
}
