package engine

import "fmt"

// An RWMutex is held by one writer or by any number of readers.
type RWMutex struct {
	g       guard
	readers int        // guarded by g
	writing bool       // guarded by g
	writer  *Task      // guarded by g: which task, unless it is a plain goroutine
	waiters waiterList // guarded by g; tag is 1 for writers
}

// Lock locks rw for writing and parks until that is possible.
func (rw *RWMutex) Lock() {
	l := comeBack()
	rw.g.enter(l)
	if !rw.writing && rw.readers == 0 {
		rw.writing = true
		if l != nil {
			rw.writer = l.cur
		}
		rw.g.exit(l)
		return
	}
	rw.wait(l, true, ReasonRWMutexWrite)
}

// RLock locks rw for reading and parks until that is possible. A task must not hold
// two read locks of one RWMutex: a writer between them would be waited for for ever.
func (rw *RWMutex) RLock() {
	l := comeBack()
	rw.g.enter(l)
	if !rw.writing && rw.waiters.head == nil {
		rw.readers++
		rw.g.exit(l)
		return
	}
	rw.wait(l, false, ReasonRWMutexRead)
}

// wait queues the caller, which is inside the guard, and parks it.
func (rw *RWMutex) wait(l *Loop, write bool, why Reason) {
	w := Self()
	w.tag = 0
	if write {
		w.tag = 1
	}
	o := rw.writer
	if rw.waiters.head != nil {
		o = nil // it knows
	}
	rw.waiters.push(w)
	o.addAwaited(1)
	rw.g.exit(l)
	o.hasten(l)
	w.waitFully(why, (*rwMutexPoint)(rw))
	w.Release()
}

// TryLock locks rw for writing if that is possible at once.
func (rw *RWMutex) TryLock() bool {
	l := here()
	rw.g.enter(l)
	free := !rw.writing && rw.readers == 0
	if free {
		rw.writing = true
		if l != nil {
			rw.writer = l.cur
		}
	}
	rw.g.exit(l)
	return free
}

// TryRLock locks rw for reading if that is possible at once.
func (rw *RWMutex) TryRLock() bool {
	l := here()
	rw.g.enter(l)
	free := !rw.writing && rw.waiters.head == nil
	if free {
		rw.readers++
	}
	rw.g.exit(l)
	return free
}

// Unlock ends the writing. It panics if rw is not locked for writing.
func (rw *RWMutex) Unlock() {
	l := here()
	rw.g.enter(l)
	if !rw.writing {
		rw.g.exit(l)
		panic("task: Unlock of an RWMutex that is not locked for writing")
	}
	if rw.waiters.head != nil {
		rw.writer.addAwaited(-1)
	}
	rw.writing, rw.writer = false, nil
	rw.admit(l)
}

// RUnlock ends one reading. It panics if rw is not locked for reading.
func (rw *RWMutex) RUnlock() {
	l := here()
	rw.g.enter(l)
	if rw.readers == 0 {
		rw.g.exit(l)
		panic("task: RUnlock of an RWMutex that is not locked for reading")
	}
	rw.readers--
	rw.admit(l)
}

// admit lets in those first in the queue that fit together, and leaves the guard.
func (rw *RWMutex) admit(l *Loop) {
	var in wakeChain
	for w := rw.waiters.head; w != nil && !rw.writing; w = rw.waiters.head {
		if w.tag != 0 {
			if rw.readers > 0 {
				break
			}
			rw.writing, rw.writer = true, w.task
		} else {
			rw.readers++
		}
		in.push(rw.waiters.pop())
		if rw.waiters.head != nil {
			rw.writer.addAwaited(1) // nil while readers are let in
		}
	}
	rw.g.exit(l)
	in.wakeFrom(l)
}

// A rwMutexPoint is an RWMutex as something to wait on.
type rwMutexPoint RWMutex

// DescribeWait says which task holds the lock.
func (p *rwMutexPoint) DescribeWait() string {
	rw, l := (*RWMutex)(p), here()
	rw.g.enter(l)
	defer rw.g.exit(l)
	switch {
	case rw.writer != nil:
		return fmt.Sprintf("RWMutex %p held for writing by task %v", rw, rw.writer)
	case rw.writing:
		return fmt.Sprintf("RWMutex %p held for writing by a plain goroutine", rw)
	}
	return fmt.Sprintf("RWMutex %p held by %d readers", rw, rw.readers)
}

// RLocker returns a lock whose Lock and Unlock are RLock and RUnlock of rw.
func (rw *RWMutex) RLocker() interface {
	Lock()
	Unlock()
} {
	return (*rlocker)(rw)
}

type rlocker RWMutex

func (r *rlocker) Lock()   { (*RWMutex)(r).RLock() }
func (r *rlocker) Unlock() { (*RWMutex)(r).RUnlock() }

// Withdraw implements WaitPoint.
func (p *rwMutexPoint) Withdraw(w *Waiter) bool {
	rw, l := (*RWMutex)(p), here()
	rw.g.enter(l)
	if !rw.waiters.remove(w) {
		rw.g.exit(l)
		return false
	}
	if rw.waiters.head == nil {
		rw.writer.addAwaited(-1)
	}
	rw.admit(l) // those behind may now enter
	return true
}

// holder is the task that writes, nil if that is none or can't be told.
func (p *rwMutexPoint) holder() *Task {
	rw, l := (*RWMutex)(p), here()
	rw.g.enter(l)
	defer rw.g.exit(l)
	return rw.writer
}
