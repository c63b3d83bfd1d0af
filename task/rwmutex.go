package task

import (
	"fmt"
	"sync/atomic"

	"github.com/capriccio-go/capriccio/internal/engine"
)

// An RWMutex is held by one writer or by any number of readers. The zero value is
// unlocked. It must not be copied after first use. Waiters are served in the order in
// which they came, so neither readers nor writers starve: a waiting writer keeps later
// readers out, and all readers up to the next waiting writer enter together.
type RWMutex struct {
	g             engine.Guard
	state         atomic.Int64         // readers × rwReader, rwWriting, and rwAwaited while a task waits
	writer        *engine.Task         // nil: none, or a plain goroutine; as Mutex.owner
	awaitedHolder engine.AwaitedHolder // guarded by g
	waiters       engine.WaiterList    // guarded by g; tag is 1 for writers
}

const (
	rwWriting = 1 << iota
	rwAwaited // written in the guard only
	rwReader
)

// Lock locks rw for writing and parks until that is possible. A cancelled task waits like any other.
func (rw *RWMutex) Lock() {
	l := engine.OnSoleLoop()
	if l == nil {
		l = engine.CurrentLoop()
	}
	if !engine.QuickLocks || !rw.tryWrite(l) {
		rw.lockOn(l, true, engine.ReasonRWMutexWrite)
	}
}

// RLock locks rw for reading and parks until that is possible. A task must not hold
// two read locks of one RWMutex: with a writer that came between them, both would wait for
// ever. A cancelled task waits like any other.
func (rw *RWMutex) RLock() {
	if !engine.QuickLocks || !engine.NoneDetached() || !rw.tryRead() {
		rw.lockOn(engine.CurrentLoop(), false, engine.ReasonRWMutexRead)
	}
}

// tryWrite takes rw for the caller, on l, if it is free. With engine.QuickLocks it needs no guard, see Mutex.lockQuick.
func (rw *RWMutex) tryWrite(l *engine.Loop) bool {
	if !rw.state.CompareAndSwap(0, rwWriting) {
		return false
	}
	if l != nil {
		rw.writer = l.Running()
	}
	return true
}

// tryRead locks rw for one more reader, if there is no writer and no caller waits, and reports whether it did.
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
func (rw *RWMutex) lockOn(l *engine.Loop, write bool, why engine.Reason) {
	rw.g.EnterOn(l)
	for s := rw.state.Load(); s&rwAwaited == 0; s = rw.state.Load() {
		if write && rw.tryWrite(l) || !write && rw.tryRead() {
			rw.g.Exit(l)
			return
		}
		if s != 0 {
			rw.state.CompareAndSwap(s, s|rwAwaited)
		}
	}
	w := engine.SelfOn(l)
	w.Tag = 0
	if write {
		w.Tag = 1
	}
	var o *engine.Task
	if rw.waiters.Empty() { // else the writer is awaited already
		o = rw.writer
		rw.awaitedHolder.Set(o)
	}
	rw.waiters.Push(w)
	rw.g.Exit(l)
	o.Hasten(l)
	w.WaitFully(why, (*rwMutexPoint)(rw))
}

// TryLock locks rw for writing if that is possible at once, and reports whether it did. It never parks.
func (rw *RWMutex) TryLock() bool {
	l := rw.g.Enter()
	free := rw.tryWrite(l)
	rw.g.Exit(l)
	return free
}

// TryRLock locks rw for reading if that is possible at once, and reports whether it did. It never parks.
func (rw *RWMutex) TryRLock() bool { return rw.tryRead() }

// Unlock ends the writing. It panics if rw is not locked for writing. It never parks.
func (rw *RWMutex) Unlock() {
	if engine.QuickLocks && rw.state.Load() == rwWriting {
		rw.writer = nil
		if rw.state.CompareAndSwap(rwWriting, 0) {
			return
		}
	}
	l := rw.g.Enter()
	if rw.state.Load()&rwWriting == 0 {
		rw.g.Exit(l)
		panic("task: Unlock of an RWMutex that is not locked for writing")
	}
	rw.writer = nil
	rw.state.Add(-rwWriting)
	rw.admit(l)
}

// RUnlock ends one reading. It panics if rw is not locked for reading. It never parks.
func (rw *RWMutex) RUnlock() {
	s := rw.state.Load()
	for s&rwAwaited == 0 && s >= rwReader {
		if rw.state.CompareAndSwap(s, s-rwReader) {
			return
		}
		s = rw.state.Load()
	}
	l := rw.g.Enter()
	if rw.state.Load() < rwReader {
		rw.g.Exit(l)
		panic("task: RUnlock of an RWMutex that is not locked for reading")
	}
	rw.state.Add(-rwReader)
	rw.admit(l)
}

// admit hands rw to the first writer in the queue, or to all readers before the next writer, and leaves the guard.
func (rw *RWMutex) admit(l *engine.Loop) {
	var in engine.WakeChain
	for w := rw.waiters.First(); w != nil; w = rw.waiters.First() {
		s := rw.state.Load()
		if s&rwWriting != 0 || w.Tag != 0 && s >= rwReader {
			break
		}
		if w.Tag != 0 {
			rw.writer = w.Task()
			rw.state.Add(rwWriting)
		} else {
			rw.state.Add(rwReader)
		}
		in.Push(rw.waiters.Pop())
	}
	if !rw.waiters.Empty() {
		rw.awaitedHolder.Set(rw.writer) // nil while there are readers
	} else {
		rw.awaitedHolder.Set(nil)
		rw.state.And(^rwAwaited)
	}
	rw.g.Exit(l)
	in.WakeFrom(l)
}

// A rwMutexPoint is an RWMutex as something to wait on.
type rwMutexPoint RWMutex

// DescribeWait reports which task holds the lock.
func (p *rwMutexPoint) DescribeWait() string {
	rw := (*RWMutex)(p)
	l := rw.g.Enter()
	defer rw.g.Exit(l)
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
func (p *rwMutexPoint) Withdraw(w *engine.Waiter) bool {
	rw := (*RWMutex)(p)
	l := rw.g.Enter()
	if !rw.waiters.Remove(w) {
		rw.g.Exit(l)
		return false
	}
	rw.admit(l) // the callers behind w may now enter
	return true
}

// HeldBy is the task that writes, nil if no task does or the writer is not known.
func (p *rwMutexPoint) HeldBy() *engine.Task {
	rw := (*RWMutex)(p)
	l := rw.g.Enter()
	defer rw.g.Exit(l)
	return rw.writer
}
