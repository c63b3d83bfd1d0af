package knot

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	"github.com/capriccio-go/capriccio/internal/ownconn"
	"github.com/capriccio-go/capriccio/knot/internal/clientaddr"
	"github.com/capriccio-go/capriccio/knot/internal/nethttp"
	"github.com/capriccio-go/capriccio/knot/internal/tlsin"
	"github.com/capriccio-go/capriccio/ressched"
)

// readable is a connection that can give its task back: fn runs as a new task
// once a Read will not block (see netpoll.Conn.OnReadable).
type readable interface {
	OnReadable(fn func()) error
}

// readableAt has the further methods of a *netpoll.Conn, see ownconn.
type readableAt interface {
	OnReadableAt(e *ressched.Entrance, fn func()) error
	Ended() bool
	HungUp() bool
}

// waiter is c.nc if that can wait for a request without a task, else nil.
func (c *conn) waiter() readable {
	w, _ := c.nc.(readable)
	return w
}

// at is c.nc if that is a readableAt.
func (c *conn) at() (at readableAt, ok bool) {
	at, ok = ownconn.Of(c.nc).(readableAt)
	return at, ok
}

// States of a connection. The goroutine that moves it out of connIdle owns the connection.
//
//	connFresh ←─→ connActive   the connection's own task
//	connIdle ←──→ connActive   the connection's own task
//	both ───────→ connClosed   Shutdown, makeRoom; the task only cleans up
//
// A lingering connection stays active: Shutdown waits for it. For a fresh one too, for a while: its
// request may be on the way.
const (
	connFresh uint32 = iota // waits for its first request with nothing buffered
	connIdle                // waits for another request with nothing buffered
	connActive
	connClosed
)

// verdict is how a turn of a connection ended.
type verdict uint8

const (
	turnRest   verdict = iota // nothing buffered: wait for the next request
	turnMore                  // part of a request is buffered
	turnClose                 // close now
	turnLinger                // close, but let the client read the answer first
	turnGone                  // a handler has the connection, and the server forgot it
)

// opening is what a connection waits for before its first request.
type opening uint8

const (
	opensByRequest   opening = iota // nothing
	opensByHandshake                // a TLS handshake
	opensByProxy                    // a header of the PROXY protocol, and then perhaps a TLS handshake
)

// conn is what a connection holds for life, all that it holds while idle. Its
// buffers are in the Ctx that a turn borrows. Fields without a word are
// loop-private: only the connection's one task at a time touches them.
type conn struct {
	nc           net.Conn
	srv          *Server
	whenReadable func()     // serveClient, shakeHands or takeProxyHeader; made once
	stream       *stream    // nc, if this is a request of HTTP/2 or HTTP/3: the server has not admitted it as a connection
	h2           *http2Conn // speaks HTTP/2 on the connection; nil: HTTP/1; guarded by srv.conns.mu
	next         *conn      // guarded by srv.conns.mu
	prev         *conn      // guarded by srv.conns.mu

	remote *peerAddr  // made when first needed
	known  *connFacts // for handlers of net/http, made when first needed
	// since is when the connection became idle, on the server's clock: stored by the connection's
	// task, read by makeRoom. While a response is being written it is below 0, see endStalled. atomic
	since atomic.Int64
	// The deadlines that are set, on that clock; 0: none.
	readBy, writeBy int64
	room            int32         // bytes that the client is known to take without a wait; 0: not asked
	endpoint        uint16        // the Endpoint that the connection came to, see Server.endpointOf
	state           atomic.Uint32 // atomic
	answering       atomic.Bool   // the response to the request has begun; atomic
	told            nethttp.ToldState
	served          bool // at least one request
	lingering       bool
	inside          bool // has entered, see enter
	refused         bool // was not admitted
	extended        bool // see extend
	opens           opening
	unwanted        bool // above MaxConns: gets an alert in place of the TLS handshake; set under srv.conns.mu, before start
}

// start serves the connection until it closes, or until it rests where the
// task can be given back.
func (c *conn) start() {
	c.since.Store(c.srv.clock.Now())
	secure := tlsin.Of(c.nc)
	if c.waiter() != nil {
		c.whenReadable = c.serveClient
		switch {
		case c.opens == opensByProxy:
			c.whenReadable = c.takeProxyHeader
		case secure != nil:
			c.opens, c.whenReadable = opensByHandshake, c.shakeHands
		}
		c.rest()
		return
	}
	if secure != nil && !c.shake(secure) {
		return
	}
	for c.idle() && c.turn() {
	}
}

