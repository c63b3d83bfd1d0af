package engine

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/capriccio-go/capriccio/internal/admit"
	"github.com/capriccio-go/capriccio/internal/coro"
	"github.com/capriccio-go/capriccio/internal/funcname"
	"github.com/capriccio-go/capriccio/internal/recorder"
)

// ErrShutdown is the cause with which the tasks of a runtime are cancelled when it is
// shut down. errors.Is(ErrShutdown, context.Canceled) holds.
var ErrShutdown error = shutdownError{}

type shutdownError struct{}

func (shutdownError) Error() string        { return "task: the runtime is shut down" }
func (shutdownError) Is(target error) bool { return target == context.Canceled }

// ErrGoexit is what Join returns for a task that ended by runtime.Goexit.
var ErrGoexit = errors.New("task: ended by runtime.Goexit")

// taskState is where a task is in its life.
//
//	          picked               park                wake
//	queued ───────────▶ running ───────────▶ parked ───────────▶ queued
//	                       │
//	                       └─ function returned ─▶ finished
type taskState uint8

const (
	stateQueued taskState = iota // in a run queue; or new, in an inbox or at an entrance
	stateRunning
	stateParked
	stateFinished
)

var stateNames = [...]string{"ready", "running", "parked", "finished"}

// A Task is one cooperative thread of control. It is made by Go and its relatives; the zero value is of no use.
//
// Fields without a remark are loop-private: only the goroutines of the task's loop
// touch them, and only one of these runs at a time.
type Task struct {
	// The fields that a step touches, in one line of the processor's cache.

	wait      Waiter  // its one wait at a time
	worker    *worker // nil before the start and after the end
	next      *Task   // in a run queue
	state     taskState
	why       Reason
	notified  bool         // woken since it last parked; see Waiter
	cancelled bool         // its context has ended
	fixed     bool         // parked where cancellation does not wake it
	recorded  bool         // the recorder knows of the wait, not yet of its end
	recycle   bool         // made by Loop.Start: the program has no pointer to it, so its memory is used again
	startsAt  int8         // 1 + index of the entry queue that admitted it, or minus that if it was refused, until it runs; see start
	awaited   atomic.Int32 // see inherit.go
	rec       recorder.Task

	loop *Loop     // fixed once started
	on   WaitPoint // what it waits for while parked, or nil; before the start: what it is to run, see toRun
	code uintptr   // of the function that names it; fixed before the start

	allPrev, allNext *Task // in Loop.roster.tasks
	ext              atomic.Pointer[extension]
	id               uint64
}

// An extension holds what few tasks have. It is made when it is first needed: at the
// spawn, by the task, by a joiner or by the end. The fields without a remark are fixed
// before the start.
type extension struct {
	name     string
	scope    *Scope      // whose context cancels the task, or nil
	index    int32       // in scope.in; guarded by scope.mu
	priority int8        // loop-private once started
	dropped  func()      // called if the task ends without having been started, or nil
	under    *Scope      // loop-private: of the innermost Under
	locals   map[any]any // loop-private
	trail    *panicTrail // loop-private: of the last panic that has left a stack chunk

	enterBy    time.Duration // see SetEntryPatience; 0: no bound; loop-private
	work       admit.Work    // what Entrance.As has said, and to which bottlenecks it is on its way; loop-private
	entryWaits EntryWaits    // in entry queues since TakeWaits; loop-private

	detached uint32 // loop-private: how often the loop was taken from it
	firm     bool   // loop-private: its waits go on although the runtime shuts down

	mu      sync.Mutex
	done    bool       // guarded by mu
	err     error      // guarded by mu
	joiners WaiterList // guarded by mu
}

// noExtension stands for the extension of a task that has none.
var noExtension extension

// extra returns the extension of t for reading.
func (t *Task) extra() *extension {
	if e := t.ext.Load(); e != nil {
		return e
	}
	return &noExtension
}

// extend returns the extension of t, which it makes if there is none.
func (t *Task) extend() *extension {
	if e := t.ext.Load(); e != nil {
		return e
	}
	t.ext.CompareAndSwap(nil, new(extension))
	return t.ext.Load()
}

// Local returns the value that SetLocal has put down for key. It is called by t.
func (t *Task) Local(key any) (value any, ok bool) {
	value, ok = t.extra().locals[key]
	return value, ok
}

// SetLocal puts a value down that lives as long as t. It is called by t.
func (t *Task) SetLocal(key, value any) {
	e := t.extend()
	if e.locals == nil {
		e.locals = make(map[any]any)
	}
	e.locals[key] = value
}

// reset makes t a task to start anew. t has ended, and the program has no pointer to it. A
// lock that it has left locked may still count in awaited.
func (t *Task) reset() {
	t.wait = Waiter{}
	t.state, t.why, t.rec = stateQueued, ReasonNone, recorder.Task{}
	t.notified, t.cancelled, t.fixed, t.recorded, t.recycle = false, false, false, false, false
	t.startsAt = 0
	t.code = 0
	if e := t.ext.Load(); e != nil {
		*e = extension{} // kept, as the next task started in t most likely needs one too
	}
	t.id = 0
}

