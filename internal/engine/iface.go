package engine

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/capriccio-go/capriccio/internal/admit"
)

// A NodeID names a place where tasks wait, a node of the blocking graph. Node 0 is
// where tasks start.
type NodeID uint32

// NodeStart is the node of tasks that have not started yet.
const NodeStart NodeID = 0

// NodeNone is no node.
const NodeNone NodeID = math.MaxUint32

// A Poller waits for events from outside, on behalf of one loop.
type Poller interface {
	// Poll waits for events and wakes their waiters (Waiter.Wake, Loop.Start).
	// timeout < 0 waits for ever, 0 does not wait. An interrupted wait (EINTR) is not
	// an error. Called on the loop's goroutine only.
	Poll(timeout time.Duration) error
	// Wake makes a Poll in progress, or else the next one, return at once. It may be
	// called from any goroutine.
	Wake() error
	// Active reports whether Poll could report anything but Wake. It is called on the
	// loop's goroutine once a turn, so it must cost next to nothing.
	Active() bool
	// Close releases what the poller holds. Called once, after the last Poll.
	Close() error
}

// An Interrupter is a Poller for whose events plain goroutines wait too.
type Interrupter interface {
	Poller
	// Interrupt ends what plain goroutines wait for, now and later, as the runtime ends: a task may wait natively for
	// such a goroutine. It may be called from any goroutine.
	Interrupt()
}

// A Rester is a Poller that can wait at a lower price if it is known how long that will take. The loop must not be
// locked to its thread.
type Rester interface {
	Poller
	// Rest is Poll for a wait that is expected to take long: the Go runtime has the processor meanwhile.
	Rest(timeout time.Duration) error
	// Hold is Poll for a wait that is expected to be brief, and has a timeout that is so: the Go runtime takes the
	// processor for busy, and runs nothing else there.
	Hold(timeout time.Duration) error
	// Alone reports whether the Go runtime waits for no events on behalf of plain goroutines that a Hold could keep
	// it from noticing. What it knows may be a while old. now is the clock's reading; to look takes time, which the
	// clock tells. It is called once for each wait.
	Alone(now time.Duration, clock Clock) bool
}

// An Observer is told of every wait, but for those that the loop notes itself (see Tally),
// and names the node where it happens. Its methods are called on the loop of the task,
// between two steps of the task, and must not park. One Observer belongs to one loop. See
// Task.SetSeat for where it keeps what it knows about a task.
type Observer interface {
	// Turn is called on the loop's own goroutine before it hands over to a task: unlike
	// when one task hands over to the next, time has passed since the last step.
	Turn()
	// Parked is called when t is about to wait, or to yield, for the given reason, on
	// a call path and, in At, under a label, with the given fingerprint (see
	// Loop.Label). It returns the node.
	Parked(t *Task, why Reason, fingerprint uint64) NodeID
	// Ready is called when the wait of t is over and it is put into the run queue.
	Ready(t *Task)
	// Resumed is called when t runs again, or for the first time.
	Resumed(t *Task)
	// Finished is called when the function of t has returned.
	Finished(t *Task)
	// Crossed is called on the loop of t, which waits or has not started yet, before Ready: what
	// wakes or starts it runs on another loop of the runtime, of that index, in a task that was at
	// node from last; NodeNone: on the loop's own goroutine, or it had ended. loop -1 is a plain goroutine, also
	// one of this loop's tasks that is away from it (see Config.DetachAfter).
	Crossed(t *Task, from NodeID, loop int)
	// Overran is called when a step has taken longer than Config.HoldLimit, on its loop and after Parked or
	// Finished; or, with ended false, by the watchdog while it still goes on, and from is where the task
	// last was. stack is empty where it was not taken because the last report was too recent.
	Overran(task string, from NodeID, lasted time.Duration, stack string, ended bool)
}

// A DeafObserver knows one node, and does nothing with what it is told. Others are made of it.
type DeafObserver struct{}

func (DeafObserver) Turn()                                               {}
func (DeafObserver) Parked(*Task, Reason, uint64) NodeID                 { return 1 }
func (DeafObserver) Ready(*Task)                                         {}
func (DeafObserver) Resumed(*Task)                                       {}
func (DeafObserver) Finished(*Task)                                      {}
func (DeafObserver) Crossed(*Task, NodeID, int)                          {}
func (DeafObserver) Overran(string, NodeID, time.Duration, string, bool) {}

// A Policy chooses which node of the graph runs next on one loop. Its methods are
// called on that loop and must not park. The run queue itself is kept by the loop:
// within a node first in, first out, unless NewestFirst wants another order.
type Policy interface {
	// Ready records that one more task is ready at n.
	Ready(n NodeID)
	// Gone records that k tasks at n, announced by Ready, were taken without Next: by another
	// loop, or to be run at once as they hold a lock that others wait for.
	Gone(n NodeID, k int)
	// Next returns the node of which a task runs next and counts that task as taken.
	// It is called only while some task is ready, and must name a node with one. ok is
	// false if no task is to run now: the loop then asks again after Ready or Tick.
	Next() (n NodeID, ok bool)
	// Charge records that the tasks last taken from n, one or those of a grant, have used
	// the loop for that many cycles (see internal/coro.Cycles).
	Charge(n NodeID, cycles uint64)
	// Tick is called between tasks, once a turn of the loop, with the time of the
	// runtime's clock; and every millisecond while Next holds tasks back.
	Tick(now time.Duration)
	// NewestFirst says in which order the tasks of a node are taken: those that tasks of
	// the loop have made ready first, the newest of them at the head, as what they work
	// on may still be in the processor's cache, then those made ready from elsewhere. What
	// becomes ready while some that were there are yet to run waits for the next round,
	// so that none is overtaken twice by the same task. It is asked once. NodeStart
	// remains first in, first out.
	NewestFirst() bool
	// Grant, called after Next has named a node, lets the loop take that many more tasks of
	// that node, one after the other, for that many cycles, without calling Next; 0: none. Nor is Ready called for tasks
	// that become ready at that node meanwhile. There may be fewer tasks; once one becomes
	// ready at another node, no more are taken than are ready then.
	Grant() (tasks int, cycles uint64)
	// Granted ends the grant, before anything but Ready or Charge is called again: taken
	// is how many tasks of n were taken, came how many became ready there meanwhile.
	Granted(n NodeID, taken, came int)
	// PassOver is told that a task of n, the node that was last named, has been woken for nothing, as
	// others there will most likely be: another node is to be next, if there is one.
	PassOver(n NodeID)
	// GaveWay is told, when the policy is to be asked again, that a task of n, whose step was the last, has
	// yielded and is ready there again: once the cohort is over another node is next, if there is one.
	GaveWay(n NodeID)
	// AnyOrder, called after Tick, reports whether any order of tasks will do for now. The loop may then run
	// what is ready first in, first out, until it calls AnyOrder again. It counts all tasks as
	// gone meanwhile, and calls nothing but Tick.
	AnyOrder() bool
}

