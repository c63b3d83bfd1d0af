package task

import (
	"context"
	"time"

	"github.com/capriccio-go/capriccio/internal/engine"
)

// A Group is a set of tasks that work on parts of one thing, like a Group of
// golang.org/x/sync/errgroup. The zero value is a group without limit and context,
// ready to use. It must not be copied after first use.
type Group engine.Group

// SetLimit allows at most n tasks of the group at a time; a negative n means any
// number, and 0 that none ever starts. It must not be called while the group has tasks. It never parks.
func (g *Group) SetLimit(n int) { (*engine.Group)(g).SetLimit(n) }

// Go runs fn as a task of the group. It parks while there are as many tasks as
// SetLimit allows; if the calling task is cancelled meanwhile, fn does not run and the
// error counts as one of the group; so does ErrShutdown once the runtime has been shut down.
func (g *Group) Go(fn func() error) { (*engine.Group)(g).Go(fn) }

// TryGo is Go if that is possible without waiting, and reports whether it was. It never parks.
func (g *Group) TryGo(fn func() error) bool { return (*engine.Group)(g).TryGo(fn) }

// Wait parks until all tasks of the group have ended and returns the first error of
// any; a panic and runtime.Goexit count as one. It does not end early when the calling task is
// cancelled: tasks of the same context are cancelled too.
func (g *Group) Wait() error { return (*engine.Group)(g).Wait() }

// NewGroup returns a group whose tasks run under a context made from ctx. The context
// ends, which cancels the tasks, when the first of them returns an error or panics,
// or when Wait returns. It never parks.
func NewGroup(ctx context.Context) (*Group, context.Context) {
	g, under := engine.NewGroup(ctx)
	return (*Group)(g), under
}

// A Local is a variable of which every task has its own. Make it with NewLocal, once,
// in a package variable.
type Local[T any] engine.Local[T]

// Get returns the calling task's value. On a plain goroutine it is the initial one. It never parks.
func (v *Local[T]) Get() T { return (*engine.Local[T])(v).Get() }

// Set sets the calling task's value. It panics on a plain goroutine, and never parks.
func (v *Local[T]) Set(x T) { (*engine.Local[T])(v).Set(x) }

// NewLocal returns a Local whose value is initial in a task that has not set it.
func NewLocal[T any](initial T) *Local[T] { return (*Local[T])(engine.NewLocal(initial)) }

// A PerLoop holds a value for each loop: what tasks of all loops would otherwise share, and pay for with
// locks and with wake-ups from one processor to another. The zero value, with New set if need
// be, is ready. It must not be copied.
type PerLoop[T any] engine.PerLoop[T]

// Get returns the value of the calling task's loop. Between two waits no other task of the loop
// runs, so it may be used without a lock. All plain goroutines share one more value, and must lock
// it. It never parks.
func (p *PerLoop[T]) Get() *T { return (*engine.PerLoop[T])(p).Get() }

// A Timer is a function that will run as a task of its own. It is made by AfterFunc.
type Timer engine.Timer

// Stop prevents the function from being run. It returns false if it has been started
// or stopped before. It never parks.
func (a *Timer) Stop() bool { return (*engine.Timer)(a).Stop() }

// AfterFunc runs fn as a new task once d has passed: on the loop of the caller, or, if
// that is a plain goroutine, on a loop of the Default runtime. It panics if there has been
// no runtime; once that has been shut down fn is never run. With d ≤ 0 that is as soon as
// the loop gets to it. The resolution is about 66 µs. It never parks.
func AfterFunc(d time.Duration, fn func()) *Timer { return (*Timer)(engine.AfterFunc(d, fn)) }
