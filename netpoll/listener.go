//go:build linux

package netpoll

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/ownconn"
	"github.com/capriccio-go/capriccio/netpoll/internal/sockaddr"
	"github.com/capriccio-go/capriccio/netpoll/internal/sys"
)

// A Listener accepts stream connections. It implements net.Listener, so that
// http.Server.Serve and the like take it; Serve in this package makes better use of
// several loops. Its methods may be called from any goroutine.
type Listener struct {
	d       desc
	network string        // constant: "tcp" or "unix"
	local   sockaddr.Addr // constant
	addrs   connAddrs     // constant; see there
	family  int           // constant: of the socket
	cfg     ListenConfig
	adopted bool // constant: the socket was made elsewhere
	shared  bool // constant: other processes have the socket too, and go on listening
	copied  bool // constant: the socket is that of another Listener of this process

	mu      sync.Mutex
	clones  map[*Listener]bool // guarded by mu: made by Serve, closed by Close
	cloning int                // guarded by mu: calls of Serve that are making clones
	closed  bool               // guarded by mu
	over    context.Context    // ends with Close; guarded by mu, nil: not needed yet
	end     context.CancelFunc // of over; guarded by mu

	reported time.Time // when a failure to accept was logged last; guarded by mu
	silent   int       // failures since then; guarded by mu

	unlink bool // guarded by mu: Close removes the unix socket's file

	filtered atomic.Bool // new clients were kept out, see refuseNew

	fault func() syscall.Errno // by tests, in place of accept4 unless 0; constant
}

// A ListenConfig says how to listen. The zero value is what Listen uses.
type ListenConfig struct {
	// Backlog is the length of the queue of connections that wait to be accepted; 0:
	// as long as the system allows (net.core.somaxconn).
	Backlog int
	// ReusePort lets other sockets of the same user listen on the same address
	// (SO_REUSEPORT, socket(7)). Serve does not need it.
	ReusePort bool
	// DrainLimit is how long Serve takes at most when the context of its task has ended; 0: 10 s; negative: it returns at
	// once, and the listener stays open. It lets no new client in (see Drain), serves the clients that have connected, and
	// waits for their handlers. A Read that finds nothing for half a second fails then, with ErrDraining, whatever
	// deadline is set: that ends a handler that waits for its next request. Connections whose handlers still run at the
	// end of DrainLimit are closed.
	DrainLimit time.Duration
	// Log receives reports of accept failures, at most one every 10 s; nil: where the runtime's own
	// reports go (capriccio.WithLogger).
	Log *slog.Logger
}

// maxBacklog is more than any kernel grants; listen(2) cuts it down to its limit.
const maxBacklog = 1 << 16

// Listen listens on address. Networks are tcp, tcp4, tcp6 (an empty or unspecified
// host means all addresses, port 0 a free one) and unix (a path, or @name for the
// abstract namespace). The listener belongs to the caller's loop. It parks if a name
// must be looked up. Errors are *net.OpError: EADDRINUSE, EACCES and so on.
func Listen(network, address string) (*Listener, error) {
	return ListenConfig{}.Listen(context.Background(), network, address)
}

// Listen is like the function Listen. ctx bounds the look-up of names.
func (lc ListenConfig) Listen(ctx context.Context, network, address string) (*Listener, error) {
	if network == "unixgram" || network != "unix" && (len(network) < 3 || network[:3] != "tcp") {
		return nil, opError("listen", network, nil, nil, net.UnknownNetworkError(network))
	}
	addrs, err := sockaddr.Resolve(ctx, network, address, time.Time{})
	if err != nil {
		return nil, opError("listen", network, nil, nil, err)
	}
	sa := sockaddr.FirstIPv4(addrs)
	l, err := ownLoop()
	if err != nil {
		return nil, opError("listen", network, nil, sa.NetAddr(network), err)
	}
	ln, err := lc.listenOn(l, network, sa)
	if err != nil {
		return nil, opError("listen", network, nil, sa.NetAddr(network), err)
	}
	return ln, nil
}

func (lc ListenConfig) listenOn(l *engine.Loop, network string, sa sockaddr.Addr) (*Listener, error) {
	return newBoundSocket(network, sa, unix.SOCK_STREAM, func(fd, family int) (*Listener, error) {
		return lc.setUp(fd, l, sa, family)
	})
}

