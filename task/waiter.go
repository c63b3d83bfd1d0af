package task

import (
	"runtime"
	"sync"
	"unsafe"

	"github.com/capriccio-go/capriccio/internal/coro"
)

// A Waiter stands for one caller, a task or a plain goroutine, that is about to wait.
// It is what packages that make others wait are built on; programs do not need it.
//
// The protocol: the caller gets its Waiter with Self, publishes the pointer where the
// waker will look for it, and calls Park. Whoever removes it from there, exactly once
// and atomically, must then call Wake, exactly once; Wake may come before Park. If
// Park returns an error, the task's context has ended and the Waiter is still
// published: the caller removes it, or, if someone else was faster, calls Absorb,
// which waits for the Wake that is on its way. In the end, Release.
//
// That every publication ends in one Wake or in a removal is what makes a lost or a
// misdirected wake impossible; no sequence numbers are needed.
type Waiter struct {
	task       *Task // nil for a plain goroutine
	next, prev *Waiter
	tag        int64 // the primitive's own: how much it waits for
}

// A threadWaiter is the Waiter of a plain goroutine.
type threadWaiter struct {
	Waiter
	woken chan struct{} // capacity 1, so that Wake never blocks
}

var threadWaiters = sync.Pool{New: func() any {
	return &threadWaiter{woken: make(chan struct{}, 1)}
}}

func (w *Waiter) thread() *threadWaiter { return (*threadWaiter)(unsafe.Pointer(w)) }

// Self returns the Waiter of the calling task or goroutine. It never parks. A task
// has one, so it can wait for one thing at a time. It panics on a loop's own
// goroutine, which must not wait (functions called by a poller, by Post or by an Alarm).
func Self() *Waiter {
	if l := here(); l != nil {
		return &l.current().Waiter
	}
	return &threadWaiters.Get().(*threadWaiter).Waiter
}

// current is l.cur for callers that are about to wait.
func (l *Loop) current() *Task {
	if l.cur == nil {
		panic("task: a function that runs on a loop's own goroutine (called by a poller, Post or an Alarm) must not wait; start a task")
	}
	return l.cur
}

// Release gives the Waiter back; it must not be published any more.
func (w *Waiter) Release() {
	if w.task == nil {
		threadWaiters.Put(w.thread())
	}
}

// Loop returns the loop on which the waiting task runs, nil for a plain goroutine.
func (w *Waiter) Loop() *Loop {
	if w.task == nil {
		return nil
	}
	return w.task.loop
}

// Park waits until Wake has been called. It returns an error, without Wake having
// been called, if the task is cancelled (see Context) before or meanwhile; a plain
// goroutine waits without such an end. on is what is waited for, for reports: see
// WaitDescriber; it may be nil. Park is called by the owner of the Waiter.
func (w *Waiter) Park(why Reason, on any) error {
	if w.task == nil {
		<-w.thread().woken
		return nil
	}
	return w.task.park(why, on, true)
}

// Absorb waits for a Wake that is certain to come. It does not end when the task is
// cancelled.
func (w *Waiter) Absorb() {
	if w.task == nil {
		<-w.thread().woken
		return
	}
	w.task.park(w.task.why, nil, false)
}

// parkFully is Park for waits that no cancellation ends.
func (w *Waiter) parkFully(why Reason, on any) {
	if w.task == nil {
		<-w.thread().woken
		return
	}
	w.task.park(why, on, false)
}

// Wake ends the wait. It never parks or blocks and may be called from any goroutine;
// on the loop of the waiting task it costs a few nanoseconds, elsewhere it takes a
// lock and, if that loop sleeps, a system call.
func (w *Waiter) Wake() {
	if w.task == nil {
		w.thread().woken <- struct{}{}
		return
	}
	w.wakeFrom(here())
}

// wakeFrom is Wake called on loop l, nil for a plain goroutine.
func (w *Waiter) wakeFrom(l *Loop) {
	t := w.task
	switch {
	case t == nil:
		w.thread().woken <- struct{}{}
	case t.loop == l:
		l.notify(t)
	default:
		t.loop.send(message{kind: msgWake, t: t})
	}
}

// notify delivers a Wake to t, a task of l, on l.
func (l *Loop) notify(t *Task) {
	t.notified = true
	if t.state == stateParked {
		l.makeReady(t)
	}
}

// park is the one place where tasks wait. The caller is t itself, running. It returns
// when t has been notified, or, if t may be cancelled here, with the reason of that.
func (t *Task) park(why Reason, on any, cancellable bool) error {
	if t.notified {
		t.notified = false
		return nil
	}
	l := t.loop
	if l.unwinding {
		runtime.Goexit()
	}
	if l.threadLocked() {
		l.refuseThreadLock()
	}
	if cancellable && t.cancelled {
		return t.cancelError()
	}
	t.on = on
	t.fixed = !cancellable
	l.observe(t, why)
	t.state = stateParked
	l.leave(t)
	if on != nil {
		t.on = nil
	}
	if t.notified {
		t.notified = false
		return nil
	}
	return t.cancelError()
}

// observe tells the observer that t is about to wait or yield.
func (l *Loop) observe(t *Task, why Reason) {
	t.why = why
	if l.observer != nil {
		t.node = l.observer.Parked(t, why, coro.Fingerprint(l.base))
	}
}

// leave switches from t, which is parked or queued, to whatever runs next, and
// returns when t runs again.
func (l *Loop) leave(t *Task) {
	if next := l.pick(); next != t {
		l.switchTo(&t.worker.Party, next)
	} else {
		t.state = stateRunning
	}
	if l.observer != nil {
		l.observer.Resumed(t)
	}
	if l.unwinding {
		runtime.Goexit()
	}
}

// Yield lets every task of the loop that is ready run before the caller goes on. On a
// plain goroutine it is runtime.Gosched.
func Yield() {
	l := here()
	if l == nil || l.cur == nil {
		runtime.Gosched()
		return
	}
	if l.threadLocked() {
		l.refuseThreadLock()
	}
	t := l.cur
	l.observe(t, ReasonYield)
	t.state = stateQueued
	l.enqueue(t)
	l.leave(t)
}
