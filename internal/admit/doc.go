// Package admit decides what may enter the program (Capriccio, SOSP 2003, section 4.2: admission control), and how many
// tasks may come to a place inside it where work piles up.
//
// It knows numbers and opaque items only: resources by what it is told of them, entrances by their index. It has no
// loop, reads no clock, starts no goroutine and does not park: its user says what time it is, so that all of it can be
// tested by ticks.
//
//   - A Ledger is shared by all loops and knows the state of every resource.
//   - A ConcurrencyLimit is shared by all loops and knows how many tasks may be inside an entrance.
//   - An Admission belongs to one loop and decides whether a task that has come to an entrance is admitted, deferred or
//     refused; an OverloadDetector finds out whether more tasks come than can be served, a BottleneckLimit how many may wait at a
//     node.
//   - An EntryQueue holds the tasks of one loop that wait, a Backlog counts the tasks that wait at a node.
//   - A BodyBudget belongs to a runtime and has large bodies read in an order while memory is short.
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
	Starting     int           // tasks that were admitted and have not run yet; while the loop is busy, and have not finished
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
	Admit       Verdict = iota // the most important task that has waited longest
	AdmitNewest                // the most important task that came last
	Defer                      // none now: ask again soon
	Refuse                     // turn away the task that has waited longest
	Enough                     // none until a task that counts as Starting or Refusing does so no more
)

func (v Verdict) String() string {
	return [...]string{"admit", "admit newest", "defer", "refuse", "enough"}[v]
}
