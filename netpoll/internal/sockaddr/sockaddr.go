//go:build linux

// Package sockaddr has the addresses of sockets, as the kernel and as package net spell them, and looks them up. Only Resolve
// may park.
package sockaddr

import (
	"net"
	"net/netip"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/netpoll/internal/sys"
)

// Addr is the address of a socket: IPv4, IPv6 or unix. The zero value is none.
type Addr struct {
	IP     netip.Addr // without zone; the zero value is the wildcard of the family
	Scope  uint32     // IPv6 scope id
	Port   uint16
	Family uint16  // unix.AF_*
	name   *string // AF_UNIX, see Path; nil: none
}

// unnamed is the path of a unix socket that is bound to none.
var unnamed = "@"

// Path is the name of a unix socket, "" if it has none; an abstract one begins with @.
func (sa *Addr) Path() string {
	if sa.name == nil {
		return ""
	}
	return *sa.name
}

// FromAddrPort is the address of an IP socket.
func FromAddrPort(ap netip.AddrPort) Addr {
	sa := Addr{IP: ap.Addr(), Port: ap.Port(), Family: unix.AF_INET}
	if sa.IP.Is6() {
		sa.Family = unix.AF_INET6
		sa.Scope = scopeOf(sa.IP.Zone())
		sa.IP = sa.IP.WithZone("")
	}
	return sa
}

// IsWildcard reports whether sa, of an IP network, is every address of this machine.
func (sa *Addr) IsWildcard() bool { return !sa.IP.IsValid() || sa.IP.IsUnspecified() }

// File is the path of the file of a unix socket bound to sa, "" if it has none.
func (sa *Addr) File() string {
	path := sa.Path()
	if path == "" || path[0] == '@' {
		return ""
	}
	return path
}

var loopback6 = netip.IPv6Loopback()

// FromPath is the address of a unix socket. It takes an abstract name with @ in front, or, as for C, with NUL.
func FromPath(path string) Addr {
	if path != "" && path[0] == 0 {
		path = "@" + path[1:]
	}
	return Addr{Family: unix.AF_UNIX, name: &path}
}

// networkPort swaps the bytes: both architectures are little-endian.
func networkPort(p uint16) uint16 { return p<<8 | p>>8 }

// Encode writes sa as a socket of the given family takes it, and returns the length.
// An IPv4 address on an IPv6 socket is mapped; no address is the wildcard.
func (sa *Addr) Encode(rsa *unix.RawSockaddrAny, family int) (uint32, error) {
	switch {
	case sa.Family == unix.AF_UNIX:
		return sa.encodeUnix(rsa)
	case family == unix.AF_INET:
		ip := sa.IP.Unmap()
		if !ip.IsValid() {
			ip = netip.IPv4Unspecified()
		}
		if ip.Is4() {
			p := (*unix.RawSockaddrInet4)(unsafe.Pointer(rsa))
			*p = unix.RawSockaddrInet4{Family: unix.AF_INET, Port: networkPort(sa.Port), Addr: ip.As4()}
			return unix.SizeofSockaddrInet4, nil
		}
	case family == unix.AF_INET6:
		p := (*unix.RawSockaddrInet6)(unsafe.Pointer(rsa))
		ip := sa.IP
		if !ip.IsValid() || ip == netip.IPv4Unspecified() {
			ip = netip.IPv6Unspecified()
		}
		*p = unix.RawSockaddrInet6{Family: unix.AF_INET6, Port: networkPort(sa.Port), Addr: ip.As16(), Scope_id: sa.Scope}
		return unix.SizeofSockaddrInet6, nil
	}
	return 0, &net.AddrError{Err: "address does not fit the socket", Addr: sa.String()}
}

func (sa *Addr) encodeUnix(rsa *unix.RawSockaddrAny) (uint32, error) {
	p := (*unix.RawSockaddrUnix)(unsafe.Pointer(rsa))
	*p = unix.RawSockaddrUnix{Family: unix.AF_UNIX}
	path := sa.Path()
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

// Decode reads what the kernel wrote.
func Decode(rsa *unix.RawSockaddrAny, salen uint32) Addr {
	if salen < 2 {
		return Addr{}
	}
	switch rsa.Addr.Family {
	case unix.AF_INET:
		p := (*unix.RawSockaddrInet4)(unsafe.Pointer(rsa))
		return Addr{IP: netip.AddrFrom4(p.Addr), Port: networkPort(p.Port), Family: unix.AF_INET}
	case unix.AF_INET6:
		p := (*unix.RawSockaddrInet6)(unsafe.Pointer(rsa))
		return Addr{
			IP: netip.AddrFrom16(p.Addr), Port: networkPort(p.Port), Scope: p.Scope_id, Family: unix.AF_INET6,
		}
	case unix.AF_UNIX:
		p := (*unix.RawSockaddrUnix)(unsafe.Pointer(rsa))
		name := make([]byte, 0, len(p.Path))
		for i := range min(int(salen)-2, len(p.Path)) {
			name = append(name, byte(p.Path[i]))
		}
		switch {
		case len(name) == 0:
			return Addr{Family: unix.AF_UNIX, name: &unnamed}
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
		return FromPath(string(name))
	}
	return Addr{}
}

// AddrPort is the IP address; an IPv4-mapped one is unmapped.
func (sa *Addr) AddrPort() netip.AddrPort {
	ip := sa.IP.Unmap()
	if sa.Scope != 0 && ip.Is6() {
		ip = ip.WithZone(zoneOf(sa.Scope))
	}
	return netip.AddrPortFrom(ip, sa.Port)
}

// NetAddr makes the net.Addr that package net has for the network; nil if sa is none.
func (sa *Addr) NetAddr(network string) net.Addr {
	switch {
	case sa.Family == 0:
		return nil
	case sa.Family == unix.AF_UNIX:
		return &net.UnixAddr{Name: sa.Path(), Net: network}
	case network[0] == 'u':
		return net.UDPAddrFromAddrPort(sa.AddrPort())
	}
	return net.TCPAddrFromAddrPort(sa.AddrPort())
}

func (sa *Addr) String() string {
	switch {
	case sa.Family == 0:
		return "?"
	case sa.Family == unix.AF_UNIX:
		return sa.Path()
	case !sa.IP.IsValid():
		return ":" + strconv.Itoa(int(sa.Port))
	}
	return sa.AddrPort().String()
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

// Local asks the kernel for the address of a socket (getsockname(2)).
func Local(fd int32) (Addr, error) { return askAddr(fd, false) }

// Peer asks the kernel for the address of a socket's peer (getpeername(2)).
func Peer(fd int32) (Addr, error) { return askAddr(fd, true) }

func askAddr(fd int32, peer bool) (Addr, error) {
	var rsa unix.RawSockaddrAny
	salen, e := sys.Name(fd, peer, &rsa)
	if e != 0 {
		return Addr{}, e
	}
	return Decode(&rsa, salen), nil
}
