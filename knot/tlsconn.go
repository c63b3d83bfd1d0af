package knot

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/knot/internal/tasks"
	"github.com/capriccio-go/capriccio/ressched"
	"github.com/capriccio-go/capriccio/stackchunk"
)

// A secureConn is a connection over TLS, from before its handshake on. It rests like the one below
// it: what has come and has not been read is never inside of crypto/tls, but for the rest of
// a record that a short Read has left.
//
// Fields without a word are of the connection's one task at a time; Close and the deadlines
// may be called from anywhere.
type secureConn struct {
	raw    net.Conn // fixed
	rests  readable // raw, if it can; fixed
	config *tls.Config
	sheds  bool // Server.ShedTLSBuffers; fixed
	record recordConn
	tls    atomic.Pointer[tls.Conn] // from the beginning of the handshake on; atomic
	shaken atomic.Pointer[tls.Conn] // the same, from its end on: crypto/tls has locks until then; atomic
	closed atomic.Bool              // atomic

	more  bool // the last Read has filled its buffer: there may be more of the record
	early bool // the task was started for what had been read before
}

func newSecureConn(raw net.Conn, config *tls.Config, sheds bool) *secureConn {
	c := &secureConn{raw: raw, config: config, sheds: sheds}
	c.rests, _ = raw.(readable)
	c.record.Conn = raw
	c.record.out.Init(raw)
	return c
}

var errUnshaken = errors.New("knot: the connection has not had its TLS handshake yet")

// handshakeStack is what a handshake needs of a stack, certificates of the client included.
const handshakeStack = stackchunk.Bytes(20 << 10)

// handshake makes the connection secure. It parks.
func (c *secureConn) handshake() error {
	t := tls.Server(&c.record, c.config)
	c.tls.Store(t)
	if c.closed.Load() { // Close may have missed it
		c.raw.Close()
	}
	var err error
	stackchunk.Call(handshakeStack, func() { err = engine.Outside(shake, t) })
	c.record.out.Flush() // session tickets, or an alert
	if err == nil {
		c.shaken.Store(t)
	}
	if c.sheds {
		shedTLS(t, 0)
	}
	return err
}

// shake is for engine.Outside: functions of the Config may wait natively.
func shake(t *tls.Conn) error { return t.HandshakeContext(context.Background()) }

// Read implements net.Conn.
func (c *secureConn) Read(p []byte) (int, error) {
	t := c.shaken.Load()
	if t == nil {
		return 0, errUnshaken
	}
	n, err := t.Read(p)
	if err != nil {
		c.record.out.Flush() // an alert
	}
	c.more = n == len(p) && n > 0
	return n, err
}

// Write implements net.Conn.
func (c *secureConn) Write(p []byte) (int, error) {
	if c.closed.Load() {
		return 0, net.ErrClosed
	}
	t := c.shaken.Load()
	if t == nil {
		return 0, errUnshaken
	}
	return c.record.out.Send(t, p)
}

// Close implements net.Conn. The client is told, if there was a handshake.
func (c *secureConn) Close() error {
	c.closed.Store(true)
	if t := c.tls.Load(); t != nil {
		return c.record.out.Close(t)
	}
	return c.raw.Close()
}

// CloseWrite ends our side, of TLS and of the connection.
func (c *secureConn) CloseWrite() error {
	t := c.shaken.Load()
	if t == nil {
		return errUnshaken
	}
	if err := c.record.out.CloseWrite(t); err != nil {
		return err
	}
	if half, ok := c.raw.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

func (c *secureConn) LocalAddr() net.Addr                { return c.raw.LocalAddr() }
func (c *secureConn) RemoteAddr() net.Addr               { return c.raw.RemoteAddr() }
func (c *secureConn) SetDeadline(t time.Time) error      { return c.raw.SetDeadline(t) }
func (c *secureConn) SetReadDeadline(t time.Time) error  { return c.raw.SetReadDeadline(t) }
func (c *secureConn) SetWriteDeadline(t time.Time) error { return c.raw.SetWriteDeadline(t) }

// NetConn is the connection below.
func (c *secureConn) NetConn() net.Conn { return c.raw }

// ConnectionState is that of the tls.Conn, and empty before the end of the handshake.
func (c *secureConn) ConnectionState() tls.ConnectionState {
	if t := c.shaken.Load(); t != nil {
		return t.ConnectionState()
	}
	return tls.ConnectionState{}
}

// secure is c, also of what embeds it.
func (c *secureConn) secure() *secureConn { return c }

// secureOf is nc if that is a connection over TLS of ours, else nil.
func secureOf(nc net.Conn) *secureConn {
	if s, ok := nc.(interface{ secure() *secureConn }); ok {
		return s.secure()
	}
	return nil
}

// waiting reports whether a Read would find something without one of the connection below.
// It is for the connection's task.
func (c *secureConn) waiting() bool {
	return c.more && mayHoldMore(c.tls.Load()) || c.record.whole()
}

// A restingConn is a secureConn above a connection that can rest.
type restingConn struct{ *secureConn }

// OnReadable is that of netpoll.Conn. fn may be started for a part of a record, or for one
// without content: its Read then waits.
func (c restingConn) OnReadable(fn func()) error { return c.OnReadableAt(nil, fn) }

// OnReadableAt is that of netpoll.Conn.
func (c restingConn) OnReadableAt(e *ressched.Entrance, fn func()) error {
	at, ok := c.rests.(readableAt)
	if c.early = c.waiting(); c.early {
		if c.closed.Load() {
			return net.ErrClosed
		}
		if on, own := c.raw.(interface {
			StartAt(e *ressched.Entrance, fn func()) bool
		}); own && on.StartAt(e, fn) {
			return nil
		}
		c.early = false
		tasks.SpawnApart(fn)
		return nil
	}
	if t := c.tls.Load(); t != nil && c.sheds {
		shedTLS(t, tlsKept)
	}
	if ok && e != nil {
		return at.OnReadableAt(e, fn)
	}
	return c.rests.OnReadable(fn)
}

// Ended is that of netpoll.Conn.
func (c restingConn) Ended() bool {
	if c.early {
		return false
	}
	at, ok := c.rests.(readableAt)
	return !ok || at.Ended()
}

// HungUp is that of netpoll.Conn.
func (c restingConn) HungUp() bool {
	at, ok := c.rests.(readableAt)
	return ok && at.HungUp()
}

// WriteRoom is that of netpoll.Conn. Records take some of it.
func (c *secureConn) WriteRoom() int { return roomOf(c.raw) }

// Client is that of netpoll.Conn.
func (c *secureConn) Client() uint32 {
	if own, ok := c.raw.(parking); ok {
		return own.Client()
	}
	return 0
}

// SetClient is that of netpoll.Conn.
func (c *secureConn) SetClient(addr netip.Addr) {
	if own, ok := c.raw.(parking); ok {
		own.SetClient(addr)
	}
}

// plainHTTP answers a client that speaks HTTP where TLS is spoken, and reports whether it does.
func plainHTTP(err error, raw net.Conn) bool {
	var wrong tls.RecordHeaderError
	if !errors.As(err, &wrong) || wrong.Conn == nil {
		return false
	}
	switch string(wrong.RecordHeader[:]) {
	case "GET /", "HEAD ", "POST ", "PUT /", "OPTIO", "DELET", "PATCH":
		const text = "This port speaks HTTPS.\n"
		io.WriteString(raw, "HTTP/1.0 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"+text)
		return true
	}
	return false
}
