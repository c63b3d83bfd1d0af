package feed

import "time"

// fullEvery is the least time between two log lines that the heap is full of memory that no admitted task holds.
const fullEvery = time.Minute

// A fullLog logs when the heap begins to be full of memory that no admitted task holds. Owned by the goroutine of run.
type fullLog struct {
	is   bool
	next time.Duration // no line before
}

// reportFullHeap logs when the heap is at its limit, and holding requests up would not change that.
func (s *Feed) reportFullHeap(now time.Duration) {
	inside, used, limit, full := s.ledger.Futile(s.memory)
	if !full || s.full.is || s.cfg.Log == nil || now < s.full.next {
		s.full.is = s.full.is && full
		return
	}
	s.full = fullLog{is: true, next: now + fullEvery}
	s.cfg.Log.Warn("capriccio: the heap is at its limit, but admitted tasks hold little of it, so that more are admitted nevertheless; "+
		"raise GOMEMLIMIT, or find in a heap profile what holds it, such as a cache or connections",
		"heap", int64(used), "limit", int64(limit), "admitted", int64(inside))
}
