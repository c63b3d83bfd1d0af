package knot

import (
	"context"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// HTTP/2 is net/http's: it reads and writes the frames, on goroutines, of which a connection has
// two and each request one. This file hands connections over to it; http2stream.go serves
// their requests.

const protoHTTP2 = "h2"

// preface is what a client begins with that speaks HTTP/2 without having asked (RFC 9113, 3.4). Its
// first line is enough to tell: no request of HTTP/1 looks like it.
const preface = "PRI * HTTP/2.0\r\n"

// DefaultMaxStreams is how many requests a client of HTTP/2 may have under way on a connection.
const DefaultMaxStreams = 100

// An http2Server is what of a Server speaks HTTP/2, from its first such connection on.
type http2Server struct {
	std  *http.Server // fixed
	hand handover     // fixed
}

// http2 returns it, nil if the server is closed.
func (s *Server) http2() *http2Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.h2 == nil && !s.closed {
		s.h2 = s.newHTTP2()
	}
	return s.h2
}

func (s *Server) newHTTP2() *http2Server {
	h := &http2Server{}
	h.hand.came.L = &h.hand.mu
	protocols := new(http.Protocols)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	config := http.HTTP2Config{
		MaxConcurrentStreams: DefaultMaxStreams,
		WriteByteTimeout:     s.limits.write,
		// A client from which nothing has come for so long is asked whether it is there.
		SendPingTimeout: pingAfter, PingTimeout: pingWait,
	}
	if s.HTTP2 != nil {
		config = *s.HTTP2
	}
	h.std = &http.Server{
		Handler: http.HandlerFunc(s.serveStream), Protocols: protocols, HTTP2: &config,
		IdleTimeout: s.limits.idle, MaxHeaderBytes: s.limits.head.size,
		ErrorLog:    slog.NewLogLogger(s.errorLog().Handler(), slog.LevelDebug),
		ConnContext: func(ctx context.Context, nc net.Conn) context.Context { return context.WithValue(ctx, framedKey{}, nc) },
		ConnState: func(nc net.Conn, state http.ConnState) {
			if state == http.StateClosed {
				if c := h.hand.take(nc); c != nil {
					nc.Close()
					s.forget(c)
				}
			}
		},
	}
	go h.std.Serve(&h.hand)
	return h
}

const (
	pingAfter = 30 * time.Second
	pingWait  = 15 * time.Second
)

// giveHTTP2 hands the connection of c over; nc is what frames are read from, and prefix has been read of it. The
// caller has done with both.
func (s *Server) giveHTTP2(c *conn, nc net.Conn, prefix []byte) {
	c.nc.SetDeadline(time.Time{})
	framed := newFramedConn(nc, prefix)
	if h := s.http2(); h != nil && !s.stopping.Load() && h.hand.give(framed, c) {
		if s.stopping.Load() { // Shutdown may have missed it
			go h.shutdown(s.ctx, s.limits.farewell)
		}
		return
	}
	h := s.newHTTP2() // of its own: that one may not accept any more
	h.hand.give(framed, c)
	go h.shutdown(s.ctx, s.limits.farewell)
}

// shutdown has clients told that they should go, and once they know, or have had the time, that this is the end; it ends
// connections without requests. It blocks.
func (h *http2Server) shutdown(ctx context.Context, most time.Duration) {
	if h == nil {
		return
	}
	polite, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	var all sync.WaitGroup
	for _, c := range h.hand.conns() {
		all.Go(func() { c.leave(polite) })
	}
	all.Wait()
	h.std.Shutdown(ctx)
}

func (h *http2Server) close() {
	if h != nil {
		h.std.Close()
	}
}

// A handover is the net.Listener that a Server of net/http accepts those connections from that have
// turned out to be for it. Its methods may be called from anywhere; only Accept blocks.
type handover struct {
	mu     sync.Mutex
	came   sync.Cond
	queue  []*framedConn         // guarded by mu
	all    map[*framedConn]*conn // those handed over, not closed yet; guarded by mu
	closed bool                  // guarded by mu
}

// conns are those that were given and have not been closed.
func (h *handover) conns() []*framedConn {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Collect(maps.Keys(h.all))
}

// give reports whether nc has been taken.
func (h *handover) give(nc *framedConn, c *conn) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return false
	}
	if h.all == nil {
		h.all = make(map[*framedConn]*conn)
	}
	h.all[nc] = c
	h.queue = append(h.queue, nc)
	h.came.Signal()
	return true
}

// take returns the conn that nc was given with, once.
func (h *handover) take(nc net.Conn) *conn {
	h.mu.Lock()
	defer h.mu.Unlock()
	framed := nc.(*framedConn)
	c := h.all[framed]
	delete(h.all, framed)
	return c
}

// Accept implements net.Listener.
func (h *handover) Accept() (net.Conn, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for len(h.queue) == 0 {
		if h.closed {
			return nil, net.ErrClosed
		}
		h.came.Wait()
	}
	nc := h.queue[0]
	h.queue = h.queue[1:]
	return nc, nil
}

// Close implements net.Listener. What has been given is still accepted.
func (h *handover) Close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	h.came.Broadcast()
	return nil
}

// Addr implements net.Listener.
func (h *handover) Addr() net.Addr { return &net.TCPAddr{} }

// A prefixConn is a connection of which something has been read.
type prefixConn struct {
	net.Conn
	prefix []byte // only the reader's
}

func (c *prefixConn) Read(p []byte) (int, error) {
	if len(c.prefix) > 0 {
		n := copy(p, c.prefix)
		if c.prefix = c.prefix[n:]; len(c.prefix) == 0 {
			c.prefix = nil
		}
		return n, nil
	}
	return c.Conn.Read(p)
}

// beginsHTTP2 reports whether the client speaks HTTP/2 without TLS, and may.
func (x *Ctx) beginsHTTP2(f *fault) bool {
	rest := x.in[x.r:x.w]
	return f == unknownVersion && x.srv.H2C && !x.c.served && x.srv.secure == nil &&
		len(rest) >= len(preface) && string(rest[:len(preface)]) == preface
}
