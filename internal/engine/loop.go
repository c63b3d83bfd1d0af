package engine

import (
	"runtime"
	"time"
	"unsafe"

	"github.com/capriccio-go/capriccio/internal/admit"
	"github.com/capriccio-go/capriccio/internal/chunk"
	"github.com/capriccio-go/capriccio/internal/coro"
	"github.com/capriccio-go/capriccio/internal/recorder"
)

// A Loop runs tasks, one at a time, on one processor.
//
// Fields without a remark are loop-private: only the loop's own goroutine and its
// workers touch them, and only one of these goroutines runs at a time.
type Loop struct {
	plugs
	identity
	runQueue
	roster  roster
	crew    crew
	entry   entry
	timers  timers
	now     time.Duration // of the clock, when the iteration began or the last wait for events ended
	pace    pace          // of the running step
	chunks  *chunk.Pool
	links   linkPaths
	account admit.Account // of the resources that tasks take; others read it with coro.Peek
	stats   loopStats

	inbox     inbox
	idleWaits idleWaits
	watch     watch
	overrun   overruns
	away      absences
	end       ending
}

// A roster lists the tasks of a loop. Loop-private.
type roster struct {
	tasks     *Task  // that have started, linked by allNext
	count     uint64 // length of that list; others read it with coro.Peek
	unstarted uint64 // tasks that wait at entrances before they start; others read it with coro.Peek
	lastID    uint64
	refusals  uint8 // waits that failed at once, as the task was cancelled; see givesWay
}

// plugs are what a loop is made of. Fixed.
type plugs struct {
	rt        *Runtime
	index     int
	poller    Poller
	rec       *recorder.Shard // nil: the graph is off
	policy    Policy          // nil: first in, first out
	newest    bool            // see Policy.NewestFirst
	admission Admission       // nil: all tasks are admitted
	shared    bool            // there are other loops in the runtime
	hub       bool            // tasks switch to each other through the loop's own goroutine
	enrolled  bool            // its goroutines are in members; see registry
}

// An identity says which goroutine and which task run on a loop. Loop-private but for what says
// otherwise.
type identity struct {
	party  coro.Party     // the loop's own goroutine
	g      uintptr        // its identity
	labels unsafe.Pointer // its profiler labels, which those of its workers are too at first
	base   uintptr        // stack depth of a worker's frames, see coro.Fingerprint
	cur    *Task          // the running task; nil: the loop's own goroutine runs
	curG   uintptr        // identity of the goroutine that runs; read by coro.Running; 0: see detachment
	// entered is not 0 once the goroutine of curG has looked at curG; see detachment. It
	// stands after curG, for coro.RunsFree; atomic.
	entered uintptr
	// switches counts the steps begun, for the watchdog, which reads it with coro.Peek.
	switches uint64
	inside   uintptr // the guard that the running task is in, see there; others read it with coro.Peek
	lockSeen bool    // here has met a task that is locked to its thread
	label    string  // what the running task has given to YieldAt, until that is recorded
}

// Limits of one loop.
const (
	maxBudget      = 256                    // steps between two looks at poller, inbox and timers
	turnTime       = 200 * time.Microsecond // and the time they should take
	maxIdleWorkers = 4096                   // pooled goroutines
	maxSpareTasks  = 1024
	maxSteal       = 64
)

// Index is the number of the loop, from 0.
func (l *Loop) Index() int { return l.index }

// Runtime is the runtime that the loop belongs to.
func (l *Loop) Runtime() *Runtime { return l.rt }

// Poller is the poller that the loop was made with.
func (l *Loop) Poller() Poller { return l.poller }

// Tasks is the number of tasks of the loop that have started and not finished.
func (l *Loop) Tasks() int { return int(coro.Peek(uintptr(unsafe.Pointer(&l.roster.count)))) }

// Unstarted is the number of tasks that wait at entrances before they start.
func (l *Loop) Unstarted() int { return int(coro.Peek(uintptr(unsafe.Pointer(&l.roster.unstarted)))) }

