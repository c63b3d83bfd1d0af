package task

import (
	"sync/atomic"
	"time"
)

// Priority inheritance. A policy may hold a task back, for the place where it waited, although
// others wait for a lock that it holds. They may matter more, and none of them gets on. So every
// task counts, in Task.awaited, the locks that it holds and others wait for: a Mutex, an RWMutex
// for writing, a Once. A lock counts from its first waiter on, whatever loop or goroutine that
// is on, until it is unlocked or the last waiter has given up, inside the guard of the lock.
// While the count is not 0, the task goes to the queue of urgent ones when it becomes ready,
// which the policy is not asked about.
//
// One that is at a node already is not looked for when it begins to be awaited, as that would
// take a time that grows with the number of tasks there, for each lock. The loop looks at all of
// them, not often, if it may be worth it.

// An urgency is what a loop knows of its tasks that are awaited. Loop-private but for maybe.
type urgency struct {
	queue  taskQueue
	last   bool          // the last task came from queue
	maybe  atomic.Bool   // one that is at a node may have become awaited
	lookAt time.Duration // when to look for it
}

// pick takes a task, but not twice in a row: nil is for the others.
func (u *urgency) pick() *Task {
	u.last = !u.last && u.queue.head != nil
	if !u.last {
		return nil
	}
	return u.queue.pop()
}

// isAwaited reports whether others wait for what t, which is ready, holds. A task that has not
// started holds nothing; what counts is what an earlier task left locked of which it has the memory.
func (t *Task) isAwaited() bool { return t.awaited.Load() > 0 && t.worker != nil }

// addAwaited notes that t, if not nil, holds n more locks that others wait for. It is called
// inside the guard of that lock.
func (t *Task) addAwaited(n int32) {
	if t != nil {
		t.awaited.Add(n)
	}
}

// hasten is called when t, if not nil, has become awaited by a caller on l, nil for a plain
// goroutine, outside of any guard.
func (t *Task) hasten(l *Loop) {
	if t == nil || t.loop.policy == nil {
		return
	}
	if own := t.loop; own != l || t.state == stateQueued {
		own.urgent.maybe.Store(true)
	}
}

// lookTime is how long looking at one ready task may take, and a little more: lookForAwaited takes
// one part in lookShare of the time at most.
const (
	lookTime  = 10 * time.Nanosecond
	lookShare = 16
)

// lookForAwaited makes those tasks urgent that have become awaited at a node.
func (l *Loop) lookForAwaited() {
	u := &l.urgent
	if l.queued == 0 || !u.maybe.Load() || l.now < u.lookAt {
		return
	}
	u.maybe.Store(false)
	u.lookAt = l.now + max(time.Duration(l.queued)*lookTime*lookShare, recheck)
	for n := range l.nodes {
		q := &l.nodes[n]
		if q.n == 0 {
			continue
		}
		if k := q.moveAwaited(&u.queue); k > 0 {
			l.queued -= k
			l.policy.Gone(NodeID(n), k)
		}
	}
}

// moveAwaited moves the awaited tasks of q to the end of to, and returns how many there were.
func (q *nodeQueue) moveAwaited(to *taskQueue) (moved int) {
	split := func(head *Task) (first, last *Task) {
		for t := head; t != nil; {
			next := t.next
			if t.isAwaited() {
				if t == q.yielded {
					q.yielded = nil
				}
				to.push(t)
				moved++
			} else {
				if last == nil {
					first = t
				} else {
					last.next = t
				}
				last = t
			}
			t = next
		}
		if last != nil {
			last.next = nil
		}
		return first, last
	}
	q.head, q.tail = split(q.head)
	q.local, q.localEnd = split(q.local)
	q.other.head, q.other.tail = split(q.other.head)
	q.n -= moved
	return moved
}
