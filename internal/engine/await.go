package engine

import "context"

// Await parks until ctx ends and returns its error, or, if that comes first, the error
// of the calling task's own context.
func Await(ctx context.Context) error {
	l := comeBack()
	if l == nil {
		<-ctx.Done()
		return contextError(ctx)
	}
	w := selfOn(l)
	stop := afterContext(context.AfterFunc(ctx, w.Wake))
	if err := w.Wait(ReasonContext, stop); err != nil {
		return err
	}
	return contextError(ctx)
}

// An afterContext is what context.AfterFunc returns, as what Await waits on.
type afterContext func() bool

// Withdraw implements WaitPoint.
func (stop afterContext) Withdraw(*Waiter) bool { return stop() }

// Under calls fn with ctx as the innermost context of the calling task: waits in fn end with
// the error of ctx when ctx ends, and tasks spawned in fn belong to ctx.
func Under(ctx context.Context, fn func() error) error {
	if inner := newScope(ctx); inner != nil {
		return within(inner, fn)
	}
	return fn()
}

// Shield is Under for the clean-up of a task that may be cancelled: until fn has returned, only
// ctx ends waits in fn, and the task's outer contexts do not, whether they have ended before
// or end meanwhile. A limit for the clean-up is a ctx with a timeout. At the end of the runtime
// Config.Grace is a limit too.
func Shield(ctx context.Context, fn func() error) error {
	return within(&scope{ctx: ctx, shields: true}, fn)
}

// waitUnder calls wait, which ctx ends as well as what cancels the task. wait looks at ctx itself
// only on a plain goroutine.
func waitUnder(ctx context.Context, wait func(ctx context.Context) error) error {
	if ctx.Err() != nil {
		return contextError(ctx)
	}
	if comeBack() == nil {
		return wait(ctx)
	}
	return Under(ctx, func() error { return wait(ctx) })
}

// within is Under and Shield.
func within(inner *scope, fn func() error) error {
	l := comeBack()
	if l == nil {
		return fn()
	}
	t := l.current()
	i := t.extend()
	outer := i.under
	inner.outer = outer
	i.under = inner
	left := false // loop-private
	stop := context.AfterFunc(inner.ctx, func() {
		l.Post(func() {
			if !left {
				l.cancel(t)
			}
		})
	})
	t.cancelled = t.endedContext() != nil
	defer func() {
		stop()
		left = true
		i.under = outer
		t.cancelled = t.endedContext() != nil
	}()
	return Outside(call, fn)
}

// call calls fn, as does callPlain, for Outside.
func call(fn func() error) error { return fn() }

func callPlain(fn func()) struct{} {
	fn()
	return struct{}{}
}
