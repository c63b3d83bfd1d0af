package task

import (
	"fmt"
	"sync/atomic"

	"github.com/capriccio-go/capriccio/internal/engine"
)

// Once runs one function once. The zero value has run nothing. It must not be copied
// after first use.
type Once struct {
	done          atomic.Bool
	g             engine.Guard
	running       bool                 // guarded by g
	runner        *engine.Task         // guarded by g; nil: a plain goroutine, if running
	awaitedHolder engine.AwaitedHolder // guarded by g
	waiters       engine.WaiterList    // guarded by g
}

// Do calls fn if no Do of o has called its function before. It returns when the
// function has returned, and parks if it must wait for that. fn may park, but must not
// call Do of o. If fn panics, it counts as having run.
func (o *Once) Do(fn func()) {
	if o.done.Load() {
		return
	}
	l := o.g.EnterToWait()
	if o.done.Load() {
		o.g.Exit(l)
		return
	}
	if o.running {
		w := engine.SelfOn(l)
		r := o.runner
		if !o.waiters.Empty() {
			r = nil // the runner is awaited already
		} else {
			o.awaitedHolder.Set(r)
		}
		o.waiters.Push(w)
		o.g.Exit(l)
		r.Hasten(l)
		w.WaitFully(engine.ReasonOnce, (*oncePoint)(o))
		return
	}
	o.running = true
	if l != nil {
		o.runner = l.Running()
	}
	o.g.Exit(l)
	defer o.finish()
	engine.Outside(engine.CallPlain, fn)
}

func (o *Once) finish() {
	l := o.g.Enter()
	o.done.Store(true)
	o.awaitedHolder.Set(nil)
	o.runner = nil
	all := o.waiters.TakeAll()
	o.g.Exit(l)
	all.WakeFrom(l)
}

// A oncePoint is a Once as something to wait on.
type oncePoint Once

// DescribeWait reports which task runs the function.
func (p *oncePoint) DescribeWait() string {
	o := (*Once)(p)
	l := o.g.Enter()
	defer o.g.Exit(l)
	if o.runner == nil {
		return fmt.Sprintf("Once %p", o)
	}
	return fmt.Sprintf("Once %p, whose function task %v is running", o, o.runner)
}

// Withdraw implements WaitPoint.
func (p *oncePoint) Withdraw(w *engine.Waiter) bool {
	o := (*Once)(p)
	l := o.g.Enter()
	defer o.g.Exit(l)
	found := o.waiters.Remove(w)
	if found && o.waiters.Empty() {
		o.awaitedHolder.Set(nil)
	}
	return found
}

// HeldBy is the task that runs the function, nil if no task does or the runner is not known.
func (p *oncePoint) HeldBy() *engine.Task {
	o := (*Once)(p)
	l := o.g.Enter()
	defer o.g.Exit(l)
	return o.runner
}
