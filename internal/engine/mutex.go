package engine

import (
	"context"
	"fmt"
	"sync/atomic"
)

// A Mutex is a lock that only one task or goroutine holds at a time. The zero value is
// unlocked. It must not be copied after first use. Those that wait get it in the order
// in which they came: Unlock hands it to the first of them. Only where the lock is what limits an
// overloaded program the newest go first for a while, but for one of 64, see Bottlenecks.
//
// As long as nobody has to wait, Lock and Unlock are one atomic operation each. With the first that
// has to, the lock is awaited, and whatever then changes does so in the guard:
//
//	             Lock              another Lock, in g
//	unlocked ───────────▶ locked ─────────────────────▶ awaited ──╮ Unlock, in g: handed over
//	   ▲                  │    ▲                        │    ▲    │
//	   ╰───── Unlock ─────╯    ╰─ nobody waits, in g ───╯    ╰────╯
type Mutex struct {
	g       guard
	state   atomic.Uint32
	owner   *Task      // nil: unlocked, or a plain goroutine; written by the one that holds m, see quickLocks
	urged   urged      // guarded by g
	waiters waiterList // guarded by g
}

// States of a Mutex.
const (
	mutexUnlocked = iota
	mutexLocked
	mutexAwaited // Unlock enters the guard
)

// Lock locks m and parks until that is possible. A cancelled task waits like any
// other; see LockContext.
func (m *Mutex) Lock() {
	if l := soleLoop.Load(); l.isHere() && m.lockQuick(l) {
		return
	}
	m.lockSlow()
}

//go:noinline
func (m *Mutex) lockSlow() {
	l := comeBack()
	if m.state.Load() != mutexUnlocked || !m.lockQuick(l) {
		m.lockOn(l)
	}
}

// lockQuick is lockOn if m is unlocked and that takes no guard, and reports whether it was that.
//
// The owner is written a moment after the lock was taken, and taken back a moment before it is given up.
// Meanwhile another thread may read, in the guard, that there is none: then nobody inherits the
// importance of those that wait. The race detector would not like it, so under it everything is done
// in the guard.
func (m *Mutex) lockQuick(l *Loop) bool {
	return quickLocks && m.tryTake(l)
}

// unlockQuick unlocks m if nobody waits, and reports whether it did.
func (m *Mutex) unlockQuick() bool {
	if quickLocks && m.state.Load() == mutexLocked {
		m.owner = nil
		return m.state.CompareAndSwap(mutexLocked, mutexUnlocked)
	}
	return false
}

// lockOn is Lock, called on loop l, nil for a plain goroutine.
func (m *Mutex) lockOn(l *Loop) {
	m.g.enter(l)
	if m.take(l) {
		m.g.exit(l)
		return
	}
	w := m.enqueue(l)
	w.waitFully(ReasonMutex, (*mutexPoint)(m))
}

// LockContext is Lock, but returns without the lock, and with an error, if ctx ends, or the
// calling task is cancelled, before it has the lock. It never returns nil once ctx has ended.
func (m *Mutex) LockContext(ctx context.Context) error {
	if ctx.Done() == nil {
		return m.lockUntil(ctx)
	}
	return takeUnder(ctx, m.lockUntil, m.Unlock)
}

// lockUntil is LockContext; ctx ends the wait of a plain goroutine.
func (m *Mutex) lockUntil(ctx context.Context) error {
	l := comeBack()
	m.g.enter(l)
	if m.take(l) {
		m.g.exit(l)
		return nil
	}
	w := m.enqueue(l)
	return w.waitUntil(ctx, ReasonMutex, (*mutexPoint)(m))
}

// take locks m for the caller, which is inside the guard, if it is unlocked, and reports whether it did.
// Otherwise Unlock enters the guard from now on.
func (m *Mutex) take(l *Loop) bool {
	for m.state.Load() != mutexAwaited {
		if m.tryTake(l) {
			return true
		}
		m.state.CompareAndSwap(mutexLocked, mutexAwaited)
	}
	return false
}

// tryTake is take, but leaves no note for Unlock.
func (m *Mutex) tryTake(l *Loop) bool {
	if !m.state.CompareAndSwap(mutexUnlocked, mutexLocked) {
		return false
	}
	if l != nil {
		m.owner = l.cur
		l.idleReturn = 0
	}
	return true
}

// enqueue puts the caller, which is inside the guard, into the queue, and leaves the guard.
func (m *Mutex) enqueue(l *Loop) *Waiter {
	w := Self()
	var o *Task
	if m.waiters.head == nil { // else it knows
		o = m.owner
		m.urged.set(o)
	}
	m.waiters.push(w)
	m.g.exit(l)
	o.hasten(l)
	return w
}

// TryLock locks m if it is unlocked and reports whether it did.
func (m *Mutex) TryLock() bool {
	l := here()
	m.g.enter(l)
	free := m.tryTake(l)
	m.g.exit(l)
	return free
}

// Unlock unlocks m, or, if someone waits, hands it over. It panics if m is not locked.
// As with sync.Mutex, it need not be the one that locked it that unlocks it.
func (m *Mutex) Unlock() {
	if !m.unlockQuick() {
		m.unlockOn(here())
	}
}

// unlockOn is Unlock, called on loop l, nil for a plain goroutine.
func (m *Mutex) unlockOn(l *Loop) {
	m.g.enter(l)
	w := l.turnOf(&m.waiters)
	if w == nil {
		m.owner = nil
		was := m.state.Swap(mutexUnlocked)
		m.g.exit(l)
		if was == mutexUnlocked {
			panic("task: Unlock of an unlocked Mutex")
		}
		return
	}
	m.waiters.unlink(w)
	m.owner = w.task
	if m.waiters.head != nil {
		m.urged.set(w.task)
	} else {
		m.urged.set(nil)
		m.state.Store(mutexLocked)
	}
	m.g.exit(l)
	w.wakeFrom(l)
}

// A mutexPoint is a Mutex as something to wait on.
type mutexPoint Mutex

// DescribeWait reports which task holds the lock.
func (p *mutexPoint) DescribeWait() string {
	m, l := (*Mutex)(p), here()
	m.g.enter(l)
	defer m.g.exit(l)
	if m.owner == nil {
		return fmt.Sprintf("Mutex %p held by a plain goroutine", m)
	}
	return fmt.Sprintf("Mutex %p held by task %v", m, m.owner)
}

// Withdraw implements WaitPoint.
func (p *mutexPoint) Withdraw(w *Waiter) bool {
	m, l := (*Mutex)(p), here()
	m.g.enter(l)
	defer m.g.exit(l)
	found := m.waiters.remove(w)
	if found && m.waiters.head == nil {
		m.urged.set(nil)
		m.state.Store(mutexLocked)
	}
	return found
}

// holder is the task that holds the lock, nil if that is none or can't be told.
func (p *mutexPoint) holder() *Task {
	m, l := (*Mutex)(p), here()
	m.g.enter(l)
	defer m.g.exit(l)
	return m.owner
}
