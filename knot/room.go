package knot

import (
	"cmp"
	"net/http"
	"slices"
	"time"

	"github.com/capriccio-go/capriccio/internal/ownconn"
	"github.com/capriccio-go/capriccio/knot/internal/h1"
	"github.com/capriccio-go/capriccio/knot/internal/tlsin"
	"github.com/capriccio-go/capriccio/task"
)

// How many connections a Server may have, and which go when there are too many.

// An admission is the decision about a new connection.
type admission uint8

const (
	admitted admission = iota
	turnedAway
	tooLate // the server is closed
)

// admit takes a connection up. Above the limit it makes room by closing another connection. If it can't,
// c is turned away, and counts until it has been told so. If fdlimit.Rejects are being turned away already, admit waits,
// and with it the clients that have not been accepted. It may park.
func (s *Server) admit(c *conn) admission {
	verdict, room := s.conns.enter(c, s.settings().conns, s.ctx)
	for ; room != nil; verdict, room = s.conns.enter(c, s.settings().conns, s.ctx) {
		s.reportOverload()
		task.Await(room)
		if task.Context().Err() != nil {
			return tooLate
		}
	}
	if verdict == turnedAway {
		if s.makeRoom() {
			return admitted
		}
		if _, conns := s.endStalled(); conns > 0 {
			return admitted
		}
	}
	return verdict
}

const (
	restLeast  = time.Second
	roomChoice = 8 // the one of these that has rested longest goes
)

// makeRoom closes a connection that has waited for a request for a while. It reports whether it did.
func (s *Server) makeRoom() bool {
	stalled := s.clock.Now() - int64(s.settings().stall)
	for _, c := range s.resting() {
		s.conns.mu.Lock()
		h := c.h2
		s.conns.mu.Unlock()
		if h != nil && h.Unwritten() && c.since.Load() > stalled {
			continue // a client that is only slow still gets its response
		}
		was := c.state.Load()
		if was <= connIdle && !unread(c.nc) && c.state.CompareAndSwap(was, connClosed) {
			s.conns.mu.Lock()
			s.conns.evicted++
			s.conns.mu.Unlock()
			if h != nil {
				h.Expel()
			} else {
				c.nc.Close() // its task, which that wakes, does the rest
			}
			return true
		}
	}
	return false
}

// resting returns connections that may have to go, the one that has rested longest first. It looks
// on from where it ended the last time, so that each has its turn.
func (s *Server) resting() []*conn {
	var some [roomChoice]*conn
	n := 0
	latest := s.clock.Now() - int64(s.settings().rest)
	s.conns.visitSome(func(c *conn) bool {
		// since is 0 before start. An unwanted connection has no place of its own that another could have.
		if since := c.since.Load(); c.state.Load() <= connIdle && 0 < since && since <= latest && !c.unwanted {
			some[n] = c
			n++
		}
		return n < len(some)
	})
	slices.SortFunc(some[:n], func(a, b *conn) int { return cmp.Compare(a.since.Load(), b.since.Load()) })
	return some[:n]
}

func (s *Server) reportOverload() {
	now := s.clock.Now()
	s.conns.mu.Lock()
	s.conns.fullAt = now
	s.conns.mu.Unlock()
	if before, due := s.warned.full.Due(now); due {
		s.errorLog().Warn("knot: too many connections, turning clients away or keeping them waiting", "limit", s.settings().conns, "unreported", before)
	}
}

// turnAway answers a connection above the limit and closes it.
func (s *Server) turnAway(c *conn) {
	s.reportOverload()
	secure := tlsin.Of(c.nc) != nil
	s.conns.mu.Lock()
	s.conns.turnedAway++
	c.unwanted = secure
	s.conns.mu.Unlock()
	if secure { // a response would take a handshake
		c.start()
		return
	}
	c.state.Store(connActive)
	x := s.borrow(c)
	x.refuse(h1.Overloaded)
	err := x.flush()
	giveBack(x)
	if err != nil || !c.linger() {
		c.finish()
		return
	}
	c.opens = opensByRequest // the header of a proxy is dropped as all that comes now
	c.start()
}

// forget is the end of a connection that admit took up.
func (s *Server) forget(c *conn) {
	s.reportState(c, http.StateClosed)
	s.conns.leave(c)
}

// handOn is forget for a connection that a handler has now. It counts until it is closed, if
// that can be known of it.
func (s *Server) handOn(c *conn) {
	s.conns.hijack(c)
	nc := c.nc
	if secure := tlsin.Of(nc); secure != nil {
		nc = secure.NetConn()
	}
	if own, ok := ownconn.Of(nc).(interface{ OnClose(fn func()) bool }); !ok || !own.OnClose(s.conns.hijackedClosed) {
		s.conns.hijackedClosed()
	}
}
