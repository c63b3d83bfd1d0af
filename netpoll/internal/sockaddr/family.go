//go:build linux

package sockaddr

import (
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/netpoll/internal/sys"
)

// HaveIPv6 reports whether IPv6 sockets can be made and bound here.
var HaveIPv6 = sync.OnceValue(func() bool {
	fd, err := sys.Socket(unix.AF_INET6, unix.SOCK_STREAM)
	if err != nil {
		return false
	}
	defer sys.Close(fd)
	sa := Addr{IP: loopback6, Family: unix.AF_INET6}
	return Bind(fd, &sa, unix.AF_INET6) == nil
})

// FamilyFor chooses the socket family for an address to listen on, or to send from and
// to: a wildcard takes both IP versions where the system has both.
func FamilyFor(network string, sa *Addr) (family int, v6only bool) {
	switch {
	case sa.Family == unix.AF_UNIX:
		return unix.AF_UNIX, false
	case network[len(network)-1] == '4':
		return unix.AF_INET, false
	case network[len(network)-1] == '6':
		return unix.AF_INET6, true
	case sa.IsWildcard():
		if HaveIPv6() {
			return unix.AF_INET6, false
		}
		return unix.AF_INET, false
	case sa.IP.Unmap().Is4():
		return unix.AF_INET, false
	}
	return unix.AF_INET6, false
}

// FirstIPv4 prefers an IPv4 address among several, as package net does for listening.
func FirstIPv4(addrs []Addr) Addr {
	for _, sa := range addrs {
		if sa.Family == unix.AF_INET {
			return sa
		}
	}
	return addrs[0]
}

// Bind binds the socket fd of a family to sa (bind(2)).
func Bind(fd int, sa *Addr, family int) error {
	var rsa unix.RawSockaddrAny
	salen, err := sa.Encode(&rsa, family)
	if err != nil {
		if e, ok := err.(syscall.Errno); ok {
			return os.NewSyscallError("bind", e)
		}
		return err
	}
	if e := sys.Bind(fd, &rsa, salen); e != 0 {
		return os.NewSyscallError("bind", e)
	}
	return nil
}
