package knot

import (
	"sync/atomic"
	"time"

	"github.com/capriccio-go/capriccio/knot/internal/h1"
)

// countShards bounds how many loops can count without meeting. It is a power of two.
const countShards = 8

// counts are counters of some of the requests of a server. All fields are atomic.
type counts struct {
	status  [h1.LastStatus/100 + 1]atomic.Uint64 // by class
	refused [len(refusalStatuses)]atomic.Uint64
	bytes   atomic.Uint64
	took    [len(tookLimits) + 1]atomic.Uint64
	sum     atomic.Uint64 // of durations, in nanoseconds
	_       [64]byte      // another loop's counters are not on our cache line
}

// refusalStatuses are those of errors that are counted one by one.
var refusalStatuses = [...]int{400, 401, 403, 404, 405, 408, 412, 413, 414, 416, 417, 421, 429, 431, 500, 501, 502, 503, 504, 505}

// tookLimits are the upper bounds of how long requests take that are counted.
var tookLimits = [...]time.Duration{
	50 * time.Microsecond, 100 * time.Microsecond, 250 * time.Microsecond, 500 * time.Microsecond,
	time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond,
	50 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2500 * time.Millisecond, 5 * time.Second, 10 * time.Second, 60 * time.Second,
}

var shards atomic.Uint32

// nextShard spreads Ctxs over the shards: those of one pool on one processor tend to be few.
func nextShard() uint32 { return shards.Add(1) % countShards }

// answers are requests that have been answered and are not among the counts yet. They get there
// before their responses leave: clients that send several requests at a time are counted at once.
type answers struct {
	requests uint64
	bytes    uint64
	class    int // of their status
}

// tell adds the answers to the counters.
func (x *Ctx) tell() {
	a := &x.answers
	if a.requests == 0 {
		return
	}
	k := &x.srv.counts[x.shard]
	k.status[a.class].Add(a.requests)
	k.bytes.Add(a.bytes)
	answered(int(a.requests))
	*a = answers{}
}

// count takes up a request that has been answered.
func (x *Ctx) count() {
	status := x.resp.status
	if class := min(status/100, len(counts{}.status)-1); class != x.answers.class {
		x.tell()
		x.answers.class = class
	}
	x.answers.requests++
	x.answers.bytes += uint64(max(x.resp.written, 0))
	k := &x.srv.counts[x.shard]
	if status >= 400 {
		for i, one := range refusalStatuses {
			if one == status {
				k.refused[i].Add(1)
			}
		}
	}
	if x.began == 0 {
		return
	}
	took := x.srv.clock.Elapsed() - x.began
	k.sum.Add(uint64(took))
	i := 0
	for i < len(tookLimits) && took > tookLimits[i] {
		i++
	}
	k.took[i].Add(1)
}

// fullFor is how long a server counts as full once a client was turned away.
const fullFor = 10 * time.Second

// Stats says what a server has done since it was made.
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
	// others; and those that are open now, of MaxConns (0: no limit), with the Hijacked ones, which
	// handlers have.
	Accepted, TurnedAway, Evicted uint64
	Conns, Hijacked, MaxConns     int
	// Durations, if Server.Timed is set or the access log is LogJSON: how many requests took up
	// to Limits[i]; Count and Sum of all. From the end of the head to the end of the response,
	// as the server knows it: what the kernel still has to send has left.
	Durations struct {
		Limits []time.Duration
		Counts []uint64 // not summed up
		Count  uint64
		Sum    time.Duration
	}
	// Full: within the last 10 s there were MaxConns, none of which could be closed for a new one, which
	// was turned away or had to wait.
	Full bool
	// Stopping: the server is shutting down.
	Stopping bool
}

// Stats returns the counters of the server. Safe from anywhere; it never parks.
func (s *Server) Stats() (sum Stats) {
	s.ready()
	sum.Errors = make(map[int]uint64)
	d := &sum.Durations
	d.Limits = tookLimits[:]
	d.Counts = make([]uint64, len(tookLimits))
	for i := range s.counts {
		k := &s.counts[i]
		for class := range k.status {
			sum.Responses[class] += k.status[class].Load()
		}
		for i := range k.refused {
			if n := k.refused[i].Load(); n > 0 {
				sum.Errors[refusalStatuses[i]] += n
			}
		}
		sum.Bytes += k.bytes.Load()
		for i := range k.took {
			n := k.took[i].Load()
			d.Count += n
			if i < len(d.Counts) {
				d.Counts[i] += n
			}
		}
		d.Sum += time.Duration(k.sum.Load())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	sum.Accepted, sum.TurnedAway, sum.Evicted = s.conns, s.turned, s.evicted
	sum.Conns, sum.Hijacked, sum.MaxConns = s.count+s.hijacked, s.hijacked, s.limits.conns
	sum.Full = s.turnedAt != 0 && s.clock.Now()-s.turnedAt < int64(fullFor)
	sum.Stopping = s.stopping.Load()
	return sum
}
