package task

import "sync"

// An endState is made for a task by whoever first needs to know of its end: a joiner,
// or the end itself if it has an error to tell.
type endState struct {
	mu      sync.Mutex
	done    bool       // guarded by mu
	err     error      // guarded by mu
	joiners waiterList // guarded by mu
}

// ended is the endState of all tasks that ended well before anyone asked.
var ended = &endState{done: true}

// signalEnd says that t has ended and wakes those who wait for that.
func (t *Task) signalEnd(failure error) {
	e := ended
	if failure != nil {
		e = &endState{done: true, err: failure}
	}
	if t.end.CompareAndSwap(nil, e) {
		return
	}
	e = t.end.Load()
	e.mu.Lock()
	e.done, e.err = true, failure
	joiners := e.joiners.takeAll()
	e.mu.Unlock()
	joiners.wakeFrom(here())
}

// Join waits until the task has ended. It returns nil if its function returned, a
// *PanicError if it panicked and the runtime's panic handler let it pass, ErrGoexit,
// ErrShutdown if it was never started; or, before the end, the error of the calling
// task's context. It parks.
func (t *Task) Join() error {
	e := t.end.Load()
	if e == nil {
		e = new(endState)
		if !t.end.CompareAndSwap(nil, e) {
			e = t.end.Load()
		}
	}
	e.mu.Lock()
	if e.done {
		defer e.mu.Unlock()
		return e.err
	}
	w := Self()
	defer w.Release()
	e.joiners.push(w)
	e.mu.Unlock()
	if err := w.Park(ReasonJoin, t); err != nil {
		e.mu.Lock()
		waiting := e.joiners.remove(w)
		e.mu.Unlock()
		if waiting {
			return err
		}
		w.Absorb()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.err
}

// DescribeWait says which task a Join waits for.
func (t *Task) DescribeWait() string { return t.String() }