// setUp binds and listens. If it fails, fd is still the caller's.
func (lc ListenConfig) setUp(fd int, l *engine.Loop, sa sockaddr.Addr, family int) (*Listener, error) {
	if family != unix.AF_UNIX {
		if err := setInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
			return nil, err
		}
		if lc.ReusePort {
			if err := setInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); err != nil {
				return nil, err
			}
		}
		if err := setStreamDefaults(fd, net.KeepAliveConfig{Enable: true}); err != nil {
			return nil, err
		}
	}
	if err := sockaddr.Bind(fd, &sa, family); err != nil {
		return nil, err
	}
	backlog := lc.Backlog
	if backlog <= 0 {
		backlog = maxBacklog
	}
	if err := sys.Listen(fd, backlog); err != nil {
		return nil, wrapErrno("listen", err)
	}
	local, err := sockaddr.Local(int32(fd))
	if err != nil {
		return nil, wrapErrno("getsockname", err)
	}
	ln := &Listener{network: "tcp", local: local, family: family, cfg: lc}
	if family == unix.AF_UNIX {
		ln.network = "unix"
		ln.unlink = sa.File() != ""
	}
	flags := uint32(flagListens)
	if family == unix.AF_UNIX {
		flags = 0
	}
	return ln, ln.begin(fd, l, flags)
}

// begin registers the socket with loop l.
func (ln *Listener) begin(fd int, l *engine.Loop, flags uint32) error {
	ln.d.owner, ln.addrs.bound = ln, &ln.local
	ln.d.onFree = ln.leaveSocket
	ln.d.flags.Store(flags)
	return ln.d.init(fd, kindStream, l, true)
}

// leaveSocket is called right before the descriptor is closed.
func (ln *Listener) leaveSocket() {
	ln.removeFile()
	ln.admitNew()
}

// removeFile removes the file of a unix socket.
func (ln *Listener) removeFile() {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	if ln.unlink {
		ln.unlink = false
		unix.Unlink(ln.local.Path())
	}
}

// SetUnlinkOnClose sets whether Close removes the file of a unix socket; by default it does if Listen
// has made it. It never parks.
func (ln *Listener) SetUnlinkOnClose(unlink bool) {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	ln.unlink = unlink && ln.local.File() != ""
}

func (ln *Listener) describe() string { return ln.network + " listener " + ln.local.String() }

// Addr implements net.Listener.
func (ln *Listener) Addr() net.Addr { return ln.local.NetAddr(ln.network) }

// Accept implements net.Listener; see AcceptConn.
func (ln *Listener) Accept() (net.Conn, error) {
	return asConn(ln.AcceptConn())
}

// AcceptConn waits for the next connection. It belongs to the loop of the accepting
// task, or, accepted by a plain goroutine, to the loops of the listener's runtime in
// turn. TCP connections have TCP_NODELAY and keep-alive set, as those of package net.
// Connections that died in the queue (ECONNABORTED, ECONNRESET, EHOSTUNREACH and others
// that accept(2) lists as errors of the network) are passed over. It parks.
//
// Errors are *net.OpError. The errors that end accepting are net.ErrClosed,
// os.ErrDeadlineExceeded, the error of the calling task's context, and EBADF, EINVAL,
// ENOTSOCK and EOPNOTSUPP, which say that the descriptor is no listening socket any more.
// All others are temporary, and Temporary reports so: descriptors or memory are short
// (EMFILE, ENFILE, ENOBUFS, ENOMEM, ENOSPC), a rule of a firewall or a security module
// forbade one connection (EPERM, EACCES), or the kernel failed in another way (EIO): wait
// a little, and accept again, as Serve and http.Server do.
func (ln *Listener) AcceptConn() (*Conn, error) {
	l := engine.CurrentLoop()
	if l == nil {
		l = ln.d.loop.Runtime().NextLoop()
	}
	c, err := ln.accept(func() *engine.Loop { return l })
	if err != nil {
		return nil, ln.acceptError(err)
	}
	return c, nil
}

func (ln *Listener) acceptError(err error) error {
	oe := &net.OpError{Op: "accept", Net: ln.network, Addr: ln.Addr(), Err: wrapErrno("accept4", err)}
	if !lasting(err) && !oe.Temporary() {
		oe.Err = passing{oe.Err}
	}
	return oe
}

