package task

import (
	"errors"
	"fmt"
	"iter"

	"github.com/capriccio-go/capriccio/internal/engine"
)

// ErrChanClosed is returned by Send on a closed channel, and by Recv on a closed one
// that is empty.
var ErrChanClosed = errors.New("task: channel is closed")

// A Chan carries values between tasks and goroutines, first in, first out. Make it
// with NewChan.
type Chan[T any] struct {
	g      engine.Guard
	closed bool         // guarded by g
	buf    []T          // guarded by g: a ring of fixed length
	first  int          // guarded by g: index of the oldest value
	count  int          // guarded by g: values in buf
	recvq  chanList[T]  // guarded by g
	sendq  chanList[T]  // guarded by g
	free   *chanNode[T] // guarded by g: nodes for later waits, linked by next
}

// A chanNode is one wait at a channel. While it is in a list the channel's guard guards it; then it belongs to the
// caller that waited.
type chanNode[T any] struct {
	next, prev *chanNode[T]
	w          *engine.Waiter
	value      T
	ok         bool       // a value was passed; false: the channel was closed
	sel        *selection // nil: not part of a Select
	index      int        // of the case in sel
}

// NewChan returns a channel that holds up to capacity values, which may be 0: then a
// Send waits for its Recv. It panics if capacity is negative.
func NewChan[T any](capacity int) *Chan[T] {
	return &Chan[T]{buf: make([]T, capacity)}
}

// Send sends v and parks until it has been received or there is room for it. It
// returns ErrChanClosed if the channel is, or meanwhile gets, closed, and the error
// of the calling task's context if the task is cancelled and has to wait; v has then not been sent.
func (c *Chan[T]) Send(v T) error {
	l := c.g.EnterToWait()
	if c.closed || c.recvq.head != nil || c.count < len(c.buf) {
		if done, w, err := c.sendNow(v); done {
			c.g.Exit(l)
			if w != nil {
				w.WakeFrom(l)
			}
			return err
		}
	}
	n := c.node(engine.SelfOn(l))
	n.value = v
	c.sendq.push(n)
	c.g.Exit(l)
	_, err := c.endWait(l, n, &c.sendq, n.w.Park(engine.ReasonChanSend, (*chanPoint[T])(c)))
	return err
}

// TrySend sends v if that is possible without waiting, and reports whether it did. The error is
// ErrChanClosed if the channel is closed. It never parks.
func (c *Chan[T]) TrySend(v T) (bool, error) {
	l := c.g.Enter()
	done, w, err := c.sendNow(v)
	c.g.Exit(l)
	if w != nil {
		w.WakeFrom(l)
	}
	return done && err == nil, err
}

// sendNow sends v if that is possible, or finds the channel closed. The caller is inside the guard, and
// wakes w, which may be nil, when it has left it.
func (c *Chan[T]) sendNow(v T) (done bool, w *engine.Waiter, err error) {
	if c.closed {
		return true, nil, ErrChanClosed
	}
	if n := c.recvq.claim(); n != nil {
		n.value, n.ok = v, true
		return true, n.w, nil
	}
	if c.count == len(c.buf) {
		return false, nil, nil
	}
	c.put(v)
	return true, nil, nil
}

// Recv receives a value and parks until there is one. It returns ErrChanClosed if the
// channel is closed and empty, and the error of the calling task's context if the task
// is cancelled and has to wait.
func (c *Chan[T]) Recv() (v T, err error) {
	l := c.g.EnterToWait()
	if c.count > 0 || c.sendq.head != nil || c.closed {
		if v, done, w, err := c.recvNow(); done {
			c.g.Exit(l)
			if w != nil {
				w.WakeFrom(l)
			}
			return v, err
		}
	}
	n := c.node(engine.SelfOn(l))
	c.recvq.push(n)
	c.g.Exit(l)
	return c.endWait(l, n, &c.recvq, n.w.Park(engine.ReasonChanRecv, (*chanPoint[T])(c)))
}

// TryRecv receives a value if there is one; ok reports whether there was. The error is
// ErrChanClosed if the channel is closed and empty. It never parks.
func (c *Chan[T]) TryRecv() (v T, ok bool, err error) {
	l := c.g.Enter()
	v, done, w, err := c.recvNow()
	c.g.Exit(l)
	if w != nil {
		w.WakeFrom(l)
	}
	return v, done && err == nil, err
}

// recvNow receives if that is possible, or finds the channel closed. The caller is inside the guard, and
// wakes w, which may be nil, when it has left it.
func (c *Chan[T]) recvNow() (v T, done bool, w *engine.Waiter, err error) {
	buffered := c.count > 0
	if buffered {
		v = c.take()
	} else if c.closed {
		return v, true, nil, ErrChanClosed
	}
	if n := c.sendq.claim(); n != nil {
		if buffered {
			c.put(n.value)
		} else {
			v = n.value
		}
		n.ok = true
		return v, true, n.w, nil
	}
	return v, buffered, nil, nil
}

