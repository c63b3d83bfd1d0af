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

// A Queue is what waits at an entrance on one loop.
type Queue struct {
	Waiting  int           // tasks, one at least
	Inside   int           // tasks where they would go, or on the way, if it is the door of a pile
	Starting int           // tasks that were let in and have not run yet, or before all that was ready then has run
	Refusing int           // tasks that were refused and have not run yet
	Oldest   time.Duration // how long the one has waited that has waited longest
	Front    time.Duration // the same among the most important
	Full     bool          // none can be let in now: there is no room at the node, or too many tasks are detached
	Gone     int           // clients that have left the line since Next was last asked about it
	Left     bool          // the client of the one that has waited longest has gone, and only Refuse gets rid of it
}

// A PileQueue is what waits at a watched node.
type PileQueue struct {
	Afresh   bool          // what was said before was of something else
	Waiting  int           // tasks there, without those that waited when the limit was set
	Departed int           // tasks that have gone on since it was last said, without those that waited when the limit was set
	Late     int           // of these
	Waited   time.Duration // by these in all
	Quickest time.Duration // by one of these
	Out      int           // tasks that are kept out
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
