package engine

import (
	"context"
	"errors"
	"sync"
)

// A Group is a set of tasks that work on parts of one thing, after the example of
// golang.org/x/sync/errgroup.
type Group struct {
	cancel context.CancelCauseFunc
	scope  *scope
	wg     WaitGroup
	limit  *Semaphore
	mu     sync.Mutex
	err    error // guarded by mu: the first
}

// NewGroup returns a group whose tasks run under a context made from ctx.
func NewGroup(ctx context.Context) (*Group, context.Context) {
	ctx, cancel := context.WithCancelCause(ctx)
	s := newScope(ctx)
	s.held = true
	return &Group{cancel: cancel, scope: s}, ctx
}

// SetLimit allows at most n tasks of the group at a time; a negative n means any
// number. It must not be called while the group has tasks.
func (g *Group) SetLimit(n int) {
	if n < 0 {
		g.limit = nil
		return
	}
	g.limit = NewSemaphore(int64(n))
}

// Go runs fn as a task of the group.
func (g *Group) Go(fn func() error) {
	if g.limit != nil {
		if err := g.limit.Acquire(1); err != nil {
			g.fail(err)
			return
		}
	}
	g.start(fn)
}

// TryGo is Go if that is possible without waiting, and reports whether it was.
func (g *Group) TryGo(fn func() error) bool {
	if g.limit != nil && !g.limit.TryAcquire(1) {
		return false
	}
	g.start(fn)
	return true
}

func (g *Group) start(fn func() error) {
	g.wg.Add(1)
	err := errGroupTaskLost
	dropped := func() {
		g.fail(ErrShutdown)
		g.done()
	}
	t, spawnErr := Spawn(Options{scope: g.scope, Dropped: dropped, inner: fn}, func() {
		defer func() {
			if err != nil {
				g.fail(err)
			}
			g.done()
		}()
		err = Outside(call, fn)
	})
	if t == nil {
		g.fail(spawnErr)
		g.done()
	}
}

var errGroupTaskLost = errors.New("task: a task of the group ended by a panic or runtime.Goexit")

func (g *Group) done() {
	if g.limit != nil {
		g.limit.Release(1)
	}
	g.wg.Done()
}

func (g *Group) fail(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err == nil {
		g.err = err
		if g.cancel != nil {
			g.cancel(err)
		}
	}
}

// Wait parks until all tasks of the group have ended and returns the first error of any.
func (g *Group) Wait() error {
	g.wg.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.cancel != nil {
		g.cancel(g.err)
	}
	if g.scope != nil {
		g.scope.release()
	}
	return g.err
}
