package task

import (
	"fmt"

	"github.com/capriccio-go/capriccio/internal/coro"
)

// pick takes the next task out of the run queue. It returns nil if there is none or
// if it is the turn of the loop's own goroutine.
func (l *Loop) pick() *Task {
	if l.policy != nil {
		return l.pickAtNode()
	}
	if l.budget&budgetCheck == 0 && int64(coro.Cycles()-l.turnStart) > l.stats.turnLimit {
		l.budget = 0
	}
	if l.budget <= 0 {
		return nil
	}
	l.budget--
	if l.readFirst() {
		return l.read.pop()
	}
	if l.starts.precedes(&l.ready) {
		if t := l.starts.pop(); t != nil {
			return t
		}
	}
	return l.ready.pop()
}

// readFirst says whether a task that a disk has served is next. Such a task is in the middle
// of something. Behind all others it would wait as long again for each wait for the disk as
// a new request does for its first step, which with 1,000 of them is far longer than the
// disk takes. So every second step is theirs: the others lose half of their steps at most.
func (l *Loop) readFirst() bool {
	if l.read.head == nil {
		return false
	}
	l.readLast = !l.readLast || l.ready.head == nil && l.starts.oldest() == 0
	return l.readLast
}

// A grant is a number of tasks of one node that the loop may take without asking the
// policy. It ends when they have been taken, when its time is over, and when the loop's
// own goroutine is to run. Loop-private.
type grant struct {
	wanted bool   // steps are so short that asking for each would be felt
	open   bool   // Granted is to be called
	node   NodeID // never NodeStart, whose tasks may be stolen
	left   int    // tasks that may be taken; 0 if not open
	taken  int
	came   int    // tasks that have become ready at node
	until  uint64 // cycles
}

const (
	briskBudget = 64 // a turn of at least so many steps has grants
	grantCheck  = 7  // within a grant the time is looked at when these bits of the budget are 0
)

// pickAtNode is pick with a policy.
func (l *Loop) pickAtNode() *Task {
	if l.budget <= 0 {
		l.endGrant()
		return nil
	}
	mayTake := l.grant.left > 0 && (l.budget&grantCheck != 0 || l.mayGoOn())
	l.budget--
	if g := &l.grant; mayTake {
		if t := l.nodes[g.node].take(); t != nil {
			g.left--
			g.taken++
			l.queued--
			return t
		}
	}
	if l.grant.open {
		l.endGrant()
	}
	if l.endStep(); int64(l.chargeFrom-l.turnStart) > l.stats.turnLimit {
		l.budget = 0
		return nil
	}
	t := l.urgent.pick()
	if t == nil {
		t = l.pickByPolicy()
	}
	if t == nil {
		t = l.urgent.queue.pop()
	}
	if t != nil {
		l.charging = true
		l.chargeNode = t.node
	}
	return t
}

// handOverGranted is handOver while there is a grant.
func (l *Loop) handOverGranted(t *Task) *coro.Party {
	g := &l.grant
	if l.budget&grantCheck == 0 || l.overrun.Load() != 0 {
		return l.handOverSlow(t)
	}
	q := &l.nodes[g.node]
	next := q.take()
	if next == nil {
		return l.handOverSlow(t)
	}
	l.budget--
	g.left--
	g.taken++
	l.queued--
	l.switches++
	next.state = stateRunning
	if next == t {
		return nil
	}
	if l.taskCount > coldTasks {
		if t1 := q.head; t1 != nil && t1.next != nil {
			lookAhead(t1.next.worker, t1.worker)
		}
	}
	l.cur = next
	l.curG = next.worker.g
	return &next.worker.Party
}

// mayGoOn says that neither the time of the grant nor that of the turn is over.
func (l *Loop) mayGoOn() bool {
	now := coro.Cycles()
	return now < l.grant.until && int64(now-l.turnStart) <= l.stats.turnLimit
}

// askGrant is called when the policy has just named n.
func (l *Loop) askGrant(n NodeID) {
	if n == NodeStart || l.hub {
		return
	}
	if tasks, cycles := l.cohorts.Grant(); tasks > 0 && cycles > 0 {
		until := l.chargeFrom + cycles
		if until < cycles {
			until = ^uint64(0)
		}
		l.grant = grant{wanted: true, open: true, node: n, left: tasks, until: until}
	}
}

// endGrant tells the policy what has become of the grant.
func (l *Loop) endGrant() {
	if g := &l.grant; g.open {
		g.open, g.left = false, 0
		l.cohorts.Granted(g.node, g.taken, g.came)
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
		if n == NodeStart && l.starts.precedes(&l.node(NodeStart).taskQueue) {
			if t := l.starts.pop(); t != nil {
				return t
			}
		}
		if int(n) < len(l.nodes) {
			q := &l.nodes[n]
			if t := q.take(); t != nil {
				if chosen && l.grant.wanted && l.cohorts != nil && (q.n > 0 || l.queued == 0) {
					l.askGrant(n)
				}
				return t
			}
		}
		if n != NodeStart || !l.shared {
			panic(fmt.Sprintf("task: policy chose node %d, where no task is ready; want one of those announced", n))
		}
		l.missing++ // stolen, and the message that says so has not arrived yet
	}
	return nil
}

// anyNode returns a node with a ready task, for a shutdown, in which nothing is held
// back.
func (l *Loop) anyNode() (NodeID, bool) {
	if !l.cancelAll {
		return 0, false
	}
	for n := range l.nodes {
		if l.nodes[n].n > 0 {
			l.policy.Gone(NodeID(n), 1)
			return NodeID(n), true
		}
	}
	if l.starts.oldest() != 0 {
		l.policy.Gone(NodeStart, 1)
		return NodeStart, true
	}
	return 0, false
}

// node returns the queue of node n.
func (l *Loop) node(n NodeID) *nodeQueue {
	for int(n) >= len(l.nodes) {
		l.nodes = append(l.nodes, nodeQueue{})
	}
	return &l.nodes[n]
}

// enqueueAtNode is enqueue with a policy.
func (l *Loop) enqueueAtNode(t *Task) {
	if t.isAwaited() {
		l.urgent.queue.push(t)
		l.grant.left = 0
		return
	}
	q := l.node(t.node)
	switch {
	case !l.newest || t.node == NodeStart:
		q.push(t)
	case l.curG != l.g && t.why != ReasonEntrance: // whose turn it is at an entrance is decided there
		q.pushLocal(t, t == l.cur)
	default:
		q.pushOther(t)
	}
	l.queued++
	l.withheld = false
	if g := &l.grant; g.open {
		if t.node == g.node {
			g.came++
			return
		}
		g.left = min(g.left, l.nodes[g.node].n)
	}
	l.policy.Ready(t.node)
}

// lost is called on l when another loop has taken k tasks that had not started.
func (l *Loop) lost(k int) {
	known := min(l.missing, k)
	l.missing -= known
	l.queued -= k - known
	l.policy.Gone(NodeStart, k-known)
}