// node returns a node for a wait with w; the caller is inside the guard.
func (c *Chan[T]) node(w *engine.Waiter) *chanNode[T] {
	n := c.free
	if n == nil {
		n = new(chanNode[T])
	} else {
		c.free = n.next
		n.next = nil
	}
	n.ok = false
	n.w = w
	return n
}

// endWait ends a wait with node n in q, which was cancelled if err is not nil. It returns what n holds, and no error if
// a value was passed.
func (c *Chan[T]) endWait(l *engine.Loop, n *chanNode[T], q *chanList[T], err error) (v T, _ error) {
	w := n.w
	if err != nil {
		c.g.EnterOn(l)
		waiting := q.remove(n)
		c.g.Exit(l)
		if !waiting {
			w.Absorb()
			err = nil
		}
	}
	if err == nil && !n.ok {
		err = ErrChanClosed
	}
	if err == nil {
		v = n.value
	}
	c.recycle(l, n)
	return v, err
}

// recycle keeps n, which is in no list, for the next wait.
func (c *Chan[T]) recycle(l *engine.Loop, n *chanNode[T]) {
	var zero T
	n.sel, n.prev = nil, nil
	c.g.EnterOn(l)
	n.value, n.w = zero, nil
	n.next = c.free
	c.free = n
	c.g.Exit(l)
}

// A chanPoint is a Chan as something to wait on.
type chanPoint[T any] Chan[T]

// Withdraw implements WaitPoint.
func (p *chanPoint[T]) Withdraw(w *engine.Waiter) bool {
	c := (*Chan[T])(p)
	l := c.g.Enter()
	defer c.g.Exit(l)
	for _, q := range []*chanList[T]{&c.recvq, &c.sendq} {
		for n := q.head; n != nil; n = n.next {
			if n.w == w {
				q.unlink(n)
				return true
			}
		}
	}
	return false
}

func (c *Chan[T]) put(v T) {
	i := c.first + c.count
	if i >= len(c.buf) {
		i -= len(c.buf)
	}
	c.buf[i] = v
	c.count++
}

func (c *Chan[T]) take() T {
	var zero T
	v := c.buf[c.first]
	c.buf[c.first] = zero
	if c.first++; c.first == len(c.buf) {
		c.first = 0
	}
	c.count--
	return v
}

// Close closes the channel: every Send that waits or comes later returns
// ErrChanClosed, and so does every Recv once the channel is empty. It panics if the
// channel is closed already. It never parks.
func (c *Chan[T]) Close() {
	l := c.g.Enter()
	if c.closed {
		c.g.Exit(l)
		panic("task: Close of a closed Chan")
	}
	c.closed = true
	var woken engine.WakeChain
	for _, q := range []*chanList[T]{&c.recvq, &c.sendq} {
		for n := q.claim(); n != nil; n = q.claim() {
			n.ok = false
			woken.Push(n.w)
		}
	}
	c.g.Exit(l)
	woken.WakeFrom(l)
}

// Len is the number of values that the channel holds now; values of waiting Sends are not counted.
func (c *Chan[T]) Len() int {
	l := c.g.Enter()
	defer c.g.Exit(l)
	return c.count
}

// Cap is the number of values that the channel can hold.
func (c *Chan[T]) Cap() int { return len(c.buf) }

// All receives until the channel is closed or the calling task is cancelled; Err tells which. It parks
// as Recv does.
func (c *Chan[T]) All() iter.Seq[T] {
	return func(yield func(T) bool) {
		for {
			v, err := c.Recv()
			if err != nil || !engine.Outside(yield, v) {
				return
			}
		}
	}
}

// DescribeWait reports how full the channel is.
func (p *chanPoint[T]) DescribeWait() string {
	c := (*Chan[T])(p)
	l := c.g.Enter()
	defer c.g.Exit(l)
	return fmt.Sprintf("Chan[%T] %p holding %d of %d", *new(T), c, c.count, len(c.buf))
}

// A chanList is a FIFO of the tasks that wait at one end of a channel.
type chanList[T any] struct {
	head, tail *chanNode[T]
}

func (q *chanList[T]) push(n *chanNode[T]) {
	n.next, n.prev = nil, q.tail
	if q.tail == nil {
		q.head = n
	} else {
		q.tail.next = n
	}
	q.tail = n
}

// claim removes and returns the first node that can be served, nil if there is none. Nodes of a Select that another
// case has ended are dropped.
func (q *chanList[T]) claim() *chanNode[T] {
	for n := q.head; n != nil; n = q.head {
		q.unlink(n)
		if n.sel == nil || n.sel.claim(n.index) {
			return n
		}
	}
	return nil
}

// remove takes n out and reports whether it was in.
func (q *chanList[T]) remove(n *chanNode[T]) bool {
	if n.prev == nil && q.head != n {
		return false
	}
	q.unlink(n)
	return true
}

func (q *chanList[T]) unlink(n *chanNode[T]) {
	if n.prev == nil {
		q.head = n.next
	} else {
		n.prev.next = n.next
	}
	if n.next == nil {
		q.tail = n.prev
	} else {
		n.next.prev = n.prev
	}
	n.next, n.prev = nil, nil
}
