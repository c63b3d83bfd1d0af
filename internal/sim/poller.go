package sim

import (
	"errors"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"
)

// A Poller waits, in the time of its clock, for scripted events.
type Poller struct {
	clock *Clock
	rnd   *rand.Rand // for spurious returns; nil: none. Guarded by clock.mu

	waiting  bool          // guarded by clock.mu: in a Poll that waits
	deadline time.Duration // guarded by clock.mu: of that wait
	woken    bool          // guarded by clock.mu: Wake was called since the last Poll
	events   []event       // guarded by clock.mu: in the order of their times
	failure  error         // guarded by clock.mu: what the next Poll returns
	closed   bool          // guarded by clock.mu
	resume   chan struct{} // capacity 1: ends the wait

	active atomic.Int32 // number of events and holds
	polls  atomic.Int64 // calls of Poll
	waits  atomic.Int64 // calls of Poll that waited
}

type event struct {
	at time.Duration
	fn func()
}

// NewPoller returns a poller in the time of c. With a seed other than 0, one in eight
// waits returns for no reason.
func (c *Clock) NewPoller(seed uint64) *Poller {
	p := &Poller{clock: c, resume: make(chan struct{}, 1)}
	if seed != 0 {
		p.rnd = rand.New(rand.NewPCG(seed, 1))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pollers = append(c.pollers, p)
	return p
}

// After makes a Poll call fn once d has passed.
func (p *Poller) After(d time.Duration, fn func()) {
	c := p.clock
	c.mu.Lock()
	defer c.mu.Unlock()
	e := event{at: c.now + d, fn: fn}
	i, _ := slices.BinarySearchFunc(p.events, e.at+1, func(a event, at time.Duration) int { return int(a.at - at) })
	p.events = slices.Insert(p.events, i, e)
	p.active.Add(1)
	if p.waiting && e.at < p.deadline {
		p.deadline = e.at
		if e.at <= c.now {
			p.release()
		} else {
			c.jump()
		}
	}
}

// Hold makes the poller say that something could come (n = 1), or takes that back (-1).
func (p *Poller) Hold(n int32) { p.active.Add(n) }

// Fail makes the next Poll return err.
func (p *Poller) Fail(err error) {
	p.clock.mu.Lock()
	p.failure = err
	p.clock.mu.Unlock()
}

// Polls is how often Poll was called, and how many of the calls waited.
func (p *Poller) Polls() (calls, waits int64) { return p.polls.Load(), p.waits.Load() }

// Poll calls the functions whose time has come. Before, if there are none, it waits for
// at most timeout, for ever if that is negative.
func (p *Poller) Poll(timeout time.Duration) error {
	p.polls.Add(1)
	c := p.clock
	c.mu.Lock()
	if p.closed {
		c.mu.Unlock()
		panic("sim: Poll of a closed poller")
	}
	if timeout != 0 && !p.woken && p.failure == nil && (p.rnd == nil || p.rnd.IntN(8) != 0) {
		p.wait(timeout)
	}
	p.woken = false
	due := 0
	for due < len(p.events) && p.events[due].at <= c.now {
		due++
	}
	now := slices.Clone(p.events[:due])
	p.events = slices.Delete(p.events, 0, due)
	err := p.failure
	p.failure = nil
	c.mu.Unlock()
	for _, e := range now {
		p.active.Add(-1)
		e.fn()
	}
	return err
}

// wait returns when p is released; clock.mu is held before and after.
func (p *Poller) wait(timeout time.Duration) {
	c := p.clock
	p.deadline = Never
	if timeout > 0 && c.now < Never-timeout {
		p.deadline = c.now + timeout
	}
	if len(p.events) > 0 {
		p.deadline = min(p.deadline, p.events[0].at)
	}
	if p.deadline <= c.now {
		return
	}
	p.waits.Add(1)
	p.waiting = true
	c.waiting++
	c.jump()
	c.mu.Unlock()
	<-p.resume
	c.mu.Lock()
}

// release ends the wait of p; clock.mu is held and p waits.
func (p *Poller) release() {
	p.waiting = false
	p.clock.waiting--
	p.resume <- struct{}{}
}

// Wake makes a Poll in progress, or else the next one, return at once.
func (p *Poller) Wake() error {
	p.clock.mu.Lock()
	defer p.clock.mu.Unlock()
	if p.closed {
		return errors.New("sim: Wake of a closed poller")
	}
	p.woken = true
	if p.waiting {
		p.release()
	}
	return nil
}

// Active reports whether events are scripted.
func (p *Poller) Active() bool { return p.active.Load() > 0 }

// Close ends the use of p. A second Close panics.
func (p *Poller) Close() error {
	c := p.clock
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.closed {
		panic("sim: Close of a closed poller")
	}
	p.closed = true
	c.pollers = slices.DeleteFunc(c.pollers, func(q *Poller) bool { return q == p })
	c.jump()
	return nil
}
