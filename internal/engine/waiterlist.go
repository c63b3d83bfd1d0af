package engine

// A waiterList is a FIFO of Waiters, linked through next and prev. Guarded by
// whatever guards its owner.
type waiterList struct {
	head, tail *Waiter
}

func (q *waiterList) push(w *Waiter) {
	w.next, w.prev = nil, q.tail
	if q.tail == nil {
		q.head = w
	} else {
		q.tail.next = w
	}
	q.tail = w
}

func (q *waiterList) pop() *Waiter {
	w := q.head
	if w != nil {
		q.unlink(w)
	}
	return w
}

// remove takes w out and reports whether it was in. w must be in this list or in none.
func (q *waiterList) remove(w *Waiter) bool {
	if w.prev == nil && q.head != w {
		return false
	}
	q.unlink(w)
	return true
}

func (q *waiterList) unlink(w *Waiter) {
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

// takeAll empties the list. Those taken are no longer in it for remove.
func (q *waiterList) takeAll() (c wakeChain) {
	c.first, c.last = q.head, q.tail
	for w := q.head; w != nil; w = w.next {
		w.prev = nil
	}
	q.head, q.tail = nil, nil
	return c
}

// A wakeChain is a FIFO of Waiters that have been taken from where they were published
// and must be woken. They are linked through next only, so that waiterList.remove
// finds them in no list.
type wakeChain struct {
	first, last *Waiter
}

func (c *wakeChain) push(w *Waiter) {
	if c.last == nil {
		c.first = w
	} else {
		c.last.next = w
	}
	c.last = w
}

// wakeFrom wakes all; the caller runs on l, nil for a plain goroutine.
func (c *wakeChain) wakeFrom(l *Loop) {
	for w := c.first; w != nil; {
		next := w.next // once woken, w is its owner's again
		w.next = nil
		w.wakeFrom(l)
		w = next
	}
}
