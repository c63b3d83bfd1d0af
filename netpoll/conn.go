//go:build linux

package netpoll

import (
	"io"
	"net"
	"sync/atomic"
	"time"

	"github.com/capriccio-go/capriccio/internal/ownconn"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/netpoll/internal/sockaddr"
	"github.com/capriccio-go/capriccio/netpoll/internal/sys"
)

// A Conn is a stream connection over TCP or a unix socket. It implements net.Conn, io.ReaderFrom, io.WriterTo and
// syscall.Conn. Conns are made by Listener and Dial; the zero value is of no use. Its methods may be called from any
// goroutine. Methods that read, write or close may park; the others do not.
type Conn struct {
	socket
	remote sockaddr.Addr             // constant
	addrs  atomic.Pointer[connAddrs] // made when first asked for; until then that of the listener, nil if dialled
}

// connAddrs holds the addresses as package net spells them.
type connAddrs struct {
	local, remote net.Addr
	lender        atomic.Pointer[Pool] // the pool that has given the connection out; nil: none
	bound         *sockaddr.Addr       // set for a listener only: all its connections share its connAddrs until their own are made
}

// newConn makes a Conn of fd on loop l. remote may be set later. A shared socket may have other holders, such as
// another process. If it fails, fd is still the caller's.
func newConn(fd int, network string, l *engine.Loop, remote sockaddr.Addr, connected, shared bool) (*Conn, error) {
	c := &Conn{remote: remote}
	c.d.owner = c
	k := kindUnix
	if network != "unix" {
		k = kindTCP
	}
	if shared {
		c.d.flags.Store(flagShared)
	}
	if err := c.d.init(fd, k, l, connected); err != nil {
		return nil, err
	}
	return c, nil
}

// asConn makes an interface of a connection, unless there was an error.
func asConn[C net.Conn](c C, err error) (net.Conn, error) {
	if err != nil {
		return nil, err
	}
	return c, nil
}

// network is "tcp" or "unix".
func (c *Conn) network() string {
	if c.d.kind == kindTCP {
		return "tcp"
	}
	return "unix"
}

func (c *Conn) describe() string { return c.network() + " to " + c.remote.String() }

// home is the loop that c belongs to.
func (c *Conn) home() *engine.Loop { return c.d.loop }

// Read implements net.Conn: recv(2), one call, preceded by a wait if nothing is there.
// io.EOF ends the stream. It parks.
func (c *Conn) Read(b []byte) (int, error) {
	n, err := c.d.receive(b)
	if err != nil {
		return n, c.readError(err)
	}
	if n == 0 && len(b) > 0 {
		return 0, io.EOF
	}
	return n, nil
}

// ReadNow reads what has been received, without waiting and whatever the read deadline is:
// recv(2), one call. If there is nothing the error is os.ErrDeadlineExceeded. It returns
// ErrBusy while another caller reads, and never parks.
func (c *inner) ReadNow(b []byte) (int, error) {
	n, err := c.d.receiveNow(b)
	if err != nil {
		return n, (*Conn)(c).readError(err)
	}
	if n == 0 && len(b) > 0 {
		return 0, io.EOF
	}
	return n, nil
}

// Write implements net.Conn: it returns when all of b has been handed to the kernel,
// or with what failed: EPIPE, ECONNRESET and so on (send(2)). It parks while the
// socket's buffer is full.
func (c *Conn) Write(b []byte) (int, error) {
	n, err := c.d.send(b, 0, false)
	if err != nil {
		return n, c.opError("write", "write", err)
	}
	return n, nil
}

// WriteNow is Write that does not wait for room in the socket's buffer: it returns, without an error, how many bytes of b
// the kernel has taken, which may be none. It parks only while another task is writing.
func (c *inner) WriteNow(b []byte) (int, error) {
	n, err := c.d.send(b, 0, true)
	if err != nil {
		return n, (*Conn)(c).opError("write", "write", err)
	}
	return n, nil
}

// CloseRead shuts down the reading side (shutdown(2)): Read returns io.EOF.
func (c *Conn) CloseRead() error { return c.shutdown(unix.SHUT_RD) }

// CloseWrite shuts down the writing side (shutdown(2)): the peer reads io.EOF.
func (c *Conn) CloseWrite() error { return c.shutdown(unix.SHUT_WR) }

func (c *Conn) shutdown(how int) error {
	return c.control("close", "shutdown", func(fd int) error { return sys.Shutdown(fd, how) })
}

