//go:build linux

package netpoll

import (
	"context"
	"net"
	"net/netip"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/netpoll/internal/sockaddr"
)

// A PacketConn sends and receives datagrams over UDP or a unix socket. It implements
// net.PacketConn, net.Conn and syscall.Conn. Made by ListenPacket, or by Dial, which
// connects it to one peer: then it receives from that one only, Write sends to it, and
// WriteTo fails with net.ErrWriteToConnected. The zero value is of no use. Its methods may
// be called from any goroutine; Read, ReadFrom, Write and WriteTo may park.
type PacketConn struct {
	socket
	network string        // constant: what it was made for
	family  int           // constant: of the socket
	local   sockaddr.Addr // constant
	remote  sockaddr.Addr // constant: what it is connected to, the zero value: nothing
}

// ListenPacket opens a datagram socket bound to address. Networks are udp, udp4, udp6 and unixgram (a path, or @name).
// It belongs to the caller's loop. It parks if a name must be looked up. Errors are *net.OpError. With the address of a
// multicast group it is bound to the port alone, which others may have too; it does not join the group.
func ListenPacket(network, address string) (*PacketConn, error) {
	var at net.Addr
	fail := func(err error) (*PacketConn, error) {
		return nil, opError("listen", network, nil, at, err)
	}
	if network != "unixgram" && (len(network) < 3 || network[:3] != "udp") {
		return fail(net.UnknownNetworkError(network))
	}
	addrs, err := sockaddr.Resolve(context.Background(), network, address, time.Time{})
	if err != nil {
		return fail(err)
	}
	sa := sockaddr.FirstIPv4(addrs)
	at = sa.NetAddr(network)
	loop, err := ownLoop()
	if err != nil {
		return fail(err)
	}
	c, err := newBoundSocket(network, sa, unix.SOCK_DGRAM, func(fd, family int) (*PacketConn, error) {
		return bindPacket(fd, loop, network, sa, family)
	})
	if err != nil {
		return fail(err)
	}
	return c, nil
}

// bindPacket makes a PacketConn of fd. If it fails, fd is still the caller's.
func bindPacket(fd int, loop *engine.Loop, network string, sa sockaddr.Addr, family int) (*PacketConn, error) {
	c := &PacketConn{network: network, family: family}
	if family != unix.AF_UNIX {
		if err := setInt(fd, unix.SOL_SOCKET, unix.SO_BROADCAST, 1); err != nil {
			return nil, err
		}
		if sa.IP.IsMulticast() { // as package net does it
			if err := setInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
				return nil, err
			}
			sa.IP = netip.Addr{}
		}
	}
	if err := sockaddr.Bind(fd, &sa, family); err != nil {
		return nil, err
	}
	if file := sa.File(); file != "" {
		c.d.onFree = func() { unix.Unlink(file) }
	}
	return c, c.begin(fd, loop)
}

// begin registers the socket, which has its address, with a loop.
func (c *PacketConn) begin(fd int, loop *engine.Loop) (err error) {
	if c.local, err = sockaddr.Local(int32(fd)); err != nil {
		return wrapErrno("getsockname", err)
	}
	c.d.owner = c
	return c.d.init(fd, kindDatagram, loop, true)
}

// dialPacket makes a PacketConn that is connected to sa (udp(7), unix(7)).
func (x *dialing) dialPacket(ctx context.Context, sa sockaddr.Addr, deadline time.Time) (*PacketConn, error) {
	fd, err := newSocket(int(sa.Family), unix.SOCK_DGRAM)
	if err != nil {
		return nil, err
	}
	c := &PacketConn{network: x.network, family: int(sa.Family)}
	if sa.Family != unix.AF_UNIX {
		err = setInt(fd, unix.SOL_SOCKET, unix.SO_BROADCAST, 1)
	}
	if err == nil {
		err = x.prepare(fd, &sa)
	}
	if local, _ := x.localFor(x.network); err == nil && local != nil && local.File() != "" {
		c.d.onFree = func() { unix.Unlink(local.File()) }
	}
	if err == nil {
		err = wrapErrno("connect", startConnect(ctx, fd, &sa, deadline))
	}
	if err == nil {
		c.remote = sa
		if peer, err := sockaddr.Peer(int32(fd)); err == nil && sa.Family != unix.AF_UNIX && sa.IsWildcard() {
			c.remote = peer
		}
		err = c.begin(fd, x.loop)
	}
	if err != nil {
		if c.d.onFree != nil {
			c.d.onFree()
		}
		unix.Close(fd)
		return nil, err
	}
	return c, nil
}

func (c *PacketConn) describe() string {
	if c.remote.Family != 0 {
		return c.network + " to " + c.remote.String()
	}
	return c.network + " socket " + c.local.String()
}

