// Package ressched decides which node of the blocking graph runs next, and what may
// enter at all (Capriccio, SOSP 2003, section 4.2; Cohort Scheduling, USENIX 2002).
//
// It knows nodes by number, costs in processor cycles, and resources by what it is told
// of them. It has no loop, reads no clock, starts no goroutine and allocates nothing
// while tasks run: its user says what time it is and what was used, so that all
// of it can be tested by ticks.
//
//   - A Policy belongs to one loop and chooses its next node: FIFO, Cohort, Resource.
//   - A Ledger is shared by all loops and knows the state of every resource.
//   - An Admission belongs to one loop and decides whether a task that has come to an
//     entrance of the program is admitted, deferred or refused.
//   - Stride, Claim and Outlook are the parts these are made of.
//
// Unless it says otherwise, a type may be used by one goroutine at a time: that of the
// loop it belongs to. No call parks.
package sched

import "time"

// A Node is the number of a node of the blocking graph. Numbers should be small:
// tables have an element for each up to the largest. They must be below MaxNodes.
type Node uint32

// MaxNodes is how many nodes there can be.
const MaxNodes = 1 << nodeBits

// A Policy chooses which node's task runs next on one loop. The loop keeps the tasks
// themselves.
type Policy interface {
	// Ready says that one more task is ready at n.
	Ready(n Node)
	// Gone says that k tasks at n, announced by Ready, were taken by another loop.
	Gone(n Node, k int)
	// Next returns the node whose task runs next, and counts it as taken. ok is false
	// if no task is ready or all are held back; then it is worth asking again after
	// Ready or Tick.
	Next() (n Node, ok bool)
	// Defer says that the task that Next has just named does not run after all and was
	// put back: it waits at an entrance, see Admission. Its node is not named again
	// before the next Tick.
	Defer(n Node)
	// Charge says how many cycles the task last taken from n has used the loop for.
	// Shares are most exact if a step is charged before the next is chosen.
	Charge(n Node, cycles uint64)
	// Tick says what time it is, from any zero. It is to be called while no task of the
	// loop runs, at least every few milliseconds while tasks are ready or held back.
	Tick(now time.Duration)
	// Report adds what there is to say about the nodes, see Report.
	Report(r *Report)
}

// Cohorts is a Policy that runs the tasks of a node one after another: Cohort, Resource.
type Cohorts interface {
	Policy
	// NewestFirst says that the loop is to take, of the tasks of a node, those first that
	// tasks of its own have made ready, the newest first, and then those from elsewhere, the
	// oldest first. It must see to it that nobody waits for ever in that way.
	NewestFirst() bool
	// Grant, called after Next, lets the loop take a number of tasks more of the node that
	// Next has named, for a number of cycles, without calling Next, nor Ready for those that
	// become ready at that node meanwhile. 0 tasks: Next is to be called for each. There may
	// be fewer tasks; when one becomes ready at another node, no more than those that are
	// ready then may be taken.
	Grant() (tasks int, cycles uint64)
	// Granted ends the grant: took tasks of n were taken, and came became ready there.
	// Of the other methods only Ready, for other nodes, and Charge may be called before.
	Granted(n Node, taken, came int)
}

// aloneTasks is how many tasks are granted to the only node that has ready ones.
const aloneTasks = 256

// Moments are the mean and the variance of a quantity.
type Moments struct {
	Mean, Variance float64
}
