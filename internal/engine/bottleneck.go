package engine

import (
	"math"
	"slices"
	"time"

	"github.com/capriccio-go/capriccio/internal/admit"
	"github.com/capriccio-go/capriccio/internal/recorder"
)

// A bottleneck is a watched node of the blocking graph, or one wait point at such a node, such as one lock of many.
// Tasks for which it has no room wait before it as at an entrance. Loop-private.
type bottleneck struct {
	node    recorder.NodeID
	point   WaitPoint // the one at the node that counts; nil: all of them
	backlog *admit.Backlog
	queue   entryQueue
}

const (
	lookEvery = 10 * time.Millisecond // looks at bottlenecks
	// lookedAt is how many tasks are looked at to see what most of them have in common: there may be a million.
	lookedAt = 1 << 14
	// addEvery is how often a loop looks whether a node with a bottleneck has another wait point, or kind of work, to
	// be watched.
	addEvery = 100 * time.Millisecond
)

// Watched reports whether As has an effect, as the loop of the caller has bottlenecks. It never parks.
func Watched() bool {
	l := here()
	return l != nil && l.entry.bottlenecks != nil
}

// As says what kind of work the calling task does, which e has admitted: a number, like a hash of the route of a
// request. detail is another, of a part of the kind; 0: kind. It parks while a bottleneck that the task is likely to
// come to has no room, and returns an error as Enter does if the task is refused or cancelled.
func (e *Entrance) As(kind, detail uint32) error {
	l := reattach()
	if l == nil || l.cur == nil || l.entry.bottlenecks == nil {
		return nil
	}
	x := l.cur.extend()
	if detail == 0 {
		detail = kind
	}
	x.work.Kind, x.work.Detail = kind, detail
	return l.enterBottlenecks(&x.work)
}

// enterBottlenecks lets the running task wait until there is room at the nodes that it is likely to come to.
func (l *Loop) enterBottlenecks(w *admit.Work) error {
	for _, b := range l.entry.bottlenecks {
		if !b.backlog.Limits(w) {
			b.backlog.Admitted(w)
			continue
		}
		if b.queue.Len() == 0 && b.backlog.HasRoom() {
			s := admit.QueueState{Waiting: 1, Inside: b.backlog.Inside()}
			if l.admission.Next(l.now, b.queue.Index, &s) != admit.Refuse {
				b.backlog.Heads(w)
				continue
			}
		}
		if err := l.waitToEnter(&b.queue, 0); err != nil {
			return err
		}
	}
	return nil
}

// comesNowhere is called when the task of w will come to no bottleneck any more.
func (l *Loop) comesNowhere(w *admit.Work) {
	for _, b := range l.entry.bottlenecks {
		b.backlog.TurnedAway(w)
	}
	w.Heading = 0
}

// waitBegins is called when t begins to wait.
func (l *Loop) waitBegins(t *Task) {
	for _, b := range l.entry.bottlenecks {
		if b.at(t) {
			*t.worker.Stamp() = admit.Stamp(l.now)
			b.backlog.Arrived(&t.extra().work)
		}
	}
}

// waitEnds is called when the wait of t is over.
func (l *Loop) waitEnds(t *Task) {
	for _, b := range l.entry.bottlenecks {
		if b.at(t) {
			b.backlog.Departed(l.now, &t.extra().work, *t.worker.Stamp())
		}
	}
}

// at reports whether t, which waits, waits at b.
func (b *bottleneck) at(t *Task) bool {
	return b.node == t.rec.Node() && (b.point == nil || b.point == t.on)
}

// counts reports whether t, which waits, counts at b.
func (b *bottleneck) counts(t *Task) bool { return b.at(t) && b.backlog.Counts(&t.extra().work) }

// isCounted reports whether t, which waits, counts at a bottleneck.
func (l *Loop) isCounted(t *Task) bool {
	return slices.ContainsFunc(l.entry.bottlenecks, func(b *bottleneck) bool { return b.counts(t) })
}

