package engine

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/capriccio-go/capriccio/internal/coro"
)

// A Cond is a condition variable: the tasks that wait for a change of what L guards. It
// must be made with L set, which may be a *Mutex, an *RWMutex or its RLocker, and must
// not be copied after first use. With a sync.Mutex as L, and with the race detector, the
// first use by a second loop may wait for the first while it holds L (see guard).
type Cond struct {
	L       sync.Locker
	g       guard
	waiters waiterList // guarded by g, but for a look at its head, see awaited
}

// NewCond returns a Cond with lock l.
func NewCond(l sync.Locker) *Cond { return &Cond{L: l} }

// Wait unlocks c.L, parks until Signal or Broadcast wakes the caller, and locks c.L again.
func (c *Cond) Wait() {
	m, _ := c.L.(*Mutex)
	c.WaitWith(m)
}

// WaitWith is Wait for a caller that knows the Mutex that L is, nil if it is none.
func (c *Cond) WaitWith(m *Mutex) {
	l := c.g.owner.Load()
	if l == nil || l != soleLoop.Load() || !coro.RunsFree(&l.curG) {
		l = comeBack()
	}
	if m == nil || l == nil {
		w := c.enqueue()
		c.L.Unlock()
		w.waitFully(ReasonCond, (*condPoint)(c))
		c.lock()
		return
	}
	t := l.current()
	l.waitsAgain()
	c.g.enter(l)
	c.waiters.push(&t.wait)
	c.g.exit(l)
	if !m.unlockQuick() {
		m.unlockOn(l)
	}
	if to := t.beginPark(ReasonCond, (*condPoint)(c), false); to != nil { // park, see there
		coro.Pass(&t.worker.Party, to)
		coro.Settle(&t.worker.Party)
	}
	t.endPark()
	if !m.lockQuick(l) {
		m.lockOn(l)
	}
	l.idleReturn = l.switches
}

// WaitContext is Wait, but returns early, c.L locked, with an error if ctx ends or the calling
// task is cancelled.
func (c *Cond) WaitContext(ctx context.Context) error {
	m, _ := c.L.(*Mutex)
	return c.WaitContextWith(ctx, m)
}

// WaitContextWith is to WaitContext what WaitWith is to Wait.
func (c *Cond) WaitContextWith(ctx context.Context, m *Mutex) (err error) {
	l := here()
	if m != nil && l != nil {
		l.waitsAgain()
	}
	if ctx.Done() == nil {
		err = c.waitUntil(ctx)
	} else {
		err = waitUnder(ctx, c.waitUntil)
	}
	if m != nil && l != nil && err == nil {
		l.idleReturn = l.switches
	}
	return err
}

// waitUntil is WaitContext; ctx ends the wait of a plain goroutine.
func (c *Cond) waitUntil(ctx context.Context) error {
	w := c.enqueue()
	c.L.Unlock()
	err := w.waitUntil(ctx, ReasonCond, (*condPoint)(c))
	c.lock()
	return err
}

// lock locks L, for which a task waits natively if it is a sync.Mutex: the one that holds it may be of the same loop.
func (c *Cond) lock() { Outside(callLock, c.L) }

func (c *Cond) enqueue() *Waiter {
	l := comeBack()
	c.g.enter(l)
	w := Self()
	c.waiters.push(w)
	c.g.exit(l)
	return w
}

// Signal wakes the one that has waited longest, if there is one. The caller may but
// need not hold c.L.
func (c *Cond) Signal() {
	if c.awaited() {
		c.signal()
	}
}

// awaited reports whether somebody waits. It looks from outside of the guard: a Wait that the caller can know
// of has unlocked L since it came in, and the caller has learnt of it through L or something like it.
func (c *Cond) awaited() bool {
	return !quickLocks || atomic.LoadPointer((*unsafe.Pointer)(unsafe.Pointer(&c.waiters.head))) != nil
}

//go:noinline
func (c *Cond) signal() {
	l := c.g.owner.Load()
	if l == nil || l != soleLoop.Load() || !coro.RunsFree(&l.curG) || !c.g.hold(l) {
		l = here()
		c.g.enter(l)
	}
	w := c.waiters.head
	if w == nil {
		c.g.exit(l)
		return
	}
	c.waiters.unlink(w)
	c.g.exit(l)
	if t := w.task; t != nil && t.loop == l {
		l.notify(t)
	} else {
		w.wakeFrom(l)
	}
}

// Broadcast wakes all that wait.
func (c *Cond) Broadcast() {
	if !c.awaited() {
		return
	}
	l := here()
	c.g.enter(l)
	all := c.waiters.takeAll()
	c.g.exit(l)
	all.wakeFrom(l)
}

// A condPoint is a Cond as something to wait on.
type condPoint Cond

// DescribeWait names the condition.
func (p *condPoint) DescribeWait() string { return fmt.Sprintf("Cond %p", p) }

// Withdraw implements WaitPoint.
func (p *condPoint) Withdraw(w *Waiter) bool {
	c, l := (*Cond)(p), here()
	c.g.enter(l)
	defer c.g.exit(l)
	return c.waiters.remove(w)
}

// Unwound implements Unwinder. It locks the Cond's L, as the deferred functions of the task
// will unlock it.
func (p *condPoint) Unwound(w *Waiter) {
	x := w.task.extend()
	x.firm = true
	p.L.Lock()
	x.firm = false
}
