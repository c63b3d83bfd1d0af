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
	o.advance(0)
	if err := o.c.drive(cfg.From); err != nil {
		return OpenResult{}, err
	}
	result := OpenResult{From: o.c.now()}
	before, err := cfg.usage()
	if err != nil {
		return OpenResult{}, err
	}
	if err := o.c.drive(total); err != nil {
		return OpenResult{}, err
	}
	result.To = o.c.now()
	after, err := cfg.usage()
	if err != nil {
		return OpenResult{}, err
	}
	result.Usage = after.since(before)
	o.draining = true
	if err := o.c.drive(total + cfg.Drain); err != nil {
		return OpenResult{}, err
	}
	result.Outcomes = o.outcomes
	return result, nil
}

// check looks for nonsense and returns about how many requests there will be, and the
// time of all phases.
func (o *open) check() (expected int, total time.Duration, err error) {
	if len(o.cfg.Requests) < 1 || len(o.cfg.Requests) > 255 || o.cfg.Patience <= 0 {
		return 0, 0, fmt.Errorf("load: %d classes (1 to 255), patience %v (more than 0)", len(o.cfg.Requests), o.cfg.Patience)
	}
	for i, p := range o.cfg.Phases {
		if p.For <= 0 || len(p.Rates) != len(o.cfg.Requests) {
			return 0, 0, fmt.Errorf("load: phase %d lasts %v and has %d rates, want more than 0 and %d",
				i+1, p.For, len(p.Rates), len(o.cfg.Requests))
		}
		total += p.For
		sum := 0.0
		for _, rate := range p.Rates {
			if rate < 0 || rate > maxRate {
				return 0, 0, fmt.Errorf("load: phase %d has a rate of %g/s, want 0 to %g", i+1, rate, float64(maxRate))
			}
			sum += rate
		}
		expected += int(sum*p.For.Seconds()*1.1) + 1000
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
	for {
		if after >= o.phaseEnd {
			if o.phase++; o.phase >= len(o.cfg.Phases) {
				o.next = never
				return
			}
			o.phaseEnd += o.cfg.Phases[o.phase].For
		}
		total := 0.0
		for _, rate := range o.cfg.Phases[o.phase].Rates {
			total += rate
		}
		if total > 0 {
			o.next = after + time.Duration(o.random.ExpFloat64()/total*1e9)
			if o.next < o.phaseEnd {
				o.class = o.draw(total)
				return
			}
		}
		after = o.phaseEnd
	}
}

// draw picks a class by its share of the rate.
func (o *open) draw(total float64) uint8 {
	lot := o.random.Float64() * total
	rates := o.cfg.Phases[o.phase].Rates
	for class, rate := range rates {
		if lot -= rate; lot < 0 {
			return uint8(class)
		}
	}
	return uint8(len(rates) - 1)
}

// issueBatch bounds what is sent before answers are looked at.
const issueBatch = 32

func (o *open) due(now time.Duration) (time.Duration, error) {
	o.giveUp(now)
	for range issueBatch {
		if o.next > now {
			break
		}
		if err := o.issue(now); err != nil {
			return 0, err
		}
		o.advance(o.next)
		now = o.c.now()
	}
	if len(o.waiting) > 0 {
		return min(o.next, o.patienceEnds(o.waiting[0])), nil
	}
	o.c.ended = o.draining
	return o.next, nil
}

// issue sends the request that is due, on the idle connection used last or on a new one.
func (o *open) issue(now time.Duration) error {
	tag, text := int32(len(o.outcomes)), o.cfg.Requests[o.class]
	o.outcomes = append(o.outcomes, Outcome{Scheduled: o.next, Sent: now, Class: o.class})
	i, ok := o.c.take()
	if !ok && !o.c.room() {
		o.links = append(o.links, -1)
		o.finish(tag, Unsent, now)
		return nil
	}
	o.waiting = append(o.waiting, tag)
	if ok {
		o.links = append(o.links, i)
		return o.c.request(i, text, tag)
	}
	i, err := o.c.dial(text, tag)
	o.links = append(o.links, i)
	return err
}

func (o *open) patienceEnds(tag int32) time.Duration {
	return o.outcomes[tag].Scheduled + o.cfg.Patience
}

// giveUp closes the connections of requests that have waited for too long.
func (o *open) giveUp(now time.Duration) {
	for len(o.waiting) > 0 {
		tag := o.waiting[0]
		if o.outcomes[tag].Fate == Pending {
			if o.patienceEnds(tag) > now {
				return
			}
			o.finish(tag, Abandoned, now)
			if i := o.links[tag]; o.c.busyWith(i, tag) {
				o.c.hangUp(i)
			}
		}
		o.waiting = o.waiting[1:]
	}
}

func (o *open) answered(tag int32, r response, now time.Duration) error {
	if r.status == 200 {
		o.finish(tag, Served, now)
	} else {
		o.finish(tag, Refused, now)
	}
	return nil
}

func (o *open) lost(tag int32, _ error, now time.Duration) error {
	o.finish(tag, Lost, now)
	return nil
}

func (o *open) finish(tag int32, fate Fate, now time.Duration) {
	o.outcomes[tag].Fate, o.outcomes[tag].Done = fate, now
}