// A passing error of Accept is temporary although package net does not know it as such.
type passing struct{ error }

func (e passing) Unwrap() error { return e.error }
func (passing) Timeout() bool   { return false }
func (passing) Temporary() bool { return true }

// lasting reports whether err ends accepting: a second attempt meets it again. An error that is not
// listed does not.
func lasting(err error) bool {
	for _, e := range [...]error{net.ErrClosed, os.ErrDeadlineExceeded, errPollerClosed, errForeignPoller,
		unix.EBADF, unix.EINVAL, unix.ENOTSOCK, unix.EOPNOTSUPP} {
		if errors.Is(err, e) {
			return true
		}
	}
	return errors.As(err, new(*contextError))
}

// accept waits for a connection, which is going to belong to the loop that owner returns then.
func (ln *Listener) accept(owner func() *engine.Loop) (*Conn, error) {
	var (
		rsa   unix.RawSockaddrAny
		fd    int32
		salen uint32
	)
	own, err := ln.d.attemptLocked(readSide, engine.ReasonAccept, func() (e syscall.Errno) {
		for {
			if e = 0; ln.fault != nil {
				e = ln.fault()
			}
			if e == 0 {
				fd, salen, e = ln.d.accept(&rsa)
			}
			if !abandoned(e) {
				return e
			}
		}
	})
	if err != nil {
		return nil, err
	}
	c, err := newConn(int(fd), ln.network, owner(), sockaddr.Decode(&rsa, salen), true, false)
	if err != nil {
		sys.CloseSocket(fd)
		return nil, err
	}
	if salen == 0 { // it was reset before its address was asked for, see desc.accept
		c.remote = sockaddr.Addr{IP: netip.IPv4Unspecified(), Family: ln.local.Family}
		if ln.family == unix.AF_INET6 {
			c.remote.IP = netip.IPv6Unspecified()
		}
	}
	c.addrs.Store(&ln.addrs)
	c.d.client.Store(ownconn.ClientOf(c.remote.IP))
	c.d.fresh = true
	ln.d.pace(own, 0) // not before fd belongs to c: while others run, the task may be ended
	return c, nil
}

// abandoned reports whether e concerns a connection that died in the queue, not the listener:
// accept(2) hands out errors that were pending on the new socket.
func abandoned(e syscall.Errno) bool {
	switch e {
	case unix.ECONNABORTED, unix.EPROTO, unix.ENETDOWN, unix.ENOPROTOOPT, unix.EHOSTDOWN,
		unix.ENONET, unix.EHOSTUNREACH, unix.ENETUNREACH, unix.ECONNRESET, unix.ETIMEDOUT:
		return true
	}
	return false
}

// Close stops listening: callers of Accept and Serve get net.ErrClosed, connections
// that have not been accepted are reset, and the file of a unix socket is removed. It may
// park for a moment, until that is done, unless the calling task's context has ended.
func (ln *Listener) Close() error {
	ln.mu.Lock()
	ln.closed = true
	clones := ln.clones
	ln.clones = nil
	end := ln.end
	ln.mu.Unlock()
	if end != nil {
		end()
	}
	for c := range clones {
		c.d.close()
	}
	return ln.d.wrap("close", "close", ln.d.close())
}

// SetDeadline makes Accept fail, with an error that is os.ErrDeadlineExceeded, once t
// has passed. The zero time means never.
func (ln *Listener) SetDeadline(t time.Time) error {
	return ln.d.wrap("set", "", ln.d.setDeadline(flagReadExpired, t))
}

// SyscallConn implements syscall.Conn. Functions given to it must not park. As with
// package net Control is all that can be done; Read and Write fail with EINVAL.
func (ln *Listener) SyscallConn() (syscall.RawConn, error) {
	if ln.d.life.Load()&lifeClosed != 0 {
		return nil, ln.opError("raw", "", net.ErrClosed)
	}
	return &rawListener{rawConn{&ln.d}}, nil
}

func (ln *Listener) opError(op, call string, err error) error {
	return &net.OpError{Op: op, Net: ln.network, Addr: ln.Addr(), Err: wrapErrno(call, err)}
}
