package engine

// ended is the extension of tasks that had none and ended without an error before a caller joined them.
var ended = &extension{done: true}

// signalEnd marks t as ended and wakes the tasks and goroutines that join it.
func (t *Task) signalEnd(failure error) {
	if failure == nil && t.ext.CompareAndSwap(nil, ended) {
		return
	}
	e := t.extend()
	e.mu.Lock()
	e.done, e.err = true, failure
	joiners := e.joiners.TakeAll()
	e.mu.Unlock()
	joiners.WakeFrom(here())
}

// Join waits until the task has ended.
func (t *Task) Join() error {
	reattach()
	e := t.extend()
	e.mu.Lock()
	if e.done {
		defer e.mu.Unlock()
		return e.err
	}
	w := Self()
	e.joiners.Push(w)
	e.mu.Unlock()
	if err := w.Wait(ReasonJoin, (*joinPoint)(t)); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.err
}

// A joinPoint is a Task as something to wait on.
type joinPoint Task

// DescribeWait names the task.
func (p *joinPoint) DescribeWait() string { return (*Task)(p).String() }

// Withdraw implements WaitPoint.
func (p *joinPoint) Withdraw(w *Waiter) bool {
	e := (*Task)(p).extra()
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.joiners.Remove(w)
}

// HeldBy is the task itself: only its end ends the wait.
func (p *joinPoint) HeldBy() *Task { return (*Task)(p) }
