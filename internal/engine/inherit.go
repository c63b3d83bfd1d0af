package engine

import (
	"sync/atomic"
	"time"

	"github.com/capriccio-go/capriccio/internal/recorder"
)

// Priority inheritance. A policy may hold a task back because of its node, although other, more important tasks wait
// for a lock that it holds. So every task counts, in Task.awaited, the locks that it holds and others wait for: a
// Mutex, an RWMutex for writing, a Once. A lock counts from its first waiter on, whatever loop or goroutine that is on,
// until it is unlocked or the last waiter has given up, inside the guard of the lock. While the count is not 0, the
// task runs before others when it becomes ready, see runQueue, without asking the policy. That is not needed while the
// batch is open: no task is held back then.
//
// A task that is ready at a node already is not searched for when its lock gets a waiter, as that would
// take a time that grows with the number of tasks there, for each lock. The loop searches all ready
// tasks now and then, see lookForAwaited.

// A search looks for awaited tasks at the nodes, see lookForAwaited.
type search struct {
	maybe  atomic.Bool   // there may be awaited tasks
	lookAt time.Duration // loop-private: the earliest time of the next look
}

// isAwaited reports whether other tasks wait for a lock that t, which is ready, holds. A task that has not
// started holds none: its count is that of the finished task whose memory it uses, which left a lock locked.
func (t *Task) isAwaited() bool { return t.awaited.Load() > 0 && t.worker != nil }

// addAwaited notes that t, if not nil, holds n more locks that others wait for. It is called
// inside the guard of that lock.
func (t *Task) addAwaited(n int32) {
	if t != nil {
		t.awaited.Add(n)
	}
}

// An AwaitedHolder is the holder of a lock while other tasks wait for it, nil otherwise: the lock counts in awaited of that
// task. Guarded by the guard of the lock.
type AwaitedHolder struct{ task *Task }

// Set makes it t, nil for none.
func (h *AwaitedHolder) Set(t *Task) {
	if t != h.task {
		h.task.addAwaited(-1)
		h.task = t
		t.addAwaited(1)
	}
}

// Hasten is called when t, if not nil, has become awaited by a caller on l, nil for a plain
// goroutine, outside of any guard.
func (t *Task) Hasten(l *Loop) {
	if t == nil || t.loop.policy == nil {
		return
	}
	if own := t.loop; own != l || t.state == stateQueued {
		own.awaitedSearch.maybe.Store(true)
	}
}

// lookTime is how long looking at one ready task may take, and a little more: lookForAwaited takes
// one part in lookShare of the time at most.
const (
	lookTime  = 10 * time.Nanosecond
	lookShare = 16
)

// lookForAwaited moves ready tasks that hold a lock other tasks wait for to l.ahead, so that they run before the
// batch of the policy. It looks seldom enough to take one part in lookShare of the time.
func (l *Loop) lookForAwaited() {
	s := &l.awaitedSearch
	if l.atNodes == 0 || !s.maybe.Load() || l.now < s.lookAt {
		return
	}
	s.maybe.Store(false)
	s.lookAt = l.now + max(time.Duration(l.atNodes)*lookTime*lookShare, recheck)
	for n := range l.nodes {
		q := &l.nodes[n]
		if q.total() == 0 {
			continue
		}
		if k := q.moveAwaited(&l.ahead.taskQueue); k > 0 {
			l.atNodes -= k
			l.policy.Count(recorder.NodeID(n), -k)
		}
	}
}

// moveAwaited moves the awaited tasks of q to the end of to, and returns how many there were.
func (q *nodeQueue) moveAwaited(to *taskQueue) (moved int) {
	split := func(head *Task) (rest taskQueue) {
		for t := head; t != nil; {
			next := t.next
			if t.isAwaited() {
				if t == q.yielded {
					q.yielded = nil
				}
				to.push(t)
				moved++
			} else {
				rest.push(t)
			}
			t = next
		}
		return rest
	}
	round, local := split(q.head), split(q.local)
	q.head, q.tail, q.n = round.head, round.tail, round.n
	q.local, q.localEnd, q.locals = local.head, local.tail, local.n
	q.other = split(q.other.head)
	return moved
}
