package engine

import (
	"context"
	"fmt"
)

// A Semaphore is a number of units to share. Make it with NewSemaphore. Those that wait
// get their units in the order in which they came, so that one that wants many is not
// overtaken for ever by others that want few. Where that limits an overloaded program it is as with
// a Mutex.
type Semaphore struct {
	size    int64 // fixed
	g       guard
	used    int64      // guarded by g
	waiters waiterList // guarded by g; tag: units
}

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

// AcquireContext is Acquire that also ends, with the error of ctx, when ctx ends. If that has
// ended before, it takes nothing.
func (s *Semaphore) AcquireContext(ctx context.Context, n int64) error {
	return waitUnder(ctx, func(ctx context.Context) error { return s.acquire(ctx, n) })
}

// acquire is Acquire; ctx ends the wait of a plain goroutine.
func (s *Semaphore) acquire(ctx context.Context, n int64) error {
	if n < 0 || n > s.size {
		return fmt.Errorf("task: Acquire(%d) of a Semaphore of %d: can never be had", n, s.size)
	}
	l := comeBack()
	s.g.enter(l)
	if s.size-s.used >= n && s.waiters.head == nil {
		s.used += n
		s.g.exit(l)
		return nil
	}
	w := Self()
	defer w.Release()
	w.tag = n
	s.waiters.push(w)
	s.g.exit(l)
	return w.waitUntil(ctx, ReasonSemaphore, (*semaphorePoint)(s))
}

// TryAcquire takes n units if they are there and nobody waits, and reports whether it did.
func (s *Semaphore) TryAcquire(n int64) bool {
	l := here()
	s.g.enter(l)
	ok := n >= 0 && s.size-s.used >= n && s.waiters.head == nil
	if ok {
		s.used += n
	}
	s.g.exit(l)
	return ok
}

// Release gives n units back. It panics if there are then more than there ever were.
func (s *Semaphore) Release(n int64) {
	l := here()
	s.g.enter(l)
	if n < 0 || n > s.used {
		used := s.used
		s.g.exit(l)
		panic(fmt.Sprintf("task: Release(%d) of a Semaphore of which %d units are taken", n, used))
	}
	s.used -= n
	s.grant(l)
}

// grant serves the first in the queue as far as units are there, and leaves the guard.
func (s *Semaphore) grant(l *Loop) {
	var served wakeChain
	for w := l.turnOf(&s.waiters); w != nil && s.size-s.used >= w.tag; w = l.turnOf(&s.waiters) {
		s.used += w.tag
		s.waiters.unlink(w)
		served.push(w)
	}
	s.g.exit(l)
	served.wakeFrom(l)
}

// A semaphorePoint is a Semaphore as something to wait on.
type semaphorePoint Semaphore

// DescribeWait says how many units are taken.
func (p *semaphorePoint) DescribeWait() string {
	s, l := (*Semaphore)(p), here()
	s.g.enter(l)
	defer s.g.exit(l)
	return fmt.Sprintf("Semaphore %p: %d of %d taken", s, s.used, s.size)
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
