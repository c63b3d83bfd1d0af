package engine

import (
	"context"
	"runtime"
	"sync"
	"unsafe"

	"github.com/capriccio-go/capriccio/internal/coro"
)

// A Waiter stands for one caller, a task or a plain goroutine, that is about to wait. Packages that make callers wait
// are built on it; programs do not need it.
//
// The protocol: the caller gets its Waiter with Self, publishes the pointer where the waker will look for it, and calls
// Wait. The code that removes it from there, exactly once and atomically, must then call Wake, exactly once; Wake may
// come before Wait. If Wait returns an error, the task's context has ended and the WaitPoint has removed the Waiter; if
// another call was faster, Wait returns nil, after the Wake.
//
// That every publication ends in one Wake or in a removal is what makes a lost or a
// misdirected wake impossible; no sequence numbers are needed.
type Waiter struct {
	task       *Task // nil for a plain goroutine
	next, prev *Waiter

	Tag int64 // of the code that publishes the Waiter: how much it waits for, or its place there
}

// A threadWaiter is the Waiter of a plain goroutine.
type threadWaiter struct {
	Waiter
	woken chan struct{} // capacity 1, so that Wake never blocks
}

func (w *Waiter) thread() *threadWaiter { return (*threadWaiter)(unsafe.Pointer(w)) }

// Self returns the Waiter of the calling task or goroutine. It never parks. A task
// has one, so it can wait for one thing at a time. It panics on a loop's own
// goroutine, which must not wait (functions called by a poller, by Post or by an Alarm).
func Self() *Waiter {
	return SelfOn(here())
}

// SelfOn is Self for a caller that knows that it runs on l, nil for a plain goroutine.
func SelfOn(l *Loop) *Waiter {
	if l != nil {
		return &l.current().wait
	}
	// Not from a pool: a channel that was made in a bubble of testing/synctest must stay there.
	return &(&threadWaiter{woken: make(chan struct{}, 1)}).Waiter
}

// current is l.cur for callers that are about to wait.
func (l *Loop) current() *Task {
	if l.cur == nil {
		l.release()
		panic("task: a function that runs on a loop's own goroutine (called by a poller, Post or an Alarm) must not wait; start a task")
	}
	return l.cur
}

// Task returns the task that waits, nil for a plain goroutine.
func (w *Waiter) Task() *Task { return w.task }

// Loop returns the loop on which the waiting task runs, nil for a plain goroutine.
func (w *Waiter) Loop() *Loop {
	if t := w.task; t != nil {
		return t.loop
	}
	return nil
}

// A WaitPoint is where a Waiter is published: what the task waits on. It may be a
// WaitDescriber too, and an Unwinder. Wait points are compared: not a func, for instance.
type WaitPoint interface {
	// Withdraw removes w, and reports whether it did. If it did not, w has been removed by another caller, which has
	// called Wake or is about to; or the operation can't be taken back, only cut short, and Wake will come. It is
	// called on the loop of the waiting task, at most once for each wait, and must not park.
	Withdraw(w *Waiter) bool
}

// An Unwinder is a WaitPoint that is told, after Withdraw, if the wait does not return but ends the task, because the
// runtime shuts down or the task has locked its thread. The task's deferred functions run after that. If Withdraw has
// failed, a wait at any other point returns even then, as the task has been served; at an Unwinder it ends the task
// when the Wake has come.
type Unwinder interface {
	WaitPoint
	Unwound(w *Waiter)
}

// Wait waits until Wake has been called. It returns an error if the task is cancelled (see
// Context) before or meanwhile and at has withdrawn w: Wake is not called then. With a nil at
// only Wake ends the wait, and so on a plain goroutine. Wait is called by the
// owner of the Waiter, and parks.
func (w *Waiter) Wait(why Reason, at WaitPoint) error {
	t := w.task
	if t == nil {
		<-w.thread().woken
		return nil
	}
	t.beOnLoop()
	if to := t.beginPark(why, at, at != nil); to != nil { // park, see there
		coro.Pass(&t.worker.Party, to)
		coro.Settle(&t.worker.Party)
	}
	if err := t.endPark(); err != nil {
		return w.giveUp(at, err)
	}
	return nil
}

// Park is Wait that leaves it to the caller to withdraw w when the task is cancelled: on an error, the caller
// takes w out of where it has published it, or calls Absorb if another has taken it out.
func (w *Waiter) Park(why Reason, at WaitPoint) error {
	t := w.task
	if t == nil {
		<-w.thread().woken
		return nil
	}
	if to := t.beginPark(why, at, true); to != nil { // park, see there
		coro.Pass(&t.worker.Party, to)
		coro.Settle(&t.worker.Party)
	}
	return t.endPark()
}

