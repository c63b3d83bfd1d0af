//go:build linux

package netpoll

import (
	"context"
	"errors"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/netpoll/internal/sockaddr"
	"github.com/capriccio-go/capriccio/netpoll/internal/sys"
)

// Dial connects to address. Networks are tcp, tcp4, tcp6, unix, udp, udp4, udp6 and
// unixgram; addresses are those of package net. If a name has several addresses they are
// tried in turn, or as Dialer.FallbackDelay says. An empty host is this machine. The connection
// belongs to the caller's loop. It parks. The result is a *Conn, of the last four networks a
// *PacketConn; errors are *net.OpError: ECONNREFUSED, ENETUNREACH and so on (connect(2)),
// *net.DNSError.
func Dial(network, address string) (net.Conn, error) {
	return new(Dialer).DialContext(context.Background(), network, address)
}

// DialTimeout is Dial with a limit for all of it, the look-up of names included; zero
// or less means none. Its error is then context.DeadlineExceeded, os.ErrDeadlineExceeded
// and a timeout.
func DialTimeout(network, address string, timeout time.Duration) (net.Conn, error) {
	return (&Dialer{Timeout: timeout}).DialContext(context.Background(), network, address)
}

// DialContext is Dial until ctx ends, or the context of the calling task; the error is
// then context.Canceled, or as that of DialTimeout. Once connected, ctx no longer matters.
// If ctx has a deadline, each address of several gets an equal share of what is left, but
// at least 2 s.
func DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	return new(Dialer).DialContext(ctx, network, address)
}

var errMissingAddress = errors.New("missing address")

func (d *Dialer) dial(ctx context.Context, network, address string, deadline time.Time) (net.Conn, error) {
	fail := func(sa *sockaddr.Addr, err error) (net.Conn, error) {
		if sa == nil {
			return nil, opError("dial", network, nil, nil, err)
		}
		return nil, opError("dial", network, d.LocalAddr, sa.NetAddr(network), err)
	}
	if address == "" && sockaddr.IsNetwork(network) {
		return fail(nil, errMissingAddress)
	}
	addrs, err := sockaddr.Resolve(ctx, network, address, deadline)
	if err != nil {
		return fail(nil, err)
	}
	if addrs, err = d.reachable(network, addrs); err != nil {
		return fail(nil, err)
	}
	loop, err := ownLoop()
	if err != nil {
		return fail(nil, err)
	}
	x := &dialing{Dialer: d, loop: loop, network: network, deadline: deadline}
	c, failed, err := x.all(ctx, addrs)
	if err != nil {
		return fail(failed, err)
	}
	return c, nil
}

// inTurn tries one address after the other. err is the first failure, or the last if a context has ended, and failed is
// the address that it is about.
func (x *dialing) inTurn(ctx context.Context, addrs []sockaddr.Addr) (c net.Conn, failed *sockaddr.Addr, err error) {
	for i := range addrs {
		c, one := x.dialAddr(ctx, addrs[i], len(addrs)-i)
		if one == nil {
			return c, nil, nil
		}
		over := ctx.Err() != nil || engine.Err() != nil
		if err == nil || over {
			failed, err = &addrs[i], one
		}
		if over {
			break
		}
	}
	return nil, failed, err
}

// dialAddr connects to the first of n addresses that are left.
func (x *dialing) dialAddr(ctx context.Context, sa sockaddr.Addr, n int) (net.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, sockaddr.Ended(err)
	}
	until, err := shareOf(x.deadline, n)
	if err != nil {
		return nil, err
	}
	if x.network[:3] == "udp" || x.network == "unixgram" {
		return asConn(x.dialPacket(ctx, sa, until))
	}
	return asConn(x.dialOne(ctx, sa, until))
}

// shareOf is the deadline for the next of n addresses.
func shareOf(deadline time.Time, n int) (time.Time, error) {
	if deadline.IsZero() {
		return deadline, nil
	}
	left := time.Until(deadline)
	if left <= 0 {
		return deadline, sockaddr.ErrTimeout
	}
	const least = 2 * time.Second
	part := left / time.Duration(n)
	if part < least {
		part = min(least, left)
	}
	return time.Now().Add(part), nil
}

func (x *dialing) dialOne(ctx context.Context, sa sockaddr.Addr, deadline time.Time) (*Conn, error) {
	for try := 0; ; try++ {
		c, err := x.dialOnce(ctx, sa, deadline)
		if err == nil && c.d.kind == kindTCP && selfConnected(c) {
			c.d.close()
			err = unix.ECONNREFUSED
		} else if !errors.Is(err, unix.EADDRNOTAVAIL) {
			return c, err
		}
		// The kernel chose a local port that meets itself, or briefly found none.
		if try == 2 || sa.Family == unix.AF_UNIX {
			return nil, wrapErrno("connect", err)
		}
	}
}

