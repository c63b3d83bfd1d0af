package engine

import (
	"fmt"
	"unsafe"

	"github.com/capriccio-go/capriccio/internal/chunk"
	"github.com/capriccio-go/capriccio/internal/coro"
	"github.com/capriccio-go/capriccio/internal/recorder"
)

// A worker is a goroutine of a loop that runs one task after another. All fields are
// loop-private. Its Mark has the bits below.
type worker struct {
	coro.Coro
	g    uintptr        // identity, or that of its stand-in; 0 until it first runs
	task *Task          // what it runs or is to run; nil: idle
	note *recorder.Note // of the task that runs here, if there is a recorder
}

const (
	workerGone     = 1 << iota // its goroutine is ending
	workerEnrolled             // in members
	workerChunk                // part of a chunkWorker
)

// A crew is the workers of a loop, and the Tasks for them to use again. Loop-private.
type crew struct {
	idle      []*worker                       // workers without a task, the last used at the end
	toStart   *Task                           // to be run next by the loop's own goroutine
	toPick    bool                            // the loop's own goroutine is to pick what runs next, see handOverSlow
	body      func(yield func(struct{}) bool) // the goroutine of every worker
	successor *worker                         // takes the place of one that is ended by Goexit
	workers   int                             // goroutines, idle or not
	spare     *Task                           // finished tasks to use again, linked by next
	spares    int
}

// lookAhead is coro.LookAhead for two tasks, and for the note of one that has waited.
func lookAhead(soon, next *Task) {
	w, n := soon.worker, next.worker
	coro.LookAhead(&w.Party, &n.Party, w.g, n.g)
	if soon.why.Waits() {
		coro.Prefetch(unsafe.Pointer(w.note))
	}
}

func (l *Loop) newWorker() *worker {
	w := new(worker)
	if l.crew.body == nil { // one function for all spares a closure, 16 bytes, for each
		l.crew.body = func(yield func(struct{}) bool) {
			w := l.beginWorker(yield)
			for w.runTasks(l) {
			}
			w.retire(l)
		}
	}
	if l.hub {
		w.InitPlain(l.crew.body)
	} else {
		w.Init(l.crew.body)
	}
	l.crew.workers++
	return w
}

// enroll enters w, whose goroutine is g, into members.
func (w *worker) enroll(l *Loop, g uintptr) {
	if *w.Mark()&workerEnrolled == 0 {
		*w.Mark() |= workerEnrolled
		members.enter(g, l)
	}
}

// enroll enters all goroutines of l into members. It runs on l.
func (l *Loop) enroll() {
	if l.enrolled {
		return
	}
	l.enrolled = true
	members.enter(l.g, l)
	for _, w := range l.crew.idle {
		w.enroll(l, w.g)
	}
	for t := l.roster.tasks; t != nil; t = t.allNext {
		w := t.worker
		if d, away := t.on.(*detachment); away { // w.g is its stand-in's
			w.enroll(l, d.g)
		}
		for m := w.asChunk(); m != nil; m = w.asChunk() {
			w.enroll(l, w.g)
			w = m.below
		}
		w.enroll(l, w.g)
	}
	l.chunks.Idle(func(m chunk.Member) {
		w := m.(*chunkWorker)
		w.enroll(l, w.g)
	})
}

// adopt makes w the worker of t, which has not started.
func (w *worker) adopt(l *Loop, t *Task) {
	w.task = t
	t.worker = w
	if s := t.extra().scope; s == nil {
		if t.loop != l { // it may be one that runs again
			t.loop = l
		}
	} else {
		s.setLoop(t, l)
	}
	t.allPrev = nil
	t.allNext = l.roster.tasks
	if l.roster.tasks != nil {
		l.roster.tasks.allPrev = t
	}
	l.roster.tasks = t
	l.roster.count++
}

// beginWorker is the beginning of a worker's goroutine, which finds out which it is by what is to run.
//
//go:noinline
func (l *Loop) beginWorker(yield func(struct{}) bool) *worker {
	w := l.crew.successor
	if w != nil {
		l.crew.successor = nil
	} else {
		w = l.cur.worker
	}
	w.Enter(yield)
	w.g = coro.G()
	l.curG = w.g
	if l.enrolled {
		w.enroll(l, w.g)
	}
	return w
}

// retire is called at the end of the goroutine of w.
func (w *worker) retire(l *Loop) {
	if *w.Mark()&workerEnrolled != 0 {
		members.remove(w.g)
	}
	*w.Mark() |= workerGone
	l.crew.workers--
}

// nextTask chooses what runs after a task of w has ended. A task that has not started
// w runs itself, without a switch; otherwise w goes idle until it is given one, or,
// if there are more idle workers than are worth keeping, ends. It returns false if w
// is to end.
func (w *worker) nextTask(l *Loop) bool {
	var next *Task
	if !l.hub {
		next = l.pick()
	}
	if next != nil && next.worker == nil {
		l.switches++
		w.adopt(l, next)
		next.state = stateRunning
		l.cur = next
		return true
	}
	if len(l.crew.idle) >= maxIdleWorkers && !l.end.closing {
		l.leaveTo(w, next)
		return false
	}
	l.crew.idle = append(l.crew.idle, w)
	l.switchTo(&w.Party, next)
	return w.task != nil
}