// giveUp ends a wait that a cancellation has ended. It stays out of the frame of Wait.
//
//go:noinline
func (w *Waiter) giveUp(at WaitPoint, err error) error {
	if at.Withdraw(w) {
		return err
	}
	w.Absorb()
	return nil
}

// WaitUntil is Wait that the end of ctx ends too if the caller is a plain goroutine.
func (w *Waiter) WaitUntil(ctx context.Context, why Reason, at WaitPoint) error {
	if w.task != nil {
		return w.Wait(why, at)
	}
	select {
	case <-w.thread().woken:
		return nil
	case <-ctx.Done():
	}
	if at.Withdraw(w) {
		return ContextError(ctx)
	}
	w.Absorb()
	return nil
}

// Absorb waits for a Wake that is certain to come. It does not end when the task is
// cancelled.
func (w *Waiter) Absorb() {
	if w.task == nil {
		<-w.thread().woken
		return
	}
	w.task.beOnLoop()
	w.task.park(w.task.why, nil, false)
}

// WaitFully is Wait that no cancellation ends.
func (w *Waiter) WaitFully(why Reason, at WaitPoint) {
	if w.task == nil {
		<-w.thread().woken
		return
	}
	t := w.task
	if to := t.beginPark(why, at, false); to != nil { // park, see there
		coro.Pass(&t.worker.Party, to)
		coro.Settle(&t.worker.Party)
	}
	t.endPark()
}

// LockFirmly locks l for the owner of w, whose deferred functions will unlock l: the wait for l goes on although the
// runtime shuts down. A task that waits natively for l can be detached, as in Outside.
func (w *Waiter) LockFirmly(l sync.Locker) {
	defer reattach()
	if w.task != nil {
		x := w.task.extend()
		was := x.firm // l.Lock may wait for another Cond
		x.firm = true
		defer func() { x.firm = was }()
	}
	l.Lock()
}

// Wake ends the wait. It never parks or blocks and may be called from any goroutine;
// on the loop of the waiting task it costs a few nanoseconds (with several loops, besides, the look-up of the caller's),
// elsewhere it takes a lock and, if that loop sleeps, a system call.
func (w *Waiter) Wake() {
	w.WakeFrom(here())
}

// WakeAhead is Wake for a task whose file operation is done: with the policy
// fifo it runs before the others, see runQueue.
func (w *Waiter) WakeAhead() {
	t := w.task
	switch l := here(); {
	case t == nil || t.loop.policy != nil:
		w.WakeFrom(l)
	case t.loop == l:
		l.notifyAhead(t)
	default:
		t.loop.send(wakeBy(l, msgWakeAhead, t, t.loop))
	}
}

// WakeFrom is Wake called on loop l, nil for a plain goroutine.
func (w *Waiter) WakeFrom(l *Loop) {
	t := w.task
	switch {
	case t == nil:
		w.thread().woken <- struct{}{}
		if l != nil {
			l.idleWaits.woke = true
		}
	case t.loop == l:
		l.notify(t)
	default:
		t.loop.send(wakeBy(l, msgWake, t, t.loop))
	}
}

// notify delivers a Wake to t, a task of l, on l.
func (l *Loop) notify(t *Task) {
	t.notified = true
	l.idleWakes.returned = 0 // the caller has done something, see CondWaits
	if t.state == stateParked {
		if l.roster.count > coldTasks {
			if l.batch.n == 0 { // t may run next
				lookAhead(t, t)
			} else {
				coro.Prefetch(unsafe.Pointer(t.worker))
			}
		}
		l.makeReady(t)
	}
}

// notifyAhead is notify for WakeAhead.
func (l *Loop) notifyAhead(t *Task) {
	t.notified = true
	if t.state == stateParked {
		l.leaves(t)
		l.goAhead(t)
	}
}

// park is the one place where tasks wait. The caller is t itself, running. It returns
// nil when t has been notified, or, if t may be cancelled here, the reason of that.
//
// It consists of beginPark, the switch, and endPark. The few callers for which 5 ns
// matter put the three into their own frame, see coro.Pass.
func (t *Task) park(why Reason, at WaitPoint, cancellable bool) error {
	if to := t.beginPark(why, at, cancellable); to != nil {
		coro.Pass(&t.worker.Party, to)
		coro.Settle(&t.worker.Party)
	}
	return t.endPark()
}

