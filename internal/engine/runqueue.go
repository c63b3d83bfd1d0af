package engine

import (
	"time"

	"github.com/capriccio-go/capriccio/internal/recorder"
)

// A runQueue holds the ready tasks of a loop. The tasks of the batch run next, see there.
//
//	                 ┌─ runs ahead ───────────▶ ahead ──────────────────────┐ every second step
//	ready ───────────┼─ has run before ───────▶ nodes[its node] ──▶ batch ──┼───────────────────▶ runs
//	                 └─ may start elsewhere ──▶ starts, or stolen ──────────┘
//
// A task that has not started is in starts if another loop may take it, else at NodeStart. While the batch is open, all but
// the tasks in starts and ahead join it directly, and nodes is empty.
//
// Loop-private, but for fields that say otherwise.
type runQueue struct {
	batch         batch
	turn          turn
	pickAt        uint64      // Loop.switches when handOver calls pick
	nodes         []nodeQueue // by node; one at least
	atNodes       int         // tasks in nodes
	ahead         aheadQueue
	starts        startQueue
	withheld      bool          // Choose has named no node; until the next iteration, or a task becomes ready
	closedUntil   time.Duration // the batch is not opened before
	awaitedSearch search        // see inherit.go
	inOrder       bool          // tasks become ready in the order of an entry queue at the moment, see decided
	idleWakes     idleWakes
}

// An aheadQueue holds tasks that run before the others, but get at most every second step while others are ready.
// Loop-private.
type aheadQueue struct {
	taskQueue
	last bool // the last task came from here
}

// popAlternate takes a task, if the last step was not one of its tasks.
func (q *aheadQueue) popAlternate() *Task {
	q.last = !q.last && q.head != nil
	if !q.last {
		return nil
	}
	return q.pop()
}

// setPolicy makes the policy of l; with nil there is none, and tasks run first in, first out.
func (l *Loop) setPolicy(make func(*Loop) Policy) {
	l.nodes = append(l.nodes, nodeQueue{})
	l.batch.open = true
	if make != nil {
		l.policy = make(l)
		l.batch.open = false
		l.newest = l.policy.NewestFirst()
	}
}

// roundTurns is how many turns a round, of all that is ready when it begins, takes at most (2.4 ms) for any order to do: no
// task waits longer because of the others.
const roundTurns = 12

// nodesFor is how long tasks remain at their nodes once they are there: going to and fro takes a time
// that grows with their number.
const nodesFor = 20 * time.Millisecond

// shortRound reports whether a round is so short that the order of tasks makes no difference. Then the policy is better not
// asked: it charges a node for all the time of a step, also if the thread was off the
// processor meanwhile, and then passes it over for as long: tasks that accept did nothing for 10 ms.
func (l *Loop) shortRound() bool {
	return int64(l.backlog())*l.stats.stepCost <= roundTurns*l.stats.turnLimit
}

// chooseOrder is called when a turn begins. The batch is open while rounds are short and the policy says that any order
// will do, and when the runtime shuts down, so that a policy holds no task back then.
func (l *Loop) chooseOrder() {
	if l.policy == nil {
		return
	}
	open := l.end.cancelAll ||
		l.shortRound() && !(l.batch.open && l.idleWakes.many) && !l.rt.stages.any.Load() && l.policy.AnyOrder()
	switch {
	case open == l.batch.open:
	case !open:
		l.closeBatch()
		l.closedUntil = l.now + nodesFor
	case l.end.cancelAll || l.now >= l.closedUntil:
		l.openBatch()
	}
}

// TellPolicy tells the policy of the ready tasks, if it has not been told (see Policy.AnyOrder). It is called on
// the loop's own goroutine, by a function given to Post.
func (l *Loop) TellPolicy() {
	if l.policy == nil {
		return
	}
	if l.batch.open {
		l.closeBatch()
	}
	l.tellStarts()
}

// openBatch moves all tasks from their nodes into the batch, and has the policy forget them. The tasks of one node stay
// together: tasks that were made one after the other mostly lie so in memory, too.
func (l *Loop) openBatch() {
	taken := l.nodes[recorder.NodeStart].taken()
	for n := range l.nodes {
		for q := &l.nodes[n]; q.total() > 0; {
			round := q.takeRound()
			l.policy.Count(recorder.NodeID(n), -round.n)
			l.batch.append(round)
		}
	}
	if l.starts.told > 0 {
		l.policy.Count(recorder.NodeStart, -l.starts.told)
	}
	l.atNodes, l.starts.told = 0, 0
	l.batch.pushed = taken + int64(l.batch.n) // what precedes tasks of starts still does
	l.batch.open = true
}

