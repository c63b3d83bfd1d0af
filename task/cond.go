package task

import (
	"context"
	"fmt"
	"sync"

	"github.com/capriccio-go/capriccio/internal/engine"
)

// A Cond is a condition variable: tasks wait at it for a change of the data that L guards. It
// must be made with L set, which may be a *Mutex, an *RWMutex or its RLocker, and must
// not be copied after first use. With a sync.Mutex as L, and with the race detector, the
// first use by a second loop may wait for the first while it holds L.
type Cond struct {
	L sync.Locker // guards what the tasks wait for; must be set

	g       engine.Guard
	waiters engine.WaiterList // guarded by g; see awaited
}

// NewCond returns a Cond with lock l, which must not be nil.
func NewCond(l sync.Locker) *Cond { return &Cond{L: l} }

// Wait unlocks c.L, parks until Signal or Broadcast wakes the caller, and locks c.L
// again. As the condition may have changed meanwhile, call it in a loop. It does not
// end when the calling task is cancelled; see WaitContext.
func (c *Cond) Wait() {
	m, _ := c.L.(*Mutex)
	l, w := c.enqueue(m)
	if m == nil || l == nil {
		c.L.Unlock()
	} else if !m.unlockQuick() {
		m.g.EnterOn(l)
		m.handOver(l)
	}
	w.WaitFully(engine.ReasonCond, (*condPoint)(c))
	c.lockAgain(m, l, w, true)
}

// WaitContext is Wait, but returns early, c.L locked, with an error if ctx ends or the calling
// task is cancelled. The error is that of the context that ended. A Signal that came first counts: no other caller gets
// it, so WaitContext returns nil.
func (c *Cond) WaitContext(ctx context.Context) error {
	if ctx.Done() == nil {
		return c.waitUntil(ctx)
	}
	return engine.WaitUnder(ctx, c.waitUntil)
}

// waitUntil is the wait of WaitContext. ctx itself ends only the wait of a plain goroutine; that of a task ends by WaitUnder.
func (c *Cond) waitUntil(ctx context.Context) error {
	m, _ := c.L.(*Mutex)
	l, w := c.enqueue(m)
	c.L.Unlock()
	err := w.WaitUntil(ctx, engine.ReasonCond, (*condPoint)(c))
	c.lockAgain(m, l, w, err == nil)
	return err
}

// enqueue publishes the Waiter of the caller, which holds c.L, and returns its loop. m is c.L if that is a *Mutex, else
// nil.
func (c *Cond) enqueue(m *Mutex) (l *engine.Loop, w *engine.Waiter) {
	l = engine.CurrentLoop()
	if m != nil && l != nil {
		l.CondWaits()
	}
	w = engine.SelfOn(l)
	c.g.EnterOn(l)
	c.waiters.Push(w)
	c.g.Exit(l)
	return l, w
}

// lockAgain locks c.L after a wait of w's owner. If c.L is no *Mutex, a sync.Mutex say, the task waits natively for it,
// as its holder may be on the same loop.
func (c *Cond) lockAgain(m *Mutex, l *engine.Loop, w *engine.Waiter, woken bool) {
	if m == nil || l == nil {
		w.LockFirmly(c.L)
		return
	}
	if !m.lockQuick(l) {
		w.LockFirmly(m)
	}
	if woken {
		l.CondReturns()
	}
}

// Signal wakes the caller that has waited longest, if any. The caller may but
// need not hold c.L. It never parks.
func (c *Cond) Signal() {
	if !c.awaited() {
		return
	}
	l := c.g.Enter()
	w := c.waiters.Pop()
	c.g.Exit(l)
	if w != nil {
		w.WakeFrom(l)
	}
}

// awaited reports whether a task may be waiting. It reads outside of the guard, which is enough: a Wait that happened
// before this call has queued its Waiter before it unlocked L.
func (c *Cond) awaited() bool { return !engine.QuickLocks || c.waiters.MayHave() }

// Broadcast wakes all waiting callers. The caller may but need not hold c.L. It never parks.
func (c *Cond) Broadcast() {
	if !c.awaited() {
		return
	}
	l := c.g.Enter()
	all := c.waiters.TakeAll()
	c.g.Exit(l)
	all.WakeFrom(l)
}

// A condPoint is a Cond as something to wait on.
type condPoint Cond

// DescribeWait names the condition.
func (p *condPoint) DescribeWait() string { return fmt.Sprintf("Cond %p", p) }

// Withdraw implements WaitPoint.
func (p *condPoint) Withdraw(w *engine.Waiter) bool {
	c := (*Cond)(p)
	l := c.g.Enter()
	defer c.g.Exit(l)
	return c.waiters.Remove(w)
}

// Unwound implements Unwinder. It locks the Cond's L, as the deferred functions of the task
// will unlock it.
func (p *condPoint) Unwound(w *engine.Waiter) { w.LockFirmly(p.L) }
