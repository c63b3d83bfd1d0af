package task

import (
	"context"
	"fmt"
	"time"

	"github.com/capriccio-go/capriccio/internal/engine"
)

// A Task is one cooperative thread of control (Capriccio, section 2). It is made by Go or Spawn;
// the zero value is of no use.
type Task engine.Task

// String returns the name and the number of the task. The name is the one given to the task, else that of its function;
// no other task of the runtime has had the number.
func (t *Task) String() string { return (*engine.Task)(t).String() }

// Join waits until the task has ended. It returns nil if its function returned, a
// *PanicError if it panicked and the runtime's panic handler let it pass, ErrGoexit,
// ErrShutdown if it was never started; or, before the end, the error of the calling
// task's context. It parks.
func (t *Task) Join() error { return (*engine.Task)(t).Join() }

// Current returns the calling task, nil on a plain goroutine. It never parks.
func Current() *Task { return (*Task)(engine.Current()) }

// Go runs fn as a new task. Called by a task, the new one starts on the same loop and
// belongs to the same context; called by a plain goroutine, it starts on a loop of the
// Default runtime. It never parks. It panics if there has been no runtime; if the runtime
// has been shut down, the task never runs and Join returns ErrShutdown.
func Go(fn func()) *Task { return (*Task)(engine.Go(fn)) }

// Options say how a task is spawned. The zero value is what Go uses.
type Options struct {
	// Name is shown in reports; empty: the name of the function.
	Name string
	// OnLoop chooses the loop that the task runs on: it is called with the number of loops, and returns the index of
	// one of them; no other loop takes the task from it. Data that belongs to a key, and is touched only by tasks on
	// the loop that the key chooses, needs no lock (Cohort Scheduling, sections 3.4 and 4.1.4), except after a native
	// wait (docs/native-waits.md). nil: the task starts on the spawner's loop, or, spawned by a plain goroutine, on the
	// loops in turn, unless an idle loop takes it first.
	OnLoop func(loops int) int
	// Context cancels the task, and all that it spawns, when it ends; nil: that of
	// the spawning task, if any. A context that can never end, as of context.WithoutCancel, frees the task from that of the
	// spawning task; its values are not those of task.Context.
	Context context.Context
	// Priority says how important the task is, from -32 to 31; of tasks that wait at an Entrance (package ressched),
	// the least important are refused first. 0: ordinary.
	Priority int
	// NoHandle starts the task as a go statement does, without a way to join it: Spawn returns
	// no Task. Without any other option the memory of the task is used again when it has finished, so
	// that starting it needs no allocation once other tasks have finished.
	NoHandle bool
}

// on returns o for a task of rt, which is nil if no runtime runs.
func (o *Options) on(rt *engine.Runtime) (engine.Options, error) {
	to := engine.Options{Name: o.Name, Context: o.Context, Priority: o.Priority}
	if o.OnLoop != nil && rt != nil {
		i := o.OnLoop(rt.Loops())
		if i < 0 || i >= rt.Loops() {
			return to, fmt.Errorf("task: Options.OnLoop returned %d; want 0 to %d", i, rt.Loops()-1)
		}
		to.Loop = rt.Loop(i)
	}
	return to, nil
}

// Spawn is Go with options. It never parks. It returns ErrShutdown, and a task that has ended, if
// the runtime has been shut down; an error and no task if there has been none, or if
// Options.OnLoop returned a loop that there is not.
func Spawn(o Options, fn func()) (*Task, error) {
	if o.NoHandle && o.Name == "" && o.OnLoop == nil && o.Context == nil && o.Priority == 0 {
		return nil, engine.Start(fn)
	}
	var rt *engine.Runtime
	if o.OnLoop != nil {
		rt = engine.CurrentRuntime()
	}
	to, err := o.on(rt)
	if err != nil {
		return nil, err
	}
	t, err := engine.Spawn(to, fn)
	if o.NoHandle {
		t = nil
	}
	return (*Task)(t), err
}

// Context returns the context whose end cancels the calling task: the one that it, or
// the nearest of the tasks that spawned it, was given, else the runtime's own, which
// ends when the runtime shuts down. On a plain goroutine it is context.Background.
func Context() context.Context { return engine.Context() }

// Offload runs fn on an ordinary goroutine while the calling task waits, so that fn may block natively: a system call,
// a Go channel, cgo, a library that does its own I/O. It parks, and does not end early when the task is cancelled or
// the runtime shut down, because fn may be using the caller's variables and buffers. A function that has not begun when
// the runtime is shut down is never run. If 512 functions, see capriccio.WithOffloadLimit, are running already, fn
// waits until one of them returns, and the log warns, once in ten seconds. A panic of fn panics in the caller, with a
// *PanicError; so does runtime.Goexit in fn, and the value is ErrGoexit. fn is not part of the task: Current is nil in
// it. On a plain goroutine Offload just calls fn.
func Offload(fn func()) { engine.Offload(fn) }

// OffloadContext is Offload for an fn that can end early: the context that it is given ends with
// ctx, and when the calling task is cancelled. If either happens while fn waits for its turn, fn is not
// run, and the context's error is returned; else the error of fn. On a plain goroutine it is
// fn(ctx).
func OffloadContext(ctx context.Context, fn func(ctx context.Context) error) error {
	return engine.OffloadContext(ctx, fn)
}

// Sleep parks the caller for at least d. It returns early, with the context's error,
// if the calling task is cancelled, before or meanwhile. d ≤ 0 only yields. On a plain goroutine it is
// time.Sleep and returns nil. The resolution is about 66 µs.
func Sleep(d time.Duration) error { return engine.Sleep(d) }

// Yield lets other ready tasks of the loop run before the caller goes on. With the scheduler fifo that is every ready
// task, but of several whose file operations have ended at once some may follow. With other schedulers it is the tasks
// before the caller in the order of that scheduler, in which every task gets to run. On a plain goroutine Yield is
// runtime.Gosched.
func Yield() { engine.Yield() }

// Await parks until ctx ends and returns its error, or, if that comes first, the error
// of the calling task's own context. On a plain goroutine it waits for ctx alone.
func Await(ctx context.Context) error { return engine.Await(ctx) }

// Under calls fn with ctx as the innermost context of the calling task: waits in fn end
// with the error of ctx when ctx ends, and tasks spawned in fn belong to ctx. The
// task's outer contexts go on to apply. On a plain goroutine it just calls fn, whose
// waits ctx does not end.
func Under(ctx context.Context, fn func() error) error { return engine.Under(ctx, fn) }

// Shield is Under for the clean-up of a task that may be cancelled: until fn has returned, only
// ctx ends waits in fn, and the task's outer contexts do not, whether they have ended before
// or end meanwhile. A limit for the clean-up is a ctx with a timeout. At the end of the runtime
// its grace time is a limit too.
func Shield(ctx context.Context, fn func() error) error { return engine.Shield(ctx, fn) }

// Err returns nil as long as the calling task is not cancelled, and then the error that every wait returns that can fail. A
// call that need not wait succeeds all the same: Lock of a free lock, Recv from a channel that has a value. Err returns
// nil on a plain goroutine. It never parks.
func Err() error { return engine.Err() }
