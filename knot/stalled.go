package knot

import (
	"math"
	"time"

	"github.com/capriccio-go/capriccio/knot/internal/h2"
	"github.com/capriccio-go/capriccio/knot/internal/pace"
)

// Which responses are ended so that newcomers need not be refused. While a response is being written, since of its conn is
// minus the time from which on the client has kept it waiting. Bytes that the client takes move that on at LeastRate.

const (
	// stallLeast is for how long a client must have kept a response waiting. A phone that changes its cell takes some
	// seconds; LeastRate ends the response after 30.
	stallLeast = 10 * time.Second
	// hogLeast is the same for a client that keeps pace.EndedAtATime responses waiting, and more than all others together. It is
	// longer than a client at 20 KB/s takes for what the kernel sends at a time.
	hogLeast = 2 * time.Second
	// stallsEvery is how often stalled responses are looked for at most, as there may be a million connections and very
	// many newcomers. The buffers of the responses are given back meanwhile.
	stallsEvery = 50 * time.Millisecond
	// stallsSeen is how many stalled responses are compared, a few KB for the comparison.
	stallsSeen = 256

	stallEnded = math.MinInt64 // since of a conn whose response has been ended
)

// endStalled is called before a newcomer is refused. It ends responses of the client that has stalled most, and returns
// how many, and how many connections end with them. Event streams that have nothing to send, tunnels, and connections that
// handlers have taken over are not among them.
func (s *Server) endStalled() (ended, conns int) {
	now := s.clock.Now()
	last := s.stallsAt.Load()
	if last != 0 && now-last < int64(stallsEvery) || !s.stallsAt.CompareAndSwap(last, now) {
		return 0, 0
	}
	latest := now - int64(s.settings().stall)
	for _, at := range pace.ToEnd(s.stalled(max(latest, now-int64(hogLeast))), latest) {
		if at.Conn.since.CompareAndSwap(-at.Since, stallEnded) {
			at.Conn.nc.SetWriteDeadline(s.clock.At(0))
			if ended++; at.Conn.stream == nil {
				conns++
			}
		}
	}
	if ended > 0 {
		if untold, due := s.warned.stalls.Due(now); due {
			s.errorLog().Warn("knot: overloaded, ending responses that their client does not take", "ended", ended, "unreported", untold)
		}
	}
	return ended, conns
}

// stalled looks at some of the connections for responses that their clients have kept waiting since the given time, or
// for longer. It looks on from where makeRoom or it ended the last time.
func (s *Server) stalled(latest int64) (some []pace.Response[*conn]) {
	add := func(c *conn) {
		if since := c.since.Load(); since < 0 && since != stallEnded && -since <= latest && len(some) < stallsSeen {
			some = append(some, pace.Response[*conn]{Conn: c, Client: c.client(), Since: -since})
		}
	}
	var framed []*http2Conn
	s.conns.visitSome(func(c *conn) bool {
		if c.h2 != nil {
			framed = append(framed, c.h2)
		} else {
			add(c)
		}
		return true
	})
	for _, h := range framed {
		h.EachWriter(func(r h2.Request) { add(&r.(*http2Request).conn) })
	}
	return some
}
