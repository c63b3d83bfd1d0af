package engine

import (
	"sync/atomic"
	"unsafe"
)

// A WaiterList is a FIFO of Waiters. The zero value is empty. Guarded by whatever guards its owner.
type WaiterList struct {
	head, tail *Waiter
}

// Empty reports whether there is no Waiter.
func (q *WaiterList) Empty() bool { return q.head == nil }

// MayHave reports whether there is a Waiter, for a caller that does not hold the guard: it may have just come or gone.
func (q *WaiterList) MayHave() bool {
	return atomic.LoadPointer((*unsafe.Pointer)(unsafe.Pointer(&q.head))) != nil
}

// Push puts w at the end.
func (q *WaiterList) Push(w *Waiter) {
	w.next, w.prev = nil, q.tail
	if q.tail == nil {
		q.head = w
	} else {
		q.tail.next = w
	}
	q.tail = w
}

// First is the Waiter that has waited longest, nil if there is none.
func (q *WaiterList) First() *Waiter { return q.head }

// Pop takes the first out, nil if there is none.
func (q *WaiterList) Pop() *Waiter {
	w := q.head
	if w != nil {
		q.Unlink(w)
	}
	return w
}

// Remove takes w out and reports whether it was in. w must be in this list or in none.
func (q *WaiterList) Remove(w *Waiter) bool {
	if w.prev == nil && q.head != w {
		return false
	}
	q.Unlink(w)
	return true
}

// Unlink takes w out, which is in this list.
func (q *WaiterList) Unlink(w *Waiter) {
	if w.prev == nil {
		q.head = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		q.tail = w.prev
	} else {
		w.next.prev = w.prev
	}
	w.next, w.prev = nil, nil
}

// TakeAll empties the list and returns the Waiters, which Remove no longer finds in it.
func (q *WaiterList) TakeAll() (c WakeChain) {
	c.first, c.last = q.head, q.tail
	for w := q.head; w != nil; w = w.next {
		w.prev = nil
	}
	q.head, q.tail = nil, nil
	return c
}

// A WakeChain is a FIFO of Waiters that have been taken from where they were published
// and must be woken, outside of any guard. They are linked through next only, so that WaiterList.Remove
// finds them in no list.
type WakeChain struct {
	first, last *Waiter
}

// Push puts w, which is in no list, at the end.
func (c *WakeChain) Push(w *Waiter) {
	w.next = nil
	if c.last == nil {
		c.first = w
	} else {
		c.last.next = w
	}
	c.last = w
}

// WakeFrom wakes all; the caller runs on l, nil for a plain goroutine.
func (c *WakeChain) WakeFrom(l *Loop) {
	for w := c.first; w != nil; {
		next := w.next // once woken, w is its owner's again
		w.next = nil
		w.WakeFrom(l)
		w = next
	}
}
