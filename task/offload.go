package task

import (
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"unsafe"

	"github.com/capriccio-go/capriccio/internal/coro"
)

// An offloader runs functions on ordinary goroutines, at most limit at a time.
type offloader struct {
	limit   int // fixed
	mu      sync.Mutex
	running int           // guarded by mu
	queue   []*offloadJob // guarded by mu; as long as the tasks that wait
}

type offloadJob struct {
	o        *offloader
	fn       func()
	w        *Waiter
	labels   unsafe.Pointer // of the profiler, that fn is to have
	queued   bool           // guarded by o.mu: fn has not begun
	panicked *PanicError    // written before the wake
}

// Offload runs fn on an ordinary goroutine while the calling task waits, so that fn may
// block natively: a system call, a Go channel, cgo, a library that does its own I/O.
// It parks, and does not end early when the task is cancelled or the runtime shut down,
// because fn may be using the caller's variables and buffers; only what has not begun when
// the runtime is shut down is never run. If Config.OffloadLimit functions are running already, fn
// waits for its turn. A panic of fn panics in the caller, with a *PanicError. fn is not
// part of the task: Current is nil in it. On a plain goroutine Offload just calls fn.
func Offload(fn func()) {
	l := comeBack()
	if l == nil {
		fn()
		return
	}
	t := l.current()
	if l.lockSeen { // before fn has begun, which can't be taken back
		t.refuseThreadLock(nil)
	}
	j := &offloadJob{o: &l.rt.offload, fn: fn, w: &t.wait, labels: coro.Labels()}
	l.rt.offload.submit(j)
	t.park(ReasonOffload, j, false)
	if j.panicked != nil {
		panic(j.panicked)
	}
}

func (o *offloader) submit(j *offloadJob) {
	o.mu.Lock()
	if o.running >= o.limit {
		j.queued = true
		o.queue = append(o.queue, j)
		o.mu.Unlock()
		return
	}
	o.running++
	o.mu.Unlock()
	go o.work(j)
}

// work runs j, then whatever waits.
func (o *offloader) work(j *offloadJob) {
	defer func() {
		if j != nil { // runtime.Goexit in the function: this goroutine is lost
			go o.work(o.next())
		}
	}()
	for ; j != nil; j = o.next() {
		j.run()
	}
}

// next takes the job that has waited longest, nil if there is none.
func (o *offloader) next() *offloadJob {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.queue) == 0 {
		o.queue = nil
		o.running--
		return nil
	}
	j := o.queue[0]
	j.queued = false
	o.queue[0] = nil
	o.queue = o.queue[1:]
	return j
}

func (j *offloadJob) run() {
	returned := false
	defer func() {
		if !returned {
			v := recover()
			if v == nil && coro.ByGoexit() {
				v = ErrGoexit
			}
			j.panicked = &PanicError{Task: fmt.Sprintf("%v (offloaded)", j.w.task), Value: v, Stack: debug.Stack()}
		}
		j.w.Wake()
	}()
	coro.SetLabels(j.labels) // the goroutine may have had another task's
	j.fn()
	returned = true
}

// withdraw is for the end of the runtime: a job that has not begun never will. One that
// runs is waited for: the deferred functions of the task may give away what it writes to.
func (j *offloadJob) withdraw(*Waiter) bool {
	j.o.mu.Lock()
	defer j.o.mu.Unlock()
	if !j.queued {
		return false
	}
	j.o.queue = slices.DeleteFunc(j.o.queue, func(q *offloadJob) bool { return q == j })
	return true
}

// started is how many functions run.
func (o *offloader) started() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.running
}
