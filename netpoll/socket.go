//go:build linux

package netpoll

import (
	"math"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/netpoll/internal/sockaddr"
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
func newBoundSocket[T any](network string, sa sockaddr.Addr, typ int, setUp func(fd, family int) (T, error)) (v T, err error) {
	family, v6only := sockaddr.FamilyFor(network, &sa)
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

func setInt(fd, level, opt, value int) error {
	return os.NewSyscallError("setsockopt", sys.SetOption(fd, level, opt, value))
}

// setStreamDefaults makes fd like the TCP sockets of package net: no delay, and keep-alive messages.
// Connections accepted from a listener inherit all of it.
func setStreamDefaults(fd int, keep net.KeepAliveConfig) error {
	if err := setInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1); err != nil {
		return err
	}
	return setKeepAlive(fd, keep)
}

// setKeepAlive applies c as package net does: zero values mean the defaults, negative
// ones leave the setting alone.
func setKeepAlive(fd int, c net.KeepAliveConfig) error {
	if err := setInt(fd, unix.SOL_SOCKET, unix.SO_KEEPALIVE, boolInt(c.Enable)); err != nil || !c.Enable {
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

// seconds rounds up, away from zero. A duration that an option has no room for is MaxInt32, which the
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
