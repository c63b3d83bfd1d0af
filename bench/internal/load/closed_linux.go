package load

import (
	"container/heap"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"golang.org/x/sys/unix"
)

// ClosedConfig describes a closed loop: a number of clients that send a request when their
// last one is answered.
type ClosedConfig struct {
	Target
	Mix     []Share       // each request is one of these, drawn by lot
	Clients int           // requests under way
	Conns   int           // connections; each request is sent on a random one; 0: as many as clients
	Warm    time.Duration // before measuring; the clients begin one after another in a fifth of it
	For     time.Duration // measured
	// Patient clients do as Retry-After says, and wait for up to as long again, drawn
	// by lot, so that they do not all come back together. The others ask again at once.
	Patient bool
	Seed    uint64
}

// Share is a request and how often it comes, beside the others.
type Share struct {
	Request []byte
	Weight  float64
}

// ClosedResult is what a closed loop measured.
type ClosedResult struct {
	Outcomes []Outcome
	From, To time.Duration // measured
	Usage    Usage         // from From to To
}

// ErrGone is returned when the server does not listen any more.
var ErrGone = errors.New("load: the server does not listen any more")

// closed is the traffic of a closed loop.
type closed struct {
	cfg      ClosedConfig
	c        *client
	random   *rand.Rand
	weights  []float64 // of the mix
	away     rests     // clients with nothing under way, which have no connection of their own
	outcomes []Outcome // by tag
}

// Closed runs a closed loop.
func Closed(cfg ClosedConfig) (ClosedResult, error) {
	if cfg.Clients < 1 || cfg.For <= 0 || cfg.Warm < 0 || len(cfg.Mix) == 0 {
		return ClosedResult{}, fmt.Errorf("load: %d clients (at least 1), %v (more than 0) after %v, %d requests (at least 1)",
			cfg.Clients, cfg.For, cfg.Warm, len(cfg.Mix))
	}
	o := &closed{cfg: cfg, random: rand.New(rand.NewPCG(cfg.Seed, 2)), outcomes: make([]Outcome, 0, 1<<20)}
	var err error
	if o.c, err = newClient(cfg.Addr, max(cfg.Clients, cfg.Conns), o); err != nil {
		return ClosedResult{}, err
	}
	defer o.c.close()
	for _, s := range cfg.Mix {
		o.weights = append(o.weights, s.Weight)
	}
	for i := range cfg.Clients { // ascending, so this is a heap
		o.away = append(o.away, rest{until: cfg.Warm / 5 * time.Duration(i) / time.Duration(cfg.Clients)})
	}
	before, from, err := o.c.usedBy(cfg.Warm, &cfg.Target)
	if err != nil {
		return ClosedResult{}, err
	}
	after, to, err := o.c.usedBy(from+cfg.For, &cfg.Target)
	return ClosedResult{o.outcomes, from, to, after.since(before)}, err
}

func (o *closed) due(now time.Duration) (time.Duration, error) {
	for range issueBatch {
		if len(o.away) == 0 {
			return never, nil
		}
		if at := o.away[0].until; at > now {
			return at, nil
		}
		heap.Pop(&o.away)
		if err := o.ask(now); err != nil {
			return 0, err
		}
		now = o.c.now()
	}
	return now, nil
}

// ask sends a client's request on any idle connection: they are all the same. While there are to be
// more connections than clients it makes one.
func (o *closed) ask(now time.Duration) error {
	tag := int32(len(o.outcomes))
	class := draw(o.random, o.weights)
	o.outcomes = append(o.outcomes, Outcome{Scheduled: now, Sent: now, Class: uint8(class)})
	text := o.cfg.Mix[class].Request
	byLot := o.cfg.Conns > o.cfg.Clients
	if byLot {
		o.c.pools[0].shuffle(o.random)
	}
	if !byLot || !o.c.room() {
		if i, ok := o.c.take(0); ok {
			return o.c.request(i, text, tag, 0)
		}
	}
	_, err := o.c.dial(text, tag, 0, 0)
	return err
}

func (o *closed) answered(tag int32, r response, now time.Duration) error {
	o.outcomes[tag].Fate, o.outcomes[tag].Done = StatusFate(r.status), now
	if r.status != 200 && o.cfg.Patient && r.retryAfter > 0 {
		lot := time.Duration(o.random.Float64() * float64(r.retryAfter))
		heap.Push(&o.away, rest{until: now + r.retryAfter + lot})
		return nil
	}
	return o.ask(now)
}

// reconnectAfter is how soon a client comes back whose connection broke.
const reconnectAfter = 20 * time.Millisecond

func (o *closed) lost(tag int32, cause error, now time.Duration) error {
	o.outcomes[tag].Fate, o.outcomes[tag].Done = Lost, now
	if errors.Is(cause, unix.ECONNREFUSED) {
		return ErrGone
	}
	heap.Push(&o.away, rest{until: now + reconnectAfter})
	return nil
}
