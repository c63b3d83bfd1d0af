//go:build linux

package netpoll

import (
	"math"
	"net/netip"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/kernel"
)

// ReadMsg receives one datagram with its ancillary data, and what it is cut off by: flags are those
// of recvmsg(2), MSG_TRUNC and so on. addr is the zero value for a unix socket. It parks.
func (c *PacketConn) ReadMsg(b, oob []byte) (n, oobn, flags int, addr netip.AddrPort, err error) {
	n, oobn, flags, from, err := c.receive(b, oob)
	if err == nil && c.family != unix.AF_UNIX {
		addr = from.addrPort()
	}
	return n, oobn, flags, addr, err
}

func (c *PacketConn) receive(b, oob []byte) (n, oobn, flags int, from sockaddr, err error) {
	var rsa unix.RawSockaddrAny
	var salen uint32
	err = c.d.attempt(readSide, engine.ReasonRead, func() (e syscall.Errno) {
		n, oobn, flags, salen, e = sysRecvMsg(c.d.fd, b, oob, &rsa)
		return e
	})
	if err != nil {
		call := "recvfrom"
		if oob != nil {
			call = "recvmsg"
		}
		return 0, 0, 0, sockaddr{}, c.opError("read", call, err)
	}
	return n, oobn, flags, decode(&rsa, salen), nil
}

// WriteMsg sends b as one datagram with ancillary data to addr, or, with the zero value, to the peer
// of a connected socket (sendmsg(2)). It parks.
func (c *PacketConn) WriteMsg(b, oob []byte, addr netip.AddrPort) (n, oobn int, err error) {
	var to *sockaddr
	if addr.IsValid() {
		sa := ipSockaddr(addr)
		to = &sa
	}
	if n, err = c.send("sendmsg", b, oob, to); err != nil {
		return 0, 0, err
	}
	return n, len(oob), nil
}

// SetReadBuffer sets the size in bytes of the kernel's receive buffer (socket(7)).
func (c *PacketConn) SetReadBuffer(bytes int) error { return c.setBuffer(unix.SO_RCVBUF, bytes) }

// SetWriteBuffer sets the size in bytes of the kernel's send buffer (socket(7)).
func (c *PacketConn) SetWriteBuffer(bytes int) error { return c.setBuffer(unix.SO_SNDBUF, bytes) }

func (c *PacketConn) setBuffer(option, bytes int) error {
	err := c.d.use()
	if err == nil {
		err = setOption(int(c.d.fd), unix.SOL_SOCKET, option, min(bytes, math.MaxInt32))
		c.d.unuse()
	}
	if err != nil {
		return c.opError("set", "setsockopt", err)
	}
	return nil
}

// sysRecvMsg and sysSendMsgTo carry one datagram with its address and ancillary data.

func sysRecvMsg(fd int32, b, oob []byte, rsa *unix.RawSockaddrAny) (n, oobn, flags int, salen uint32, e syscall.Errno) {
	for {
		iov := unix.Iovec{Base: unsafe.SliceData(b)}
		iov.SetLen(len(b))
		msg := unix.Msghdr{
			Name: (*byte)(unsafe.Pointer(rsa)), Namelen: unix.SizeofSockaddrAny,
			Iov: &iov, Control: unsafe.SliceData(oob),
		}
		msg.SetIovlen(1)
		msg.SetControllen(len(oob))
		r, _, e := syscall.RawSyscall(unix.SYS_RECVMSG, uintptr(fd), uintptr(unsafe.Pointer(&msg)),
			unix.MSG_DONTWAIT|unix.MSG_CMSG_CLOEXEC)
		if e == 0 {
			kernel.RaceRead(b[:min(int(r), len(b))])
			return int(r), int(msg.Controllen), int(msg.Flags), msg.Namelen, 0
		}
		if e != unix.EINTR {
			return 0, 0, 0, 0, e
		}
	}
}

// sysRecvUnix is sysRecv on a unix stream socket. drains reports whether a read shorter than asked for leaves
// nothing: the kernel stops at a message with descriptors, or with other credentials if they were asked for
// (SO_PASSCRED), of which MSG_CTRUNC tells here, where there is room for neither (recvmsg(2), unix(7)).
func sysRecvUnix(fd int32, b []byte) (n int, drains bool, e syscall.Errno) {
	if len(b) > rawMax || kernel.Net != nil {
		n, e = sysRecv(fd, b, 0)
		return n, false, e
	}
	n, _, flags, _, e := sysRecvMsg(fd, b, nil, nil)
	return n, flags&unix.MSG_CTRUNC == 0, e
}

func sysSendMsgTo(fd int32, b, oob []byte, rsa *unix.RawSockaddrAny, salen uint32) syscall.Errno {
	kernel.RaceWrite(b)
	for {
		iov := unix.Iovec{Base: unsafe.SliceData(b)}
		iov.SetLen(len(b))
		msg := unix.Msghdr{Iov: &iov, Control: unsafe.SliceData(oob)}
		if salen > 0 {
			msg.Name, msg.Namelen = (*byte)(unsafe.Pointer(rsa)), salen
		}
		msg.SetIovlen(1)
		msg.SetControllen(len(oob))
		_, _, e := syscall.RawSyscall(unix.SYS_SENDMSG, uintptr(fd), uintptr(unsafe.Pointer(&msg)),
			unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
		if e != unix.EINTR {
			return e
		}
	}
}
