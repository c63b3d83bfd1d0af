package task

import (
	"context"
	"fmt"
	"math"
	"sync/atomic"

	"github.com/capriccio-go/capriccio/internal/engine"
)

// A Semaphore is a number of units to share. Make it with NewSemaphore. Waiting callers get their units in the order of
// their calls, so that a caller that wants many units is not overtaken for ever by callers that want few. Only while
// the Semaphore is the bottleneck of an overloaded program, the newest callers go first, except for one turn in 64.
type Semaphore struct {
	size    int64        // fixed
	used    atomic.Int64 // units taken; semAwaited is set while a caller waits, and used is then written in the guard only
	g       engine.Guard
	waiters engine.WaiterList // guarded by g; tag: units
}

// semAwaited makes Semaphore.used negative.
const semAwaited = math.MinInt64

// NewSemaphore returns a Semaphore of n free units. It panics if n is negative.
func NewSemaphore(n int64) *Semaphore {
	if n < 0 {
		panic(fmt.Sprintf("task: NewSemaphore(%d); want 0 or more", n))
	}
	return &Semaphore{size: n}
}

// Acquire takes n units and parks until they are there. It returns an error, having taken nothing, if n is negative or
// more than the Semaphore has in all, or if the calling task is cancelled and has to wait.
func (s *Semaphore) Acquire(n int64) error {
	return s.acquire(context.Background(), n)
}

// AcquireContext is Acquire that also ends, with the error of ctx, when ctx ends. It never returns nil once
// ctx has ended, even if there are units.
func (s *Semaphore) AcquireContext(ctx context.Context, n int64) error {
	return engine.TakeUnder(ctx, func(ctx context.Context) error { return s.acquire(ctx, n) }, func() { s.Release(n) })
}

// acquire is Acquire. ctx itself ends only the wait of a plain goroutine; TakeUnder ends that of a task.
func (s *Semaphore) acquire(ctx context.Context, n int64) error {
	if n < 0 || n > s.size {
		return fmt.Errorf("task: Acquire(%d) of a Semaphore of %d: can never be had", n, s.size)
	}
	if engine.QuickLocks && engine.NoneDetached() && s.take(n) {
		return nil
	}
	return s.acquireSlow(ctx, n)
}

// take takes n units if they are free and no caller waits, and reports whether it did.
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
	l := s.g.EnterToWait()
	for used := s.used.Load(); used >= 0; used = s.used.Load() {
		if s.take(n) {
			s.g.Exit(l)
			return nil
		}
		if s.size-used < n {
			s.used.CompareAndSwap(used, used|semAwaited)
		}
	}
	w := engine.SelfOn(l)
	w.Tag = n
	s.waiters.Push(w)
	s.g.Exit(l)
	return w.WaitUntil(ctx, engine.ReasonSemaphore, (*semaphorePoint)(s))
}

// TryAcquire takes n units if they are free and no caller waits, and reports whether it did. It never
// parks.
func (s *Semaphore) TryAcquire(n int64) bool { return n >= 0 && s.take(n) }

// Release gives n units back. It panics if n is negative or more than are taken. It never parks.
func (s *Semaphore) Release(n int64) {
	used := s.used.Load()
	for n >= 0 && n <= used { // semAwaited is a sign bit: no caller waits
		if s.used.CompareAndSwap(used, used-n) {
			return
		}
		used = s.used.Load()
	}
	l := s.g.Enter()
	used = s.used.Load()
	if taken := used &^ semAwaited; n < 0 || n > taken {
		s.g.Exit(l)
		panic(fmt.Sprintf("task: Release(%d) of a Semaphore of which %d units are taken", n, taken))
	}
	s.used.Add(-n)
	s.grant(l)
}

// grant serves waiting callers while there are units for the next one, and leaves the guard.
func (s *Semaphore) grant(l *engine.Loop) {
	var served engine.WakeChain
	for w := s.waiters.Turn(l); w != nil && s.size-s.used.Load()&^semAwaited >= w.Tag; w = s.waiters.Turn(l) {
		s.used.Add(w.Tag)
		s.waiters.Unlink(w)
		served.Push(w)
	}
	if s.waiters.Empty() {
		s.used.And(^semAwaited)
	}
	s.g.Exit(l)
	served.WakeFrom(l)
}

// A semaphorePoint is a Semaphore as something to wait on.
type semaphorePoint Semaphore

// DescribeWait reports how many units are taken.
func (p *semaphorePoint) DescribeWait() string {
	s := (*Semaphore)(p)
	l := s.g.Enter()
	defer s.g.Exit(l)
	return fmt.Sprintf("Semaphore %p: %d of %d taken", s, s.used.Load()&^semAwaited, s.size)
}

// Withdraw implements WaitPoint.
func (p *semaphorePoint) Withdraw(w *engine.Waiter) bool {
	s := (*Semaphore)(p)
	l := s.g.Enter()
	if !s.waiters.Remove(w) {
		s.g.Exit(l)
		return false
	}
	s.grant(l) // the callers behind w may fit where w did not
	return true
}
