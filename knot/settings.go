package knot

import (
	"time"

	"github.com/capriccio-go/capriccio/knot/internal/clock"
	"github.com/capriccio-go/capriccio/knot/internal/fdlimit"
	"github.com/capriccio-go/capriccio/knot/internal/h1"
	"github.com/capriccio-go/capriccio/knot/internal/h2"
)

// settings are the fields of Server that Reconfigure changes, with the defaults filled in. 0 means no limit. Settings in
// use do not change: others take their place.
type settings struct {
	head                        h1.HeadLimits
	idle, headTime, body, write time.Duration
	h2                          h2.Limits
	linger                      time.Duration // for how long what still comes is dropped, after the last answer
	await                       time.Duration // for how long an answer waits for the end of a chunked body
	rest                        time.Duration // after so long between requests a connection may have to make room
	stall                       time.Duration // a response whose client has kept it waiting for so long may be ended for others
	grace                       time.Duration // ShutdownTimeout
	conns                       int
	maxBody, drain, rate        int64 // rate: LeastRate

	name  string
	h2c   bool
	timed bool // requests are timed
	trust Trust
	log   *AccessLog
}

// settings returns the settings that hold from now on. It must not be called before ready.
func (s *Server) settings() *settings { return s.set.Load() }

// settingsOf returns the settings that the fields of from make, with HTTP2 and the default of MaxConns of s.
func (s *Server) settingsOf(from *Server) *settings {
	s.counting.Do(func() { s.defaultConns = fdlimit.Conns(DefaultMaxConns, s.Outgoing) })
	set := &settings{
		head: h1.HeadLimits{
			Line:   orDefault(from.MaxRequestLine, defaultMaxRequestLine, defaultMaxRequestLine),
			Size:   min(orDefault(from.MaxHead, DefaultMaxHead, DefaultMaxHead), maxHead),
			Fields: orDefault(from.MaxFields, defaultMaxFields, defaultMaxFields),
		},
		idle:     clock.Timeout(from.IdleTimeout, DefaultIdleTimeout),
		linger:   lingerMost,
		await:    awaitMost,
		rest:     restLeast,
		stall:    stallLeast,
		headTime: clock.Timeout(from.HeadTimeout, DefaultHeadTimeout),
		body:     clock.Timeout(from.BodyTimeout, DefaultBodyTimeout),
		write:    clock.Timeout(from.WriteTimeout, DefaultWriteTimeout),
		grace:    orDefault(from.ShutdownTimeout, DefaultShutdownTimeout, 0),
		conns:    min(orDefault(from.MaxConns, s.defaultConns, 0), maxConns),
		maxBody:  orDefault(from.MaxBody, DefaultMaxBody, 1<<62),
		drain:    orDefault(from.MaxDrain, defaultMaxDrain, 0),
		rate:     orDefault(from.LeastRate, DefaultLeastRate, 0),

		name:  from.Name,
		h2c:   from.H2C,
		timed: from.Timed || from.AccessLog != nil && from.AccessLog.format == LogJSON,
		trust: from.Trust,
		log:   from.AccessLog,
	}
	set.h2 = set.http2Limits(s.HTTP2)
	return set
}

// Reconfigure replaces settings of a server, which may be serving, by those of from, another Server that is not used
// otherwise: the timeouts and limits (all fields whose names end in Timeout or begin with Max, and LeastRate), Name, H2C,
// Trust, AccessLog and Timed. Other fields of from are ignored. Connections above a lower MaxConns are not closed for that.
// A connection of HTTP/2 keeps the timeouts and MaxHead of its beginning. Requests under way may go by the new settings from
// their next wait on. The default of MaxConns is as it was at first. Safe from anywhere; it never parks.
func (s *Server) Reconfigure(from *Server) {
	s.set.Store(s.settingsOf(from))
}
