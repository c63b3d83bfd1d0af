package engine

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/capriccio-go/capriccio/internal/admit"
	"github.com/capriccio-go/capriccio/internal/recorder"
)

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

// A Rester is a Poller that can wait at a lower price if the loop says how long the wait is likely to take. The loop
// must not be locked to its thread.
type Rester interface {
	Poller
	// Rest is Poll for a wait that is expected to take long: the Go runtime has the processor meanwhile.
	Rest(timeout time.Duration) error
	// Hold is Poll for a wait that is expected to be brief, with a short timeout: a raw wait, during which the Go
	// runtime takes the processor for busy, and runs nothing else there.
	Hold(timeout time.Duration) error
	// Alone reports whether the Go runtime waits for no events on behalf of plain goroutines that a Hold could keep it
	// from noticing. The answer may be a while old. now is the time of the clock, which also measures how long a look
	// takes. It is called once for each wait.
	Alone(now time.Duration, clock Clock) bool
}

// A Policy chooses the node of the graph whose tasks run next on one loop. Its methods are
// called on that loop and must not park. The loop keeps the tasks; the policy counts them:
//
//	Tick ── once a turn
//	Count ─ a task becomes ready         ┐
//	Choose ─ the tasks that run next     ├─ as often as it takes
//	Ran ──── they have run               ┘
type Policy interface {
	// Count records that k more tasks are ready at n, or -k fewer, that have left n without Choose: another
	// loop has taken them, or they go ahead as they hold a lock that others wait for.
	Count(n recorder.NodeID, k int)
	// Choose returns a node with a ready task, how many of its tasks are to run, one after the other, and for how many
	// cycles (see internal/coro.Cycles). There may be fewer tasks. If steps is 0, no task is to run now: the loop asks
	// again after Count or Tick. Choose is called only while some task is ready.
	Choose() (n recorder.NodeID, steps int, cycles uint64)
	// Ran records that so many tasks of n have run, which are ready no longer, and have used the loop for that
	// many cycles. It is called once after each Choose that named a node, with no task if another loop has
	// taken them all, and for the step of a task that went ahead while no batch ran. While one runs, such steps are part of it.
	Ran(n recorder.NodeID, tasks int, cycles uint64, o Outcome)
	// Tick is called between tasks, once per iteration of the loop, with the time of the
	// runtime's clock; and every millisecond while Choose holds tasks back.
	Tick(now time.Duration)
	// NewestFirst says in which order the tasks of a node run. If false it is first in, first out. If true, tasks made
	// ready by tasks of the same loop run first, the newest at the head, as their data may still be in the
	// processor's cache; then tasks made ready from elsewhere. Tasks that become ready while a round of
	// tasks runs wait for the next round, so that no task is overtaken twice by the same one, see nodeQueue.
	// Tasks of NodeStart always run first in, first out. It is called once.
	NewestFirst() bool
	// AnyOrder, called after Tick, reports whether any order of tasks will do for now. The loop may then run
	// ready tasks first in, first out, until it calls AnyOrder again. Meanwhile it calls only Tick, and has
	// taken all tasks off the policy's counts.
	AnyOrder() bool
}

// An Outcome says how the tasks of a batch have run.
type Outcome uint8

const (
	// WokenForNothing: the wake-up of the last task was spurious, and so will be others at its node. Another node is to
	// be next, if there is one.
	WokenForNothing Outcome = 1 << iota
	// GaveWay: a task has yielded and is ready at the same node again. Once the cohort is over another node is next, if
	// there is one.
	GaveWay
)

// stages are the names of the stages (package ressched) that tasks of a runtime have reached.
type stages struct {
	named sync.Map    // by name
	any   atomic.Bool // there is one
}

// NoteStage records that a task has come to the stage of that name.
func (rt *Runtime) NoteStage(name string) {
	if !rt.HasStage(name) {
		rt.stages.named.Store(name, nil)
		rt.stages.any.Store(true)
	}
}

// HasStage reports whether a task of rt has come to the stage of that name.
func (rt *Runtime) HasStage(name string) bool {
	_, known := rt.stages.named.Load(name)
	return known
}

// An Admission decides, on one loop, what is admitted at the entrances of the program, see
// Entrance, and how many tasks may come to a watched node. Its methods are called on that loop and must not park. now is
// the time of the runtime's clock.
type Admission interface {
	admit.Decider
	// Left records that a task that was admitted at the entrance has left again.
	Left(now time.Duration, entrance int)
	// Limit takes the state of a watched node, every 10 ms. It returns how many tasks may wait there or be on the way,
	// 0 if any number, below 0 if none. For tasks beyond that, Next is called with index admit.MaxEntrances+bottleneck.
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

// A Reason is recorder.Reason. The names are here for packages that import no recorder.
type Reason = recorder.Reason

// The reasons for which a task waits.
const (
	ReasonNone         = recorder.ReasonNone
	ReasonStart        = recorder.ReasonStart
	ReasonYield        = recorder.ReasonYield
	ReasonSleep        = recorder.ReasonSleep
	ReasonMutex        = recorder.ReasonMutex
	ReasonRWMutexRead  = recorder.ReasonRWMutexRead
	ReasonRWMutexWrite = recorder.ReasonRWMutexWrite
	ReasonCond         = recorder.ReasonCond
	ReasonWaitGroup    = recorder.ReasonWaitGroup
	ReasonSemaphore    = recorder.ReasonSemaphore
	ReasonOnce         = recorder.ReasonOnce
	ReasonChanSend     = recorder.ReasonChanSend
	ReasonChanRecv     = recorder.ReasonChanRecv
	ReasonSelect       = recorder.ReasonSelect
	ReasonJoin         = recorder.ReasonJoin
	ReasonContext      = recorder.ReasonContext
	ReasonOffload      = recorder.ReasonOffload
	ReasonLoop         = recorder.ReasonLoop
	ReasonRead         = recorder.ReasonRead
	ReasonWrite        = recorder.ReasonWrite
	ReasonAccept       = recorder.ReasonAccept
	ReasonConnect      = recorder.ReasonConnect
	ReasonDisk         = recorder.ReasonDisk
	ReasonEntrance     = recorder.ReasonEntrance
	ReasonDescriptor   = recorder.ReasonDescriptor
	ReasonClose        = recorder.ReasonClose
	ReasonNative       = recorder.ReasonNative
	ReasonMark         = recorder.ReasonMark
)

// A WaitDescriber is something that tasks wait on and that can say more about the
// wait: which task owns the lock, how full the channel is. It is called on the loop of a
// task that waits on it, and must not park.
type WaitDescriber interface {
	DescribeWait() string
}