// Name is the name given to the task, else that of its function. It does not change
// after the start.
func (t *Task) Name() string { return nameOf(t.extra().name, t.code) }

// toRun is the function of a task that has not started. The task lets go of it then: variables that it has captured
// live for as long as it uses them, as with a goroutine.
type toRun func()

// Withdraw implements WaitPoint; it is not called.
func (toRun) Withdraw(*Waiter) bool { return false }

// toRun has t run fn.
func (t *Task) toRun(fn func()) { t.on, t.code = toRun(fn), codeOf(&fn) }

// codeOf is where the code of a function begins.
func codeOf(fn *func()) uintptr { return **(**uintptr)(unsafe.Pointer(fn)) }

// nameOf is given, or else the name of the function with that code: without the folders of its package, and
// without what the compiler puts behind that of a method value.
func nameOf(given string, code uintptr) string {
	if given != "" {
		return given
	}
	if f := runtime.FuncForPC(code); f != nil {
		return funcname.Short(strings.TrimSuffix(f.Name(), "-fm"))
	}
	return "task"
}

// taskAt names the task that runs on l for the watchdog, and where it last was, empty if that step is over:
// before that, nothing that is read here changes.
//
//go:norace
func (l *Loop) taskAt(step uint64) (name string, at recorder.NodeID) {
	t := l.cur
	if t == nil {
		return "", recorder.NodeNone
	}
	given, code, id, at := "", t.code, t.id, t.rec.Node()
	if e := *(**extension)(unsafe.Pointer(&t.ext)); e != nil {
		given = e.name
	}
	if coro.Peek(uintptr(unsafe.Pointer(&l.switches))) != step {
		return "", recorder.NodeNone
	}
	return nameOf(given, code) + " #" + strconv.FormatUint(id, 10), at
}

// String returns the name and the number of the task.
func (t *Task) String() string { return t.Name() + " #" + strconv.FormatUint(t.id, 10) }

// Node is the node of the blocking graph at which the task last waited. It may be
// called on the task's loop only.
func (t *Task) Node() recorder.NodeID { return t.rec.Node() }

// Current returns the calling task, nil on a plain goroutine. It never parks.
func Current() *Task {
	l := reattach()
	if l == nil || l.cur == nil {
		return nil
	}
	l.cur.recycle = false
	return l.cur
}

// Running returns the task that runs on l, nil if that is the loop's own goroutine, or if l is nil. Own loop only.
func (l *Loop) Running() *Task {
	if l == nil {
		return nil
	}
	return l.cur
}

// CurrentRuntime is the runtime of the caller: of its task, else Default.
func CurrentRuntime() *Runtime {
	if l := reattach(); l != nil {
		return l.rt
	}
	return Default()
}

// CurrentLoop returns the loop of the calling task, nil on a plain goroutine. In a
// function that a poller calls from Poll it is the poller's loop.
func CurrentLoop() *Loop { return reattach() }

// Context returns the context whose end cancels the calling task: the one that it, or
// the nearest of the tasks that spawned it, was given, else the runtime's own, which
// ends when the runtime shuts down. On a plain goroutine it is context.Background.
func Context() context.Context {
	l := reattach()
	if l == nil || l.cur == nil {
		return context.Background()
	}
	if s := l.cur.innerScope(); s != nil {
		return s.ctx
	}
	return l.rt.ctx
}

// innerScope is the scope that what t spawns belongs to.
func (t *Task) innerScope() *Scope {
	e := t.extra()
	if e.under != nil {
		return e.under
	}
	return e.scope
}

// endedContext returns the innermost of the contexts of t that have ended, or nil.
func (t *Task) endedContext() context.Context {
	if i := t.extra(); i != &noExtension {
		for s := i.under; s != nil; s = s.outer {
			if s.ctx.Err() != nil {
				return s.ctx
			}
			if s.shields {
				return nil
			}
		}
	}
	if s := t.extra().scope; s != nil && s.ctx.Err() != nil {
		return s.ctx
	}
	if t.loop.end.cancelAll {
		return t.loop.rt.ctx
	}
	return nil
}

// cancelError is what the waits of t return once it is cancelled.
func (t *Task) cancelError() error {
	ctx := t.endedContext()
	if ctx == nil {
		panic("task: broken invariant: " + t.String() + " is cancelled but no context of it has ended")
	}
	return ContextError(ctx)
}

// ContextError returns an error that is both the context's error and its cause.
func ContextError(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if cause == nil || errors.Is(cause, err) {
		return cause
	}
	return fmt.Errorf("%w: %w", err, cause)
}

// Err returns nil as long as the calling task is not cancelled, then the error that
// every wait that can fail returns at once. It is nil on a plain goroutine.
func Err() error {
	l := reattach()
	if l == nil || l.cur == nil || !l.cur.cancelled {
		return nil
	}
	return l.cur.cancelError()
}