// A Stage is the place of a name, see YieldAt, that has settings for a Policy (package ressched).
type Stage interface {
	// Thresholds are how many tasks may wait there, and how long one, before it is put in between; 0: as the
	// Policy has it.
	Thresholds() (waiting int, longest time.Duration)
	// Rank is the place in the order in which stages are to be visited, from 1; 0: none.
	Rank() int
}

// stages are the stages that tasks of a runtime have reached.
type stages struct {
	named sync.Map    // name to Stage: the first of that name, as all take turns as one in the eyes of a Policy
	any   atomic.Bool // there is one
}

// NoteStage has StageNamed find s, unless another of that name was there first.
func (rt *Runtime) NoteStage(name string, s Stage) {
	if _, known := rt.stages.named.Load(name); !known {
		rt.stages.named.LoadOrStore(name, s)
		rt.stages.any.Store(true)
	}
}

// StageNamed is the stage of that name that tasks of rt have come to, nil if there is none.
func (rt *Runtime) StageNamed(name string) Stage {
	s, _ := rt.stages.named.Load(name)
	stage, _ := s.(Stage)
	return stage
}

// An Admission decides, on one loop, what is admitted at the entrances of the program, see
// Entrance, and how many tasks may come to a watched node. Its methods are called on that loop and must not park. now is
// the time of the runtime's clock.
type Admission interface {
	admit.Decider
	// Left records that a task that was admitted there has left again.
	Left(now time.Duration, entrance int)
	// Limit is told, every few milliseconds, how it is at a watched node. It returns how many tasks may wait there or
	// be on the way, 0 if any number, below 0 if none. Next is called with index admit.MaxEntrances+bottleneck for
	// the others.
	Limit(now time.Duration, bottleneck int, s admit.BacklogState) int
}

// A Clock tells the time. The zero of Now is arbitrary; it never goes back.
type Clock interface {
	Now() time.Duration
}

// processStart makes the monotonic clock small enough for a Duration.
var processStart = time.Now()

type systemClock struct{}

func (systemClock) Now() time.Duration { return time.Since(processStart) }

// A Reason says what kind of thing a task waits for.
type Reason uint8

// The reasons for which a task waits.
const (
	ReasonNone Reason = iota
	ReasonStart
	ReasonYield
	ReasonSleep
	ReasonMutex
	ReasonRWMutexRead
	ReasonRWMutexWrite
	ReasonCond
	ReasonWaitGroup
	ReasonSemaphore
	ReasonOnce
	ReasonChanSend
	ReasonChanRecv
	ReasonSelect
	ReasonJoin
	ReasonContext
	ReasonOffload
	ReasonLoop // for another loop to give up a lock's bias
	ReasonRead
	ReasonWrite
	ReasonAccept
	ReasonConnect
	ReasonDisk
	ReasonEntrance
	ReasonDescriptor // for another operation of the same direction
	ReasonClose      // for the last user of what is closed
	ReasonNative     // in Go or in the system, outside of this runtime; see Config.DetachAfter
	ReasonMark       // not at all, see Mark
	reasonCount
)

var reasonNames = [reasonCount]string{
	"none", "start", "yield", "sleep", "mutex", "rwmutex read", "rwmutex write", "cond",
	"waitgroup", "semaphore", "once", "channel send", "channel receive", "select", "join",
	"context", "offload", "loop", "read", "write", "accept", "connect", "disk", "entrance",
	"descriptor", "close", "native", "mark",
}

// Waits reports whether a task that waits for r does not go on by itself.
func (r Reason) Waits() bool { return r != ReasonYield && r != ReasonMark }

func (r Reason) String() string {
	if r < reasonCount {
		return reasonNames[r]
	}
	return "unknown"
}

// external reports whether what ends the wait comes from outside of the tasks: such a wait
// is never part of a deadlock.
func (r Reason) external() bool {
	switch r {
	case ReasonSleep, ReasonContext, ReasonOffload, ReasonLoop, ReasonRead, ReasonWrite,
		ReasonAccept, ReasonConnect, ReasonDisk, ReasonEntrance, ReasonDescriptor, ReasonClose, ReasonNative, ReasonYield, ReasonStart:
		return true
	}
	return false
}

// A WaitDescriber is something that tasks wait on and that can say more about the
// wait: which task owns the lock, how full the channel is. It is called on the loop of a
// task that waits on it, and must not park.
type WaitDescriber interface {
	DescribeWait() string
}
