package task

import (
	"context"

	"github.com/capriccio-go/capriccio/internal/engine"
)

// A Runtime is a set of loops and the tasks on them. It is made by capriccio.New and capriccio.Run.
type Runtime engine.Runtime

// Close is Shutdown without waiting for the tasks to end by themselves: it takes twice the grace
// time at most.
func (rt *Runtime) Close() error { return (*engine.Runtime)(rt).Close() }

// Shutdown ends the runtime, in four steps:
//
//  1. It waits until the tasks, or ctx, have ended.
//  2. It cancels the remaining tasks, whose waits return ErrShutdown, and waits for the grace time, 1 s by default
//     (capriccio.WithGrace).
//  3. It makes every wait end its task, running its deferred functions, as runtime.Goexit does, and waits for that time
//     once more. Every wait of a plain goroutine for a connection of the runtime fails with net.ErrClosed, as a task may
//     wait natively for that goroutine.
//  4. It ends the loops and closes the pollers.
//
// So it returns at the latest twice the grace time after ctx has ended, whatever tasks do. After Shutdown nothing of
// the runtime is left, with three exceptions: tasks that never wait, tasks that wait natively or for an operation that
// can't be cancelled (a disk that does not answer), and tasks whose offloaded function still runs. They stay, with
// their loops, and the error says how many there are, and where. It must be called on a plain goroutine; in a task it
// only returns an error. Later calls wait for the first and return the same.
func (rt *Runtime) Shutdown(ctx context.Context) error { return (*engine.Runtime)(rt).Shutdown(ctx) }

// Spawn is like the function Spawn, on this runtime. It never parks.
func (rt *Runtime) Spawn(o Options, fn func()) (*Task, error) {
	to, err := o.on((*engine.Runtime)(rt))
	if err != nil {
		return nil, err
	}
	t, err := (*engine.Runtime)(rt).Spawn(to, fn)
	if o.NoHandle {
		t = nil
	}
	return (*Task)(t), err
}

// Go is like the function Go, on this runtime. It never parks.
func (rt *Runtime) Go(fn func()) *Task { return (*Task)((*engine.Runtime)(rt).Go(fn)) }

// Loops is the number of loops.
func (rt *Runtime) Loops() int { return (*engine.Runtime)(rt).Loops() }

// Run runs main as a task under ctx: the waits of main, and of the tasks that it spawns, end with the context's error
// when ctx ends. When main has returned, Run cancels the remaining tasks, closes the runtime and returns the error of
// main. It must be called on a plain goroutine.
func (rt *Runtime) Run(ctx context.Context, main func(ctx context.Context) error) error {
	return (*engine.Runtime)(rt).Run(ctx, main)
}

// Detached is how many times a task that waited natively was detached from its loop (docs/native-waits.md). It
// never parks.
func (rt *Runtime) Detached() uint64 { return (*engine.Runtime)(rt).Detached() }

// Default returns the runtime that plain goroutines use: the one most recently made
// and not closed; nil if there is none.
func Default() *Runtime { return (*Runtime)(engine.Default()) }