// Idle is about how long the loop has waited for events in all, with nothing else to do. It
// may be called from any goroutine.
func (l *Loop) Idle() time.Duration {
	total := time.Duration(coro.Peek(uintptr(unsafe.Pointer(&l.idleWaits.idled))))
	if from := coro.Peek(uintptr(unsafe.Pointer(&l.idleWaits.idleFrom))); from != 0 {
		total += max(l.rt.Now()-time.Duration(from-1), 0)
	}
	return total
}

// Steps is the sum of Loop.Steps of all loops.
func (rt *Runtime) Steps() (n uint64) {
	for _, l := range rt.loops {
		n += l.Steps()
	}
	return n
}

// Steps is the number of steps, the stretches between two waits of a task, that the
// loop has begun, and of its own turns.
func (l *Loop) Steps() uint64 { return coro.Peek(uintptr(unsafe.Pointer(&l.switches))) }

// run is the loop's own goroutine. Each iteration takes messages from other threads, lets timers expire, admits tasks,
// polls for events (waiting if nothing is ready), and hands over to the first ready task. It ends when the tasks have
// nothing more to run or the budget is used up.
func (l *Loop) run() {
	l.g = coro.G()
	l.curG = l.g
	l.labels = coro.Labels()
	if l.enrolled {
		members.enter(l.g, l)
	}
	defer func() {
		if l.enrolled {
			members.remove(l.g)
		}
		members.removeLoop(l)
		l.rt.books.Close()
		if l.rec != nil {
			l.rec.Close()
		}
		close(l.end.stopped)
	}()
	for !l.done() {
		l.drainInbox()
		l.now = l.rt.clock.Now()
		l.timers.wheel.Advance(l.now)
		for _, q := range l.entry.queues {
			l.serve(q)
		}
		if l.entry.bottlenecks != nil {
			l.lookAtBottlenecks()
		}
		l.pollOnce()
		l.runReady()
	}
	l.closeWorkers()
	l.chunks.Close(&l.party)
	l.finishLoop()
}

// done reports whether the loop may end: it was told to and has no task left.
func (l *Loop) done() bool {
	return l.end.closing && l.roster.tasks == nil && l.backlog() == 0 && l.ahead.head == nil && !l.AnyWaitsToEnter()
}

// anyReady reports whether some task could run now.
func (l *Loop) anyReady() bool {
	return l.backlog() > 0 && !l.withheld || l.ahead.head != nil
}

// recheck is how often a policy or an admission that holds tasks back is asked again.
const recheck = time.Millisecond

// holdsBack reports whether tasks wait for the time to pass, see recheck.
func (l *Loop) holdsBack() bool {
	return l.withheld && l.backlog() > 0 || l.AnyWaitsToEnter()
}

// AnyWaitsToEnter reports whether a task waits at an entrance of l, or before a bottleneck. Own loop only.
func (l *Loop) AnyWaitsToEnter() bool {
	for _, q := range l.entry.queues {
		if q.Len() > 0 {
			return true
		}
	}
	for _, b := range l.entry.bottlenecks {
		if b.queue.Len() > 0 {
			return true
		}
	}
	return false
}

// runReady hands over to ready tasks for one budget.
func (l *Loop) runReady() {
	if l.policy != nil {
		l.policy.Tick(l.now)
		l.withheld = false
		l.lookForAwaited()
	}
	if !l.anyReady() {
		return
	}
	l.turn.begin(l.nextBudget(), l.switches)
	l.chooseOrder()
	l.crew.toStart = l.pick()
	for l.crew.toStart != nil {
		next := l.crew.toStart
		l.crew.toStart = nil
		l.runFrom(next)
		if (l.hub || l.crew.toPick) && l.crew.toStart == nil {
			l.crew.toPick = false
			l.crew.toStart = l.pick()
		}
	}
	l.endBatch()
	steps := int(l.switches - l.turn.first)
	l.stats.noteTurn(steps, cyclesBetween(l.turn.from, coro.Cycles()))
	l.idleWakes.turnEnds(steps)
}

