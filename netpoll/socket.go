//go:build linux

package netpoll

import (
	"math"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/netpoll/internal/sys"
)

// The keep-alive settings that package net gives every TCP connection.
const (
	defaultKeepAliveIdle     = 15 * time.Second
	defaultKeepAliveInterval = 15 * time.Second
	defaultKeepAliveCount    = 9
)

// ownLoop is the loop that a descriptor made by the caller belongs to: that of the
// calling task, else the loops of the default runtime in turn.
func ownLoop() (*engine.Loop, error) {
	if l := engine.CurrentLoop(); l != nil {
		return l, nil
	}
	rt := engine.Default()
	if rt == nil {
		return nil, errNoRuntime
	}
	return rt.NextLoop(), nil
}

func newSocket(family, typ int) (int, error) {
	fd, err := sys.Socket(family, typ)
	if err != nil {
		return -1, os.NewSyscallError("socket", err)
	}
	return fd, nil
}

// newBoundSocket makes a socket for an address to listen on, and hands it to setUp. If that fails it closes the socket.
func newBoundSocket[T any](network string, sa sockaddr, typ int, setUp func(fd, family int) (T, error)) (v T, err error) {
	family, v6only := familyFor(network, &sa)
	fd, err := newSocket(family, typ)
	if err != nil {
		return v, err
	}
	if family == unix.AF_INET6 {
		err = setInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, boolInt(v6only))
	}
	if err == nil {
		if v, err = setUp(fd, family); err == nil {
			return v, nil
		}
	}
	sys.Close(fd)
	var none T
	return none, err
}

func bindTo(fd int, sa *sockaddr, family int) error {
	var rsa unix.RawSockaddrAny
	salen, err := sa.encode(&rsa, family)
	if err != nil {
		return wrapErrno("bind", err)
	}
	if e := sys.Bind(fd, &rsa, salen); e != 0 {
		return os.NewSyscallError("bind", e)
	}
	return nil
}

func setInt(fd, level, opt, value int) error {
	return os.NewSyscallError("setsockopt", sys.SetOption(fd, level, opt, value))
}

// setStreamDefaults makes fd like the TCP sockets of package net: no delay, keep-alive.
// Connections accepted from a listener inherit all of it.
func setStreamDefaults(fd int) error {
	if err := setInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1); err != nil {
		return err
	}
	return setKeepAlive(fd, net.KeepAliveConfig{Enable: true})
}

// setKeepAlive applies c as package net does: zero values mean the defaults, negative
// ones leave the setting alone.
func setKeepAlive(fd int, c net.KeepAliveConfig) error {
	enable := 0
	if c.Enable {
		enable = 1
	}
	if err := setInt(fd, unix.SOL_SOCKET, unix.SO_KEEPALIVE, enable); err != nil || !c.Enable {
		return err
	}
	for _, x := range [...]struct{ opt, value, standard int }{
		{unix.TCP_KEEPIDLE, seconds(c.Idle), seconds(defaultKeepAliveIdle)},
		{unix.TCP_KEEPINTVL, seconds(c.Interval), seconds(defaultKeepAliveInterval)},
		{unix.TCP_KEEPCNT, c.Count, defaultKeepAliveCount},
	} {
		if x.value < 0 {
			continue
		}
		if x.value == 0 {
			x.value = x.standard
		}
		if err := setInt(fd, unix.IPPROTO_TCP, x.opt, x.value); err != nil {
			return err
		}
	}
	return nil
}

// seconds rounds up, away from zero. What an option has no room for is MaxInt32, which the
// kernel refuses or cuts down.
func seconds(d time.Duration) int {
	if d < 0 {
		return -1
	}
	s := d / time.Second
	if d%time.Second != 0 {
		s++
	}
	return int(min(s, math.MaxInt32))
}

// haveIPv6 reports whether IPv6 sockets can be made and bound here.
var haveIPv6 = sync.OnceValue(func() bool {
	fd, err := newSocket(unix.AF_INET6, unix.SOCK_STREAM)
	if err != nil {
		return false
	}
	defer sys.Close(fd)
	sa := sockaddr{ip: loopback6, family: unix.AF_INET6}
	return bindTo(fd, &sa, unix.AF_INET6) == nil
})

// familyFor chooses the socket family for an address to listen on, or to send from and
// to: a wildcard takes both IP versions where the system has both.
func familyFor(network string, sa *sockaddr) (family int, v6only bool) {
	switch {
	case sa.family == unix.AF_UNIX:
		return unix.AF_UNIX, false
	case network[len(network)-1] == '4':
		return unix.AF_INET, false
	case network[len(network)-1] == '6':
		return unix.AF_INET6, true
	case sa.wildcard():
		if haveIPv6() {
			return unix.AF_INET6, false
		}
		return unix.AF_INET, false
	case sa.ip.Unmap().Is4():
		return unix.AF_INET, false
	}
	return unix.AF_INET6, false
}
