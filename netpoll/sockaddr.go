//go:build linux

package netpoll

import (
	"encoding/binary"
	"net"
	"net/netip"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/netpoll/internal/sys"
)

// A sockaddr is the address of a socket: IPv4, IPv6 or unix. The zero value is none.
type sockaddr struct {
	ip     netip.Addr // without zone; the zero value is the wildcard of the family
	scope  uint32     // IPv6 scope id
	port   uint16
	family uint16  // unix.AF_*
	name   *string // AF_UNIX, see path; nil: none
}

// unnamed is the path of a unix socket that is bound to none.
var unnamed = "@"

// path is the name of a unix socket, "" if it has none; an abstract one begins with @.
func (sa *sockaddr) path() string {
	if sa.name == nil {
		return ""
	}
	return *sa.name
}

func ipSockaddr(ap netip.AddrPort) sockaddr {
	sa := sockaddr{ip: ap.Addr(), port: ap.Port(), family: unix.AF_INET}
	if sa.ip.Is6() {
		sa.family = unix.AF_INET6
		sa.scope = scopeOf(sa.ip.Zone())
		sa.ip = sa.ip.WithZone("")
	}
	return sa
}

// wildcard reports whether sa, of an IP network, is every address of this machine.
func (sa *sockaddr) wildcard() bool { return !sa.ip.IsValid() || sa.ip.IsUnspecified() }

// file is the path of the file of a unix socket bound to sa, "" if it has none.
func (sa *sockaddr) file() string {
	path := sa.path()
	if path == "" || path[0] == '@' {
		return ""
	}
	return path
}

var loopback6 = netip.IPv6Loopback()

// unixSockaddr takes an abstract name with @ in front, or, as for C, with NUL.
func unixSockaddr(path string) sockaddr {
	if path != "" && path[0] == 0 {
		path = "@" + path[1:]
	}
	return sockaddr{family: unix.AF_UNIX, name: &path}
}

// port in network byte order.
func networkPort(p uint16) uint16 { return p<<8 | p>>8 }

// isLittleEndian is constant on every supported architecture, but cheap to ask.
var isLittleEndian = func() bool { x := uint16(1); return *(*byte)(unsafe.Pointer(&x)) == 1 }()

func swapPort(p uint16) uint16 {
	if isLittleEndian {
		return networkPort(p)
	}
	return p
}

// clientOf is a number for the host at ip, 0 if that is not valid. One network of IPv6 (a /64, RFC 6177)
// counts as one client.
func clientOf(ip netip.Addr) uint32 {
	if !ip.IsValid() {
		return 0
	}
	ip = ip.Unmap()
	var h uint64
	if ip.Is4() {
		b := ip.As4()
		h = uint64(binary.BigEndian.Uint32(b[:]))
	} else {
		b := ip.As16()
		h = binary.BigEndian.Uint64(b[:8])
	}
	return uint32(h * 0x9e3779b97f4a7c15 >> 32)
}

// encode writes sa as a socket of the given family takes it, and returns the length.
// An IPv4 address on an IPv6 socket is mapped; no address is the wildcard.
func (sa *sockaddr) encode(rsa *unix.RawSockaddrAny, family int) (uint32, error) {
	switch {
	case sa.family == unix.AF_UNIX:
		return sa.encodeUnix(rsa)
	case family == unix.AF_INET:
		ip := sa.ip.Unmap()
		if !ip.IsValid() {
			ip = netip.IPv4Unspecified()
		}
		if ip.Is4() {
			p := (*unix.RawSockaddrInet4)(unsafe.Pointer(rsa))
			*p = unix.RawSockaddrInet4{Family: unix.AF_INET, Port: swapPort(sa.port), Addr: ip.As4()}
			return unix.SizeofSockaddrInet4, nil
		}
	case family == unix.AF_INET6:
		p := (*unix.RawSockaddrInet6)(unsafe.Pointer(rsa))
		ip := sa.ip
		if !ip.IsValid() || ip == netip.IPv4Unspecified() {
			ip = netip.IPv6Unspecified()
		}
		*p = unix.RawSockaddrInet6{Family: unix.AF_INET6, Port: swapPort(sa.port), Addr: ip.As16(), Scope_id: sa.scope}
		return unix.SizeofSockaddrInet6, nil
	}
	return 0, &net.AddrError{Err: "address does not fit the socket", Addr: sa.String()}
}

