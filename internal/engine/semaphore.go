package engine

import (
	"context"
	"fmt"
	"math"
	"sync/atomic"
)

// A Semaphore is a number of units to share. Make it with NewSemaphore. Those that wait
// get their units in the order in which they came, so that one that wants many is not
// overtaken for ever by others that want few. Where that limits an overloaded program it is as with
// a Mutex.
type Semaphore struct {
	size    int64        // fixed
	used    atomic.Int64 // and semAwaited while somebody waits: then it is written in the guard only
	g       guard
	waiters waiterList // guarded by g; tag: units
}

// semAwaited makes Semaphore.used negative.
const semAwaited = math.MinInt64

// NewSemaphore returns a Semaphore of n units, n ≥ 0.
func NewSemaphore(n int64) *Semaphore {
	if n < 0 {
		panic(fmt.Sprintf("task: NewSemaphore(%d); want 0 or more", n))
	}
	return &Semaphore{size: n}
}

// Acquire takes n units and parks until they are there.
func (s *Semaphore) Acquire(n int64) error {
	return s.acquire(context.Background(), n)
}

// AcquireContext is Acquire that also ends, with the error of ctx, when ctx ends. It never returns nil once
// ctx has ended, even if there are units.
func (s *Semaphore) AcquireContext(ctx context.Context, n int64) error {
	return takeUnder(ctx, func(ctx context.Context) error { return s.acquire(ctx, n) }, func() { s.Release(n) })
}

// acquire is Acquire; ctx ends the wait of a plain goroutine.
func (s *Semaphore) acquire(ctx context.Context, n int64) error {
	if n < 0 || n > s.size {
		return fmt.Errorf("task: Acquire(%d) of a Semaphore of %d: can never be had", n, s.size)
	}
	if quickLocks && noneAway() && s.take(n) {
		return nil
	}
	return s.acquireSlow(ctx, n)
}

// take takes n units if they are there and nobody waits, and reports whether it did.
func (s *Semaphore) take(n int64) bool {
	for {
		used := s.used.Load()
		if used < 0 || s.size-used < n {
			return false
		}
		if s.used.CompareAndSwap(used, used+n) {
			return true
		}
	}
}

func (s *Semaphore) acquireSlow(ctx context.Context, n int64) error {
	l := comeBack()
	s.g.enter(l)
	for used := s.used.Load(); used >= 0; used = s.used.Load() {
		if s.take(n) {
			s.g.exit(l)
			return nil
		}
		if s.size-used < n {
			s.used.CompareAndSwap(used, used|semAwaited)
		}
	}
	w := Self()
	w.tag = n
	s.waiters.push(w)
	s.g.exit(l)
	return w.waitUntil(ctx, ReasonSemaphore, (*semaphorePoint)(s))
}

// TryAcquire takes n units if they are there and nobody waits, and reports whether it did.
func (s *Semaphore) TryAcquire(n int64) bool { return n >= 0 && s.take(n) }

// Release gives n units back. It panics if there are then more than there ever were.
func (s *Semaphore) Release(n int64) {
	used := s.used.Load()
	for n >= 0 && n <= used { // so nobody waits
		if s.used.CompareAndSwap(used, used-n) {
			return
		}
		used = s.used.Load()
	}
	l := here()
	s.g.enter(l)
	used = s.used.Load()
	if taken := used &^ semAwaited; n < 0 || n > taken {
		s.g.exit(l)
		panic(fmt.Sprintf("task: Release(%d) of a Semaphore of which %d units are taken", n, taken))
	}
	s.used.Add(-n)
	s.grant(l)
}

// grant serves the first in the queue as far as units are there, and leaves the guard.
func (s *Semaphore) grant(l *Loop) {
	var served wakeChain
	for w := l.turnOf(&s.waiters); w != nil && s.size-s.used.Load()&^semAwaited >= w.tag; w = l.turnOf(&s.waiters) {
		s.used.Add(w.tag)
		s.waiters.unlink(w)
		served.push(w)
	}
	if s.waiters.head == nil {
		s.used.And(^semAwaited)
	}
	s.g.exit(l)
	served.wakeFrom(l)
}

// A semaphorePoint is a Semaphore as something to wait on.
type semaphorePoint Semaphore

// DescribeWait reports how many units are taken.
func (p *semaphorePoint) DescribeWait() string {
	s, l := (*Semaphore)(p), here()
	s.g.enter(l)
	defer s.g.exit(l)
	return fmt.Sprintf("Semaphore %p: %d of %d taken", s, s.used.Load()&^semAwaited, s.size)
}

// Withdraw implements WaitPoint.
func (p *semaphorePoint) Withdraw(w *Waiter) bool {
	s, l := (*Semaphore)(p), here()
	s.g.enter(l)
	if !s.waiters.remove(w) {
		s.g.exit(l)
		return false
	}
	s.grant(l) // those behind may fit where w did not
	return true
}
