// Package tlsin has connections over TLS that a server has accepted: their handshake, their records one by one, and the
// memory that they hold while they rest. A Conn is a net.Conn that waits without a task as the connection below it does,
// as nothing that has come and has not been read is inside of crypto/tls. It decides nothing: whether a client may have a
// handshake, and for how long, is for the server to say.
//
// One task at a time uses a Conn; Close and the deadlines may be called from anywhere.
package tlsin

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"math"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/ownconn"
	"github.com/capriccio-go/capriccio/knot/internal/tasks"
	"github.com/capriccio-go/capriccio/ressched"
	"github.com/capriccio-go/capriccio/stackchunk"
)

// A Conn is a connection over TLS, from before its handshake on. It rests like the one below
// it: what has come and has not been read is never inside of crypto/tls, but for the rest of
// a record that a short Read has left.
//
// Fields without a word are of the connection's one task at a time; Close and the deadlines
// may be called from anywhere.
type Conn struct {
	Raw    net.Conn // fixed
	rests  rester   // raw, if it can; fixed
	config *tls.Config
	sheds  bool // knot.Server.ShedTLSBuffers; fixed
	record recordConn
	tls    atomic.Pointer[tls.Conn] // from the beginning of the handshake on; atomic
	shaken atomic.Pointer[tls.Conn] // the same, from its end on: crypto/tls has locks until then; atomic
	closed atomic.Bool              // atomic

	more  bool // the last Read has filled its buffer: there may be more of the record
	early bool // the task was started for what had been read before
}

// New makes a connection of raw that has not had its handshake. It can rest if raw can, with Client, SetClient and Ended too
// if raw has them. sheds is knot.Server.ShedTLSBuffers.
func New(raw net.Conn, config *tls.Config, sheds bool) net.Conn {
	c := &Conn{Raw: raw, config: config, sheds: sheds}
	c.rests, _ = raw.(rester)
	c.record.Conn = raw
	c.record.out.Init(raw)
	if c.rests == nil {
		return c
	}
	return restingConn{c}
}

// rester is a connection that can wait without a task. It, resterAt and counted have methods of a netpoll.Conn, see there.
type rester interface {
	OnReadable(fn func()) error
}

type resterAt interface {
	OnReadableAt(e *ressched.Entrance, fn func()) error
	Ended() bool
	HungUp() bool
}

type counted interface {
	Client() uint32
	SetClient(addr netip.Addr)
}

var errUnshaken = errors.New("knot: the connection has not had its TLS handshake yet")

// handshakeStack is what a handshake needs of a stack, certificates of the client included.
const handshakeStack = stackchunk.Bytes(20 << 10)

// Handshake makes the connection secure. It parks.
func (c *Conn) Handshake() error {
	t := tls.Server(&c.record, c.config)
	c.tls.Store(t)
	if c.closed.Load() { // Close may have missed it
		c.Raw.Close()
	}
	var err error
	stackchunk.Call(handshakeStack, func() { err = engine.Outside(shake, t) })
	c.record.out.Flush() // session tickets, or an alert
	if err == nil {
		c.shaken.Store(t)
	}
	if c.sheds {
		shed(t, 0)
	}
	return err
}

// shake is for engine.Outside: functions of the Config may wait natively. One that panics ends the handshake: the error is
// an *engine.PanicError.
func shake(t *tls.Conn) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &engine.PanicError{Task: "of a TLS handshake", Value: v, Stack: engine.PanicStack(v)}
		}
	}()
	return t.HandshakeContext(context.Background())
}

