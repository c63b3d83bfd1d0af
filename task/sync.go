package task

import (
	"context"
	"sync"

	"github.com/capriccio-go/capriccio/internal/engine"
)

// A Mutex is a lock that only one task or goroutine holds at a time. The zero value is
// unlocked. It must not be copied after first use. Those that wait get it in the order
// in which they came: Unlock hands it to the first of them (ADR 0042).
//
// As long as nobody has to wait, Lock and Unlock are one atomic operation each, on any loop or goroutine.
// A task that holds what others wait for is not held back by the scheduler.
type Mutex engine.Mutex

// Lock locks m and parks until that is possible. A cancelled task waits like any
// other; see LockContext.
func (m *Mutex) Lock() { (*engine.Mutex)(m).Lock() }

// LockContext is Lock, but returns without the lock, and with an error, if ctx ends, or the
// calling task is cancelled, before it has the lock. The error is that of the context that ended. It never
// returns nil once ctx has ended.
func (m *Mutex) LockContext(ctx context.Context) error { return (*engine.Mutex)(m).LockContext(ctx) }

// TryLock locks m if it is unlocked and reports whether it did. It never parks.
func (m *Mutex) TryLock() bool { return (*engine.Mutex)(m).TryLock() }

// Unlock unlocks m, or, if someone waits, hands it over. It panics if m is not locked.
// As with sync.Mutex, another task or goroutine than the one that locked it may unlock it. It never parks.
func (m *Mutex) Unlock() { (*engine.Mutex)(m).Unlock() }

// An RWMutex is held by one writer or by any number of readers. The zero value is
// unlocked. It must not be copied after first use. Waiters are served in the order in
// which they came, so neither readers nor writers starve: a waiting writer keeps later
// readers out, and all readers up to the next waiting writer enter together.
type RWMutex engine.RWMutex

// Lock locks rw for writing and parks until that is possible. A cancelled task waits like any other.
func (rw *RWMutex) Lock() { (*engine.RWMutex)(rw).Lock() }

// RLock locks rw for reading and parks until that is possible. A task must not hold
// two read locks of one RWMutex: with a writer that came between them, both would wait for
// ever. A cancelled task waits like any other.
func (rw *RWMutex) RLock() { (*engine.RWMutex)(rw).RLock() }

// TryLock locks rw for writing if that is possible at once, and reports whether it did. It never parks.
func (rw *RWMutex) TryLock() bool { return (*engine.RWMutex)(rw).TryLock() }

// TryRLock locks rw for reading if that is possible at once, and reports whether it did. It never parks.
func (rw *RWMutex) TryRLock() bool { return (*engine.RWMutex)(rw).TryRLock() }

// Unlock ends the writing. It panics if rw is not locked for writing. It never parks.
func (rw *RWMutex) Unlock() { (*engine.RWMutex)(rw).Unlock() }

// RUnlock ends one reading. It panics if rw is not locked for reading. It never parks.
func (rw *RWMutex) RUnlock() { (*engine.RWMutex)(rw).RUnlock() }

// RLocker returns a lock whose Lock and Unlock are RLock and RUnlock of rw.
func (rw *RWMutex) RLocker() interface {
	Lock()
	Unlock()
} {
	return (*engine.RWMutex)(rw).RLocker()
}

// A Cond is a condition variable: the tasks that wait for a change of what L guards. It
// must be made with L set, which may be a *Mutex, an *RWMutex or its RLocker, and must
// not be copied after first use. With a sync.Mutex as L, and with the race detector, the
// first use by a second loop may wait for the first while it holds L.
type Cond engine.Cond

// Wait unlocks c.L, parks until Signal or Broadcast wakes the caller, and locks c.L
// again. As the condition may have changed meanwhile, call it in a loop. It does not
// end when the calling task is cancelled; see WaitContext.
func (c *Cond) Wait() {
	m, _ := c.L.(*Mutex)
	(*engine.Cond)(c).WaitWith((*engine.Mutex)(m))
}

// WaitContext is Wait, but returns early, c.L locked, with an error if ctx ends or the calling
// task is cancelled. The error is that of the context that ended. A Signal that came first counts: no other caller gets
// it, so WaitContext returns nil.
func (c *Cond) WaitContext(ctx context.Context) error {
	m, _ := c.L.(*Mutex)
	return (*engine.Cond)(c).WaitContextWith(ctx, (*engine.Mutex)(m))
}

// Signal wakes the one that has waited longest, if there is one. The caller may but
// need not hold c.L. It never parks.
func (c *Cond) Signal() { (*engine.Cond)(c).Signal() }

// Broadcast wakes all that wait. The caller may but need not hold c.L. It never parks.
func (c *Cond) Broadcast() { (*engine.Cond)(c).Broadcast() }

// NewCond returns a Cond with lock l, which must not be nil.
func NewCond(l sync.Locker) *Cond { return &Cond{L: l} }

// Once runs one function once. The zero value has run nothing. It must not be copied
// after first use.
type Once engine.Once

// Do calls fn if no Do of o has called its function before. It returns when the
// function has returned, and parks if it must wait for that. fn may park, but must not
// call Do of o. If fn panics, it counts as having run.
func (o *Once) Do(fn func()) { (*engine.Once)(o).Do(fn) }

// A Semaphore is a number of units to share. Make it with NewSemaphore. Those that wait
// get their units in the order in which they came, so that one that wants many is not
// overtaken for ever by others that want few.
type Semaphore engine.Semaphore

// Acquire takes n units and parks until they are there. It returns an error, having
// taken nothing, if n is negative or more than the Semaphore has in all, or when the calling
// task is cancelled first.
func (s *Semaphore) Acquire(n int64) error { return (*engine.Semaphore)(s).Acquire(n) }

// AcquireContext is Acquire that also ends, with the error of ctx, when ctx ends. It never returns nil once
// ctx has ended, even if there are units.
func (s *Semaphore) AcquireContext(ctx context.Context, n int64) error {
	return (*engine.Semaphore)(s).AcquireContext(ctx, n)
}

// TryAcquire takes n units if they are there and nobody waits, and reports whether it did. It never
// parks.
func (s *Semaphore) TryAcquire(n int64) bool { return (*engine.Semaphore)(s).TryAcquire(n) }

// Release gives n units back. It panics if n is negative or more than are taken. It never parks.
func (s *Semaphore) Release(n int64) { (*engine.Semaphore)(s).Release(n) }

// NewSemaphore returns a Semaphore of n units, of which none is taken. It panics if n is negative.
func NewSemaphore(n int64) *Semaphore { return (*Semaphore)(engine.NewSemaphore(n)) }

// A WaitGroup waits for a number of tasks or goroutines to be done. The zero value
// counts 0. It must not be copied after first use.
type WaitGroup engine.WaitGroup

// Add adds n, which may be negative, to the count, and wakes all that wait if it is
// then 0. It panics if the count becomes negative. It never parks.
func (wg *WaitGroup) Add(n int) { (*engine.WaitGroup)(wg).Add(n) }

// Done is Add(-1).
func (wg *WaitGroup) Done() { (*engine.WaitGroup)(wg).Done() }

// Wait parks until the count is 0. It does not end when the calling task is cancelled.
func (wg *WaitGroup) Wait() { (*engine.WaitGroup)(wg).Wait() }

// Go runs fn as a new task that the group waits for, see the function Go. It never parks.
func (wg *WaitGroup) Go(fn func()) { (*engine.WaitGroup)(wg).Go(fn) }
