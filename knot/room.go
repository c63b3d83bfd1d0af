package knot

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/capriccio-go/capriccio/internal/ownconn"
	"github.com/capriccio-go/capriccio/knot/internal/fdlimit"
	"github.com/capriccio-go/capriccio/knot/internal/h1"
	"github.com/capriccio-go/capriccio/knot/internal/tlsin"
	"github.com/capriccio-go/capriccio/task"
)

// How many connections a Server may have, and which go when there are too many.

// An admission is what becomes of a new connection.
type admission uint8

const (
	admitted admission = iota
	turnedAway
	tooLate // the server is closed
)

// admit takes a connection up. Of those above the limit, for which there is no room to be made, a few
// are told so; they count too while they are being told. If there are even more, it waits, and with it
// the clients that have not been accepted. It may park.
func (s *Server) admit(c *conn) admission {
	verdict, room := s.enlist(c)
	for ; room != nil; verdict, room = s.enlist(c) {
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

// enlist is admit, but where that waits it returns a context that ends when it is time to try again.
func (s *Server) enlist(c *conn) (verdict admission, room context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	max := s.settings().conns
	if s.closed {
		return tooLate, nil
	}
	if max > 0 && s.count+s.hijacked >= max+fdlimit.Rejects(max) {
		if s.room == nil {
			s.room, s.roomy = context.WithCancel(s.ctx)
		}
		return turnedAway, s.room
	}
	s.count++
	c.next = s.first
	if s.first != nil {
		s.first.prev = c
	}
	s.first = c
	s.conns++
	if max > 0 && s.count+s.hijacked > max {
		return turnedAway, nil
	}
	return admitted, nil
}

const (
	restLeast  = time.Second
	roomSteps  = 256 // connections that are looked at for one that may go
	roomChoice = 8   // the one of these that has rested longest goes
)

// makeRoom closes a connection that has waited for a request for a while. It reports whether it did.
func (s *Server) makeRoom() bool {
	for _, c := range s.resting() {
		was := c.state.Load()
		if was <= connIdle && !unread(c.nc) && c.state.CompareAndSwap(was, connClosed) {
			s.mu.Lock()
			s.evicted++
			h := c.h2
			s.mu.Unlock()
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
	s.mu.Lock()
	defer s.mu.Unlock()
	for range min(s.count, roomSteps) {
		c := s.nextConn()
		if since := c.since.Load(); c.state.Load() > connIdle || since <= 0 || since > latest || c.unwanted { // 0: not started yet
			continue // one that is unwanted has no place of its own that another could have
		}
		some[n] = c
		if n++; n == len(some) {
			break
		}
	}
	slices.SortFunc(some[:n], func(a, b *conn) int { return cmp.Compare(a.since.Load(), b.since.Load()) })
	return some[:n]
}

// nextConn returns the next connection; there must be one. It needs mu.
func (s *Server) nextConn() *conn {
	c := s.hand
	if c == nil {
		c = s.first
	}
	s.hand = c.next
	return c
}

func (s *Server) reportOverload() {
	now := s.clock.Now()
	s.mu.Lock()
	s.turnedAt = now
	s.mu.Unlock()
	if before, due := s.overload.Due(now); due {
		s.errorLog().Warn("knot: too many connections, turning clients away or keeping them waiting", "limit", s.settings().conns, "unreported", before)
	}
}

// turnAway answers a connection above the limit and closes it.
func (s *Server) turnAway(c *conn) {
	s.reportOverload()
	secure := tlsin.Of(c.nc) != nil
	s.mu.Lock()
	s.turned++
	c.unwanted = secure
	s.mu.Unlock()
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
	c.start()
}

// forget is the end of a connection that admit took up.
func (s *Server) forget(c *conn) {
	s.reportState(c, http.StateClosed)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.retryAccepts()
	s.unlist(c)
}

// unlist takes c, which enlist has counted, out of the list of connections. It needs mu.
func (s *Server) unlist(c *conn) {
	if c.prev != nil {
		c.prev.next = c.next
	} else {
		s.first = c.next
	}
	if c.next != nil {
		c.next.prev = c.prev
	}
	if s.hand == c {
		s.hand = c.next
	}
	c.next, c.prev = nil, nil
	s.count--
	s.checkDrained()
}

// retryAccepts lets those try again that wait for there to be fewer connections. It needs mu.
func (s *Server) retryAccepts() {
	if s.room != nil {
		s.roomy()
		s.room = nil
	}
}

// handOn is forget for a connection that a handler has now. It counts until it is closed, if
// that can be known of it.
func (s *Server) handOn(c *conn) {
	s.mu.Lock()
	s.hijacked++
	s.unlist(c)
	s.mu.Unlock()
	nc := c.nc
	if secure := tlsin.Of(nc); secure != nil {
		nc = secure.NetConn()
	}
	if own, ok := ownconn.Of(nc).(interface{ OnClose(fn func()) bool }); !ok || !own.OnClose(s.closedByHandler) {
		s.closedByHandler()
	}
}

func (s *Server) closedByHandler() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.retryAccepts()
	s.hijacked--
}