// Read implements net.Conn.
func (c *Conn) Read(p []byte) (int, error) {
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
func (c *Conn) Write(p []byte) (int, error) {
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
func (c *Conn) Close() error {
	c.closed.Store(true)
	if t := c.tls.Load(); t != nil {
		return c.record.out.Close(t)
	}
	return c.Raw.Close()
}

// CloseWrite ends our side, of TLS and of the connection.
func (c *Conn) CloseWrite() error {
	t := c.shaken.Load()
	if t == nil {
		return errUnshaken
	}
	if err := c.record.out.CloseWrite(t); err != nil {
		return err
	}
	if half, ok := ownconn.Of(c.Raw).(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

func (c *Conn) LocalAddr() net.Addr                { return c.Raw.LocalAddr() }
func (c *Conn) RemoteAddr() net.Addr               { return c.Raw.RemoteAddr() }
func (c *Conn) SetDeadline(t time.Time) error      { return c.Raw.SetDeadline(t) }
func (c *Conn) SetReadDeadline(t time.Time) error  { return c.Raw.SetReadDeadline(t) }
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.Raw.SetWriteDeadline(t) }

// Fill reads what has come, for a connection that gets no handshake. Discard gives the buffer back that it is in.
func (c *Conn) Fill() error { return c.record.fill() }

// Discard gives the input buffer back, and what is in it. It is for the end of the connection.
func (c *Conn) Discard() { c.record.release() }

// HandOver stops counting the input buffer: a handler has the connection, and never gives it back.
func (c *Conn) HandOver() { c.record.leave() }

// NetConn is the connection below.
func (c *Conn) NetConn() net.Conn { return c.Raw }

// ConnectionState is that of the tls.Conn, and empty before the end of the handshake.
func (c *Conn) ConnectionState() tls.ConnectionState {
	if t := c.shaken.Load(); t != nil {
		return t.ConnectionState()
	}
	return tls.ConnectionState{}
}

// Secure is c, also of what embeds it.
func (c *Conn) Secure() *Conn { return c }

// Of is nc if that is a connection over TLS of ours, else nil.
func Of(nc net.Conn) *Conn {
	if s, ok := nc.(interface{ Secure() *Conn }); ok {
		return s.Secure()
	}
	return nil
}

// Waiting reports whether a Read would find something without a Read of the connection below.
// It is for the connection's task.
func (c *Conn) Waiting() bool {
	return c.more && mayHoldMore(c.tls.Load()) || c.record.whole()
}

// A restingConn is a Conn above a connection that can rest.
type restingConn struct{ *Conn }

// OnReadable is that of netpoll.Conn. fn may be started for a part of a record, or for one
// without content: its Read then waits.
func (c restingConn) OnReadable(fn func()) error { return c.OnReadableAt(nil, fn) }

// OnReadableAt is that of netpoll.Conn.
func (c restingConn) OnReadableAt(e *ressched.Entrance, fn func()) error {
	at, ok := ownconn.Of(c.Raw).(resterAt)
	if c.early = c.Waiting(); c.early {
		if c.closed.Load() {
			return net.ErrClosed
		}
		if on, own := ownconn.Of(c.Raw).(interface {
			StartAt(e *ressched.Entrance, fn func()) bool
		}); own && on.StartAt(e, fn) {
			return nil
		}
		c.early = false
		tasks.SpawnApart(fn)
		return nil
	}
	if t := c.tls.Load(); t != nil && c.sheds {
		shed(t, KeptInput)
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
	at, ok := ownconn.Of(c.Raw).(resterAt)
	return !ok || at.Ended()
}

// HungUp is that of netpoll.Conn.
func (c restingConn) HungUp() bool {
	at, ok := ownconn.Of(c.Raw).(resterAt)
	return ok && at.HungUp()
}

// WriteRoom is that of netpoll.Conn. Records take some of it.
func (c *Conn) WriteRoom() int {
	if own, ok := ownconn.Of(c.Raw).(interface{ WriteRoom() int }); ok {
		return own.WriteRoom()
	}
	return math.MaxInt
}

// Client is that of netpoll.Conn.
func (c *Conn) Client() uint32 {
	if own, ok := ownconn.Of(c.Raw).(counted); ok {
		return own.Client()
	}
	return 0
}

// SetClient is that of netpoll.Conn.
func (c *Conn) SetClient(addr netip.Addr) {
	if own, ok := ownconn.Of(c.Raw).(counted); ok {
		own.SetClient(addr)
	}
}

// AnswerHTTP answers a client that speaks HTTP where TLS is spoken, and reports whether it does.
func AnswerHTTP(err error, raw net.Conn) bool {
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
