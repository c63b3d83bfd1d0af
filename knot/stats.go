package knot

import "time"

// countAnswered counts the requests that have been answered since the last call: one update of the counters for requests
// that came together. It is called before their responses leave.
func (x *Ctx) countAnswered() { answered(x.answers.Tell(&x.srv.counts)) }

// count takes up a request that has been answered.
func (x *Ctx) count() {
	answered(x.answers.Add(&x.srv.counts, x.resp.status, x.resp.written, x.lasted()))
}

// lasted is the time since the head of the request was complete; 0: the server is not Timed.
func (x *Ctx) lasted() time.Duration {
	if x.srv.settings().timed && x.began != 0 {
		return x.srv.clock.Elapsed() - x.began
	}
	return 0
}

// fullFor is how long a server counts as full once a client was turned away.
const fullFor = 10 * time.Second

// Stats counts the requests and connections of a server since it was made.
type Stats struct {
	// Responses by the class of their status: [2] counts 200 to 299.
	Responses [6]uint64
	// Errors by status, for the statuses that Knot and its packages use themselves, as far as there were any.
	// Responses of handlers count too.
	Errors map[int]uint64
	// Bytes of bodies that were sent.
	Bytes uint64
	// Accepted connections; TurnedAway ones of them, which got 503, or an alert of TLS, as there were
	// MaxConns already; Evicted ones, which were closed between two requests to make room for
	// others. Conns is how many are open now, of MaxConns (0: no limit), with the Hijacked ones, which
	// handlers have.
	Accepted, TurnedAway, Evicted uint64
	Conns, Hijacked, MaxConns     int
	// Late are requests that were refused as their deadline had passed, Malformed lines of TimeoutHeader, grpc-timeout and
	// UrgencyHeader that could not be read.
	Late, Malformed uint64
	// Durations, if Server.Timed is set or the access log is LogJSON: how many requests took up
	// to Limits[i]; Count and Sum of all. From the end of the head to the end of the response,
	// as the server knows it: what the kernel still has to send has left.
	Durations struct {
		Limits []time.Duration
		Counts []uint64 // not cumulative
		Count  uint64
		Sum    time.Duration
	}
	// Full: within the last 10 s there were MaxConns, none could be closed, and a new one
	// was turned away or had to wait.
	Full bool
	// Stopping: the server is shutting down.
	Stopping bool
}

// Stats returns the counters of the server. Safe from anywhere; it never parks.
func (s *Server) Stats() (sum Stats) {
	s.ready()
	of := s.counts.Sum()
	sum.Responses, sum.Errors, sum.Bytes, sum.Durations = of.Responses, of.Errors, of.Bytes, of.Durations
	if d := s.demands; d != nil {
		sum.Late, sum.Malformed = d.late.Load(), d.malformed.Load()
	}
	sum.MaxConns, sum.Stopping = s.settings().conns, s.conns.stopping.Load()
	t := &s.conns
	t.mu.Lock()
	defer t.mu.Unlock()
	sum.Accepted, sum.TurnedAway, sum.Evicted = t.entered, t.turnedAway, t.evicted
	sum.Conns, sum.Hijacked = t.served+t.hijacked, t.hijacked
	sum.Full = t.fullAt != 0 && s.clock.Now()-t.fullAt < int64(fullFor)
	return sum
}