// beginPark returns what to switch to, nil if there is no need to wait.
func (t *Task) beginPark(why Reason, at WaitPoint, cancellable bool) *coro.Party {
	l := t.loop
	if l.lockSeen {
		t.refuseWait(at)
	}
	t.on = at
	if t.notified || l.end.unwinding || cancellable && t.cancelled && !t.givesWay() {
		return nil
	}
	t.fixed = !cancellable
	t.why = why
	if l.rec != nil {
		t.recorded = true
		l.record(t, why)
		if l.entry.bottlenecks != nil {
			l.waitBegins(t)
		}
	}
	t.state = stateParked
	if cancellable && t.cancelled {
		l.makeReady(t)
	}
	return l.handOver(t)
}

// givesWay reports whether t, which is cancelled, is to let others run before its wait
// fails: now and then it must, as it may ignore the errors of its waits for ever.
func (t *Task) givesWay() bool {
	t.loop.roster.refusals++
	return t.loop.roster.refusals%64 == 0
}

// endPark reports how the wait that beginPark began has ended. What t waited for stays in
// t.on until the next wait or the end.
func (t *Task) endPark() error {
	if t.recorded {
		t.recorded = false
		t.loop.resumed(t)
	}
	if t.notified {
		t.notified = false
		return nil
	}
	return t.endParkSlow()
}

func (t *Task) endParkSlow() error {
	l := t.loop
	if l.end.unwinding {
		t.unwind()
	}
	if t.notified {
		t.notified = false
		return nil
	}
	return t.cancelError()
}

// withdraw ends the wait of t at a point for good, and reports false if that is not possible:
// then a Wake is certain to come.
func (t *Task) withdraw(at WaitPoint) bool {
	if at == nil || t.extra().firm || !at.Withdraw(&t.wait) {
		return false
	}
	if u, ok := at.(Unwinder); ok {
		u.Unwound(&t.wait)
	}
	return true
}

// unwind ends t, whose wait is not over, because the runtime shuts down. But if what it
// waits for has been given to it already, t takes that and ends at its next wait, see Unwinder.
func (t *Task) unwind() {
	l, at := t.loop, t.on
	if t.withdraw(at) {
		t.on = nil
		runtime.Goexit()
	}
	for !t.notified {
		t.fixed = true
		if l.rec != nil {
			l.record(t, t.why)
		}
		t.state = stateParked
		if to := l.handOver(t); to != nil {
			coro.Switch(&t.worker.Party, to)
		}
		if l.rec != nil {
			l.resumed(t)
		}
	}
	if u, ok := at.(Unwinder); ok && !t.extra().firm {
		t.notified, t.on = false, nil
		u.Unwound(&t.wait)
		runtime.Goexit()
	}
}

// YieldAt is Yield at a place that has a name: a stage boundary, which the blocking graph shows
// under that name, apart from other names at the same place.
func YieldAt(name string) {
	if l := reattach(); l != nil && l.cur != nil && l.rec != nil {
		l.label = name
	}
	Yield()
}

// Mark names the place where the calling task is, without a wait: the blocking graph has it as
// a node, which ends a step and begins one. It never parks.
func Mark(name string) {
	if l := here(); l != nil && l.cur != nil && name != "" {
		l.pass(l.cur, ReasonMark, name)
	}
}

// Yield is task.Yield.
func Yield() {
	l := reattach()
	if l == nil || l.cur == nil {
		runtime.Gosched()
		return
	}
	t := l.cur
	if l.lockSeen {
		t.refuseTied()
	}
	t.why = ReasonYield
	if l.rec != nil {
		l.record(t, ReasonYield)
	}
	t.state = stateQueued
	l.enqueue(t)
	if b := &l.batch; b.running && t.rec.Node() == b.node && !t.isAwaited() {
		b.outcome |= GaveWay
	}
	if to := l.handOver(t); to != nil {
		coro.Pass(&t.worker.Party, to)
		coro.Settle(&t.worker.Party)
	}
	if l.rec != nil && l.rec.ResumeYield(&t.rec, t.worker.note) {
		l.readHeap()
	}
	if l.end.unwinding {
		runtime.Goexit()
	}
}

// coldTasks is how many tasks a loop must have for looking ahead to pay: fewer stay in
// the processor's caches by themselves.
const coldTasks = 256
