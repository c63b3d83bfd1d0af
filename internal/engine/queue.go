package engine

import (
	"sync"
	"sync/atomic"
)

// A taskQueue is a FIFO of tasks linked through Task.next. Loop-private.
type taskQueue struct {
	head, tail *Task
	n          int
	pushed     int64 // tasks that have ever come in
}

func (q *taskQueue) push(t *Task) {
	t.next = nil
	if q.tail == nil {
		q.head = t
	} else {
		q.tail.next = t
	}
	q.tail = t
	q.n++
	q.pushed++
}

func (q *taskQueue) pop() *Task {
	t := q.head
	if t == nil {
		return nil
	}
	q.head = t.next
	if q.head == nil {
		q.tail = nil
	}
	t.next = nil
	q.n--
	return t
}

// A nodeQueue holds the ready tasks of one node. With push it is first in, first out.
//
// With pushLocal and pushOther it has an order for the sake of the processor's caches
// (Cohort Scheduling, section 4.1.1): take returns first what tasks of the loop have
// made ready, the newest first, then what came from elsewhere, the oldest first. That
// alone would let some wait for ever. So all that is there when take finds nothing left
// of the last round becomes the next one, and what comes later waits for the one after
// that: before a task runs, no other does so more than twice.
//
//	pushLocal ──▶ local (a stack) ──┐  the round is over
//	                                ├──────────────────────▶ round ──▶ take
//	pushOther ──▶ other (a queue) ──┘
//
// Loop-private.
type nodeQueue struct {
	taskQueue          // the round; n counts all that is in the nodeQueue
	local     *Task    // the newest
	localEnd  *Task    // the oldest
	yielded   *Task    // the last of local that has yielded, rather than been woken
	other     taskList // oldest first
}

// A taskList is a list of tasks linked through Task.next.
type taskList struct{ head, tail *Task }

// pushLocal puts t at the head of local. A task that yields does not run again at once, if there
// is another.
func (q *nodeQueue) pushLocal(t *Task, yields bool) {
	if yields {
		q.yielded = t
	}
	t.next = q.local
	if q.local == nil {
		q.localEnd = t
	}
	q.local = t
	q.n++
}

func (q *nodeQueue) pushOther(t *Task) {
	t.next = nil
	if q.other.tail == nil {
		q.other.head = t
	} else {
		q.other.tail.next = t
	}
	q.other.tail = t
	q.n++
}

// take takes the task that runs next; nil if there is none.
func (q *nodeQueue) take() *Task {
	if q.head == nil && q.begin() == nil {
		return nil
	}
	return q.pop()
}

// begin begins the next round, and returns its first task; nil if there is none.
func (q *nodeQueue) begin() *Task {
	if q.n == 0 {
		return nil
	}
	head, tail := q.other.head, q.other.tail
	if q.local != nil {
		q.localEnd.next = head
		if head == nil {
			tail = q.localEnd
		}
		head = q.local
	}
	if second := head.next; head == q.yielded && second != nil {
		head.next = second.next
		second.next = head
		if second == tail {
			tail = head
		}
		head = second
	}
	q.head, q.tail = head, tail
	q.local, q.localEnd, q.yielded, q.other = nil, nil, nil, taskList{}
	return head
}

// A startQueue holds the tasks of a loop that have not started, oldest first; other
// loops may take from it. shared is fixed when the runtime is made: with one loop
// there is nobody to share with and no lock is taken.
type startQueue struct {
	shared bool
	first  atomic.Int64 // place of the oldest task, 0 if there is none; only if shared
	mu     sync.Mutex
	q      taskQueue // guarded by mu if shared, else loop-private
}

// oldest returns the place of the oldest task, 0 if there is none. The place of a task
// is what was pushed to the queue beside this one before it came, plus 1; until it
// starts it stands in the tag of its Waiter.
func (s *startQueue) oldest() int64 {
	if s.shared {
		return s.first.Load()
	}
	if s.q.head == nil {
		return 0
	}
	return s.q.head.wait.Tag
}

// precedes reports whether the oldest task came before those that are in q.
func (s *startQueue) precedes(q *taskQueue) bool {
	place := s.oldest()
	return place != 0 && place <= q.pushed-int64(q.n)+1
}

// push adds t, which came after all that was pushed to beside, and returns how many
// there are now.
func (s *startQueue) push(t *Task, beside *taskQueue) (n int) {
	t.wait.Tag = beside.pushed + 1
	if !s.shared {
		s.q.push(t)
		return s.q.n
	}
	s.mu.Lock()
	s.q.push(t)
	s.first.Store(s.q.head.wait.Tag)
	n = s.q.n
	s.mu.Unlock()
	return n
}

// pop takes the oldest task; nil if another loop was faster.
func (s *startQueue) pop() *Task {
	if !s.shared {
		return s.q.pop()
	}
	s.mu.Lock()
	t := s.q.pop()
	s.setFirst()
	s.mu.Unlock()
	return t
}

// steal takes the older half of the queue, at most limit tasks. Called by other loops.
func (s *startQueue) steal(limit int) (taken taskQueue) {
	if s.first.Load() == 0 {
		return taken
	}
	s.mu.Lock()
	for k := min((s.q.n+1)/2, limit); k > 0; k-- {
		taken.push(s.q.pop())
	}
	s.setFirst()
	s.mu.Unlock()
	return taken
}

func (s *startQueue) setFirst() {
	if s.q.head == nil {
		s.first.Store(0)
	} else {
		s.first.Store(s.q.head.wait.Tag)
	}
}
