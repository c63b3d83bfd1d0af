//go:build linux

package netpoll

import (
	"io"
	"math"
	"net"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/ressched"
)

// A Conn is a stream connection over TCP or a unix socket. It implements net.Conn,
// io.ReaderFrom, io.WriterTo and syscall.Conn. Conns are made by Listener and Dial;
// the zero value is of no use. Its methods may be called from any goroutine. Read and
// Write, and what is made of them, may park; all others but Close do not.
type Conn struct {
	endpoint
	remote sockaddr                  // constant
	bound  *sockaddr                 // of the listener that accepted it; constant, nil if dialled
	addrs  atomic.Pointer[connAddrs] // made when first asked for
	lender atomic.Pointer[Pool]      // that has given it out
}

// connAddrs holds the addresses as package net spells them.
type connAddrs struct{ local, remote net.Addr }

// newConn makes a Conn of fd on loop l. If it fails, fd is still the caller's.
func newConn(fd int, network string, l *engine.Loop, connected bool) (*Conn, error) {
	c := &Conn{}
	c.d.owner = c
	k := kindStream
	if network != "unix" {
		k = kindTCP
	}
	if err := c.d.init(fd, k, l, connected); err != nil {
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

// describe names it in dumps of what tasks wait for.
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
// ErrBusy while somebody else reads, and never parks.
func (c *Conn) ReadNow(b []byte) (int, error) {
	n, err := c.d.receiveNow(b)
	if err != nil {
		return n, c.readError(err)
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
	n, err := c.d.send(b)
	if err != nil {
		return n, c.opError("write", "write", err)
	}
	return n, nil
}

// CloseRead shuts down the reading side (shutdown(2)): Read returns io.EOF.
func (c *Conn) CloseRead() error { return c.shutdown(unix.SHUT_RD) }

// CloseWrite shuts down the writing side (shutdown(2)): the peer reads io.EOF.
func (c *Conn) CloseWrite() error { return c.shutdown(unix.SHUT_WR) }

func (c *Conn) shutdown(how int) error {
	return c.control("close", "shutdown", func(fd int) error { return shutdown(fd, how) })
}

// OnReadable runs fn as a new task on the connection's loop, once, when a Read would
// not block: bytes are there, the end of the stream, an error, the read deadline has
// passed or the connection was closed. It returns at once and never parks; if that is
// the case already, fn is started right away. Until then the connection holds neither
// task nor stack nor buffer.
//
// It returns ErrBusy while another registration is pending or a Read is in progress,
// and net.ErrClosed, without running fn ever, if the connection is closed already.
// Read returns ErrBusy while a registration is pending.
func (c *Conn) OnReadable(fn func()) error { return c.OnReadableAt(nil, fn) }

// OnReadableAt is OnReadable for an fn that calls e.Enter before anything else. If e does
// not let it in at once, it is not even started until it does, or refuses it. It is refused at
// once when the read deadline passes or the connection is closed meanwhile. Clients are told
// apart by their addresses, see ressched.Entrance.EnterFrom.
func (c *Conn) OnReadableAt(e *ressched.Entrance, fn func()) error {
	if c.d.flags.Load()&flagEnters == 0 {
		c.d.flags.Or(flagEnters)
	}
	if err := c.d.onReadable((*engine.Entrance)(e), fn); err != nil {
		return c.opError("read", "", err)
	}
	return nil
}

// StartAt starts fn at once as OnReadableAt would if there was something to read: as a new task on
// the loop that c belongs to, through e if that is not nil. It is for layers above c that have bytes
// left of what they have read. It does nothing and returns false unless it is called on that loop.
func (c *Conn) StartAt(e *ressched.Entrance, fn func()) bool {
	switch on := c.d.loop; {
	case !on.Runs():
		return false
	case e == nil:
		on.Start(fn)
	default:
		on.StartAt((*engine.Entrance)(e), c.d.client, 0, nil, fn)
	}
	return true
}

// Ended reports whether the function given to OnReadableAt was started for another reason than bytes
// to read: the end of the stream, an error, the deadline or Close. It then has not come through
// the entrance. It is for that function, and tells a likelihood: bytes may have come since.
func (c *Conn) Ended() bool { return c.d.ended }

// HungUp reports whether the other end is known to have ended its side of the connection, or all of it. It
// never parks, and says no if the poller has not been told.
func (c *Conn) HungUp() bool { return c.d.flags.Load()&flagHangup != 0 }

// Client is a number for the host at the other end of an accepted connection, for
// ressched.Entrance.EnterFrom; 0 if it has no address. Two hosts may have the same number.
func (c *Conn) Client() uint32 { return c.d.client }

func (d *desc) onReadable(e *engine.Entrance, fn func()) error {
	return d.onReadableProbing(e, fn, func() syscall.Errno {
		if d.kind == kindTCP && d.requests != nil {
			return d.requests.peek()
		}
		var b [1]byte
		_, e := sysRecv(d.fd, b[:], unix.MSG_PEEK)
		return e
	})
}

// onReadableProbing is onReadable with probe, which returns EAGAIN if there is nothing
// to read.
func (d *desc) onReadableProbing(e *engine.Entrance, fn func(), probe func() syscall.Errno) error {
	ok, err := d.tryLock(readSide)
	if err != nil {
		return err
	}
	if !ok {
		return ErrBusy
	}
	defer d.unlock(readSide)
	if d.flags.Load()&flagReadExpired != 0 {
		d.startHook(nil, fn)
		return nil
	}
	own := d.own()
	for {
		switch d.read.p.Load() {
		case ready:
			// It may be a false alarm, for which fn is not to be bothered.
			d.read.begin(own)
			if probe() == unix.EAGAIN {
				own = d.exhausted(&d.read, own)
				continue
			}
			d.read.more()
			d.startHook(e, fn)
			return nil
		case drained:
			d.hook, d.entrance = fn, e
			if !d.read.p.CompareAndSwap(drained, hooked) {
				d.hook, d.entrance = nil, nil
				continue
			}
			// Published: look for a deadline or a Close that was earlier.
			if d.flags.Load()&(flagClosing|flagReadExpired) != 0 {
				d.interrupted(d.read.interrupt())
			} else if !own || d.requests != nil {
				d.rearm()
			}
			return nil
		default:
			return ErrBusy
		}
	}
}

// LocalAddr implements net.Conn.
func (c *Conn) LocalAddr() net.Addr { return c.addresses().local }

// RemoteAddr implements net.Conn.
func (c *Conn) RemoteAddr() net.Addr { return c.addresses().remote }

// addresses makes the addresses when they are first asked for; most connections of a
// server never are.
func (c *Conn) addresses() *connAddrs {
	if a := c.addrs.Load(); a != nil {
		return a
	}
	var local sockaddr
	switch {
	case c.bound != nil && (c.bound.family == unix.AF_UNIX || !c.bound.ip.IsUnspecified()):
		local = *c.bound
	case c.d.use() == nil:
		local, _ = localOf(c.d.fd)
		c.d.unuse()
	}
	if local.family == 0 && c.bound != nil {
		local = *c.bound // closed before anybody asked; the interface is not known any more
	}
	a := &connAddrs{local: local.addr(c.network()), remote: c.remote.addr(c.network())}
	if !c.addrs.CompareAndSwap(nil, a) {
		return c.addrs.Load()
	}
	return a
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

// SetReadBuffer sets the size in bytes of the kernel's receive buffer (socket(7)).
func (c *Conn) SetReadBuffer(bytes int) error {
	return c.setOption(unix.SOL_SOCKET, unix.SO_RCVBUF, bytes)
}

// SetWriteBuffer sets the size in bytes of the kernel's send buffer (socket(7)).
func (c *Conn) SetWriteBuffer(bytes int) error {
	return c.setOption(unix.SOL_SOCKET, unix.SO_SNDBUF, bytes)
}

func (c *Conn) setOption(level, opt, value int) error {
	return c.control("set", "setsockopt", func(fd int) error {
		return setOption(fd, level, opt, min(value, math.MaxInt32))
	})
}

// control calls f with the descriptor while it can't be closed.
func (c *Conn) control(op, call string, f func(fd int) error) error {
	err := c.d.use()
	if err == nil {
		err = f(int(c.d.fd))
		c.d.unuse()
	}
	if err != nil {
		return c.opError(op, call, err)
	}
	return nil
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