// Turn returns the Waiter of q to serve next, nil if q is empty: the Waiter that has waited longest; or the newest, see
// admit.Backlog.NewestFirst. The caller runs on l, nil for a plain goroutine.
func (q *WaiterList) Turn(l *Loop) *Waiter {
	if l == nil || l.entry.bottlenecks == nil || q.tail == nil || q.tail.task == nil || q.tail.task.loop != l {
		return q.head
	}
	for _, b := range l.entry.bottlenecks {
		if b.backlog.NewestFirst() && b.counts(q.tail.task) {
			return q.tail
		}
	}
	return q.head
}

// Watch has l watch node n: as tasks pile up there, it may be what limits the program. If most of them wait at the same
// wait point, such as one lock of many, only that is watched. It is to be called on l, by Post. It does nothing if n is
// watched already, if there are admit.MaxBacklogs, and without an Admission.
func (l *Loop) Watch(n recorder.NodeID) {
	if l.admission == nil || len(l.entry.bottlenecks) == admit.MaxBacklogs {
		return
	}
	again := false
	for _, b := range l.entry.bottlenecks {
		if b.node == n {
			if again = true; b.point == nil && b.backlog.All() {
				return
			}
		}
	}
	if again {
		if l.now-l.entry.addedAt < addEvery {
			return
		}
		l.entry.addedAt = l.now
	}
	b := &bottleneck{node: n}
	b.point = l.commonPoint(b)
	b.backlog = admit.NewBacklog(len(l.entry.bottlenecks), l.now, b.point == nil)
	b.queue.Index = admit.MaxEntrances + len(l.entry.bottlenecks)
	if b.point == nil && again {
		all := 0
		l.eachAt(b, lookedAt, func(t *Task) {
			if !l.isCounted(t) {
				all++
				b.backlog.Add(&t.extra().work)
			}
		})
		if 2*b.backlog.Known() <= all || !b.backlog.OnlyMost() {
			return
		}
	}
	l.eachAt(b, math.MaxInt, func(t *Task) {
		if !slices.ContainsFunc(l.entry.bottlenecks, func(o *bottleneck) bool { return o.at(t) }) {
			*t.worker.Stamp() = admit.Stamp(l.now)
		}
		b.backlog.Add(&t.extra().work)
	})
	l.entry.bottlenecks = append(l.entry.bottlenecks, b)
}

// eachAt calls do for each task that waits at b, among the given number of tasks that were made last.
func (l *Loop) eachAt(b *bottleneck, left int, do func(*Task)) {
	for t := l.roster.tasks; t != nil && left > 0; t, left = t.allNext, left-1 {
		if t.state == stateParked && b.at(t) {
			do(t)
		}
	}
}

// commonPoint is the wait point of more than half of the tasks at the node of b that are not counted yet; nil if there
// is none.
func (l *Loop) commonPoint(b *bottleneck) (most WaitPoint) {
	votes, ayes, all := 0, 0, 0 // Boyer and Moore's majority vote, then a count
	each := func(do func(WaitPoint)) {
		l.eachAt(b, lookedAt, func(t *Task) {
			if !l.isCounted(t) {
				do(t.on)
			}
		})
	}
	each(func(p WaitPoint) {
		if votes == 0 {
			most = p
		}
		if votes--; p == most {
			votes += 2
		}
	})
	each(func(p WaitPoint) {
		if all++; p == most {
			ayes++
		}
	})
	if 2*ayes > all {
		return most
	}
	return nil
}

// lookAtBottlenecks asks how many tasks may wait at each bottleneck, and admits the tasks for which there is room.
func (l *Loop) lookAtBottlenecks() {
	if l.now-l.entry.lookedAt >= lookEvery {
		l.entry.lookedAt = l.now
		for i, b := range l.entry.bottlenecks {
			out := b.queue.Len()
			b.backlog.SetLimit(l.now, l.admission.Limit(l.now, i, b.backlog.Look(out)), out)
		}
		n := len(l.entry.bottlenecks) - 1
		if last := l.entry.bottlenecks[n]; last.backlog.Quiet(l.now) && last.queue.UnderWay() == 0 {
			l.entry.bottlenecks = l.entry.bottlenecks[:n] // those before it keep their numbers
			if n == 0 {
				l.entry.bottlenecks = nil
			}
		}
	}
	for _, b := range l.entry.bottlenecks {
		l.serve(&b.queue)
	}
}
