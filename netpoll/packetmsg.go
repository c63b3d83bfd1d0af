//go:build linux

package netpoll

import (
	"net/netip"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/kernel"
	"github.com/capriccio-go/capriccio/netpoll/internal/sockaddr"
	"github.com/capriccio-go/capriccio/netpoll/internal/sys"
)

// ReadMsg receives one datagram with its ancillary data. flags are those of recvmsg(2): MSG_TRUNC if b has no room for
// all of the datagram, and so on. addr is the zero value for a unix socket. It parks.
func (c *PacketConn) ReadMsg(b, oob []byte) (n, oobn, flags int, addr netip.AddrPort, err error) {
	n, oobn, flags, from, err := c.receive(b, oob)
	if err == nil && c.family != unix.AF_UNIX {
		addr = from.AddrPort()
	}
	return n, oobn, flags, addr, err
}

func (c *PacketConn) receive(b, oob []byte) (n, oobn, flags int, from sockaddr.Addr, err error) {
	var rsa unix.RawSockaddrAny
	var salen uint32
	err = c.d.attempt(readSide, engine.ReasonRead, func() (e syscall.Errno) {
		n, oobn, flags, salen, e = sys.RecvMsg(c.d.fd, b, oob, &rsa)
		return e
	})
	if err != nil {
		call := "recvfrom"
		if oob != nil {
			call = "recvmsg"
		}
		return 0, 0, 0, sockaddr.Addr{}, c.opError("read", call, err)
	}
	return n, oobn, flags, sockaddr.Decode(&rsa, salen), nil
}

// WriteMsg sends b as one datagram with ancillary data to addr, or, with the zero value, to the peer
// of a connected socket (sendmsg(2)). It parks.
func (c *PacketConn) WriteMsg(b, oob []byte, addr netip.AddrPort) (n, oobn int, err error) {
	var to *sockaddr.Addr
	if addr.IsValid() {
		sa := sockaddr.FromAddrPort(addr)
		to = &sa
	}
	if n, err = c.send("sendmsg", b, oob, to); err != nil {
		return 0, 0, err
	}
	return n, len(oob), nil
}

// sendMsg sends b as one datagram, with ancillary data, to an address if salen is above 0.
func (d *desc) sendMsg(b, oob []byte, rsa *unix.RawSockaddrAny, salen uint32) syscall.Errno {
	kernel.RaceWrite(b)
	iov := [1]unix.Iovec{{Base: unsafe.SliceData(b)}}
	iov[0].SetLen(len(b))
	_, e := sys.SendMsg(d.fd, iov[:], len(b), oob, rsa, salen)
	return e
}