// leaveTo is switchTo for a worker that ends: next, a task that has started or nil,
// runs when its goroutine has returned.
func (l *Loop) leaveTo(w *worker, next *Task) {
	to, g := &l.party, l.g
	if next != nil {
		to, g = &next.worker.Party, next.worker.g
		next.state = stateRunning
	}
	l.switches++
	w.Leave(to, false)
	l.cur = next
	l.curG = g
}

// runTasks runs tasks until w is to end. A panic does not leave it, but ends the task; runTasks then returns
// true, and is to be called again. A Goexit goes on through it, and another worker takes the place of w.
//
// The frames from here down to the switch are small, and few, for the sake of tasks that wait: the least stack
// of a goroutine has room for 1,120 bytes of them, with those of the program. What is rare is in other functions.
func (w *worker) runTasks(l *Loop) (again bool) {
	again = true
	defer w.recoverTask()
	for w.task != nil || w.nextTask(l) {
		if l.base == 0 {
			l.base = coro.Depth()
		}
		if fn := w.beginTask(l); fn != nil {
			fn()
			w.taskReturned(l, nil)
		} else {
			w.taskReturned(l, ErrShutdown)
		}
	}
	return false
}

// beginTask is called when the task of w starts, and returns what it is to run; nil if it is not to run any more.
//
//go:noinline
func (w *worker) beginTask(l *Loop) func() {
	t := w.task
	fn := t.on.(toRun)
	t.on = nil
	if l.overrun.step.Load() != 0 {
		l.overrun.step.Store(0)
	}
	if l.rec != nil {
		note, needsStack := l.rec.Start(&t.rec)
		if w.note = note; needsStack {
			l.readHeap()
		}
	}
	t.cancelled = t.endedContext() != nil
	if !l.end.unwinding {
		return fn
	}
	if dropped := t.extra().dropped; dropped != nil {
		dropped()
	}
	return nil
}

// taskReturned is called when the function of the task of w has returned.
//
//go:noinline
func (w *worker) taskReturned(l *Loop, failure error) {
	if !coro.RunsFree(&l.curG) {
		reattach()
	}
	l.finish(w.task, failure)
	w.task = nil
}

// recoverTask is deferred by runTasks: a task that has not returned has panicked or ended itself.
func (w *worker) recoverTask() {
	t := w.task
	if t == nil {
		return
	}
	l := t.loop
	if !coro.RunsFree(&l.curG) {
		reattach()
	}
	goexit := true // of the task, or of Config.OnPanic
	defer func() {
		w.task = nil
		if goexit {
			w.retire(l)
			l.cur = nil
			l.crew.successor = l.newWorker()
			w.Leave(&l.crew.successor.Party, true)
		}
	}()
	if v := recover(); v != nil || !coro.ByGoexit() {
		l.taskPanicked(t, v)
		goexit = coro.InGoexit() // a deferred function may have panicked
		return
	}
	l.finish(t, ErrGoexit)
}

// dropLabels takes the profiler labels that a task has set (runtime/pprof,
// SetGoroutineLabels) off the calling goroutine, which is going to run others.
func (l *Loop) dropLabels() {
	if coro.Labels() != l.labels {
		coro.SetLabels(l.labels)
	}
}

// finish does the bookkeeping for the end of t.
func (l *Loop) finish(t *Task, failure error) {
	l.unlockThread()
	l.dropLabels()
	if t.startsAt != 0 {
		l.neverEntered(t)
	}
	if w := &t.extra().work; w.Heading != 0 {
		l.comesNowhere(w)
	}
	l.countTask(-1)
	if l.rec != nil {
		if l.rec.Finish(&t.rec, t.worker.note) {
			l.readHeap()
		}
		t.worker.note = nil
	}
	if l.overrun.step.Load() != 0 {
		l.reportOverrun()
	}
	if t.allPrev != nil {
		t.allPrev.allNext = t.allNext
	} else {
		l.roster.tasks = t.allNext
	}
	if t.allNext != nil {
		t.allNext.allPrev = t.allPrev
	}
	t.allPrev, t.allNext = nil, nil
	l.roster.count--
	t.state = stateFinished
	t.worker = nil
	t.on = nil
	l.cur = nil
	if s := t.extra().scope; s != nil {
		s.remove(t)
	}
	// A task that did not return may have left its Waiter where a waker will find it.
	if t.recycle && failure == nil && l.crew.spares < maxSpareTasks {
		t.reset()
		t.next = l.crew.spare
		l.crew.spare = t
		l.crew.spares++
		return
	}
	t.signalEnd(failure)
}

// closeWorkers ends the idle workers, on the loop's own goroutine; no task is left.
// A worker that returns resumes the one that waits in its slot: another idle worker, which
// returns too, or the loop.
func (l *Loop) closeWorkers() {
	for n := len(l.crew.idle); n > 0; n = len(l.crew.idle) {
		w := l.crew.idle[n-1]
		l.crew.idle = l.crew.idle[:n-1]
		if *w.Mark()&workerGone == 0 {
			coro.Switch(&l.party, &w.Party)
		}
	}
	if l.crew.workers != 0 {
		panic(fmt.Sprintf("task: broken invariant: workers after closing: got %d, want 0", l.crew.workers))
	}
}
