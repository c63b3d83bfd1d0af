package engine

import (
	"context"
	"fmt"

	"github.com/capriccio-go/capriccio/internal/coro"
)

// A Mutex is a lock that only one task or goroutine holds at a time. The zero value is
// unlocked. It must not be copied after first use. Those that wait get it in the order
// in which they came: Unlock hands it to the first of them. Only where the lock is what limits an
// overloaded program the newest go first for a while, but for one of sixteen, see Bottlenecks.
//
// While only tasks of one loop use it, it costs no atomic operation.
type Mutex struct {
	g       guard
	locked  bool       // guarded by g
	owner   *Task      // guarded by g; nil: a plain goroutine, if locked
	waiters waiterList // guarded by g
}

// Lock locks m and parks until that is possible. A cancelled task waits like any
// other; see LockContext.
func (m *Mutex) Lock() {
	if l := m.g.owner.Load(); l == soleLoop.Load() && l != nil && coro.RunsFree(&l.curG) && m.lockQuick(l) {
		return
	}
	m.lockOn(comeBack())
}

// lockQuick is lockOn in the common case, and reports whether it was that.
func (m *Mutex) lockQuick(l *Loop) bool {
	if !m.g.hold(l) {
		return false
	}
	free := !m.locked
	if free {
		m.locked = true
		m.owner = l.cur
	}
	l.release()
	return free
}

// unlockQuick is unlockOn in the common case, and reports whether it was that.
func (m *Mutex) unlockQuick(l *Loop) bool {
	if !m.g.hold(l) {
		return false
	}
	alone := m.locked && m.waiters.head == nil
	if alone {
		m.locked = false
		m.owner = nil
	}
	l.release()
	return alone
}

// lockOn is Lock, called on loop l, nil for a plain goroutine.
func (m *Mutex) lockOn(l *Loop) {
	m.g.enter(l)
	if !m.locked {
		m.take(l)
		m.g.exit(l)
		return
	}
	w := m.enqueue(l)
	w.waitFully(ReasonMutex, (*mutexPoint)(m))
	w.Release()
}

// LockContext is Lock, but returns without the lock, and with an error, if ctx ends, or the
// calling task is cancelled, before it has the lock.
func (m *Mutex) LockContext(ctx context.Context) error {
	if ctx.Done() == nil {
		return m.lockUntil(ctx)
	}
	return waitUnder(ctx, m.lockUntil)
}

// lockUntil is LockContext; ctx ends the wait of a plain goroutine.
func (m *Mutex) lockUntil(ctx context.Context) error {
	l := comeBack()
	m.g.enter(l)
	if !m.locked {
		m.take(l)
		m.g.exit(l)
		return nil
	}
	w := m.enqueue(l)
	defer w.Release()
	return w.waitUntil(ctx, ReasonMutex, (*mutexPoint)(m))
}

// take marks m as locked by the caller, inside the guard.
func (m *Mutex) take(l *Loop) {
	m.locked = true
	if l != nil {
		m.owner = l.cur
	}
}

// enqueue puts the caller, which is inside the guard, into the queue, and leaves the guard.
func (m *Mutex) enqueue(l *Loop) *Waiter {
	w := Self()
	o := m.owner
	if m.waiters.head != nil {
		o = nil // it knows
	}
	m.waiters.push(w)
	o.addAwaited(1)
	m.g.exit(l)
	o.hasten(l)
	return w
}

// TryLock locks m if it is unlocked and reports whether it did.
func (m *Mutex) TryLock() bool {
	l := here()
	m.g.enter(l)
	free := !m.locked
	if free {
		m.take(l)
	}
	m.g.exit(l)
	return free
}

// Unlock unlocks m, or, if someone waits, hands it over. It panics if m is not locked.
// As with sync.Mutex, it need not be the one that locked it that unlocks it.
func (m *Mutex) Unlock() {
	if l := m.g.owner.Load(); l == soleLoop.Load() && l != nil && coro.RunsFree(&l.curG) && m.unlockQuick(l) {
		return
	}
	m.unlockOn(here())
}

// unlockOn is Unlock, called on loop l, nil for a plain goroutine.
func (m *Mutex) unlockOn(l *Loop) {
	m.g.enter(l)
	if !m.locked {
		m.g.exit(l)
		panic("task: Unlock of an unlocked Mutex")
	}
	w := l.turnOf(&m.waiters)
	if w == nil {
		m.locked = false
		m.owner = nil
		m.g.exit(l)
		return
	}
	m.waiters.unlink(w)
	m.owner.addAwaited(-1)
	m.owner = w.task
	if m.waiters.head != nil {
		m.owner.addAwaited(1)
	}
	m.g.exit(l)
	w.wakeFrom(l)
}

// A mutexPoint is a Mutex as something to wait on.
type mutexPoint Mutex

// DescribeWait says which task holds the lock.
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
		m.owner.addAwaited(-1)
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