func (sa *sockaddr) encodeUnix(rsa *unix.RawSockaddrAny) (uint32, error) {
	p := (*unix.RawSockaddrUnix)(unsafe.Pointer(rsa))
	*p = unix.RawSockaddrUnix{Family: unix.AF_UNIX}
	path := sa.path()
	n := len(path)
	abstract := n > 0 && path[0] == '@'
	if n > len(p.Path) || n == len(p.Path) && !abstract {
		return 0, unix.EINVAL
	}
	for i := range n {
		p.Path[i] = int8(path[i])
	}
	size := uint32(2 + n)
	if abstract {
		p.Path[0] = 0
	} else if n > 0 {
		size++ // the NUL
	}
	return size, nil
}

// decode reads what the kernel wrote.
func decode(rsa *unix.RawSockaddrAny, salen uint32) sockaddr {
	if salen < 2 {
		return sockaddr{}
	}
	switch rsa.Addr.Family {
	case unix.AF_INET:
		p := (*unix.RawSockaddrInet4)(unsafe.Pointer(rsa))
		return sockaddr{ip: netip.AddrFrom4(p.Addr), port: swapPort(p.Port), family: unix.AF_INET}
	case unix.AF_INET6:
		p := (*unix.RawSockaddrInet6)(unsafe.Pointer(rsa))
		return sockaddr{
			ip: netip.AddrFrom16(p.Addr), port: swapPort(p.Port), scope: p.Scope_id, family: unix.AF_INET6,
		}
	case unix.AF_UNIX:
		p := (*unix.RawSockaddrUnix)(unsafe.Pointer(rsa))
		name := make([]byte, 0, len(p.Path))
		for i := range min(int(salen)-2, len(p.Path)) {
			name = append(name, byte(p.Path[i]))
		}
		switch {
		case len(name) == 0:
			return sockaddr{family: unix.AF_UNIX, name: &unnamed}
		case name[0] == 0:
			name[0] = '@'
		default:
			for i, c := range name {
				if c == 0 {
					name = name[:i]
					break
				}
			}
		}
		return unixSockaddr(string(name))
	}
	return sockaddr{}
}

// addrPort is the IP address; an IPv4-mapped one is unmapped.
func (sa *sockaddr) addrPort() netip.AddrPort {
	ip := sa.ip.Unmap()
	if sa.scope != 0 && ip.Is6() {
		ip = ip.WithZone(zoneOf(sa.scope))
	}
	return netip.AddrPortFrom(ip, sa.port)
}

// addr makes the net.Addr that package net has for the network; nil if sa is none.
func (sa *sockaddr) addr(network string) net.Addr {
	switch {
	case sa.family == 0:
		return nil
	case sa.family == unix.AF_UNIX:
		return &net.UnixAddr{Name: sa.path(), Net: network}
	case network[0] == 'u':
		return net.UDPAddrFromAddrPort(sa.addrPort())
	}
	return net.TCPAddrFromAddrPort(sa.addrPort())
}

func (sa *sockaddr) String() string {
	switch {
	case sa.family == 0:
		return "?"
	case sa.family == unix.AF_UNIX:
		return sa.path()
	case !sa.ip.IsValid():
		return ":" + strconv.Itoa(int(sa.port))
	}
	return sa.addrPort().String()
}

// scopeOf turns the zone of an IPv6 address, an interface name or number, into an id.
func scopeOf(zone string) uint32 {
	if zone == "" {
		return 0
	}
	if i, err := net.InterfaceByName(zone); err == nil {
		return uint32(i.Index)
	}
	n, _ := strconv.ParseUint(zone, 10, 32)
	return uint32(n)
}

func zoneOf(scope uint32) string {
	if i, err := net.InterfaceByIndex(int(scope)); err == nil {
		return i.Name
	}
	return strconv.FormatUint(uint64(scope), 10)
}

// localOf and peerOf ask the kernel (getsockname(2), getpeername(2)).

func localOf(fd int32) (sockaddr, error) { return askAddr(fd, false) }

func peerOf(fd int32) (sockaddr, error) { return askAddr(fd, true) }

func askAddr(fd int32, peer bool) (sockaddr, error) {
	var rsa unix.RawSockaddrAny
	salen, e := sys.Name(fd, peer, &rsa)
	if e != 0 {
		return sockaddr{}, e
	}
	return decode(&rsa, salen), nil
}