// HungUp reports whether the other end is known to have ended its side of the connection, or all of it. It
// never parks, and says no if the poller has not been told.
func (c *inner) HungUp() bool { return c.d.flags.Load()&flagHangup != 0 }

// LocalAddr implements net.Conn.
func (c *Conn) LocalAddr() net.Addr { return c.addresses().local }

// RemoteAddr implements net.Conn.
func (c *Conn) RemoteAddr() net.Addr { return c.addresses().remote }

// addresses makes the addresses when they are first asked for; most connections of a
// server never are.
func (c *Conn) addresses() *connAddrs {
	old := c.addrs.Load()
	var bound *sockaddr.Addr
	if old != nil {
		if bound = old.bound; bound == nil {
			return old
		}
	}
	var local sockaddr.Addr
	switch {
	case bound != nil && (bound.Family == unix.AF_UNIX || !bound.IP.IsUnspecified()):
		local = *bound
	case c.d.use() == nil:
		local, _ = sockaddr.Local(c.d.fd)
		c.d.unuse()
	}
	if local.Family == 0 && bound != nil {
		local = *bound // closed before the first call; the interface is not known any more
	}
	a := &connAddrs{local: local.NetAddr(c.network()), remote: c.remote.NetAddr(c.network())}
	if !c.addrs.CompareAndSwap(old, a) {
		return c.addrs.Load()
	}
	return a
}

// SetAddrs sets the addresses that LocalAddr, RemoteAddr and errors name: a proxy that made the connection has told
// those of its client.
func (c *inner) SetAddrs(local, remote net.Addr) {
	c.addrs.Store(&connAddrs{local: local, remote: remote})
}

// SetNoDelay switches Nagle's algorithm off (true, the default) or on (tcp(7)).
func (c *Conn) SetNoDelay(noDelay bool) error {
	return c.setOption(unix.IPPROTO_TCP, unix.TCP_NODELAY, boolInt(noDelay))
}

// SetLinger says what Close does with unsent data (socket(7), SO_LINGER): sec < 0 sends it in the
// background (the default), 0 drops it and resets the connection. More is the same as less than 0: to
// Linux it would only say for how long close(2) keeps its thread, and what happens to the data is the same.
func (c *Conn) SetLinger(sec int) error {
	return c.control("set", "setsockopt", func(fd int) error {
		return unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: int32(boolInt(sec == 0))})
	})
}

// SetKeepAliveConfig switches keep-alive messages on or off and sets when they are sent; zero fields
// mean package net's defaults (15 s, 15 s, 9), negative ones leave the setting alone.
func (c *Conn) SetKeepAliveConfig(config net.KeepAliveConfig) error {
	return c.control("set", "", func(fd int) error { return setKeepAlive(fd, config) })
}

// SetKeepAlive switches keep-alive messages on or off; a new connection has them on. Libraries look for it,
// and for SetKeepAlivePeriod, on connections that are no *net.TCPConn.
func (c *Conn) SetKeepAlive(on bool) error {
	return c.setOption(unix.SOL_SOCKET, unix.SO_KEEPALIVE, boolInt(on))
}

// SetKeepAlivePeriod sets after what time without traffic the first keep-alive message is sent, in whole
// seconds, rounded up; as in package net 0 means 15 s, and less leaves the setting alone.
func (c *Conn) SetKeepAlivePeriod(d time.Duration) error {
	if d == 0 {
		d = defaultKeepAliveIdle
	}
	return c.control("set", "setsockopt", func(fd int) error {
		if d < 0 {
			return nil
		}
		return sys.SetOption(fd, unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, seconds(d))
	})
}

// opError wraps err as package net does; it stays out of the callers' stack frames.
//
//go:noinline
func (c *Conn) opError(op, call string, err error) error {
	a := c.addresses()
	return &net.OpError{Op: op, Net: c.network(), Source: a.local, Addr: a.remote, Err: wrapErrno(call, err)}
}

// readError is opError with fewer arguments, which take room in the callers' frames too.
//
//go:noinline
func (c *Conn) readError(err error) error { return c.opError("read", "read", err) }

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// inner is a Conn with the methods that only packages of this module call, see internal/ownconn.
type inner Conn

func init() {
	ownconn.Register(func(nc net.Conn) any {
		if c, ok := nc.(*Conn); ok {
			return (*inner)(c)
		}
		return nil
	})
}
