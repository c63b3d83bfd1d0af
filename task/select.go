package task

import (
	"math/bits"
	"sync/atomic"

	"github.com/capriccio-go/capriccio/internal/engine"
)

// A Case is an operation that a Select waits for. Make it with the methods RecvCase and
// SendCase of a channel, or with DoneCase or AfterCase; it may be used again, by several at once,
// and may stand more than once in one Select. A nil Case makes Select panic.
type Case interface {
	guard() *engine.Guard                          // nil: nothing is to be guarded
	try() (done bool, w *engine.Waiter, err error) // inside the guard; w is to be woken
	// enqueue is called inside the guard. n is what dequeue, called outside of it, takes out or stops again: a
	// *chanNode, a timer or the stop function of a context. A Case keeps nothing of a Select: it may be there twice.
	enqueue(w *engine.Waiter, s *selection, index int) (n any)
	dequeue(l *engine.Loop, n any, fired bool) (err error)
}

// A selection is one Select that waits.
type selection struct {
	fired   atomic.Int32 // index of the case that was served, plus 1; 0: none yet
	timed   bool         // there is an AfterCase; fixed before the wait
	context bool         // there is a DoneCase; fixed before the wait
}

// claim ends the Select by case i, and reports whether no other case, nor a cancellation, has ended it before.
func (s *selection) claim(i int) bool { return s.fired.CompareAndSwap(0, int32(i)+1) }

// EndsBy implements engine.Ender.
func (s *selection) EndsBy() engine.WaitEnd {
	switch {
	case s.timed:
		return engine.EndsByItself
	case s.context:
		return engine.EndsByClients
	}
	return engine.EndsByTasks
}

// Withdraw implements engine.WaitPoint.
func (s *selection) Withdraw(*engine.Waiter) bool { return s.claim(selectionCancelled) }

const selectionCancelled = 1 << 30

// Select waits until one of the cases can go on, does it, and returns its index. If
// several can, one of them is chosen at random. It parks. The error is ErrChanClosed
// if the channel of the case is closed (and empty, for a receive), or, with index -1,
// that of the calling task's context. Without cases it waits for the end of that context.
func Select(cases ...Case) (int, error) { return selectAmong(cases, true) }

// TrySelect is Select that does not wait: it returns -1 and no error if none of the
// cases can go on. It never parks.
func TrySelect(cases ...Case) (int, error) { return selectAmong(cases, false) }

func selectAmong(cases []Case, wait bool) (int, error) {
	l := engine.CurrentLoop()
	var room [8]engine.HeldGuard
	guards := engine.Guards(room[:0])
	for _, c := range cases {
		if g := c.guard(); g != nil {
			guards = guards.With(g)
		}
	}
	guards.Enter(l)
	i, other, err := tryEach(l, cases)
	if i >= 0 {
		guards.Exit(l)
		if other != nil {
			other.WakeFrom(l)
		}
		return i, err
	}
	if !wait {
		guards.Exit(l)
		return -1, nil
	}
	s := new(selection)
	w := engine.SelfOn(l)
	var few [8]any
	nodes, waits := few[:0], false
	defer func() {
		if waits { // the wait ended the task, or panicked: nothing of it may stay with a channel, a context or the wheel
			for i, c := range cases {
				c.dequeue(l, nodes[i], false)
			}
		}
	}()
	for i, c := range cases {
		nodes = append(nodes, c.enqueue(w, s, i))
	}
	guards.Exit(l)
	waits = true
	err = w.Wait(engine.ReasonSelect, s)
	waits = false
	fired := int(s.fired.Load()) - 1
	for i, c := range cases {
		if e := c.dequeue(l, nodes[i], i == fired); i == fired {
			err = e
		}
	}
	if fired == selectionCancelled {
		fired = -1
	}
	return fired, err
}

// tryEach tries the cases in random order until one can proceed, so that all ready cases have the same chance, and returns its
// index; -1: no case is ready. It is a function of its own so that its frame is not on the stack of a task that waits.
//
//go:noinline
func tryEach(l *engine.Loop, cases []Case) (int, *engine.Waiter, error) {
	var few [8]int
	left := few[:0]
	for i := range cases {
		left = append(left, i)
	}
	for n := len(left); n > 0; n-- {
		at := uint64(0)
		if n > 1 {
			at, _ = bits.Mul64(l.Random(), uint64(n))
		}
		i := left[at]
		left[at] = left[n-1]
		if done, w, err := cases[i].try(); done {
			return i, w, err
		}
	}
	return -1, nil, nil
}

type recvCase[T any] struct {
	c    *Chan[T]
	into *T
}

// RecvCase is a Case that receives into *into, which may be nil. With a nil Chan it is never
// ready, as in a select statement.
func (c *Chan[T]) RecvCase(into *T) Case {
	if c == nil {
		return neverCase{}
	}
	return &recvCase[T]{c: c, into: into}
}

// A neverCase can never go on.
type neverCase struct{}

func (neverCase) guard() *engine.Guard                        { return nil }
func (neverCase) try() (bool, *engine.Waiter, error)          { return false, nil, nil }
func (neverCase) enqueue(*engine.Waiter, *selection, int) any { return nil }
func (neverCase) dequeue(*engine.Loop, any, bool) error       { return nil }

func (r *recvCase[T]) guard() *engine.Guard { return &r.c.g }

func (r *recvCase[T]) try() (bool, *engine.Waiter, error) {
	v, done, w, err := r.c.recvNow()
	if done && err == nil && r.into != nil {
		*r.into = v
	}
	return done, w, err
}

func (r *recvCase[T]) enqueue(w *engine.Waiter, s *selection, index int) any {
	n := r.c.node(w)
	n.sel, n.index = s, index
	r.c.recvq.push(n)
	return n
}

func (r *recvCase[T]) dequeue(l *engine.Loop, node any, fired bool) (err error) {
	n := node.(*chanNode[T])
	r.c.g.EnterOn(l)
	r.c.recvq.remove(n)
	r.c.g.Exit(l)
	if fired {
		switch {
		case !n.ok:
			err = ErrChanClosed
		case r.into != nil:
			*r.into = n.value
		}
	}
	r.c.recycle(l, n)
	return err
}

type sendCase[T any] struct {
	c *Chan[T]
	v T
}

// SendCase is a Case that sends v. With a nil Chan it is never ready.
func (c *Chan[T]) SendCase(v T) Case {
	if c == nil {
		return neverCase{}
	}
	return &sendCase[T]{c: c, v: v}
}

func (s *sendCase[T]) guard() *engine.Guard { return &s.c.g }

func (s *sendCase[T]) try() (bool, *engine.Waiter, error) { return s.c.sendNow(s.v) }

func (s *sendCase[T]) enqueue(w *engine.Waiter, sel *selection, index int) any {
	n := s.c.node(w)
	n.value = s.v
	n.sel, n.index = sel, index
	s.c.sendq.push(n)
	return n
}

func (s *sendCase[T]) dequeue(l *engine.Loop, node any, fired bool) (err error) {
	n := node.(*chanNode[T])
	s.c.g.EnterOn(l)
	s.c.sendq.remove(n)
	s.c.g.Exit(l)
	if fired && !n.ok {
		err = ErrChanClosed
	}
	s.c.recycle(l, n)
	return err
}
