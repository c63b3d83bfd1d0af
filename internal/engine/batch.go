package engine

import (
	"fmt"

	"github.com/capriccio-go/capriccio/internal/coro"
	"github.com/capriccio-go/capriccio/internal/recorder"
)

// A batch holds the tasks that run next, one after the other. It is open or closed.
//
// An open batch is a queue: every task that becomes ready joins its end. It serves a loop without a policy, and any other
// for as long as any order will do (see chooseOrder). The policy hears nothing.
//
// A closed batch holds tasks of one node, which the policy has chosen, with a number of steps and a time. Tasks that become
// ready wait at their nodes meanwhile. When the steps or the time are used up, a task was woken for nothing, or the turn is
// over, the tasks that are left go back to the head of their node, the policy hears how many have run and what they have
// cost, and chooses again:
//
//	           Choose: node, steps, time
//	at nodes ─────────────────────────────▶ batch ──▶ handOver takes the next one
//	    ▲                                     │
//	    └──────────── what is left ───────────┴─────▶ Ran: steps, cycles
//
// Tasks that go ahead take every second step, whatever the batch is; see aheadQueue. The loop looks at the time every few
// steps only (turn.check): handOver compares two numbers, and leaves everything else to pick.
//
// Loop-private.
type batch struct {
	taskQueue // n counts the tasks that may run; rest more follow in the list
	rest      int
	open      bool

	// Of a closed batch.
	running bool // Policy.Ran is to be called when it ends
	node    recorder.NodeID
	size    int    // n at first
	from    uint64 // cycles when it began
	until   uint64 // cycles when its time is over
	outcome Outcome
}

// A turn is what the loop does between two looks at its poller, inbox and timers. Loop-private.
type turn struct {
	full  int    // steps that should take turnTime, at most maxBudget
	first uint64 // Loop.switches when it began
	end   uint64 // and when it ends
	check uint64 // and when the loop looks at the time again
	from  uint64 // cycles when it began
}

// timeChecks is how often the loop looks at the time during a turn: reading the cycle counter costs as much as a short step.
const timeChecks = 16

// begin begins a turn.
func (t *turn) begin(full int, switches uint64) {
	*t = turn{full: full, first: switches, end: switches + uint64(full), from: coro.Cycles()}
	t.checkLater(switches)
}

func (t *turn) checkLater(switches uint64) {
	t.check = min(switches+uint64(max(t.full/timeChecks, 1)), t.end)
}

// handOver chooses the task that runs after t, which is parked or queued; nil means t itself. It takes the next task of the
// batch, the common case; all else goes through handOverSlow, where pick chooses and prepare makes the switch ready.
func (l *Loop) handOver(t *Task) *coro.Party {
	b := &l.batch
	if b.n == 0 || l.switches >= l.pickAt || l.overrun.step.Load() != 0 {
		return l.handOverSlow(t)
	}
	next := b.head
	if next.worker == nil {
		return l.handOverSlow(t)
	}
	t1 := next.next
	b.head = t1
	if t1 == nil {
		b.tail = nil
	} else if t2 := t1.next; l.roster.count > coldTasks && t2 != nil && t1.worker != nil && t2.worker != nil {
		lookAhead(t2, t1)
	}
	next.next = nil
	b.n--
	l.switches++
	next.state = stateRunning
	if next == t {
		return nil
	}
	l.cur = next
	l.curG = next.worker.g
	return &next.worker.Party
}

// pickStack is how much stack pick and the policy may take, in bytes, with the part that the Go runtime keeps free.
// Where there are many tasks, one with less left has the loop's own goroutine pick: its stack would grow otherwise,
// and be of twice the size from then on.
const pickStack = 1400

// handOverSlow is handOver where the policy has to choose, the next task has no worker yet, or a step took too long. It
// switches to the loop's own goroutine if t has too little stack for that.
func (l *Loop) handOverSlow(t *Task) *coro.Party {
	if l.hub {
		return l.prepare(nil)
	}
	if l.roster.count > coldTasks && coro.Headroom() < pickStack {
		if l.overrun.step.Load() != 0 {
			l.reportOverrun()
		}
		l.switches++
		l.crew.toPick = true
		l.cur = nil
		l.curG = l.g
		return &l.party
	}
	next := l.pick()
	if next == t {
		if l.overrun.step.Load() != 0 {
			l.reportOverrun()
		}
		l.switches++
		t.state = stateRunning
		return nil
	}
	return l.prepare(next)
}

// pickNext makes handOver call pick for the next step.
func (l *Loop) pickNext() { l.pickAt = 0 }

