//go:build linux

package netpoll

import (
	"context"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/netpoll/internal/sockaddr"
	"github.com/capriccio-go/capriccio/task"
)

// A Dialer says how to connect. The zero value is what Dial uses. Several callers may use it at once.
type Dialer struct {
	// Timeout is the limit for all of it, the look-up of names included; 0 or less: none.
	Timeout time.Duration
	// LocalAddr is the address to connect from, a *net.TCPAddr, *net.UDPAddr or *net.UnixAddr as the network demands,
	// whose port may be 0; nil: the kernel chooses. Closing a connection of the network unixgram removes the file of
	// its unix socket; one of the network unix leaves the file.
	LocalAddr net.Addr
	// FallbackDelay is how long the addresses of the first one's IP version are tried alone, before those of the other
	// version are tried beside them; the first connection is taken (RFC 6555, with networks tcp and udp). 0: 300 ms;
	// negative: one address after the other.
	FallbackDelay time.Duration
	// KeepAliveConfig are the keep-alive messages of TCP. The zero value is package net's
	// default: on, after 15 s.
	KeepAliveConfig net.KeepAliveConfig
	// NoKeepAlive switches keep-alive messages off.
	NoKeepAlive bool
	// Control, if not nil, is called with each socket before it is bound and connected, with
	// the network (tcp4, tcp6 and so on) and the address. It must not park. Read and Write of the
	// RawConn fail with EINVAL.
	Control func(network, address string, c syscall.RawConn) error
}

// Dial is DialContext without a context.
func (d *Dialer) Dial(network, address string) (net.Conn, error) {
	return d.DialContext(context.Background(), network, address)
}

// DialContext connects, see the function Dial, until ctx ends, see the function DialContext. It
// parks.
func (d *Dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	deadline, _ := ctx.Deadline()
	if d.Timeout > 0 {
		if end := time.Now().Add(d.Timeout); deadline.IsZero() || end.Before(deadline) {
			deadline = end
		}
	}
	return d.dial(ctx, network, address, deadline)
}

const defaultFallbackDelay = 300 * time.Millisecond

// A dialing is one Dial.
type dialing struct {
	*Dialer
	loop     *engine.Loop
	network  string
	deadline time.Time
}

// localFor is LocalAddr for a network; nil: any.
func (d *Dialer) localFor(network string) (*sockaddr.Addr, error) {
	var sa sockaddr.Addr
	fits := false
	switch a := d.LocalAddr.(type) {
	case nil:
		return nil, nil
	case *net.TCPAddr:
		fits = network[:3] == "tcp"
		sa = sockaddr.FromAddrPort(a.AddrPort())
	case *net.UDPAddr:
		fits = network[:3] == "udp"
		sa = sockaddr.FromAddrPort(a.AddrPort())
	case *net.UnixAddr:
		fits = network == "unix" || network == "unixgram"
		sa = sockaddr.FromPath(a.Name)
	}
	if !fits {
		return nil, &net.AddrError{Err: "mismatched local address type", Addr: d.LocalAddr.String()}
	}
	return &sa, nil
}

// reachable keeps the addresses that can be reached from LocalAddr.
func (d *Dialer) reachable(network string, addrs []sockaddr.Addr) ([]sockaddr.Addr, error) {
	local, err := d.localFor(network)
	if local == nil || err != nil || local.Family == unix.AF_UNIX || local.IP.IsUnspecified() || !local.IP.IsValid() {
		return addrs, err
	}
	var fit []sockaddr.Addr
	for _, sa := range addrs {
		if sa.IsWildcard() || local.IP.Unmap().Is4() == sa.IP.Unmap().Is4() {
			fit = append(fit, sa)
		}
	}
	if len(fit) == 0 {
		return nil, &net.AddrError{Err: sockaddr.ErrNoSuitable.Error(), Addr: d.LocalAddr.String()}
	}
	return fit, nil
}

// prepare makes a new socket ready to be connected to sa.
func (x *dialing) prepare(fd int, sa *sockaddr.Addr) error {
	if x.Control != nil {
		network := x.network
		switch {
		case sa.Family == unix.AF_UNIX:
		case sa.Family == unix.AF_INET6:
			network = network[:3] + "6"
		default:
			network = network[:3] + "4"
		}
		if err := x.Control(network, sa.String(), socketConn{fd}); err != nil {
			return err
		}
	}
	local, err := x.localFor(x.network)
	if local == nil || err != nil {
		return err
	}
	return sockaddr.Bind(fd, local, int(sa.Family))
}

func (x *dialing) setDefaults(fd int) error {
	keep := x.KeepAliveConfig
	if keep == (net.KeepAliveConfig{}) {
		keep.Enable = true
	}
	keep.Enable = keep.Enable && !x.NoKeepAlive
	return setStreamDefaults(fd, keep)
}

// A socketConn is the RawConn of a socket that is not a Conn yet.
type socketConn struct{ fd int }

func (s socketConn) Control(f func(fd uintptr)) error  { f(uintptr(s.fd)); return nil }
func (s socketConn) Read(func(fd uintptr) bool) error  { return unix.EINVAL }
func (s socketConn) Write(func(fd uintptr) bool) error { return unix.EINVAL }

