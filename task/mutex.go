package task

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/capriccio-go/capriccio/internal/engine"
)

// A Mutex is a lock that only one task or goroutine holds at a time. The zero value is unlocked. It must not be copied
// after first use. The callers that wait get it in the order in which they came: Unlock hands it to the first of them.
// Only while the lock is the bottleneck of an overloaded program, the newest callers go first, except for one turn in
// 64.
//
// As long as no caller has to wait, Lock and Unlock are one atomic operation each, on any loop or goroutine. The
// scheduler does not hold back a task that holds a lock for which others wait.
type Mutex struct {
	g             engine.Guard
	state         atomic.Uint32
	owner         *engine.Task         // nil: unlocked, or held by a plain goroutine; written by the holder of m, see lockQuick
	awaitedHolder engine.AwaitedHolder // guarded by g
	waiters       engine.WaiterList    // guarded by g
}

// States of a Mutex. While a caller waits, the lock is awaited and changes only inside the guard:
//
//	             Lock              another Lock, in g
//	unlocked ───────────▶ locked ─────────────────────▶ awaited ──╮ Unlock, in g: handed over
//	   ▲                  │    ▲                        │    ▲    │
//	   ╰───── Unlock ─────╯    ╰─ no waiter, in g ──────╯    ╰────╯
const (
	mutexUnlocked = iota
	mutexLocked
	mutexAwaited // Unlock enters the guard
)

// Lock locks m and parks until that is possible. A cancelled task waits like any
// other; see LockContext.
func (m *Mutex) Lock() {
	if l := engine.OnSoleLoop(); l != nil && m.lockQuick(l) {
		return
	}
	m.lockSlow()
}

//go:noinline
func (m *Mutex) lockSlow() {
	l := engine.CurrentLoop()
	if m.state.Load() != mutexUnlocked || !m.lockQuick(l) {
		m.lockOn(l)
	}
}

// lockQuick locks m without entering its guard, if m is unlocked, and reports whether it did.
//
// The owner is written just after m is locked, and cleared just before m is unlocked. A thread in the guard may
// read no owner in between: then no task inherits the priority of the waiting tasks. The race detector would
// report these accesses, so under it every call enters the guard; internal/engine/mutex_model_test.go tries every
// order of steps.
func (m *Mutex) lockQuick(l *engine.Loop) bool {
	return engine.QuickLocks && m.tryTake(l)
}

// unlockQuick unlocks m without entering its guard, if no task waits for m, and reports whether it did.
func (m *Mutex) unlockQuick() bool {
	if engine.QuickLocks && m.state.Load() == mutexLocked {
		m.owner = nil
		return m.state.CompareAndSwap(mutexLocked, mutexUnlocked)
	}
	return false
}

// lockOn is Lock, called on loop l, nil for a plain goroutine.
func (m *Mutex) lockOn(l *engine.Loop) {
	m.g.EnterOn(l)
	if m.take(l) {
		m.g.Exit(l)
		return
	}
	w := m.enqueue(l)
	w.WaitFully(engine.ReasonMutex, (*mutexPoint)(m))
}

// LockContext is Lock, but returns without the lock, and with an error, if ctx ends, or the calling task is cancelled,
// while it waits. The error is that of the context that ended. It never returns nil once ctx has ended; a cancelled
// task gets a free lock all the same, see Err.
func (m *Mutex) LockContext(ctx context.Context) error {
	if ctx.Done() == nil {
		return m.lockUntil(ctx)
	}
	return engine.TakeUnder(ctx, m.lockUntil, m.Unlock)
}

// lockUntil is the wait of LockContext. ctx itself ends only the wait of a plain goroutine; TakeUnder ends that of a
// task.
func (m *Mutex) lockUntil(ctx context.Context) error {
	l := m.g.EnterToWait()
	if m.take(l) {
		m.g.Exit(l)
		return nil
	}
	w := m.enqueue(l)
	return w.WaitUntil(ctx, engine.ReasonMutex, (*mutexPoint)(m))
}

// take locks m for the caller, which is inside the guard, if it is unlocked, and reports whether it did.
// Otherwise Unlock enters the guard from now on.
func (m *Mutex) take(l *engine.Loop) bool {
	for m.state.Load() != mutexAwaited {
		if m.tryTake(l) {
			return true
		}
		m.state.CompareAndSwap(mutexLocked, mutexAwaited)
	}
	return false
}

// tryTake is take, but leaves no note for Unlock.
func (m *Mutex) tryTake(l *engine.Loop) bool {
	if !m.state.CompareAndSwap(mutexUnlocked, mutexLocked) {
		return false
	}
	if l != nil {
		m.owner = l.Running()
		l.Acted()
	}
	return true
}

// enqueue puts the caller, which is inside the guard, into the queue, and leaves the guard.
func (m *Mutex) enqueue(l *engine.Loop) *engine.Waiter {
	w := engine.SelfOn(l)
	var o *engine.Task
	if m.waiters.Empty() { // else the owner is awaited already
		o = m.owner
		m.awaitedHolder.Set(o)
	}
	m.waiters.Push(w)
	m.g.Exit(l)
	o.Hasten(l)
	return w
}

// TryLock locks m if it is unlocked and reports whether it did. It never parks.
func (m *Mutex) TryLock() bool {
	l := m.g.Enter()
	free := m.tryTake(l)
	m.g.Exit(l)
	return free
}

// Unlock unlocks m, or hands it over to the first waiting caller. It panics if m is not locked.
// As with sync.Mutex, another task or goroutine than the one that locked it may unlock it. It never parks.
func (m *Mutex) Unlock() {
	if !m.unlockQuick() {
		m.handOver(m.g.Enter())
	}
}

// handOver is Unlock for a caller on l that is inside the guard, which it leaves.
func (m *Mutex) handOver(l *engine.Loop) {
	w := m.waiters.Turn(l)
	if w == nil {
		m.owner = nil
		was := m.state.Swap(mutexUnlocked)
		m.g.Exit(l)
		if was == mutexUnlocked {
			panic("task: Unlock of an unlocked Mutex")
		}
		return
	}
	m.waiters.Unlink(w)
	m.owner = w.Task()
	if !m.waiters.Empty() {
		m.awaitedHolder.Set(w.Task())
	} else {
		m.awaitedHolder.Set(nil)
		m.state.Store(mutexLocked)
	}
	m.g.Exit(l)
	w.WakeFrom(l)
}

// A mutexPoint is a Mutex as something to wait on.
type mutexPoint Mutex

// DescribeWait reports which task holds the lock.
func (p *mutexPoint) DescribeWait() string {
	m := (*Mutex)(p)
	l := m.g.Enter()
	defer m.g.Exit(l)
	if m.owner == nil {
		return fmt.Sprintf("Mutex %p held by a plain goroutine", m)
	}
	return fmt.Sprintf("Mutex %p held by task %v", m, m.owner)
}

// Withdraw implements WaitPoint.
func (p *mutexPoint) Withdraw(w *engine.Waiter) bool {
	m := (*Mutex)(p)
	l := m.g.Enter()
	defer m.g.Exit(l)
	found := m.waiters.Remove(w)
	if found && m.waiters.Empty() {
		m.awaitedHolder.Set(nil)
		m.state.Store(mutexLocked)
	}
	return found
}

// HeldBy is the task that holds the lock, nil if no task does or the holder is not known.
func (p *mutexPoint) HeldBy() *engine.Task {
	m := (*Mutex)(p)
	l := m.g.Enter()
	defer m.g.Exit(l)
	return m.owner
}
