package knot

import (
	"crypto/tls"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"github.com/capriccio-go/capriccio/knot/internal/h1"
	"github.com/capriccio-go/capriccio/knot/internal/h2"
	"github.com/capriccio-go/capriccio/knot/internal/tlsin"
	"github.com/capriccio-go/capriccio/task"
)

// Protocols of TLS (RFC 7301).
const (
	protoHTTP10 = "http/1.0"
	protoHTTP1  = "http/1.1"
	protoHTTP2  = "h2"
)

// preface is what a client begins with that speaks HTTP/2 without having asked (RFC 9113, 3.4). Its
// first line is enough to tell: no request of HTTP/1 looks like it.
const preface = "PRI * HTTP/2.0\r\n"

// farewellMost is how long a client of HTTP/2 may take to know that it should go.
const farewellMost = time.Second

// http2Limits returns the limits of connections of HTTP/2: those that are given, and for the rest those of the server.
func (set *settings) http2Limits(given *http.HTTP2Config) h2.Limits {
	l := h2.LimitsOf(given, set.write)
	l.Head, l.HeadTime, l.Idle, l.Linger = set.head.Size, set.headTime, set.idle, set.linger
	l.Farewell = farewellMost
	return l
}

// http2Conn is a connection that speaks HTTP/2, and the server to it.
type http2Conn struct {
	*h2.Conn
	c       *conn
	telling task.Mutex // held during a call of ConnState
}

// An http2Request is a request of HTTP/2: to the rest of the package a connection of HTTP/1.1 on which one request comes.
type http2Request struct {
	h2.Stream
	framing stream
	conn    conn // of the request's task
}

// A stream is what a request of HTTP/2 or HTTP/3 has of its own in place of a connection.
type stream struct {
	streaming
	on *http2Conn // nil: it is one of HTTP/3
}

// streaming is an *h2.Stream or an *h3.Stream.
type streaming interface {
	// End is called once, when the handler has returned, or its goroutine ends.
	End()
	// Trailer returns the lines behind the body, each with its CR LF, and reports whether all of the request has come.
	Trailer() (lines []byte, received bool)
	// Room is how many of n bytes of a body may be sent at once. It never parks.
	Room(n int) int
	// AwaitRoom waits until the client takes more of the body, and returns how many of n bytes there is room for.
	AwaitRoom(n int64) (int64, error)
	// WriteSome is Write for as much of p, a part of a body, as there is room for.
	WriteSome(p []byte) (int, error)
	// Gather is Write of a part of a response whose next part follows at once.
	Gather(p []byte) (int, error)
}

// framed is the major version of a request of HTTP/2 or HTTP/3, and 0 for others.
func (c *conn) framed() int {
	switch {
	case c.stream == nil:
		return 0
	case c.stream.on == nil:
		return 3
	}
	return 2
}

// beginsHTTP2 reports whether the client speaks HTTP/2 without TLS, and may.
func (x *Ctx) beginsHTTP2(f *h1.Fault) bool {
	rest := x.in[x.r:x.w]
	return f == h1.UnknownVersion && x.srv.settings().h2c && !x.c.served && tlsin.Of(x.c.nc) == nil &&
		len(rest) >= len(preface) && string(rest[:len(preface)]) == preface
}

// ciphersHTTP2 are the cipher suites of crypto/tls for TLS 1.2 that HTTP/2 does not prohibit (RFC 9113, appendix A).
var ciphersHTTP2 = []uint16{
	tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
	tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
	tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256, tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
}

// serveHTTP2 has HTTP/2 spoken on c from now on; prefix has been read of it. c is not the caller's any more.
func (s *Server) serveHTTP2(c *conn, prefix []byte) {
	h := &http2Conn{c: c}
	on := h2.Setting{NC: c.nc, Secure: tlsin.Of(c.nc) != nil, Host: h, Limits: &s.settings().h2, Clock: &s.clock, Entrance: requests, ReadBy: c.readBy, Prefix: prefix}
	if s.readsFirst() {
		on.Entrance = nil
	}
	h.Conn = h2.NewConn(on)
	s.conns.mu.Lock()
	c.h2 = h
	c.state.Store(connFresh)
	s.conns.mu.Unlock()
	if s.conns.stopping.Load() { // or Shutdown finds it
		h.Leave()
	}
	if _, state := c.facts(); state != nil && state.Version == tls.VersionTLS12 &&
		(s.HTTP2 == nil || !s.HTTP2.PermitProhibitedCipherSuites) && !slices.Contains(ciphersHTTP2, state.CipherSuite) {
		h.Refuse()
	}
	s.reportState(c, http.StateActive)
	s.reportState(c, http.StateIdle)
	h.Begin()
}

// NewRequest implements h2.Host.
func (h *http2Conn) NewRequest() h2.Request {
	r, c := new(http2Request), h.c
	r.framing = stream{&r.Stream, h}
	r.conn.remote = c.peer()
	c.facts()
	r.conn.nc, r.conn.srv, r.conn.stream, r.conn.known, r.conn.endpoint = r, c.srv, &r.framing, c.known, c.endpoint
	return r
}

// Awake implements h2.Host.
func (h *http2Conn) Awake() bool { return h.c.awake() }

// Rested implements h2.Host.
func (h *http2Conn) Rested(since int64) {
	h.c.since.Store(since)
	h.c.state.Store(connIdle)
}

// Late implements h2.Host.
func (h *http2Conn) Late(b []byte) int { return h.c.late(b) }

// Changed implements h2.Host: it calls ConnState with what the connection is doing now.
func (h *http2Conn) Changed() {
	if !h.c.srv.std.TellsState() {
		return
	}
	h.telling.Lock()
	defer h.telling.Unlock()
	state := http.StateIdle
	switch n, ended := h.Requests(); {
	case n > 0:
		state = http.StateActive
	case ended:
		state = http.StateClosed
	}
	h.c.srv.reportState(h.c, state)
}

// Forget implements h2.Host.
func (h *http2Conn) Forget() {
	h.Changed()
	if s := tlsin.Of(h.c.nc); s != nil {
		s.Discard()
	}
	h.c.srv.forget(h.c)
}

// Serve implements h2.Request.
func (r *http2Request) Serve() {
	c, s := &r.conn, r.conn.srv
	if !s.readsFirst() {
		c.enter() // before anything else: it was started through the entrance
	}
	r.framing.on.Changed()
	if !r.Begin() {
		c.leave()
		r.End()
		return
	}
	x := s.borrow(c)
	x.closing = true // no other request follows
	if large, headOnly := r.TooLarge(); large {
		if headOnly {
			x.head.Method = h1.MethodHead
		}
		x.refuse(h1.HeadTooLarge)
		x.flush()
	} else {
		x.run()
	}
	giveBack(x)
	c.leave()
	r.End()
}

// Client is Client of the connection that the request came on.
func (r *http2Request) Client() uint32 { return r.framing.on.c.client() }

// SetClient is SetClient of that connection.
func (r *http2Request) SetClient(addr netip.Addr) { r.framing.on.c.setClient(addr) }

// sayGoAway tells all clients of HTTP/2 to send no further requests. It may block for a moment.
func (s *Server) sayGoAway() {
	var all []*http2Conn
	s.conns.each(func(c *conn) bool {
		if c.h2 != nil {
			all = append(all, c.h2)
		}
		return true
	})
	for _, h := range all {
		go h.Leave() // which may wait for the client
	}
}
