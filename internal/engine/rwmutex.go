package engine

import (
	"fmt"
	"sync/atomic"
)

// An RWMutex is held by one writer or by any number of readers. As long as nobody has to wait, locking
// and unlocking is one atomic operation each; while somebody waits, all that changes does so in the guard.
type RWMutex struct {
	g       guard
	state   atomic.Int64 // readers × rwReader, rwWriting, and rwAwaited while somebody waits
	writer  *Task        // nil: none, or a plain goroutine; as Mutex.owner
	urged   urged        // guarded by g
	waiters waiterList   // guarded by g; tag is 1 for writers
}

const (
	rwWriting = 1 << iota
	rwAwaited // written in the guard only
	rwReader
)

// Lock locks rw for writing and parks until that is possible.
func (rw *RWMutex) Lock() {
	l := soleLoop.Load()
	if !l.isHere() {
		l = comeBack()
	}
	if !quickLocks || !rw.tryWrite(l) {
		rw.lockOn(l, true, ReasonRWMutexWrite)
	}
}

// RLock locks rw for reading and parks until that is possible. A task must not hold
// two read locks of one RWMutex: a writer between them would be waited for for ever.
func (rw *RWMutex) RLock() {
	if !quickLocks || !noneAway() || !rw.tryRead() {
		rw.lockOn(comeBack(), false, ReasonRWMutexRead)
	}
}

// tryWrite takes rw for the caller, on l, if it is free. With quickLocks it needs no guard, see Mutex.lockQuick.
func (rw *RWMutex) tryWrite(l *Loop) bool {
	if !rw.state.CompareAndSwap(0, rwWriting) {
		return false
	}
	if l != nil {
		rw.writer = l.cur
	}
	return true
}

// tryRead takes rw for one more reader, if there is no writer and nobody waits.
func (rw *RWMutex) tryRead() bool {
	for {
		s := rw.state.Load()
		if s&(rwWriting|rwAwaited) != 0 {
			return false
		}
		if rw.state.CompareAndSwap(s, s+rwReader) {
			return true
		}
	}
}

// lockOn locks rw in the guard, or queues the caller, on l, and parks it.
func (rw *RWMutex) lockOn(l *Loop, write bool, why Reason) {
	rw.g.enter(l)
	for s := rw.state.Load(); s&rwAwaited == 0; s = rw.state.Load() {
		if write && rw.tryWrite(l) || !write && rw.tryRead() {
			rw.g.exit(l)
			return
		}
		if s != 0 {
			rw.state.CompareAndSwap(s, s|rwAwaited)
		}
	}
	w := Self()
	w.tag = 0
	if write {
		w.tag = 1
	}
	var o *Task
	if rw.waiters.head == nil { // else it knows
		o = rw.writer
		rw.urged.set(o)
	}
	rw.waiters.push(w)
	rw.g.exit(l)
	o.hasten(l)
	w.waitFully(why, (*rwMutexPoint)(rw))
}

// TryLock locks rw for writing if that is possible at once.
func (rw *RWMutex) TryLock() bool {
	l := here()
	rw.g.enter(l)
	free := rw.tryWrite(l)
	rw.g.exit(l)
	return free
}

// TryRLock locks rw for reading if that is possible at once.
func (rw *RWMutex) TryRLock() bool { return rw.tryRead() }

// Unlock ends the writing. It panics if rw is not locked for writing.
func (rw *RWMutex) Unlock() {
	if quickLocks && rw.state.Load() == rwWriting {
		rw.writer = nil
		if rw.state.CompareAndSwap(rwWriting, 0) {
			return
		}
	}
	l := here()
	rw.g.enter(l)
	if rw.state.Load()&rwWriting == 0 {
		rw.g.exit(l)
		panic("task: Unlock of an RWMutex that is not locked for writing")
	}
	rw.writer = nil
	rw.state.Add(-rwWriting)
	rw.admit(l)
}

// RUnlock ends one reading. It panics if rw is not locked for reading.
func (rw *RWMutex) RUnlock() {
	s := rw.state.Load()
	for s&rwAwaited == 0 && s >= rwReader {
		if rw.state.CompareAndSwap(s, s-rwReader) {
			return
		}
		s = rw.state.Load()
	}
	l := here()
	rw.g.enter(l)
	if rw.state.Load() < rwReader {
		rw.g.exit(l)
		panic("task: RUnlock of an RWMutex that is not locked for reading")
	}
	rw.state.Add(-rwReader)
	rw.admit(l)
}

// admit lets in those first in the queue that fit together, and leaves the guard.
func (rw *RWMutex) admit(l *Loop) {
	var in wakeChain
	for w := rw.waiters.head; w != nil; w = rw.waiters.head {
		s := rw.state.Load()
		if s&rwWriting != 0 || w.tag != 0 && s >= rwReader {
			break
		}
		if w.tag != 0 {
			rw.writer = w.task
			rw.state.Add(rwWriting)
		} else {
			rw.state.Add(rwReader)
		}
		in.push(rw.waiters.pop())
	}
	if rw.waiters.head != nil {
		rw.urged.set(rw.writer) // nil while there are readers
	} else {
		rw.urged.set(nil)
		rw.state.And(^rwAwaited)
	}
	rw.g.exit(l)
	in.wakeFrom(l)
}

// A rwMutexPoint is an RWMutex as something to wait on.
type rwMutexPoint RWMutex

// DescribeWait reports which task holds the lock.
func (p *rwMutexPoint) DescribeWait() string {
	rw, l := (*RWMutex)(p), here()
	rw.g.enter(l)
	defer rw.g.exit(l)
	switch {
	case rw.writer != nil:
		return fmt.Sprintf("RWMutex %p held for writing by task %v", rw, rw.writer)
	case rw.state.Load()&rwWriting != 0:
		return fmt.Sprintf("RWMutex %p held for writing by a plain goroutine", rw)
	}
	return fmt.Sprintf("RWMutex %p held by %d readers", rw, rw.state.Load()/rwReader)
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
