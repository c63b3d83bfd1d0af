package engine

import (
	"math"
	"time"

	"github.com/capriccio-go/capriccio/internal/recorder"
)

// A runQueue holds the ready tasks of a loop: a queue for each node, of which the policy names the
// one whose task runs next, one for tasks that go ahead of these, and one for those that have not
// started, which are at NodeStart but may be taken by other loops.
//
//	                 ┌─ goes ahead ───────────▶ ahead ─────────────┐ every second step
//	ready ───────────┼─ has run before ───────▶ nodes[its node] ───┼─────────────────▶ runs
//	                 └─ has not started ──────▶ starts, or stolen ─┘ as the policy says
//
// The policy names a node and may grant more tasks of it. As long as the grant lasts nothing is
// asked, and handOver takes the next of them in a few instructions. It looks at fuel only: that many
// steps it may take before pick is to look at all that can end a grant. Whatever does so sets
// fuel to 0 (burn).
//
// Loop-private but for what says otherwise.
type runQueue struct {
	policy     Policy        // chosen, or fifo while that does not mind
	single     bool          // policy is fifo, for which all tasks are at one node
	nodesUntil time.Duration // when they may be so again, see chooseOrder
	nodes      []nodeQueue   // by node; one at least
	ahead      aheadQueue
	starts     startQueue
	queued     int    // tasks in nodes and starts; see backlog
	withheld   bool   // the policy has none of these run now
	missing    int    // tasks taken by other loops that the policy still counted when it chose them
	awaited    search // see inherit.go
	inOrder    bool   // what becomes ready now does so in the order of an entry queue, see decided
	budget     int    // steps left until the loop's own goroutine is to run; fuel is part of it
	full       int    // what budget was when the turn began
	grant      grant
	fuel       int        // steps that handOver may take at granted
	fueled     int        // what fuel was at first
	granted    *nodeQueue // of grant.node; valid while fuel is not 0
	idleReturn uint64     // switches when a task came back from a Cond, see CondWaits; 0: it has done something since
	forNothing int        // tasks that were woken for nothing in this turn
	inVain     bool       // many were in the last
	passOver   bool       // the last step was one of a task woken for nothing, and the policy is yet to be told
	gaveWay    bool       // a task of chargeNode has yielded there, and the policy is yet to be told

	charging   bool            // steps are running that Policy.Charge is yet to be told of
	chargeNode recorder.NodeID // at which they were taken
	chargeFrom uint64          // cycles when they began
	turnStart  uint64          // cycles when the turn's first task began
}

// A grant is a number of tasks of one node that the loop may take without asking the
// policy. It ends when they have been taken, when its time is over, and when the loop's
// own goroutine is to run. Loop-private.
type grant struct {
	wanted bool            // steps are so short that asking for each would be felt
	open   bool            // Granted is to be called
	node   recorder.NodeID // never NodeStart, whose tasks may be stolen, but for fifo
	size   int             // tasks in all
	left   int             // tasks that may be taken; 0 if not open. fuel is part of it
	was    int             // tasks at node when it began
	until  uint64          // cycles
}

// An aheadQueue holds tasks that go ahead of the others, but have one step of two at most. Loop-private.
type aheadQueue struct {
	taskQueue
	last bool // the last task came from here
}

// turn takes a task if it is the turn of one.
func (q *aheadQueue) turn() *Task {
	q.last = !q.last && q.head != nil
	if !q.last {
		return nil
	}
	return q.pop()
}

// fifo is the policy of a loop that has no other: first in, first out, whatever the node. All tasks
// count as one node's, and are granted without end.
type fifo struct{}

func (fifo) Ready(recorder.NodeID)             {}
func (fifo) Gone(recorder.NodeID, int)         {}
func (fifo) Next() (recorder.NodeID, bool)     { return recorder.NodeStart, true }
func (fifo) Charge(recorder.NodeID, uint64)    {}
func (fifo) Tick(time.Duration)                {}
func (fifo) NewestFirst() bool                 { return false }
func (fifo) Grant() (int, uint64)              { return math.MaxInt, math.MaxUint64 }
func (fifo) Granted(recorder.NodeID, int, int) {}
func (fifo) PassOver(recorder.NodeID)          {}
func (fifo) GaveWay(recorder.NodeID)           {}
func (fifo) AnyOrder() bool                    { return true }

