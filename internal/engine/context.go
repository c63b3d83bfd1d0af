package engine

import (
	"context"
	"sync"
)

// Await parks until ctx ends and returns its error, or, if that comes first, the error
// of the calling task's own context.
func Await(ctx context.Context) error {
	l := reattach()
	if l == nil {
		<-ctx.Done()
		return ContextError(ctx)
	}
	w := SelfOn(l)
	stop := &afterContext{context.AfterFunc(ctx, w.Wake)}
	if err := w.Wait(ReasonContext, stop); err != nil {
		return err
	}
	return ContextError(ctx)
}

// An afterContext is what context.AfterFunc returns, as what Await waits on.
type afterContext struct{ stop func() bool }

// Withdraw implements WaitPoint.
func (a *afterContext) Withdraw(*Waiter) bool { return a.stop() }

// Under calls fn with ctx as the innermost context of the calling task: waits in fn end with
// the error of ctx when ctx ends, and tasks spawned in fn belong to ctx.
func Under(ctx context.Context, fn func() error) error {
	if inner := newScope(ctx); inner != nil {
		return within(inner, fn)
	}
	return Outside(Call, fn)
}

// Shield is Under for the clean-up of a task that may be cancelled: until fn has returned, only
// ctx ends waits in fn, and the task's outer contexts do not, whether they have ended before
// or end meanwhile. A limit for the clean-up is a ctx with a timeout. At the end of the runtime
// Config.Grace is a limit too.
func Shield(ctx context.Context, fn func() error) error {
	return within(&Scope{ctx: ctx, shields: true}, fn)
}

// WaitUnder calls wait, whose waits end with ctx as well as with the contexts of the calling task. wait looks at ctx
// itself only on a plain goroutine.
func WaitUnder(ctx context.Context, wait func(ctx context.Context) error) error {
	if ctx.Err() != nil {
		return ContextError(ctx)
	}
	if reattach() == nil || ctx.Done() == nil {
		return wait(ctx)
	}
	return Under(ctx, func() error { return wait(ctx) })
}

// TakeUnder is WaitUnder for a take that acquires something: if ctx has ended by then, giveBack returns it. So a caller
// whose ctx has ended before it was served never holds it, whichever of the two woke the caller.
func TakeUnder(ctx context.Context, take func(ctx context.Context) error, giveBack func()) error {
	err := WaitUnder(ctx, take)
	if err == nil && ctx.Err() != nil {
		giveBack()
		return ContextError(ctx)
	}
	return err
}

// within runs fn for Under and Shield.
func within(inner *Scope, fn func() error) error {
	l := reattach()
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
	return Outside(Call, fn)
}

// Call calls fn, as does CallPlain, for Outside.
func Call[R any](fn func() R) R { return fn() }

func CallPlain(fn func()) struct{} {
	fn()
	return struct{}{}
}

// A Scope is a context and the tasks that its end cancels. All tasks spawned by a
// task of a scope belong to it too.
type Scope struct {
	ctx  context.Context
	mu   sync.Mutex
	stop func() bool // guarded by mu: undoes context.AfterFunc; nil: not watching
	in   []*Task     // guarded by mu; each task knows its index
	held bool        // guarded by mu: see HoldScope

	outer   *Scope // of an Under: that of the Under around it, or nil; fixed
	shields bool   // of a Shield: what is further out does not count; fixed
}

// HoldScope returns the scope of tasks that the end of ctx cancels, for Options, nil if ctx can never end. It
// watches ctx, even without tasks, until Release.
func HoldScope(ctx context.Context) *Scope {
	s := newScope(ctx)
	if s != nil {
		s.held = true
	}
	return s
}

// newScope returns nil if ctx can never end.
func newScope(ctx context.Context) *Scope {
	if ctx == nil || ctx.Done() == nil {
		return nil
	}
	return &Scope{ctx: ctx}
}

// add enters t, which has not started, into s. The watch over the context begins with
// the first task.
func (s *Scope) add(t *Task) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := t.extend()
	e.scope = s
	e.index = int32(len(s.in))
	s.in = append(s.in, t)
	if s.stop == nil {
		s.stop = context.AfterFunc(s.ctx, s.cancelAll)
	}
}

// remove takes out t, which has ended. With the last task the watch ends.
func (s *Scope) remove(t *Task) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last, at := len(s.in)-1, t.extra().index
	s.in[at] = s.in[last]
	s.in[at].extra().index = at
	s.in[last] = nil
	s.in = s.in[:last]
	s.unwatch()
}

// Release ends what HoldScope began. It does nothing if s is nil.
func (s *Scope) Release() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = false
	s.unwatch()
}

// unwatch ends the watch over the context if nothing needs it. The caller holds mu.
func (s *Scope) unwatch() {
	if len(s.in) == 0 && !s.held && s.stop != nil {
		s.stop()
		s.stop = nil
	}
}

// setLoop says where t starts; from then on cancelAll finds it.
func (s *Scope) setLoop(t *Task, l *Loop) {
	s.mu.Lock()
	t.loop = l
	s.mu.Unlock()
}

// cancelAll runs when the context has ended, on a plain goroutine. Tasks that have
// not started look at the context when they do.
func (s *Scope) cancelAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.in {
		if l := t.loop; l != nil {
			l.send(message{kind: msgCancel, t: t})
		}
	}
}