// serveClient is the task that starts when the connection is readable.
func (c *conn) serveClient() {
	if c.turn() {
		c.rest()
	}
}

// rest gives the task back. c is not the caller's any more.
func (c *conn) rest() {
	if !c.idle() {
		return
	}
	if err := c.onReadable(); err != nil {
		c.finish()
	}
}

// onReadable lets a task start when there is something to read, and room for a request.
func (c *conn) onReadable() error {
	if c.opens != opensByRequest {
		if at, ok := c.at(); ok && c.opens == opensByHandshake {
			return at.OnReadableAt(handshakes, c.whenReadable)
		}
		return c.waiter().OnReadable(c.whenReadable)
	}
	if at, ok := c.at(); ok && !c.srv.readsFirst() && !c.lingering {
		return at.OnReadableAt(requests, c.whenReadable)
	}
	return c.waiter().OnReadable(c.whenReadable)
}

// idle marks the connection as closable by Shutdown, at once if it has had a request. If the
// server is stopping such a connection lingers instead, or is closed; then idle returns
// false.
func (c *conn) idle() bool {
	if c.lingering {
		return true
	}
	c.armIdle()
	if !c.served {
		c.state.Store(connFresh)
		return true
	}
	c.srv.reportState(c, http.StateIdle)
	c.state.Store(connIdle)
	if c.srv.conns.stopping.Load() && !c.srv.handing.Load() && !c.unread() {
		// Shutdown may have missed it; if not, it only closed nc. The client must
		// still get the last answer.
		if c.state.CompareAndSwap(connIdle, connActive) && c.linger() {
			return true
		}
		c.state.Store(connClosed)
		c.finish()
		return false
	}
	return true
}

// awake takes up a connection that was at rest. It returns false if Shutdown or
// makeRoom has closed it.
func (c *conn) awake() bool {
	return c.state.CompareAndSwap(connIdle, connActive) || c.state.CompareAndSwap(connFresh, connActive)
}

// turn reads and serves all that is there. It returns true if the connection
// rests, false if it is closed or was taken over by a handler.
func (c *conn) turn() bool {
	c.inside, c.refused = false, false
	if c.entersFirst() && c.state.Load() <= connIdle {
		c.enter() // there is something to read; while it waits it needs no buffer
	}
	x := c.srv.borrow(c)
	v := x.run()
	giveBack(x)
	c.leave()
	if v == turnRest || v == turnLinger && c.linger() {
		return true
	}
	if v == turnGone {
		return false
	}
	c.finish()
	return false
}

// entersFirst reports whether c enters before its request is read: there is something to read, and
// the priority of a request does not depend on its head.
func (c *conn) entersFirst() bool {
	if c.srv.readsFirst() || c.lingering {
		return false
	}
	at, ok := c.at()
	return ok && !at.Ended()
}

// end closes the connection in place of a task that is going away: after a
// last answer if answered.
func (c *conn) end(answered bool) {
	if answered && c.waiter() != nil && c.linger() {
		c.rest()
		return
	}
	c.finish()
}

// finish closes the connection for good. Called once, by its task.
func (c *conn) finish() {
	if c.stream != nil {
		c.stream.End()
		return
	}
	if s := tlsin.Of(c.nc); s != nil {
		s.Discard()
	}
	c.nc.Close()
	c.srv.forget(c)
}

// idleUntil is when the connection has been idle for too long.
func (c *conn) idleUntil() int64 {
	set := c.srv.settings()
	limit := set.idle
	if c.opens == opensByProxy && set.headTime > 0 {
		limit = set.headTime
	}
	if limit <= 0 {
		return 0
	}
	return c.since.Load() + int64(limit)
}

// armIdle leaves an earlier deadline alone: when it passes, the connection
// wakes up, sees that it may stay, and only then sets a new one. So a busy
// connection sets one deadline per idle time, not one per request.
func (c *conn) armIdle() {
	until := c.idleUntil()
	if until == 0 {
		c.clearRead()
		return
	}
	if c.readBy == 0 || c.readBy > until {
		c.setRead(until)
	}
}