// setPolicy makes the policy of l; with nil it is fifo.
func (l *Loop) setPolicy(make func(*Loop) Policy) {
	l.nodes = append(l.nodes, nodeQueue{})
	l.chosen = fifo{}
	if make != nil {
		l.chosen = make(l)
	}
	l.isFIFO = l.chosen == Policy(fifo{})
	l.policy, l.single, l.newest = l.chosen, l.isFIFO, l.chosen.NewestFirst()
}

// A round is what is ready when it begins. While any order will do, it takes at most roundTurns turns: no
// task waits longer because of the others. If steps are so tiny that a turn has maxBudget of them,
// asking the policy takes several times what they do, and its round is far longer than one of
// tinyRoundTurns without it.
const (
	roundTurns     = 5
	tinyRoundTurns = 25
)

// nodesFor is how long tasks remain at their nodes once they are there: going to and fro takes a time
// that grows with their number.
const nodesFor = 20 * time.Millisecond

// anyBudget is how many steps a turn has at least for any order to do: with longer ones asking the policy is not
// felt, and whose turn it is matters.
const anyBudget = 4

// shortRound reports whether steps are so short that asking the policy for each node would be felt, and
// a round is short. Besides, a policy charges a node for all the time of a step, also if the thread was off the
// processor meanwhile, and then passes it over for as long: tasks that accept did nothing for 10 ms.
func (l *Loop) shortRound() bool {
	turns := int64(roundTurns)
	if l.full == maxBudget {
		turns = tinyRoundTurns
		if !l.single { // not to and fro
			turns /= 2
		}
	}
	return l.full >= anyBudget && int64(l.queued)*l.stats.stepCost <= turns*l.stats.turnLimit
}

// CondWaits is called by a task that is about to wait for a Cond whose Mutex it holds. If it has come back
// from one in this step, and has neither unlocked that Mutex since nor woken anybody, it was woken for
// nothing: another has been faster. Those that were woken beside it will most likely find no more. They are at
// its node, so that of another is to have its turn: of tasks that wait for the former's progress, say.
func (l *Loop) CondWaits() {
	if l.idleReturn == l.switches {
		l.forNothing++
		if !l.single {
			l.burn()
			l.passOver = true
		}
	}
}

// CondReturns is called by a task that has come back from a Cond, with its Mutex, see CondWaits.
func (l *Loop) CondReturns() { l.idleReturn = l.switches }

// Acted is called by a task that has locked a Mutex, see CondWaits.
func (l *Loop) Acted() { l.idleReturn = 0 }

// noteForNothing is called when a turn ends, with the number of its steps. If many tasks were woken for nothing,
// they are so for ever in the order in which they became ready: what one does in a step makes many ready, of
// which again only the first finds something to do.
func (l *Loop) noteForNothing(steps int) {
	l.inVain = l.forNothing >= minForNothing && l.forNothing*8 > steps
	l.forNothing = 0
}

const minForNothing = 8

// chooseOrder is called when a turn begins. As long as the policy does not mind, and a round is short, tasks
// run first in, first out.
func (l *Loop) chooseOrder() {
	if l.isFIFO {
		return
	}
	anyOrder := l.shortRound() && !(l.single && l.inVain) && !l.rt.stages.any.Load() && l.chosen.AnyOrder()
	switch {
	case anyOrder == l.single:
	case !anyOrder:
		l.toNodes()
		l.nodesUntil = l.now + nodesFor
	case l.now >= l.nodesUntil:
		l.toOneNode()
	}
}

// TellPolicy tells the policy of what is ready, if it has not been told (see Policy.AnyOrder). It is called on
// the loop's own goroutine, by a function given to Post.
func (l *Loop) TellPolicy() {
	if l.single && !l.isFIFO {
		l.toNodes()
	}
}