// closeBatch undoes openBatch.
func (l *Loop) closeBatch() {
	all := l.batch.taskQueue
	l.batch = batch{}
	l.nodes[recorder.NodeStart].pushed = all.pushed // so that the tasks of starts precede
	for t := all.pop(); t != nil; t = all.pop() {
		l.enqueue(t)
	}
}

// queueOf returns the queue of node n, and makes it if it is missing.
func (l *Loop) queueOf(n recorder.NodeID) *nodeQueue {
	for int(n) >= len(l.nodes) {
		l.nodes = append(l.nodes, nodeQueue{})
	}
	return &l.nodes[n]
}

// enqueue puts t, which is ready, into the run queue.
func (l *Loop) enqueue(t *Task) {
	if l.batch.open {
		l.batch.push(t)
		return
	}
	if t.isAwaited() {
		l.goAhead(t)
		return
	}
	n := t.rec.Node()
	q := l.queueOf(n)
	switch {
	case !l.newest || n == recorder.NodeStart:
		q.push(t)
	case l.curG != l.g && !l.inOrder:
		q.pushLocal(t, t == l.cur)
	default:
		q.pushOther(t)
	}
	l.atNodes++
	l.withheld = false
	l.policy.Count(n, 1)
}

// goAhead puts t, which is ready, into the queue of tasks that run before the others. Without a policy these are tasks
// served by a disk, which are in the middle of a request. Behind all others such a task would wait, each time that the
// disk has served it, as long as a new request waits for its first step. With 1,000 requests that is far longer than
// the disk takes. With a policy, they are tasks that hold a lock that others wait for. With and without a policy,
// reattached tasks run before the others: they are in the middle of a request, too.
func (l *Loop) goAhead(t *Task) {
	l.ahead.push(t)
	l.pickNext()
}

// enqueueStart puts t, which has not started, into the start queue.
func (l *Loop) enqueueStart(t *Task) {
	beside := &l.batch.taskQueue
	if !l.batch.open {
		beside = &l.nodes[recorder.NodeStart].taskQueue
		l.withheld = false
	}
	n := l.starts.push(t, beside)
	if l.batch.open {
		l.pickNext()
	}
	if l.shared && n > 1 {
		l.rt.wakeIdle(l)
	}
}

// tellStarts tells the policy how many tasks have not started. Other loops may have taken some since the last time.
func (l *Loop) tellStarts() {
	if n := l.starts.len(); n != l.starts.told {
		l.policy.Count(recorder.NodeStart, n-l.starts.told)
		l.starts.told = n
	}
}

// backlog is how many tasks are ready, without the tasks that run ahead of the order of the policy.
func (l *Loop) backlog() int { return l.batch.n + l.batch.rest + l.atNodes + l.starts.len() }

// idleWakes counts spurious wake-ups: tasks that a Cond has woken and that waited again at once. Loop-private.
type idleWakes struct {
	returned uint64 // Loop.switches when a task returned from a Cond; 0: the task has done something since
	count    int    // spurious wake-ups in this iteration
	many     bool   // whether there were at least minIdleWakes in the last iteration
}

// minIdleWakes is the number of spurious wake-ups in an iteration from which on they count as many.
const minIdleWakes = 8

// turnEnds is called with the number of steps of a turn. In the order in which tasks became ready many spurious
// wake-ups never end: one step makes many tasks ready, of which again only the first finds something to do.
func (w *idleWakes) turnEnds(steps int) {
	w.many = w.count >= minIdleWakes && w.count*8 > steps
	w.count = 0
}

// CondWaits is called by a task that is about to wait for a Cond whose Mutex it holds. If it has come back from a Cond
// in this step, and has neither unlocked that Mutex since nor woken another task, the wake-up was spurious: another
// task has been faster. The tasks that were woken beside it will most likely find no more. They are at the same node,
// so another node is to run next: one with tasks that wait for progress here, say.
func (l *Loop) CondWaits() {
	if w := &l.idleWakes; w.returned == l.switches {
		w.count++
		if !l.batch.open {
			l.batch.outcome |= WokenForNothing
			l.pickNext()
		}
	}
}

// CondReturns is called by a task that has come back from a Cond, with its Mutex, see CondWaits.
func (l *Loop) CondReturns() { l.idleWakes.returned = l.switches }

// Acted is called by a task that has locked a Mutex, see CondWaits.
func (l *Loop) Acted() { l.idleWakes.returned = 0 }