// outlastedDeadline handles a read deadline that passed on an idle connection: false
// if its time is up.
func (c *conn) outlastedDeadline() bool {
	now := int64(c.srv.clock.Elapsed())
	c.readBy = 0
	if until := c.idleUntil(); until != 0 && now >= until {
		return false
	}
	c.clearRead()
	return true
}

// extend handles a read deadline that passed while a request waited to be admitted, and reports whether
// it may go on waiting. A first deadline was for the request to come, which it has, and may have been
// close, or have passed while the process stood still; so there is another one, as for a connection that
// begins to rest. A second is the end.
func (c *conn) extend() bool {
	if c.extended {
		return false
	}
	c.extended, c.readBy = true, 0
	c.since.Store(int64(c.srv.clock.Elapsed())) // the clock may have stood still too
	return true
}

func (c *conn) setRead(by int64) {
	c.readBy = by
	c.nc.SetReadDeadline(c.srv.clock.At(by))
}

func (c *conn) clearRead() {
	c.readBy = 0
	c.nc.SetReadDeadline(time.Time{})
}

// armRead gives the coming read between half of limit and limit, so that a
// deadline is set at most every half limit.
func (c *conn) armRead(limit time.Duration) {
	if limit <= 0 {
		if c.readBy != 0 {
			c.clearRead()
		}
		return
	}
	now := c.srv.clock.Now()
	if c.readBy < now+int64(limit)/2 || c.readBy > now+int64(limit) {
		c.setRead(now + int64(limit))
	}
}

// armWrite is armRead for writes, with between limit and twice limit.
func (c *conn) armWrite(limit time.Duration) {
	if limit <= 0 {
		if c.writeBy != 0 { // Reconfigure has taken the limit back
			c.writeBy = 0
			c.nc.SetWriteDeadline(time.Time{})
		}
		return
	}
	if now := c.srv.clock.Now(); c.writeBy < now+int64(limit) || c.writeBy > now+2*int64(limit) {
		c.writeBy = now + 2*int64(limit)
		c.nc.SetWriteDeadline(c.srv.clock.At(c.writeBy))
	}
}

// lingerMost is how long a client may still send that has its last answer.
const lingerMost = 2 * time.Second

// linger ends our side and goes on reading for a while, however much comes: closing with unread
// input resets the connection, and the reset may overtake the answer (RFC
// 9112, 9.6). It returns false if the connection can't do that.
func (c *conn) linger() bool {
	half, ok := c.nc.(interface{ CloseWrite() error })
	if !ok || c.lingering || half.CloseWrite() != nil {
		return false
	}
	c.lingering = true
	c.setRead(c.srv.clock.Now() + int64(c.srv.settings().linger))
	return true
}

// lingerRead takes what still comes from a closing client.
func lingerRead(n int, err error) verdict {
	if err != nil || n == 0 {
		return turnClose
	}
	return turnRest
}

// lastRead is how long the rest of a record of TLS may take to come.
const lastRead = 2 * time.Second

// late reads what there is although a read has met its deadline: it may have come in time,
// while the process stood still.
func (c *conn) late(b []byte) (n int) {
	if now, ok := ownconn.Of(c.nc).(interface{ ReadNow(b []byte) (int, error) }); ok {
		n, _ = now.ReadNow(b) // an error shows again in the next read
	} else if c.unread() {
		c.setRead(int64(c.srv.clock.Elapsed() + lastRead))
		n, _ = c.nc.Read(b)
	}
	if n > 0 {
		c.clearRead()
	}
	return n
}

// A peerAddr is the address at the other end of a connection.
type peerAddr struct {
	host string     // without its port; clientaddr.NoHost: there is none
	ip   string     // host without its zone; "": it is no IP address
	addr netip.Addr // of ip
}

// peer returns the address at the other end. It is parsed once for a connection.
func (c *conn) peer() *peerAddr {
	if c.remote == nil {
		p := &peerAddr{host: clientaddr.Host(c.nc.RemoteAddr())}
		if addr, err := netip.ParseAddr(p.host); err == nil {
			p.ip, _, _ = strings.Cut(p.host, "%")
			p.addr = addr.WithZone("").Unmap()
		}
		c.remote = p
	}
	return c.remote
}

// remoteHost is the client's address without its port.
func (c *conn) remoteHost() string { return c.peer().host }
