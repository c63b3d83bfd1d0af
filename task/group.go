package task

import (
	"context"
	"errors"
	"sync"

	"github.com/capriccio-go/capriccio/internal/engine"
)

// A Group is a set of tasks that work on parts of one thing, like a Group of
// golang.org/x/sync/errgroup. The zero value is a group without limit and context,
// ready to use. It must not be copied after first use.
type Group struct {
	cancel context.CancelCauseFunc
	scope  *engine.Scope
	wg     WaitGroup
	limit  *Semaphore
	mu     sync.Mutex
	err    error // guarded by mu: the first
}

// NewGroup returns a group whose tasks run under a context made from ctx. The context
// ends, which cancels the tasks, when the first of them returns an error or panics,
// or when Wait returns. It never parks.
func NewGroup(ctx context.Context) (*Group, context.Context) {
	ctx, cancel := context.WithCancelCause(ctx)
	return &Group{cancel: cancel, scope: engine.HoldScope(ctx)}, ctx
}

// SetLimit allows at most n tasks of the group at a time; a negative n means any number. With 0 none ever starts, and
// each Go counts an error. It must not be called while the group has tasks. It never parks.
func (g *Group) SetLimit(n int) {
	if n < 0 {
		g.limit = nil
		return
	}
	g.limit = NewSemaphore(int64(n))
}

// Go runs fn as a task of the group. It parks while there are as many tasks as
// SetLimit allows; if the calling task is cancelled meanwhile, fn does not run and the
// error counts as one of the group; so does ErrShutdown once the runtime has been shut down.
func (g *Group) Go(fn func() error) {
	if g.limit != nil {
		if err := g.limit.Acquire(1); err != nil {
			g.fail(err)
			return
		}
	}
	g.wg.Add(1)
	err := errGroupTaskLost
	dropped := func() {
		g.fail(ErrShutdown)
		g.done()
	}
	t, spawnErr := engine.Spawn(engine.Options{Scope: g.scope, Dropped: dropped, Inner: fn}, func() {
		defer func() {
			if err != nil {
				g.fail(err)
			}
			g.done()
		}()
		err = engine.Outside(engine.Call, fn)
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

// Wait parks until all tasks of the group have ended and returns the first error of
// any; a panic and runtime.Goexit count as one. It does not end early when the calling task is
// cancelled: tasks of the same context are cancelled too.
func (g *Group) Wait() error {
	g.wg.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.cancel != nil {
		g.cancel(g.err)
	}
	g.scope.Release()
	return g.err
}
