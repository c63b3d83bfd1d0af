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

// taken is how many tasks have ever left q.
func (q *taskQueue) taken() int64 { return q.pushed - int64(q.n) }

// append puts the tasks of more behind those of q.
func (q *taskQueue) append(more taskQueue) {
	if more.head == nil {
		return
	}
	if q.tail == nil {
		q.head = more.head
	} else {
		q.tail.next = more.head
	}
	q.tail = more.tail
	q.n += more.n
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
// (Cohort Scheduling, section 4.1.1): first the tasks made ready by tasks of this loop,
// the newest first, then the tasks made ready from elsewhere, the oldest first. That
// alone would let some tasks wait for ever. So tasks run in rounds: when takeRound finds the
// last round empty, all ready tasks become the next round, and tasks that become ready later
// wait for the round after it. So while a task waits, no other runs more than twice.
//
//	pushLocal ──▶ local (a stack) ──┐  the round is over
//	                                ├──────────────────────▶ round ──▶ takeRound
//	pushOther ──▶ other (a queue) ──┘
//
// Loop-private.
type nodeQueue struct {
	taskQueue           // the round
	local     *Task     // the newest
	localEnd  *Task     // the oldest
	yielded   *Task     // the last of local that has yielded, rather than been woken
	locals    int       // tasks in local
	other     taskQueue // oldest first
}

// total is how many tasks are in q.
func (q *nodeQueue) total() int { return q.n + q.locals + q.other.n }

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
	q.locals++
}

func (q *nodeQueue) pushOther(t *Task) { q.other.push(t) }

// takeRound takes the tasks that run next; none if q is empty.
func (q *nodeQueue) takeRound() taskQueue {
	if q.n == 0 {
		q.beginRound()
	}
	round := q.taskQueue
	q.head, q.tail, q.n = nil, nil, 0
	return round
}

// putBack puts tasks of the last round that have not run to the head of q.
func (q *nodeQueue) putBack(left taskQueue) {
	left.append(q.taskQueue)
	q.head, q.tail, q.n = left.head, left.tail, left.n
}

func (q *nodeQueue) beginRound() {
	q.append(taskQueue{head: q.local, tail: q.localEnd, n: q.locals})
	q.append(q.other)
	if first := q.head; first != nil && first == q.yielded && first.next != nil {
		second := first.next
		first.next, second.next, q.head = second.next, first, second
		if q.tail == second {
			q.tail = first
		}
	}
	q.local, q.localEnd, q.yielded, q.locals, q.other = nil, nil, nil, 0, taskQueue{}
}

// A startQueue holds the tasks of a loop that have not started, oldest first; other
// loops may take from it. shared is fixed when the runtime is made: a runtime with one loop
// needs no lock.
type startQueue struct {
	shared bool
	first  atomic.Int64 // place of the oldest task, 0 if there is none; only if shared
	size   atomic.Int64 // tasks; only if shared
	mu     sync.Mutex
	q      taskQueue // guarded by mu if shared, else loop-private
	told   int       // tasks in q that the policy has been told of; loop-private
}

// oldest returns the place of the oldest task, 0 if there is none. The place of a task
// is 1 + the number of tasks pushed before it to the queue beside this one; until the task
// starts, the place is in the tag of its Waiter.
func (s *startQueue) oldest() int64 {
	if s.shared {
		return s.first.Load()
	}
	if s.q.head == nil {
		return 0
	}
	return s.q.head.wait.Tag
}

// len is how many tasks have not started.
func (s *startQueue) len() int {
	if s.shared {
		return int(s.size.Load())
	}
	return s.q.n
}

// precedes reports whether the oldest task in s was pushed before every task in q.
func (s *startQueue) precedes(q *taskQueue) bool {
	place := s.oldest()
	return place != 0 && place <= q.taken()+1
}

// push adds t, which comes after all tasks pushed to beside so far, and returns how many tasks s
// has now.
func (s *startQueue) push(t *Task, beside *taskQueue) (n int) {
	t.wait.Tag = beside.pushed + 1
	if !s.shared {
		s.q.push(t)
		return s.q.n
	}
	s.mu.Lock()
	s.q.push(t)
	s.noteShared()
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
	s.noteShared()
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
	s.noteShared()
	s.mu.Unlock()
	return taken
}

// noteShared shows other loops, and callers without mu, what q holds.
func (s *startQueue) noteShared() {
	s.size.Store(int64(s.q.n))
	if s.q.head == nil {
		s.first.Store(0)
	} else {
		s.first.Store(s.q.head.wait.Tag)
	}
}
