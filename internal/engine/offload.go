package engine

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/capriccio-go/capriccio/internal/coro"
)

// An offloader runs functions on ordinary goroutines, at most limit at a time.
type offloader struct {
	limit   int // fixed
	mu      sync.Mutex
	running atomic.Int32  // changed under mu
	queue   []*offloadJob // guarded by mu; as long as the tasks that wait
	warned  atomic.Int64  // clock reading of the last warning, plus 1; 0: none
}

type offloadJob struct {
	o        *offloader
	fn       func()
	w        *Waiter
	labels   unsafe.Pointer // of the profiler, that fn is to have
	queued   bool           // guarded by o.mu: fn has not begun
	panicked *PanicError    // written before the wake
}

// Offload runs fn on an ordinary goroutine while the calling task waits, so that fn may block natively: a system call,
// a Go channel, cgo, a library that does its own I/O. It parks, and does not end early when the task is cancelled or
// the runtime shut down, because fn may be using the caller's variables and buffers; a function that has not begun when
// the runtime is shut down is never run. If Config.OffloadLimit functions, 512 by default, are running already, fn
// waits until one of them returns, and the log warns, once in ten seconds. A panic of fn panics in the caller, with a
// *PanicError. fn is not part of the task: Current is nil in it. On a plain goroutine Offload just calls fn.
func Offload(fn func()) {
	l := reattach()
	if l == nil {
		fn()
		return
	}
	l.offloaded(fn).parkFor(false)
}

// OffloadContext is Offload for an fn that can end early: the context that it is given ends
// with ctx, and when the calling task is cancelled.
func OffloadContext(ctx context.Context, fn func(ctx context.Context) error) error {
	l := reattach()
	if l == nil {
		return fn(ctx)
	}
	return Under(ctx, func() (err error) {
		if err := Err(); err != nil {
			return err
		}
		merged, cancel := l.current().mergedContext(ctx)
		defer cancel()
		if lost := l.offloaded(func() { err = fn(merged) }).parkFor(true); lost != nil {
			return lost
		}
		return err
	})
}

// mergedContext is ctx that also ends with any of the contexts that cancel t, or in a Shield when the grace time of a
// shutdown is over.
func (t *Task) mergedContext(ctx context.Context) (context.Context, func()) {
	merged, cancel := context.WithCancelCause(ctx)
	stops := []func() bool{}
	with := func(other context.Context) {
		if other.Done() != ctx.Done() { // a context need not be comparable
			stops = append(stops, context.AfterFunc(other, func() { cancel(ContextError(other)) }))
		}
	}
	i, shielded := t.extra(), false
	for s := i.under; s != nil && !shielded; s = s.outer {
		with(s.ctx)
		shielded = s.shields
	}
	if shielded {
		with(t.loop.rt.unwound)
	} else {
		if i.scope != nil {
			with(i.scope.ctx)
		}
		with(t.loop.rt.ctx)
	}
	return merged, func() {
		for _, stop := range stops {
			stop()
		}
		cancel(nil)
	}
}

// offloaded hands fn over; parkFor must follow.
func (l *Loop) offloaded(fn func()) *offloadJob {
	t := l.current()
	if l.lockSeen { // before fn has begun, which can't be taken back
		t.refuseTied()
	}
	j := &offloadJob{o: &l.rt.offload, fn: fn, w: &t.wait, labels: coro.Labels()}
	if waiting := j.o.submit(j); waiting > 0 {
		j.o.warn(l.rt, waiting)
	}
	return j
}

// parkFor waits for the function. It returns an error only if cancellable is set, the task is
// cancelled, and the function will not run.
func (j *offloadJob) parkFor(cancellable bool) error {
	if !cancellable {
		j.w.WaitFully(ReasonOffload, j)
	} else if err := j.w.Wait(ReasonOffload, j); err != nil {
		return err
	}
	if j.panicked != nil {
		panic(j.panicked)
	}
	return nil
}

// warnEvery is the least time between two warnings that functions have to wait.
const warnEvery = 10 * time.Second

// warn tells the log how many functions wait for their turn.
func (o *offloader) warn(rt *Runtime, waiting int) {
	now := int64(rt.clock.Now()) + 1
	if last := o.warned.Load(); last != 0 && now-last < int64(warnEvery) || !o.warned.CompareAndSwap(last, now) {
		return
	}
	rt.log.Warn("task: as many offloaded functions run as may, others wait for their turn; Config.OffloadLimit (capriccio.WithOffloadLimit) raises the limit",
		"limit", o.limit, "waiting", waiting)
}

// submit returns how many functions wait for their turn now, j among them; 0: j has begun.
func (o *offloader) submit(j *offloadJob) (waiting int) {
	o.mu.Lock()
	if int(o.running.Load()) >= o.limit {
		j.queued = true
		o.queue = append(o.queue, j)
		waiting = len(o.queue)
		o.mu.Unlock()
		return waiting
	}
	o.running.Add(1)
	o.mu.Unlock()
	go o.work(j)
	return 0
}

// work runs j, and then has the next job of the queue run, on a goroutine of its own: the function of j may end this
// one by runtime.Goexit, or leave it locked to a thread, which is to end with it.
func (o *offloader) work(j *offloadJob) {
	defer func() {
		if next := o.next(); next != nil {
			go o.work(next)
		}
	}()
	j.run()
}

// next takes the job that has waited longest, nil if there is none.
func (o *offloader) next() *offloadJob {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.queue) == 0 {
		o.queue = nil
		o.running.Add(-1)
		return nil
	}
	j := o.queue[0]
	j.queued = false
	o.queue[0] = nil
	o.queue = o.queue[1:]
	return j
}

func (j *offloadJob) run() {
	returned := false
	defer func() {
		if !returned {
			v := recover()
			if v == nil && coro.ByGoexit() {
				v = ErrGoexit
			}
			j.panicked = &PanicError{Task: fmt.Sprintf("%v (offloaded)", j.w.task), Value: v, Stack: debug.Stack()}
		}
		j.w.Wake()
	}()
	coro.SetLabels(j.labels) // the goroutine may have begun with another task's
	j.fn()
	returned = true
}

// Withdraw implements WaitPoint: a job that has not begun never will. A job that runs is waited for: the deferred
// functions of the task may give away what it writes to.
func (j *offloadJob) Withdraw(*Waiter) bool {
	j.o.mu.Lock()
	defer j.o.mu.Unlock()
	if !j.queued {
		return false
	}
	j.o.queue = slices.DeleteFunc(j.o.queue, func(q *offloadJob) bool { return q == j })
	return true
}
