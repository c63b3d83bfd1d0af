package knot

import (
	"context"
	"net"
	"time"

	"github.com/capriccio-go/capriccio/internal/ownconn"
	"github.com/capriccio-go/capriccio/task"
)

// Shutdown stops the server gracefully. Idle connections are closed at once. A response under way is completed. A client
// that has connected within the last 5 s, or waits to be accepted, may begin one request in the next 5 s. All these
// responses carry Connection: close and are the last of their connections. New connections are not taken: a
// *netpoll.Listener is drained as its Drain says; of any other listener, of crypto/tls for instance, it can't be told
// whether clients wait, and it is closed when Accept has returned none for 10 ms.
//
// If ctx ends first, Context of the requests still under way ends, their connections are
// closed, and Shutdown returns the error of ctx; it returns nil if no request was. The
// end of the calling task's own context does not cut it short. It parks.
func (s *Server) Shutdown(ctx context.Context) error {
	s.ready()
	s.handing.Store(false)
	s.conns.stopping.Store(true)
	s.closeIdle()
	s.sayGoAway()
	var err error
	task.Offload(func() {
		for _, ln := range s.conns.tracked() {
			s.drain(ctx, ln)
		}
		if !s.awaitDrained(ctx) && s.busy() {
			err = ctx.Err()
		}
	})
	s.abort()
	return err
}

// freshFor is how long a client that has connected may take to ask before Shutdown takes its connection for one
// that was made ahead and is not used. net/http has the same.
const freshFor = 5 * time.Second

// awaitDrained blocks until no listener and no connection is left, or until ctx ends, and reports which: true for the first. From
// freshFor on it closes the connections on which no request has come, unless the server is being handed over.
func (s *Server) awaitDrained(ctx context.Context) bool {
	s.conns.checkDrained()
	for old := time.After(freshFor); ; {
		select {
		case <-s.conns.drained:
			return true
		case <-ctx.Done():
			return false
		case <-old:
			if !s.handing.Load() {
				s.closeIdle()
			}
			old = time.After(time.Second) // some connected, or had their TLS handshake, while the listeners were drained
		}
	}
}

// Close closes listeners and connections at once. What handlers are doing goes
// on until they next use their connection or Context. It may park for a
// moment.
func (s *Server) Close() error {
	s.ready()
	s.conns.stopping.Store(true)
	s.abort()
	return nil
}

const (
	// acceptQuiet is for how long Accept must have returned nothing before a listener is
	// closed whose queue can't be looked at.
	acceptQuiet = 10 * time.Millisecond
	// acceptMost is after what time such a listener is closed though clients still come.
	acceptMost = time.Second
)

// drain closes ln when no connection waits to be accepted any more. It blocks, as it is called by a
// plain goroutine.
func (s *Server) drain(ctx context.Context, ln net.Listener) {
	if own, ok := ln.(interface{ Drain(context.Context) error }); ok {
		own.Drain(ctx)
		return
	}
	defer ln.Close()
	most := time.After(acceptMost)
	for seen := s.accepted.Load(); ; {
		select {
		case <-ctx.Done():
			return
		case <-most:
			return
		case <-time.After(acceptQuiet):
		}
		now := s.accepted.Load()
		if now == seen {
			return
		}
		seen = now
	}
}

// closeIdle closes the connections that wait for another request, or have waited for the first for freshFor, but not
// those on which one has come and is about to be read, nor those of HTTP/2, see sayGoAway.
func (s *Server) closeIdle() {
	type resting struct {
		c     *conn
		state uint32
	}
	now := s.clock.Now()
	var idle []resting
	s.conns.each(func(c *conn) bool {
		state, since := c.state.Load(), c.since.Load() // 0: not started yet
		if c.h2 == nil && (state == connIdle || state == connFresh && since > 0 && now-since >= int64(freshFor)) {
			idle = append(idle, resting{c, state})
		}
		return true
	})
	for _, r := range idle {
		if !unread(r.c.nc) && r.c.state.CompareAndSwap(r.state, connClosed) {
			r.c.nc.Close() // its task, which that wakes, does the rest
		}
	}
}

// unread reports whether a client has sent something that was not read; false if that
// can't be told.
func unread(nc net.Conn) bool {
	if secure, ok := nc.(interface{ NetConn() net.Conn }); ok { // crypto/tls
		nc = secure.NetConn()
	}
	c, ok := ownconn.Of(nc).(interface{ Unread() bool })
	return ok && c.Unread()
}

// busy reports whether a request of HTTP/3 is left, or a connection that is not fresh.
func (s *Server) busy() (found bool) {
	s.conns.each(func(c *conn) bool {
		found = c.state.Load() != connFresh
		return !found
	})
	return found || s.conns.requests.Load() > 0
}

// abort closes every listener and every connection, whatever it is doing.
func (s *Server) abort() {
	s.cancel()
	s.clock.Close()
	all := s.conns.close()
	for _, ln := range s.conns.tracked() {
		ln.Close()
	}
	for _, c := range all {
		c.nc.Close()
	}
}