// Read implements net.Conn: ReadFrom without the sender. A datagram may be empty, which is not an end; with an empty b
// no datagram is taken. An error that an earlier datagram has met, as ECONNREFUSED if a connected peer has no socket
// there, ends it (udp(7)). It parks.
func (c *PacketConn) Read(b []byte) (int, error) {
	var n int
	var err error
	if len(b) > 0 {
		n, err = c.d.receive(b)
	} else if err = c.d.use(); err == nil {
		c.d.unuse()
	}
	if err != nil {
		return n, c.opError("read", "read", err)
	}
	return n, nil
}

// Write implements net.Conn: it sends b as one datagram to the peer; without one that is
// EDESTADDRREQ or ENOTCONN. Like Read it may meet the error of an earlier datagram. It
// parks while the socket's buffer, or for unixgram the receiver's queue, is full.
func (c *PacketConn) Write(b []byte) (int, error) {
	n, err := c.d.send(b, 0, false)
	if err != nil {
		return n, c.opError("write", "write", err)
	}
	return n, nil
}

// ReadFrom implements net.PacketConn: it receives one datagram and cuts off what does
// not fit into b (recvmsg(2)). It parks.
func (c *PacketConn) ReadFrom(b []byte) (int, net.Addr, error) {
	n, _, _, from, err := c.receive(b, nil)
	if err != nil {
		return n, nil, err
	}
	return n, from.NetAddr(c.network), nil
}

// WriteTo implements net.PacketConn: it sends b as one datagram (sendmsg(2)). It parks
// while the socket's buffer, or for unixgram the receiver's queue, is full.
func (c *PacketConn) WriteTo(b []byte, addr net.Addr) (int, error) {
	switch a := addr.(type) {
	case *net.UDPAddr:
		if a != nil {
			sa := sockaddr.FromAddrPort(a.AddrPort())
			return c.send("sendto", b, nil, &sa)
		}
	case *net.UnixAddr:
		if a != nil {
			sa := sockaddr.FromPath(a.Name)
			return c.send("sendto", b, nil, &sa)
		}
	}
	return 0, c.opErrorTo("write", "", addr, unix.EINVAL)
}

// send sends b as one datagram, to the peer if sa is nil.
func (c *PacketConn) send(call string, b, oob []byte, sa *sockaddr.Addr) (int, error) {
	var rsa unix.RawSockaddrAny
	var salen uint32
	var err error
	if sa != nil {
		if c.remote.Family != 0 {
			return 0, c.opErrorTo("write", "", sa.NetAddr(c.network), net.ErrWriteToConnected)
		}
		err = unix.EINVAL
		if (sa.Family == unix.AF_UNIX) == (c.family == unix.AF_UNIX) {
			salen, err = sa.Encode(&rsa, c.family)
		}
	}
	switch {
	case err != nil:
	case c.family == unix.AF_UNIX && sa != nil:
		err = c.sendUnix(b, &rsa, salen)
	default:
		err = c.d.attempt(writeSide, engine.ReasonWrite, func() syscall.Errno {
			return c.d.sendMsg(b, oob, &rsa, salen)
		})
	}
	switch {
	case err == nil:
		return len(b), nil
	case sa == nil:
		return 0, c.opError("write", call, err)
	}
	return 0, c.opErrorTo("write", call, sa.NetAddr(c.network), err)
}

// sendUnix asks again and again while the receiver's queue is full: a sender that is
// not connected to it gets no event when there is room (unix(7)).
func (c *PacketConn) sendUnix(b []byte, rsa *unix.RawSockaddrAny, salen uint32) error {
	for pause := 100 * time.Microsecond; ; pause = min(2*pause, 10*time.Millisecond) {
		full := false
		err := c.d.attempt(writeSide, engine.ReasonWrite, func() syscall.Errno {
			e := c.d.sendMsg(b, nil, rsa, salen)
			if full = e == unix.EAGAIN; full {
				return 0
			}
			return e
		})
		if err != nil || !full {
			return err
		}
		if err := engine.Sleep(pause); err != nil {
			return &contextError{err}
		}
	}
}

// LocalAddr implements net.PacketConn.
func (c *PacketConn) LocalAddr() net.Addr { return c.local.NetAddr(c.network) }

// RemoteAddr implements net.Conn; nil if the socket is not connected.
func (c *PacketConn) RemoteAddr() net.Addr { return c.remote.NetAddr(c.network) }

// opError is opErrorTo of the peer, if there is one.
func (c *PacketConn) opError(op, call string, err error) error {
	return c.opErrorTo(op, call, c.RemoteAddr(), err)
}

//go:noinline
func (c *PacketConn) opErrorTo(op, call string, to net.Addr, err error) error {
	return &net.OpError{Op: op, Net: c.network, Source: c.LocalAddr(), Addr: to, Err: wrapErrno(call, err)}
}
