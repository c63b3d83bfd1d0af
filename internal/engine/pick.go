package engine

import (
	"fmt"

	"github.com/capriccio-go/capriccio/internal/coro"
	"github.com/capriccio-go/capriccio/internal/recorder"
)

// handOver chooses what runs after t, which is parked or queued; nil means t itself.
// What it does itself is the common case, the next task of a grant; pick and prepare do any.
func (l *Loop) handOver(t *Task) *coro.Party {
	if l.fuel == 0 || l.overrun.Load() != 0 {
		return l.handOverSlow(t)
	}
	q := l.granted
	next := q.head
	if next == nil {
		if next = q.begin(); next == nil {
			return l.handOverSlow(t)
		}
	}
	if next.worker == nil {
		return l.handOverSlow(t)
	}
	l.fuel--
	t1 := next.next
	q.head = t1
	if t1 == nil {
		q.tail = nil
	} else if t2 := t1.next; l.taskCount > coldTasks && t2 != nil && t1.worker != nil && t2.worker != nil {
		lookAhead(t2, t1)
	}
	next.next = nil
	q.n--
	l.switches++
	next.state = stateRunning
	if next == t {
		return nil
	}
	l.cur = next
	l.curG = next.worker.g
	return &next.worker.Party
}

// pickStack is what pick and the policy may take of the stack, in bytes, with what the Go runtime keeps free.
// Where there are many tasks, one with less left has the loop's own goroutine pick: its stack would grow otherwise,
// and be of twice the size from then on.
const pickStack = 1400

func (l *Loop) handOverSlow(t *Task) *coro.Party {
	if l.hub {
		return l.prepare(nil)
	}
	if l.taskCount > coldTasks && coro.Headroom() < pickStack {
		if l.overrun.Load() != 0 {
			l.reportOverrun()
		}
		l.switches++
		l.toPick = true
		l.cur = nil
		l.curG = l.g
		return &l.party
	}
	next := l.pick()
	if next == t {
		if l.overrun.Load() != 0 {
			l.reportOverrun()
		}
		l.switches++
		t.state = stateRunning
		return nil
	}
	return l.prepare(next)
}

// pick takes the next task out of the run queue. It returns nil if there is none or
// if it is the turn of the loop's own goroutine.
func (l *Loop) pick() *Task {
	l.burn()
	if l.passOver {
		l.passOver = false
		l.endGrant()
		l.policy.PassOver(l.chargeNode)
	}
	g := &l.grant
	if g.open && l.budget&budgetCheck == 0 {
		l.checkTime()
	}
	if l.budget <= 0 {
		l.endGrant()
		return nil
	}
	l.budget--
	granted := g.left > 0
	if granted {
		if t := l.pickGranted(); t != nil {
			return t
		}
	}
	l.endGrant()
	if l.gaveWay {
		l.gaveWay = false
		l.policy.GaveWay(l.chargeNode)
	}
	if l.endStep(); int64(l.chargeFrom-l.turnStart) > l.stats.turnLimit && l.budget < l.full-1 { // not before the first step
		l.budget = 0
		return nil
	}
	var t *Task
	if !granted {
		t = l.ahead.turn()
	}
	if t == nil {
		t = l.pickByPolicy()
	}
	if t == nil {
		t = l.ahead.pop()
	}
	if t != nil {
		l.charging = true
		l.chargeNode = t.rec.Node()
	}
	return t
}

// pickGranted takes the next task of the grant, or one that goes ahead: its step is charged to the
// node of the grant, which is not worth ending for that.
func (l *Loop) pickGranted() *Task {
	if t := l.ahead.turn(); t != nil {
		return t
	}
	t := l.takeAt(l.grant.node)
	if t != nil {
		l.queued--
		l.grant.left--
		l.refuel()
	}
	return t
}

// takeAt takes the next task at n, nil if there is none.
func (l *Loop) takeAt(n recorder.NodeID) *Task {
	if int(n) >= len(l.nodes) {
		return nil
	}
	q := &l.nodes[n]
	if n == recorder.NodeStart && l.starts.precedes(&q.taskQueue) {
		if t := l.starts.pop(); t != nil {
			return t
		}
	}
	t := q.take()
	if l.taskCount > coldTasks { // as handOver does
		if t1 := q.head; t1 != nil && t1.worker != nil && t1.next != nil && t1.next.worker != nil {
			lookAhead(t1.next, t1)
		}
	}
	return t
}

// checkTime ends the grant if its time is over, and the turn if that is.
func (l *Loop) checkTime() {
	now := coro.Cycles()
	if now >= l.grant.until {
		l.grant.size -= l.grant.left
		l.grant.left = 0
	}
	if int64(now-l.turnStart) > l.stats.turnLimit {
		l.budget = 0
	}
}

// askGrant is called when the policy has just named n.
func (l *Loop) askGrant(n recorder.NodeID) {
	if n == recorder.NodeStart && !l.single || l.hub {
		return
	}
	if tasks, cycles := l.policy.Grant(); tasks > 0 && cycles > 0 {
		until := l.chargeFrom + cycles
		if until < cycles {
			until = ^uint64(0)
		}
		l.grant = grant{wanted: l.grant.wanted, open: true, node: n, size: tasks, left: tasks, was: l.nodes[n].n, until: until}
		l.refuel()
	}
}

// endGrant tells the policy what has become of the grant.
func (l *Loop) endGrant() {
	if g := &l.grant; g.open {
		taken := g.size - g.left
		g.open, g.left = false, 0
		l.policy.Granted(g.node, taken, l.nodes[g.node].n+taken-g.was)
	}
}

// endStep tells the policy what the steps that end have cost. It is called before the
// policy is asked what comes next, so that it knows.
func (l *Loop) endStep() {
	now := coro.Cycles()
	if l.charging {
		l.policy.Charge(l.chargeNode, cyclesBetween(l.chargeFrom, now))
		l.charging = false
	}
	l.chargeFrom = now
}

// cyclesBetween is to - from; 0 if that is less than 0, as the counters of two processors
// may differ a little.
func cyclesBetween(from, to uint64) uint64 {
	if to < from {
		return 0
	}
	return to - from
}

func (l *Loop) pickByPolicy() *Task {
	for l.queued > 0 && !l.withheld {
		n, chosen := l.policy.Next()
		if !chosen {
			var ok bool
			if n, ok = l.anyNode(); !ok {
				l.withheld = true
				return nil
			}
		}
		l.queued--
		if t := l.takeAt(n); t != nil {
			if chosen && l.mayGrant(n) {
				l.askGrant(n)
			}
			return t
		}
		if n != recorder.NodeStart || !l.shared {
			panic(fmt.Sprintf("task: policy chose node %d, where no task is ready; want one of those announced", n))
		}
		l.missing++ // stolen, and the message that says so has not arrived yet
	}
	return nil
}

// mayGrant reports whether a grant at n may be worth it.
func (l *Loop) mayGrant(n recorder.NodeID) bool {
	return l.single || l.grant.wanted && (l.nodes[n].n > 0 || l.queued == 0)
}

// anyNode returns a node with a ready task, for a shutdown, in which nothing is held
// back.
func (l *Loop) anyNode() (recorder.NodeID, bool) {
	if !l.cancelAll {
		return 0, false
	}
	for n := range l.nodes {
		if l.nodes[n].n > 0 {
			l.policy.Gone(recorder.NodeID(n), 1)
			return recorder.NodeID(n), true
		}
	}
	if l.starts.oldest() != 0 {
		l.policy.Gone(recorder.NodeStart, 1)
		return recorder.NodeStart, true
	}
	return 0, false
}