// selfConnected reports whether the connection's both ends are the same socket: a port
// without a listener, chosen as the local one too.
func selfConnected(c *Conn) bool {
	local, ok := c.LocalAddr().(*net.TCPAddr)
	return ok && local.Port == int(c.remote.Port) && local.AddrPort() == c.remote.AddrPort()
}

func (x *dialing) dialOnce(ctx context.Context, sa sockaddr.Addr, deadline time.Time) (*Conn, error) {
	fd, err := newSocket(int(sa.Family), unix.SOCK_STREAM)
	if err != nil {
		return nil, err
	}
	if err := x.prepare(fd, &sa); err != nil {
		unix.Close(fd)
		return nil, err
	}
	c, err := connect(ctx, x.loop, fd, sa, deadline)
	if err != nil {
		return nil, err
	}
	if sa.Family != unix.AF_UNIX {
		if err := x.setDefaults(fd); err != nil {
			c.d.close()
			return nil, err
		}
	}
	c.addresses() // while they can be asked for
	return c, nil
}

// connect starts the connection and waits for it (connect(2)). It owns fd.
func connect(ctx context.Context, loop *engine.Loop, fd int, sa sockaddr.Addr, deadline time.Time) (*Conn, error) {
	e := startConnect(ctx, fd, &sa, deadline)
	if e != nil && e != error(unix.EINPROGRESS) {
		unix.Close(fd)
		return nil, wrapErrno("connect", e)
	}
	network := "tcp"
	if sa.Family == unix.AF_UNIX {
		network = "unix"
	}
	c, err := newConn(fd, network, loop, sa, e == nil, false)
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	if e != nil {
		if err := c.awaitConnect(ctx, deadline); err != nil {
			c.d.close()
			return nil, err
		}
	}
	if network == "tcp" && sa.IsWildcard() {
		if peer, err := sockaddr.Peer(c.d.fd); err == nil {
			c.remote = peer
		}
	}
	return c, nil
}

// startConnect returns nil, EINPROGRESS or what failed. A unix socket whose peer has a
// full queue answers EAGAIN, and the kernel does not tell when there is room, so ask again.
func startConnect(ctx context.Context, fd int, sa *sockaddr.Addr, deadline time.Time) error {
	var rsa unix.RawSockaddrAny
	salen, err := sa.Encode(&rsa, int(sa.Family))
	if err != nil {
		return err
	}
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		e := sys.Connect(fd, &rsa, salen)
		switch e {
		case 0, unix.EISCONN:
			return nil
		case unix.EINTR, unix.EALREADY:
			return unix.EINPROGRESS
		case unix.EAGAIN:
			if sa.Family != unix.AF_UNIX {
				return e
			}
		default:
			return e
		}
		if err := ctx.Err(); err != nil {
			return sockaddr.Ended(err)
		}
		if !deadline.IsZero() && time.Until(deadline) <= 0 {
			return sockaddr.ErrTimeout
		}
		if err := sleepHolding(fd, pause); err != nil {
			return sockaddr.Ended(err)
		}
	}
}

// sleepHolding is engine.Sleep for the owner of fd, which nothing else would close if the task is ended meanwhile.
func sleepHolding(fd int, pause time.Duration) error {
	over := true
	defer func() {
		if over {
			unix.Close(fd)
		}
	}()
	err := engine.Sleep(pause)
	over = false
	return err
}

// awaitConnect parks until the kernel has connected or failed.
func (c *Conn) awaitConnect(ctx context.Context, deadline time.Time) error {
	c.d.setDeadline(flagWriteExpired, deadline)
	stop := context.AfterFunc(ctx, func() { c.d.setDeadline(flagWriteExpired, epoch()) })
	err := c.d.attempt(writeSide, engine.ReasonConnect, func() syscall.Errno {
		e, err := unix.GetsockoptInt(int(c.d.fd), unix.SOL_SOCKET, unix.SO_ERROR)
		if err != nil {
			return err.(syscall.Errno)
		}
		switch e := syscall.Errno(e); e {
		case 0:
			// No error may also mean no result yet.
			if _, err := sockaddr.Peer(c.d.fd); err == error(unix.ENOTCONN) {
				return unix.EAGAIN
			}
			return 0
		case unix.EINPROGRESS, unix.EALREADY, unix.EINTR:
			return unix.EAGAIN
		case unix.EISCONN:
			return 0
		default:
			return e
		}
	})
	if !stop() && ctx.Err() != nil {
		return sockaddr.Ended(ctx.Err())
	}
	var abandoned *contextError
	switch {
	case err == nil:
		return c.d.setDeadline(flagWriteExpired, time.Time{})
	case err == os.ErrDeadlineExceeded:
		return sockaddr.ErrTimeout
	case errors.As(err, &abandoned):
		return sockaddr.Ended(abandoned.err)
	}
	return wrapErrno("connect", err)
}
