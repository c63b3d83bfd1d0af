// Package sim simulates the world around event loops: a clock that is moved by hand or
// jumps to the next deadline, and a poller whose events are scripted. With them a real
// loop runs the same schedule as fast as it can. It knows no task: loops use it through
// their own small interfaces. All methods may be called from any goroutine unless
// their comment says otherwise.
package sim

import (
	"sync"
	"time"
)

// Never is a deadline that does not come.
const Never = time.Duration(1<<63 - 1)

// A Clock is the time of a simulated world. Its zero is 0 and it never goes back.
type Clock struct {
	mu      sync.Mutex
	now     time.Duration // guarded by mu
	jumping bool          // fixed: moves on by itself
	pollers []*Poller     // guarded by mu: not closed
	waiting int           // guarded by mu: pollers in a Poll that waits
}

// NewClock returns a clock that only Advance moves.
func NewClock() *Clock { return &Clock{} }

// NewJumpingClock returns a clock that, besides, jumps to the earliest deadline as soon
// as all its pollers wait. A goroutine that is about to wake one of them does not hold
// it up: simulated time may run at any speed.
func NewJumpingClock() *Clock { return &Clock{jumping: true} }

// Now is the present time.
func (c *Clock) Now() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Advance moves the time on by d and ends the waits whose deadline has come.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.moveTo(c.now + d)
}

// moveTo sets the time; c.mu is held.
func (c *Clock) moveTo(now time.Duration) {
	c.now = max(c.now, now)
	for _, p := range c.pollers {
		if p.waiting && p.deadline <= c.now {
			p.release()
		}
	}
}

// Waiting is the number of pollers that wait.
func (c *Clock) Waiting() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.waiting
}

// jump moves the time on if all pollers wait for that; c.mu is held.
func (c *Clock) jump() {
	if !c.jumping || c.waiting < len(c.pollers) {
		return
	}
	first := Never
	for _, p := range c.pollers {
		first = min(first, p.deadline)
	}
	if first != Never {
		c.moveTo(first)
	}
}
