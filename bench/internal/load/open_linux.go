package load

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// Phase is a time during which requests come at the same rates.
type Phase struct {
	For   time.Duration
	Rates []float64 // requests per second of each class
	// Burst, if more than 0, has requests come that many at once, at even distances from
	// the beginning of the phase on, and not by a Poisson process.
	Burst int
}

// OpenConfig describes an open loop: requests come when they come (a Poisson process),
// whatever becomes of those before them.
type OpenConfig struct {
	Target
	Requests [][]byte // of each class
	Phases   []Phase
	From     time.Duration // after the beginning: CPU time is taken from here to the end of the last phase
	Patience time.Duration // after which a client gives up and closes its connection
	Drain    time.Duration // how long after the last phase answers are taken, if some are missing
	Conns    int           // at most
	Seed     uint64        // of the times between requests: the same for all servers
	// Sources, if any, are the addresses that the classes' connections start from.
	Sources [][4]byte
	// Retries is how often a request is sent again: at once if patience has ended,
	// after retryPause if it was refused or lost. Each time it has an outcome of its own.
	Retries uint8
}

// retryPause is short beside any patience, and long beside the time that a refusal takes.
const retryPause = 100 * time.Millisecond

// retry is a request to be sent again.
type retry struct {
	at    time.Duration
	class uint8
	tries uint8
}

// OpenResult is what an open loop measured.
type OpenResult struct {
	Outcomes []Outcome
	From, To time.Duration // of the usage
	Usage    Usage
}

// open is the traffic of an open loop.
type open struct {
	cfg      OpenConfig
	c        *client
	random   *rand.Rand
	phase    int
	phaseEnd time.Duration
	next     time.Duration // when the next request is due
	class    uint8         // of the next request
	outcomes []Outcome     // by tag
	waiting  []int32       // tags in the order in which patience ends; some are done with
	links    []int32       // by tag: the link of a request that is not done with
	draining bool          // the phases are over
	burst    int           // how many more come together with the next one
	retries  []retry       // after refusals, the first one first
}

// Open runs an open loop.
func Open(cfg OpenConfig) (OpenResult, error) {
	o := &open{cfg: cfg, random: rand.New(rand.NewPCG(cfg.Seed, 1)), phase: -1}
	expected, total, err := o.check()
	if err != nil {
		return OpenResult{}, err
	}
	o.outcomes, o.links = make([]Outcome, 0, expected), make([]int32, 0, expected)
	if o.c, err = newClient(cfg.Addr, cfg.Conns, o); err != nil {
		return OpenResult{}, err
	}
	defer o.c.close()
	for i, source := range cfg.Sources {
		if i > 0 {
			o.c.pools = append(o.c.pools, pool{})
		}
		o.c.pools[i].source = source
	}
	o.advance(0)
	before, from, err := o.c.usedBy(cfg.From, &cfg.Target)
	if err != nil {
		return OpenResult{}, err
	}
	after, to, err := o.c.usedBy(total, &cfg.Target)
	if err != nil {
		return OpenResult{}, err
	}
	o.draining = true
	err = o.c.drive(total + cfg.Drain)
	return OpenResult{o.outcomes, from, to, after.since(before)}, err
}

// check looks for nonsense and returns about how many requests there will be, and the
// time of all phases.
func (o *open) check() (expected int, total time.Duration, err error) {
	if len(o.cfg.Requests) < 1 || len(o.cfg.Requests) > 255 || o.cfg.Patience <= 0 {
		return 0, 0, fmt.Errorf("load: %d classes (1 to 255), patience %v (more than 0)", len(o.cfg.Requests), o.cfg.Patience)
	}
	if n := len(o.cfg.Sources); n > 0 && n != len(o.cfg.Requests) {
		return 0, 0, fmt.Errorf("load: %d sources for %d classes", n, len(o.cfg.Requests))
	}
	for i, p := range o.cfg.Phases {
		if p.For <= 0 || len(p.Rates) != len(o.cfg.Requests) {
			return 0, 0, fmt.Errorf("load: phase %d lasts %v and has %d rates, want more than 0 and %d",
				i+1, p.For, len(p.Rates), len(o.cfg.Requests))
		}
		total += p.For
		for _, rate := range p.Rates {
			if rate < 0 || rate > maxRate {
				return 0, 0, fmt.Errorf("load: phase %d has a rate of %g/s, want 0 to %g", i+1, rate, float64(maxRate))
			}
		}
		expected += int(sumOf(p.Rates)*p.For.Seconds()*1.1) + 1000
	}
	if o.cfg.From >= total {
		return 0, 0, fmt.Errorf("load: measuring begins at %v, the load ends at %v", o.cfg.From, total)
	}
	return expected, total, nil
}

// maxRate is more requests a second than a client sends.
const maxRate = 1e6

