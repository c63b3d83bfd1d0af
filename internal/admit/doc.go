// Package admit decides what may enter the program (Capriccio, SOSP 2003, section 4.2: admission control), and how many
// tasks may come to a place inside it where work piles up.
//
// It knows numbers and opaque items only: resources by what it is told of them, entrances by their index. It has no
// loop, reads no clock, starts no goroutine and does not park: its user says what time it is, so that all of it can be
// tested by ticks.
//
//   - A Ledger is shared by all loops and knows the state of every resource.
//   - A Gate is shared by all loops and knows how many tasks may be inside an entrance.
//   - An Admission belongs to one loop and decides whether a task that has come to an entrance is admitted, deferred or
//     refused; its Lines find out whether more tasks come than can be served, its Piles how many may wait at a node.
//
// Unless it says otherwise, a type may be used by one goroutine at a time: that of the loop it belongs to.
package admit

import "time"

// MaxEntrances is how many entrances a process may have.
const MaxEntrances = 64

// A QueueState is what waits in an EntryQueue.
type QueueState struct {
	Waiting      int           // tasks, one at least
	Inside       int           // of a bottleneck: tasks there or on the way
	Starting     int           // tasks that were admitted and have not run yet, or before all that was ready then has run
	Refusing     int           // tasks that were refused and have not run yet
	Oldest       time.Duration // how long the task has waited that has waited longest
	Front        time.Duration // the same among the most important
	Full         bool          // none can be admitted now: there is no room at the node, or too many tasks are detached
	Disconnected int           // clients that have left since Next was last asked, and were refused
	Abandoned    bool          // the client of the task that has waited longest has left, and only Refuse ends its wait
}

// A Verdict is what becomes of one of the tasks that wait at an entrance.
type Verdict uint8

// The verdicts.
const (
	Admit       Verdict = iota // of the most important the one that has waited longest
	AdmitNewest                // of the most important one that came last
	Defer                      // none now: ask again soon
	Refuse                     // the one that has waited longest: turn it away
	Enough                     // none until one that was let in, or refused, has begun to run
)

func (v Verdict) String() string {
	return [...]string{"admit", "admit newest", "defer", "refuse", "enough"}[v]
}
