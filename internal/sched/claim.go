package sched

import (
	"math/bits"
	"sync/atomic"
)

// A Claim makes a node exclusive: at most one loop at a time runs a cohort of its
// tasks, and so at most one of its tasks runs in the whole program (Cohort Scheduling,
// section 3.4). Its tasks need no lock for what only they touch, as long as they do not
// wait in between. All loops share the node's Claim. The zero value is free.
//
// A loop that finds it taken does other work. If it has none, it learns of the release
// through the function given to NewClaim.
type Claim struct {
	owner   atomic.Int64  // loop + 1; 0: free
	waiting atomic.Uint64 // a bit for each loop that wants to be woken
	wake    func(loop int)
}

// NewClaim returns a free Claim. wake is called on the loop that releases it, with the number of a loop that waits for
// it: that loop should call Policy.Tick and Choose soon. Loops from number 64 on are not woken; they ask again after
// their next Tick.
func NewClaim(wake func(loop int)) *Claim { return &Claim{wake: wake} }

// take claims the node for loop, and reports whether it could. If not, loop is woken when the claim is released, see
// NewClaim.
func (c *Claim) take(loop int) bool {
	if c.owner.CompareAndSwap(0, int64(loop)+1) {
		return true
	}
	if loop < 64 {
		c.waiting.Or(1 << loop)
	}
	return c.owner.CompareAndSwap(0, int64(loop)+1) // it may have been released just before waiting was set
}

func (c *Claim) release() {
	c.owner.Store(0)
	if c.waiting.Load() == 0 {
		return
	}
	for waiting := c.waiting.Swap(0); waiting != 0; waiting &= waiting - 1 {
		if c.wake != nil {
			c.wake(bits.TrailingZeros64(waiting))
		}
	}
}
