package task

import (
	"github.com/capriccio-go/capriccio/internal/coro"
)

// A worker is a goroutine of a loop that runs one task after another. All fields are
// loop-private.
type worker struct {
	coro.Coro
	g    uintptr // identity; 0 until it first runs
	loop *Loop
	task *Task   // what it runs or is to run; nil: idle
	next *worker // in Loop.idle
	gone bool    // its goroutine is ending
}

// idleWorker returns a worker that can take a task: the one that was used last, so
// that its stack is warm, or a new one.
func (l *Loop) idleWorker() *worker {
	if w := l.idle; w != nil {
		l.idle = w.next
		w.next = nil
		l.idleCount--
		return w
	}
	return l.newWorker()
}

func (l *Loop) newWorker() *worker {
	w := &worker{loop: l}
	w.Init(w.run)
	l.workers++
	return w
}

// adopt makes w the worker of t, which has not started.
func (w *worker) adopt(t *Task) {
	l := w.loop
	w.task = t
	t.worker = w
	if t.scope == nil {
		t.loop = l
	} else {
		t.scope.setLoop(t, l)
	}
	t.allPrev = nil
	t.allNext = l.tasks
	if l.tasks != nil {
		l.tasks.allPrev = t
	}
	l.tasks = t
	l.taskCount++
}

// run is the goroutine of w.
func (w *worker) run() {
	l := w.loop
	w.g = coro.G()
	l.curG = w.g
	members.enter(w.g, l)
	if l.base == 0 {
		l.base = coro.Depth()
	}
	goexit := true
	defer func() {
		members.remove(w.g)
		w.gone = true
		l.workers--
		if goexit {
			l.cur = nil
			w.Leave(&l.newWorker().Party, true)
		}
	}()
	for w.task != nil || w.nextTask() {
		w.runTask(w.task)
		w.task = nil
	}
	goexit = false
}

// nextTask chooses what runs after a task of w has ended. A task that has not started
// w runs itself, without a switch; otherwise w goes idle until it is given one, or,
// if there are more idle workers than are worth keeping, ends. It returns false if w
// is to end.
func (w *worker) nextTask() bool {
	l := w.loop
	next := l.pick()
	if next != nil && next.worker == nil {
		l.switches++
		w.adopt(next)
		next.state = stateRunning
		l.cur = next
		return true
	}
	if l.idleCount >= maxIdleWorkers && !l.closing {
		l.leaveTo(w, next)
		return false
	}
	w.next = l.idle
	l.idle = w
	l.idleCount++
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

// runTask runs t to its end. A panic does not leave it; a Goexit goes on from here
// through run, which lets another worker take the place of w.
func (w *worker) runTask(t *Task) {
	l := w.loop
	returned := false
	defer func() {
		var failure error
		if !returned {
			if v := recover(); v != nil {
				failure = l.rt.taskPanicked(t, v)
			} else {
				failure = ErrGoexit
			}
		}
		l.finish(t, failure)
	}()
	if l.overrun.Load() != 0 {
		l.overrun.Store(0)
	}
	if l.observer != nil {
		l.observer.Resumed(t)
	}
	t.cancelled = t.endedContext() != nil
	if !l.unwinding {
		t.fn()
	}
	returned = true
}

// finish does the bookkeeping for the end of t.
func (l *Loop) finish(t *Task, failure error) {
	if l.threadLocked() {
		l.unlockThread()
	}
	if l.observer != nil {
		l.observer.Finished(t)
	}
	if l.overrun.Load() != 0 {
		l.reportOverrun()
	}
	if t.allPrev != nil {
		t.allPrev.allNext = t.allNext
	} else {
		l.tasks = t.allNext
	}
	if t.allNext != nil {
		t.allNext.allPrev = t.allPrev
	}
	t.allPrev, t.allNext = nil, nil
	l.taskCount--
	t.state = stateFinished
	t.worker = nil
	l.cur = nil
	if t.scope != nil {
		t.scope.remove(t)
	}
	if t.recycle && !t.escaped && l.spares < maxSpareTasks {
		*t = Task{}
		t.next = l.spare
		l.spare = t
		l.spares++
		return
	}
	t.signalEnd(failure)
}

// closeWorkers ends the idle workers, on the loop's own goroutine; no task is left.
// A worker that returns resumes whoever waits in its slot: another idle worker, which
// returns too, or the loop.
func (l *Loop) closeWorkers() {
	for l.idle != nil {
		w := l.idle
		l.idle = w.next
		l.idleCount--
		if !w.gone {
			coro.Switch(&l.party, &w.Party)
		}
	}
	if l.workers != 0 {
		panic(badCount("workers after closing", l.workers, 0))
	}
}