// all tries the addresses.
func (x *dialing) all(ctx context.Context, addrs []sockaddr.Addr) (c net.Conn, failed *sockaddr.Addr, err error) {
	if x.FallbackDelay < 0 || x.network != "tcp" && x.network != "udp" {
		return x.inTurn(ctx, addrs)
	}
	var first, second []sockaddr.Addr
	for _, sa := range addrs {
		if sa.Family == addrs[0].Family {
			first = append(first, sa)
		} else {
			second = append(second, sa)
		}
	}
	if second == nil {
		return x.inTurn(ctx, addrs)
	}
	return x.race(ctx, first, second)
}

// A dialled is the result of trying the addresses of one IP version.
type dialled struct {
	c      net.Conn
	failed *sockaddr.Addr
	err    error
	first  bool
}

// race tries first, and after FallbackDelay, or when all of first have failed, second too. The error is that of
// first.
func (x *dialing) race(ctx context.Context, first, second []sockaddr.Addr) (net.Conn, *sockaddr.Addr, error) {
	ctx, cancel := context.WithCancel(ctx)
	results := task.NewChan[dialled](2)
	running := 0
	start := func(addrs []sockaddr.Addr, isFirst bool) {
		running++
		run := func() {
			c, failed, err := x.inTurn(ctx, addrs)
			results.TrySend(dialled{c, failed, err, isFirst})
		}
		if engine.Current() != nil {
			engine.Go(run)
		} else {
			go run()
		}
	}
	defer func() { // closes the connections that are not taken
		cancel()
		engine.Shield(context.Background(), func() error {
			for ; running > 0; running-- {
				if r, err := results.Recv(); err == nil && r.c != nil {
					r.c.Close()
				}
			}
			return nil
		})
	}()
	delay := x.FallbackDelay
	if delay == 0 {
		delay = defaultFallbackDelay
	}
	start(first, true)
	var failure dialled
	for begun := false; ; {
		var r dialled
		cases := []task.Case{results.RecvCase(&r), task.AfterCase(delay)}
		if begun {
			cases = cases[:1]
		}
		i, err := task.Select(cases...)
		if err != nil {
			return nil, &first[0], sockaddr.Ended(err)
		}
		if i == 0 {
			running--
			if r.err == nil {
				return r.c, nil, nil
			}
			if r.first || failure.err == nil {
				failure = r
			}
			if running == 0 && begun {
				return nil, failure.failed, failure.err
			}
		}
		if !begun {
			begun = true
			start(second, false)
		}
	}
}

// FileConn makes a connection of the socket that f holds, as net.FileConn does: f is an *os.File or a connection of
// package net, say. It takes a duplicate of the descriptor, and f remains the caller's. The result is a *Conn, or a
// *PacketConn for datagrams, and belongs to the caller's loop. Other sockets fail with EPROTONOSUPPORT. It never parks.
func FileConn(f syscall.Conn) (net.Conn, error) {
	c, err := fileConn(f)
	if err != nil {
		return nil, opError("file", "file+net", nil, nil, err)
	}
	return c, nil
}

func fileConn(f syscall.Conn) (net.Conn, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	fd, dupErr := -1, error(nil)
	if err := raw.Control(func(old uintptr) { fd, dupErr = unix.FcntlInt(old, unix.F_DUPFD_CLOEXEC, 0) }); err != nil {
		return nil, err
	}
	if dupErr != nil {
		return nil, os.NewSyscallError("fcntl", dupErr)
	}
	c, err := adoptSocket(fd)
	if err != nil {
		unix.Close(fd)
	}
	return c, err
}

// adoptSocket makes a connection of fd. If it fails, fd is still the caller's.
func adoptSocket(fd int) (net.Conn, error) {
	typ, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
	if err != nil {
		return nil, os.NewSyscallError("getsockopt", err)
	}
	local, err := sockaddr.Local(int32(fd))
	if err != nil {
		return nil, os.NewSyscallError("getsockname", err)
	}
	loop, err := ownLoop()
	if err != nil {
		return nil, err
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	inet := local.Family == unix.AF_INET || local.Family == unix.AF_INET6
	if !inet && local.Family != unix.AF_UNIX {
		return nil, unix.EPROTONOSUPPORT
	}
	remote, peerErr := sockaddr.Peer(int32(fd))
	switch {
	case typ == unix.SOCK_STREAM:
		if peerErr != nil {
			return nil, os.NewSyscallError("getpeername", peerErr)
		}
		network := "unix"
		if inet {
			network = "tcp"
		}
		c, err := newConn(fd, network, loop, remote, true, true)
		if err == nil {
			c.addresses()
		}
		return asConn(c, err)
	case typ == unix.SOCK_DGRAM:
		network := "unixgram"
		if inet {
			network = "udp"
		}
		c := &PacketConn{network: network, family: int(local.Family)}
		if peerErr == nil && remote.Family != 0 {
			c.remote = remote
		}
		c.d.flags.Store(flagShared)
		return asConn(c, c.begin(fd, loop))
	}
	return nil, unix.EPROTONOSUPPORT
}

// File returns an os.File of a duplicate of the descriptor, as File of Conn does. It never parks.
func (ln *Listener) File() (*os.File, error) {
	ln.d.acceptNoneAhead()
	return ln.d.file()
}