// runFrom is switchTo for the loop's own goroutine, which makes a worker if next needs
// one.
func (l *Loop) runFrom(next *Task) {
	if l.rec != nil {
		l.rec.Turn()
	}
	if next.worker == nil && len(l.crew.idle) == 0 {
		l.crew.idle = append(l.crew.idle, l.newWorker())
	}
	l.switchTo(&l.party, next)
	for l.rec != nil && l.rec.NeedsStack() {
		l.rec.ReadHeap()
		if l.cur != nil {
			coro.Switch(&l.party, &l.cur.worker.Party)
		}
	}
	if l.away.leaving != nil {
		l.noteDetached()
	}
}

// makeReady puts t, which was parked, into the run queue.
func (l *Loop) makeReady(t *Task) {
	l.leaves(t)
	l.enqueue(t)
}

// leaves notes that the wait of t is over.
func (l *Loop) leaves(t *Task) {
	t.state = stateQueued
	if l.rec != nil {
		if !t.rec.Quiet() {
			l.rec.Wake(t.worker.note)
		}
		if l.entry.bottlenecks != nil {
			l.waitEnds(t)
		}
	}
}

// prepare makes everything ready for a switch to next, nil for the loop's own
// goroutine, and returns what to switch to.
func (l *Loop) prepare(next *Task) *coro.Party {
	if l.overrun.step.Load() != 0 {
		l.reportOverrun()
	}
	l.switches++
	if next == nil {
		l.cur = nil
		l.curG = l.g
		return &l.party
	}
	w := next.worker
	if w == nil {
		n := len(l.crew.idle)
		if n == 0 { // making one here could make the caller's stack grow
			l.crew.toStart = next
			l.cur = nil
			l.curG = l.g
			return &l.party
		}
		w = l.crew.idle[n-1]
		l.crew.idle = l.crew.idle[:n-1]
		w.adopt(l, next)
	}
	next.state = stateRunning
	l.cur = next
	l.curG = w.g
	return &w.Party
}

// switchTo runs next, nil for the loop's own goroutine, and returns when from, the
// caller, is resumed.
func (l *Loop) switchTo(from *coro.Party, next *Task) {
	coro.Switch(from, l.prepare(next))
}

// maxThreadLocks is how many nested calls of runtime.LockOSThread are undone.
const maxThreadLocks = 1024

// unlockThread undoes runtime.LockOSThread by the running task: switching away from it
// would end the process. locked reports whether there was anything to undo, and free
// whether it has been: in a function that C has called, the Go runtime itself locks the
// thread, and UnlockOSThread does nothing.
func (l *Loop) unlockThread() (locked, free bool) {
	l.lockSeen = false
	for range maxThreadLocks {
		if coro.Running(&l.curG)&coro.ThreadLocked == 0 {
			return locked, true
		}
		runtime.UnlockOSThread()
		locked = true
	}
	l.lockSeen = true
	return true, false
}

// CheckWait panics if a wait would, because the calling task is tied to its thread. It is for
// callers that can't take back at once what they publish before they wait. It may be
// called from any goroutine, and never parks.
func CheckWait() {
	if l := here(); l != nil && l.lockSeen && l.cur != nil {
		l.cur.refuseTied()
	}
}

// refuseTied panics if t has locked its goroutine to the thread, which that ends, or runs a
// function that C has called.
func (t *Task) refuseTied() {
	if locked, free := t.loop.unlockThread(); locked {
		panic(refusal(free))
	}
}

// refuseWait is refuseTied for t that is about to wait at a point. If what it waits for has been
// given to it already, or will be in any case, t goes on, without its own lock on the thread.
func (t *Task) refuseWait(at WaitPoint) {
	l := t.loop
	locked, free := l.unlockThread()
	if !locked {
		return
	}
	if !t.withdraw(at) {
		l.rt.log.Error(refusal(free), "task", t.String())
		for !free && !t.notified && !l.inbox.takeWake(t) { // it can't park to let the loop deliver that
			runtime.Gosched()
		}
		return
	}
	panic(refusal(free))
}

func refusal(free bool) string {
	if free {
		return threadLockRefusal
	}
	return callbackRefusal
}

const callbackRefusal = "task: a task must not wait in a function that C has called (cgo), which ties the whole loop to the thread; call C in task.Offload"

const threadLockRefusal = "task: runtime.LockOSThread was called inside a task, which would tie the whole loop to it; use task.Offload, and lock the thread in there"