// pick takes the next task. It returns nil if the turn is over, or if no task is to run.
func (l *Loop) pick() *Task {
	if l.switches >= l.turn.check && l.checkTime() {
		return nil
	}
	t := l.ahead.popAlternate()
	if t == nil {
		if t = l.nextOfBatch(); t == nil {
			if t = l.ahead.pop(); t == nil {
				return nil
			}
		}
	}
	if b := &l.batch; !b.open && !b.running { // t goes ahead while no batch runs: its step is charged to its node
		b.begin(t.rec.Node(), 0, ^uint64(0))
	}
	l.pickAt = l.turn.check
	if l.hub || l.ahead.head != nil || l.batch.open && l.starts.oldest() != 0 {
		l.pickNext()
	}
	return t
}

// checkTime ends the batch if its time is over. It reports whether the turn is over.
func (l *Loop) checkTime() bool {
	t := &l.turn
	now := coro.Cycles()
	if l.switches >= t.end || l.switches > t.first && int64(now-t.from) > l.stats.turnLimit {
		t.end, t.check = l.switches, l.switches
		return true
	}
	if b := &l.batch; b.running && now >= b.until {
		l.endBatch()
	}
	t.checkLater(l.switches)
	return false
}

// nextOfBatch takes the next task of the batch, or of the next batch; nil if no task is to run.
func (l *Loop) nextOfBatch() *Task {
	b := &l.batch
	switch {
	case b.open:
		if l.starts.precedes(&b.taskQueue) {
			if t := l.starts.pop(); t != nil {
				return t
			}
		}
	case b.n == 0 || b.outcome&WokenForNothing != 0:
		l.endBatch()
		if !l.chooseBatch() {
			return nil
		}
	}
	t := b.pop()
	if l.roster.count > coldTasks { // as handOver does
		if t1 := b.head; t1 != nil && t1.worker != nil && t1.next != nil && t1.next.worker != nil {
			lookAhead(t1.next, t1)
		}
	}
	return t
}

// begin begins a closed batch at n of the tasks that b holds.
func (b *batch) begin(n recorder.NodeID, size int, cycles uint64) {
	b.running, b.node, b.size, b.outcome = true, n, size, 0
	b.from = coro.Cycles()
	if b.until = b.from + cycles; b.until < cycles {
		b.until = ^uint64(0)
	}
}

// chooseBatch has the policy choose a batch. It reports false if no task is to run now.
func (l *Loop) chooseBatch() bool {
	for !l.withheld {
		l.tellStarts()
		if l.atNodes == 0 && l.starts.told == 0 {
			return false
		}
		n, steps, cycles := l.policy.Choose()
		if steps <= 0 {
			l.withheld = true
			return false
		}
		if l.gather(n, steps) {
			l.batch.begin(n, l.batch.n, cycles)
			return true
		}
		if n != recorder.NodeStart || !l.shared { // else another loop has just stolen the last task there
			panic(fmt.Sprintf("task: policy chose node %d, where no task is ready; want one of those announced", n))
		}
		l.policy.Ran(n, 0, 0, 0)
	}
	return false
}

// gather moves tasks of n into the batch, which is empty; steps of them may run. It reports false if there is none.
func (l *Loop) gather(n recorder.NodeID, steps int) bool {
	if int(n) >= len(l.nodes) {
		return false
	}
	b, q := &l.batch, &l.nodes[n]
	if n == recorder.NodeStart && l.starts.precedes(&q.taskQueue) {
		if t := l.starts.pop(); t != nil {
			l.starts.told--
			b.push(t)
			return true
		}
	}
	round := q.takeRound()
	l.atNodes -= round.n
	b.head, b.tail = round.head, round.tail
	b.n = min(steps, round.n)
	b.rest = round.n - b.n
	return b.n > 0
}

// endBatch puts the tasks of a closed batch that have not run back to their node, and tells the policy of the others.
func (l *Loop) endBatch() {
	b := &l.batch
	if !b.running {
		return
	}
	ran := b.size - b.n
	if left := b.n + b.rest; left > 0 {
		l.nodes[b.node].putBack(taskQueue{head: b.head, tail: b.tail, n: left})
		l.atNodes += left
		b.head, b.tail, b.n, b.rest = nil, nil, 0, 0
	}
	b.running = false
	l.policy.Ran(b.node, ran, cyclesBetween(b.from, coro.Cycles()), b.outcome)
}

// cyclesBetween is to - from; 0 if that is less than 0, as the counters of two processors
// may differ a little.
func cyclesBetween(from, to uint64) uint64 {
	if to < from {
		return 0
	}
	return to - from
}