// toOneNode has the policy forget all tasks, which then are at one node, one node's behind another's: for long, tasks
// that were made one after the other are so in memory, too.
func (l *Loop) toOneNode() {
	all := &l.nodes[recorder.NodeStart]
	starts := l.queued
	for n := range l.nodes {
		q := &l.nodes[n]
		if q.n == 0 {
			continue
		}
		l.policy.Gone(recorder.NodeID(n), q.n)
		starts -= q.n
		if q != all {
			for q.n > 0 {
				all.push(q.take())
			}
		}
	}
	l.policy.Gone(recorder.NodeStart, starts)
	l.single, l.policy = true, fifo{}
}

// toNodes undoes toOneNode.
func (l *Loop) toNodes() {
	l.single, l.policy = false, l.chosen
	at := &l.nodes[recorder.NodeStart].taskQueue
	all := *at
	*at = taskQueue{pushed: all.pushed}
	starts := l.queued - all.n
	l.queued = 0
	for t := all.pop(); t != nil; t = all.pop() {
		l.enqueue(t)
	}
	for range starts {
		l.announce(recorder.NodeStart)
	}
}

// node returns the queue of node n.
func (l *Loop) node(n recorder.NodeID) *nodeQueue {
	if int(n) >= len(l.nodes) {
		l.burn()
		for int(n) >= len(l.nodes) {
			l.nodes = append(l.nodes, nodeQueue{})
		}
	}
	return &l.nodes[n]
}

// enqueue puts t, which is ready, into the run queue.
func (l *Loop) enqueue(t *Task) {
	if l.single {
		l.nodes[0].push(t)
		l.queued++
		return
	}
	if t.isAwaited() {
		l.goAhead(t)
		return
	}
	n := t.rec.Node()
	q := l.node(n)
	switch {
	case !l.newest || n == recorder.NodeStart:
		q.push(t)
	case l.curG != l.g && !l.inOrder:
		q.pushLocal(t, t == l.cur)
	default:
		q.pushOther(t)
	}
	l.announce(n)
}

// goAhead lets t, which is ready, go ahead of the others. Those are: with fifo, tasks served by a
// disk. Such a task is in the middle of something. Behind all others it would wait as long again
// for each wait for the disk as a new request does for its first step, which with 1,000 of them is
// far longer than the disk takes. With other policies, tasks that hold a lock that others wait for.
func (l *Loop) goAhead(t *Task) {
	l.ahead.push(t)
	l.burn()
}

// announce tells the policy that one more task is ready at n.
func (l *Loop) announce(n recorder.NodeID) {
	l.queued++
	l.withheld = false
	if g := &l.grant; g.open {
		if n == g.node {
			return
		}
		l.burn()
		over := max(g.left-l.nodes[g.node].n, 0) // only those that are there now
		g.left -= over
		g.size -= over
		l.refuel()
	}
	l.policy.Ready(n)
}

// enqueueStart puts t, which has not started, into the start queue.
func (l *Loop) enqueueStart(t *Task) {
	n := l.starts.push(t, &l.nodes[recorder.NodeStart].taskQueue)
	if l.single {
		l.queued++
		l.burn()
	} else {
		l.announce(recorder.NodeStart)
	}
	if l.shared && n > 1 {
		l.rt.wakeIdle(l)
	}
}

// lost is called on l when another loop has taken k tasks that had not started.
func (l *Loop) lost(k int) {
	known := min(l.missing, k)
	l.missing -= known
	l.queued -= k - known
	l.policy.Gone(recorder.NodeStart, k-known)
}

// backlog is how many tasks are ready, but for those that go ahead.
func (l *Loop) backlog() int { return l.queued - (l.fueled - l.fuel) }

// refuel lets handOver take tasks of the grant, until the time is to be looked at.
func (l *Loop) refuel() {
	if l.hub || l.ahead.head != nil || l.single && l.starts.oldest() != 0 {
		return
	}
	l.fuel = min(l.grant.left, l.budget&budgetCheck)
	l.fueled = l.fuel
	l.granted = &l.nodes[l.grant.node]
}

// burn accounts for the tasks that handOver has taken, and makes it ask pick.
func (l *Loop) burn() {
	if l.fueled == 0 {
		return
	}
	taken := l.fueled - l.fuel
	l.fuel, l.fueled = 0, 0
	l.budget -= taken
	l.grant.left -= taken
	l.queued -= taken
}
