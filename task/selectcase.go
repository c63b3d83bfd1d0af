package task

import (
	"context"
	"time"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/wheel"
)

// Cases of a Select other than sends and receives.

// DoneCase is a Case that can go on when ctx has ended; the error of Select is then that of ctx, and
// its cause. The end of the calling task's own context needs no case: it ends every Select. It panics
// if ctx is nil.
func DoneCase(ctx context.Context) Case {
	if ctx == nil {
		panic("task: DoneCase of a nil context") // Select would find out where its channels are locked
	}
	return doneCase{ctx}
}

type doneCase struct{ ctx context.Context }

func (doneCase) guard() *engine.Guard { return nil }

func (c doneCase) try() (bool, *engine.Waiter, error) {
	if c.ctx.Err() != nil {
		return true, nil, engine.ContextError(c.ctx)
	}
	return false, nil, nil
}

func (c doneCase) enqueue(w *engine.Waiter, s *selection, index int) any {
	s.context = true
	return context.AfterFunc(c.ctx, func() { s.fire(index, w) })
}

func (c doneCase) dequeue(_ *engine.Loop, stop any, fired bool) error {
	stop.(func() bool)()
	if fired {
		return engine.ContextError(c.ctx)
	}
	return nil
}

// AfterCase is a Case that can go on when the Select has waited for d, of the runtime's clock and with
// the resolution of Sleep; at once if d ≤ 0, unless another case can.
// TrySelect does not wait for it.
func AfterCase(d time.Duration) Case { return afterCase(d) }

type afterCase time.Duration

func (afterCase) guard() *engine.Guard { return nil }

func (d afterCase) try() (bool, *engine.Waiter, error) { return false, nil, nil }

// A selectTimer is an AfterCase that waits in a task. Loop-private.
type selectTimer struct {
	timer wheel.Timer
	s     *selection
	w     *engine.Waiter
	index int
}

// Expire implements wheel.Expirer.
func (x *selectTimer) Expire() { x.s.fire(x.index, x.w) }

func (d afterCase) enqueue(w *engine.Waiter, s *selection, index int) any {
	s.timed = true
	l := w.Loop()
	if l == nil {
		return time.AfterFunc(time.Duration(d), func() { s.fire(index, w) })
	}
	x := &selectTimer{s: s, w: w, index: index}
	x.timer.Of = x
	l.AddTimer(&x.timer, engine.After(l.Now(), time.Duration(d)))
	return x
}

func (d afterCase) dequeue(l *engine.Loop, n any, _ bool) error {
	switch x := n.(type) {
	case *selectTimer:
		l.RemoveTimer(&x.timer)
	case *time.Timer:
		x.Stop()
	}
	return nil
}

// fire serves case i of w's Select, unless another case was faster.
func (s *selection) fire(i int, w *engine.Waiter) {
	if s.claim(i) {
		w.Wake()
	}
}
