package knot

import (
	"cmp"
	"slices"
	"time"
)

// How many connections a Server may have, and which go when there are too many.

// An admission is what becomes of a new connection.
type admission uint8

const (
	admitted admission = iota
	turnedAway
	dropped
)

// admit takes a connection up. Of those above the limit, for which there is no room to be made, a few
// are told so; they count too while they are being told.
func (s *Server) admit(c *conn) admission {
	verdict := s.enlist(c)
	if verdict == turnedAway && s.makeRoom() {
		return admitted
	}
	return verdict
}

func (s *Server) enlist(c *conn) admission {
	s.mu.Lock()
	defer s.mu.Unlock()
	max := s.limits.conns
	if s.closed || max > 0 && s.count >= max+max/8+8 {
		s.dropped++
		return dropped
	}
	s.count++
	c.next = s.first
	if s.first != nil {
		s.first.prev = c
	}
	s.first = c
	s.conns++
	if max > 0 && s.count > max {
		return turnedAway
	}
	return admitted
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
				h.start(nil, h.expel)
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
	latest := s.clock.now() - int64(s.limits.rest)
	s.mu.Lock()
	defer s.mu.Unlock()
	for range min(s.count, roomSteps) {
		c := s.hand
		if c == nil {
			c = s.first
		}
		s.hand = c.next
		if since := c.since.Load(); c.state.Load() > connIdle || since == 0 || since > latest { // 0: not started yet
			continue
		}
		some[n] = c
		if n++; n == len(some) {
			break
		}
	}
	slices.SortFunc(some[:n], func(a, b *conn) int { return cmp.Compare(a.since.Load(), b.since.Load()) })
	return some[:n]
}

// overloadEvery is how often too many connections are reported at most.
const overloadEvery = time.Minute

func (s *Server) reportOverload() {
	now := s.clock.now()
	s.mu.Lock()
	due := s.overload == 0 || now-s.overload > int64(overloadEvery)
	if due {
		s.overload = now
	}
	s.mu.Unlock()
	if due {
		s.errorLog().Warn("knot: too many connections, turning clients away", "limit", s.limits.conns)
	}
}

// turnAway answers a connection above the limit and closes it.
func (s *Server) turnAway(c *conn) {
	s.reportOverload()
	s.mu.Lock()
	s.turned++
	s.turnedAt = s.clock.now()
	s.mu.Unlock()
	if secureOf(c.nc) != nil { // telling it would take a handshake
		c.finish()
		return
	}
	c.state.Store(connActive)
	x := s.borrow(c)
	x.refuse(overloaded)
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
	s.mu.Lock()
	defer s.mu.Unlock()
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
