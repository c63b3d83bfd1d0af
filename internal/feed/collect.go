package feed

import "time"

// collectShare is how many times as long as a forced collection takes no other is forced after it: with 25 they take 4 % of
// the time, however large the heap is.
const collectShare = 25

// A collector forces garbage collections, within a budget of time. Owned by the goroutine of Feed.run.
type collector struct {
	run  func()               // collects; fixed
	now  func() time.Duration // fixed
	next time.Duration        // no collection is forced before
}

// collect forces a collection, if the last one was long enough ago.
func (c *collector) collect() {
	began := c.now()
	if began < c.next {
		return
	}
	c.run()
	ended := c.now()
	c.next = ended + collectShare*(ended-began)
}