// advance draws the next request, which comes after a time. At the end of a phase the
// waiting begins anew, which changes nothing: the process has no memory.
func (o *open) advance(after time.Duration) {
	if o.burst > 0 {
		o.burst--
		o.class = uint8(draw(o.random, o.rates()))
		return
	}
	for {
		fresh := after >= o.phaseEnd
		if after >= o.phaseEnd {
			if o.phase++; o.phase >= len(o.cfg.Phases) {
				o.next = never
				return
			}
			o.phaseEnd += o.cfg.Phases[o.phase].For
		}
		if total := sumOf(o.rates()); total > 0 {
			n := o.cfg.Phases[o.phase].Burst
			switch {
			case n == 0:
				o.next = after + time.Duration(o.random.ExpFloat64()/total*1e9)
			case fresh:
				o.next = after
			default:
				o.next = after + time.Duration(float64(n)/total*1e9)
			}
			if o.next < o.phaseEnd {
				o.burst = max(n-1, 0)
				o.class = uint8(draw(o.random, o.rates()))
				return
			}
		}
		after = o.phaseEnd
	}
}

// rates are those of the classes now.
func (o *open) rates() []float64 { return o.cfg.Phases[o.phase].Rates }

func sumOf(weights []float64) (sum float64) {
	for _, w := range weights {
		sum += w
	}
	return sum
}

// draw picks a number by lot, each as often as its weight says beside the others.
func draw(random *rand.Rand, weights []float64) int {
	lot := random.Float64() * sumOf(weights)
	for i, w := range weights {
		if lot -= w; lot < 0 {
			return i
		}
	}
	return len(weights) - 1
}

// issueBatch bounds what is sent before answers are looked at.
const issueBatch = 32

func (o *open) due(now time.Duration) (time.Duration, error) {
	if err := o.giveUp(now); err != nil {
		return 0, err
	}
	for range issueBatch {
		sent, err := o.sendDue(now)
		if err != nil {
			return 0, err
		}
		if !sent {
			break
		}
		now = o.c.now()
	}
	next := o.next
	if len(o.retries) > 0 {
		next = min(next, o.retries[0].at)
	}
	if len(o.waiting) > 0 {
		return min(next, o.patienceEnds(o.waiting[0])), nil
	}
	o.c.ended = o.draining && len(o.retries) == 0
	return next, nil
}

// sendDue sends one request if one is due: a retry last, as there may be more of them than
// there is time for.
func (o *open) sendDue(now time.Duration) (sent bool, err error) {
	if o.next <= now {
		if err := o.issue(Outcome{Scheduled: o.next, Sent: now, Class: o.class}); err != nil {
			return false, err
		}
		o.advance(o.next)
		return true, nil
	}
	if len(o.retries) == 0 || o.retries[0].at > now {
		return false, nil
	}
	again := o.retries[0]
	o.retries = o.retries[1:]
	return true, o.issue(Outcome{Scheduled: now, Sent: now, Class: again.class, Tries: again.tries})
}

// issue sends a request, on the idle connection used last or on a new one.
func (o *open) issue(request Outcome) error {
	tag, text := int32(len(o.outcomes)), o.cfg.Requests[request.Class]
	o.outcomes = append(o.outcomes, request)
	from := uint8(0)
	if len(o.cfg.Sources) > 0 {
		from = request.Class
	}
	i, ok := o.c.take(from)
	if !ok && !o.c.room() {
		o.links = append(o.links, -1)
		o.outcomes[tag].Fate, o.outcomes[tag].Done = Unsent, request.Sent
		return nil
	}
	o.waiting = append(o.waiting, tag)
	if ok {
		o.links = append(o.links, i)
		return o.c.request(i, text, tag, 0)
	}
	i, err := o.c.dial(text, tag, from, 0)
	o.links = append(o.links, i)
	return err
}

func (o *open) patienceEnds(tag int32) time.Duration {
	return o.outcomes[tag].Scheduled + o.cfg.Patience
}

// giveUp closes the connections of requests that have waited for too long, and sends those
// again that have tries left.
func (o *open) giveUp(now time.Duration) error {
	for len(o.waiting) > 0 {
		tag := o.waiting[0]
		if o.outcomes[tag].Fate == Pending {
			if o.patienceEnds(tag) > now {
				return nil
			}
			if i := o.links[tag]; o.c.busyWith(i, tag) {
				o.c.hangUp(i)
			}
			o.waiting = o.waiting[1:]
			o.outcomes[tag].Fate, o.outcomes[tag].Done = Abandoned, now
			if r := &o.outcomes[tag]; r.Tries < o.cfg.Retries {
				if err := o.issue(Outcome{Scheduled: now, Sent: now, Class: r.Class, Tries: r.Tries + 1}); err != nil {
					return err
				}
			}
			continue
		}
		o.waiting = o.waiting[1:]
	}
	return nil
}

func (o *open) answered(tag int32, r response, now time.Duration) error {
	o.finish(tag, StatusFate(r.status), now)
	return nil
}

func (o *open) lost(tag int32, _ error, now time.Duration) error {
	o.finish(tag, Lost, now)
	return nil
}

func (o *open) finish(tag int32, fate Fate, now time.Duration) {
	r := &o.outcomes[tag]
	r.Fate, r.Done = fate, now
	if fate != Served && r.Tries < o.cfg.Retries {
		o.retries = append(o.retries, retry{now + retryPause, r.Class, r.Tries + 1})
	}
}
