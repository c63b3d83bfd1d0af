package engine

import (
	"fmt"
	"sync/atomic"
)

// Once runs one function once. The zero value has run nothing. It must not be copied
// after first use.
type Once struct {
	done    atomic.Bool
	g       guard
	running bool       // guarded by g
	runner  *Task      // guarded by g; nil: a plain goroutine, if running
	waiters waiterList // guarded by g
}

// Do calls fn if no Do of o has called its function before.
func (o *Once) Do(fn func()) {
	if o.done.Load() {
		return
	}
	l := comeBack()
	o.g.enter(l)
	if o.done.Load() {
		o.g.exit(l)
		return
	}
	if o.running {
		w := Self()
		r := o.runner
		if o.waiters.head != nil {
			r = nil // it knows
		}
		o.waiters.push(w)
		r.addAwaited(1)
		o.g.exit(l)
		r.hasten(l)
		w.waitFully(ReasonOnce, (*oncePoint)(o))
		return
	}
	o.running = true
	if l != nil {
		o.runner = l.cur
	}
	o.g.exit(l)
	defer o.finish()
	Outside(callPlain, fn)
}

func (o *Once) finish() {
	l := here()
	o.g.enter(l)
	o.done.Store(true)
	if o.waiters.head != nil {
		o.runner.addAwaited(-1)
	}
	o.runner = nil
	all := o.waiters.takeAll()
	o.g.exit(l)
	all.wakeFrom(l)
}

// A oncePoint is a Once as something to wait on.
type oncePoint Once

// DescribeWait reports which task runs the function.
func (p *oncePoint) DescribeWait() string {
	o, l := (*Once)(p), here()
	o.g.enter(l)
	defer o.g.exit(l)
	if o.runner == nil {
		return fmt.Sprintf("Once %p", o)
	}
	return fmt.Sprintf("Once %p, whose function task %v is running", o, o.runner)
}

// Withdraw implements WaitPoint.
func (p *oncePoint) Withdraw(w *Waiter) bool {
	o, l := (*Once)(p), here()
	o.g.enter(l)
	defer o.g.exit(l)
	found := o.waiters.remove(w)
	if found && o.waiters.head == nil {
		o.runner.addAwaited(-1)
	}
	return found
}

// holder is the task that runs the function, nil if that is none or can't be told.
func (p *oncePoint) holder() *Task {
	o, l := (*Once)(p), here()
	o.g.enter(l)
	defer o.g.exit(l)
	return o.runner
}
