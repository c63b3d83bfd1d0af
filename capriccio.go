// Package capriccio puts a program on the Capriccio runtime: it makes the loops and
// their pollers from options and environment variables, lets them learn the blocking
// graph of the program, handles the signals that end a program or ask for that graph,
// and runs a main function as a task.
//
// It only connects the other packages. A program works with the packages task (tasks, synchronisation, timers), netpoll
// (connections) and aio (files).
package capriccio

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/feed"
	"github.com/capriccio-go/capriccio/internal/logwriter"
	"github.com/capriccio-go/capriccio/internal/recorder"
	"github.com/capriccio-go/capriccio/task"
)

// Environment variables that New and Run read. An option given in the program goes
// before its variable; an unknown value is an error that names the known ones.
const (
	// EnvLoops is the number of event loops: 1 to 1024.
	EnvLoops = "CAPRICCIO_LOOPS"
	// EnvPoller chooses how loops wait for descriptors: epoll or uring; see Poller.
	EnvPoller = "CAPRICCIO_POLLER"
	// EnvAIO chooses how tasks wait for files: uring, the default where the kernel allows it, or threads, a bounded
	// number of them.
	EnvAIO = "CAPRICCIO_AIO"
	// EnvSched chooses the scheduling policy: fifo, cohort or resource; see Scheduler.
	EnvSched = "CAPRICCIO_SCHED"
	// EnvOverload says what happens to work that can't be done in time: refuse, the default, or wait; see WithoutRefusals.
	EnvOverload = "CAPRICCIO_OVERLOAD"
)

// An Option changes how the runtime is made.
type Option func(*options) error

type options struct {
	cfg     engine.Config
	poller  string
	aio     string
	graph   recorder.Config
	noGraph bool
	sched   feed.Config
	dump    string // as given, see dumpPath
	stacks  string // see EnvStacks
	noStop  bool   // SIGINT and SIGTERM are left alone
	noDump  bool   // SIGUSR2 is
}

// WithLoops sets the number of event loops; 0 means one per CPU that the process may use (GOMAXPROCS), the default. The
// default follows GOMAXPROCS while the program runs, as Go changes it with the CPU limit of a container: new
// connections and tasks go to fewer loops, or to more, up to four times as many as at the start.
func WithLoops(n int) Option {
	return func(o *options) error {
		if n < 0 || n > engine.MaxLoops {
			return fmt.Errorf("capriccio: WithLoops(%d); want 1 to %d, or 0 for one per CPU", n, engine.MaxLoops)
		}
		o.cfg.Loops = n
		return nil
	}
}

// WithPoller chooses how loops wait for descriptors: Epoll, the default, or IOUring.
func WithPoller(p Poller) Option {
	return func(o *options) error {
		if err := knownPoller(string(p)); err != nil {
			return fmt.Errorf("capriccio: WithPoller: %w", err)
		}
		o.poller = string(p)
		return nil
	}
}

// WithHoldLimit sets how long a task may keep its loop before it is reported: 10 ms by default. A negative d switches
// the watchdog off: then no task is detached (see WithDetaching), no deadlock is reported, and the number of loops does
// not follow GOMAXPROCS.
func WithHoldLimit(d time.Duration) Option {
	return func(o *options) error { o.cfg.HoldLimit = d; return nil }
}

// WithPanicHandler sets the function that is called when a task panics; if it returns, only the task
// has ended. Without it, a panic ends the process, as that of a goroutine does. fn is called on the task, and may park.
func WithPanicHandler(fn func(*task.PanicError)) Option {
	return func(o *options) error { o.cfg.OnPanic = fn; return nil }
}

// WithOffloadLimit bounds the goroutines that run functions given to task.Offload; 512
// by default.
func WithOffloadLimit(n int) Option {
	return func(o *options) error {
		if n < 1 {
			return fmt.Errorf("capriccio: WithOffloadLimit(%d); want at least 1", n)
		}
		o.cfg.OffloadLimit = n
		return nil
	}
}

// WithDetaching sets how long a task may wait natively, in a Go channel or a sync.Mutex say, before its loop goes on
// without it (docs/native-waits.md): 0 stands for 1 ms, less than 0 for ever. limit is how many tasks of one loop may
// be detached at once; 0: 10,000. While three quarters of the limit are detached, new work waits at the loop's
// Entrances, with every scheduler. At the limit the next task that waits natively holds its loop.
func WithDetaching(after time.Duration, limit int) Option {
	return func(o *options) error {
		if limit < 0 {
			return fmt.Errorf("capriccio: WithDetaching: a limit of %d; want at least 1, or 0 for 10,000", limit)
		}
		o.cfg.DetachAfter, o.cfg.DetachLimit = after, limit
		return nil
	}
}

// WithGrace sets how long, at the end, cancelled tasks have to return before their waits end them; 1 s by default, and
// if d is 0. A negative d is an error of New and Run.
func WithGrace(d time.Duration) Option {
	return func(o *options) error { o.cfg.Grace = d; return nil }
}

// WithLogger sets where the runtime's own reports go. Loops call its handler, which must not wait for the reader of a
// log. Without this option slog.Default gets the reports, on a goroutine, and its handler may wait.
func WithLogger(log *slog.Logger) Option {
	return func(o *options) error { o.cfg.Log = log; return nil }
}

// WithoutSignals leaves SIGINT, SIGTERM and SIGUSR2 to the program.
func WithoutSignals() Option {
	return func(o *options) error { o.noStop, o.noDump = true, true; return nil }
}

// WithoutStopSignals leaves SIGINT and SIGTERM to the program.
func WithoutStopSignals() Option {
	return func(o *options) error { o.noStop = true; return nil }
}

// Run makes a runtime, runs main as a task of it and, when main has returned, ends the remaining tasks and closes the
// runtime. It returns the error of main, if any.
//
// The context of main ends when ctx does or when the process gets SIGINT or SIGTERM; waits of main and of the tasks
// that it spawns then return the context's error. If main returns this error after a signal, the stop was orderly, and
// Run returns nil. If the stop takes longer than 5 s, the log says what tasks wait for. If main waits in a deadlock
// then, and still does after the time of WithGrace, its wait ends it, as at the end of a runtime, and Run returns an
// error that lists the waits. A wait that only a plain goroutine can end, with no timer or connection in use, counts as
// a deadlock too. A second signal ends the process at once. SIGUSR2 writes a summary of the blocking graph to the
// standard error and all of it to a file, see WithDumpPath. Run must be called on a plain goroutine and blocks it.
func Run(ctx context.Context, main func(ctx context.Context) error, opts ...Option) error {
	if task.Current() != nil {
		return errors.New("capriccio: Run was called by a task, whose runtime is there already: start tasks with task.Go, or call Run on a plain goroutine")
	}
	o, err := gather(opts)
	if err != nil {
		return err
	}
	rt, err := o.start()
	if err != nil {
		return err
	}
	until, stop := ctx, func() {}
	if !o.noStop {
		until, stop = signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
		defer stop()
	}
	s := newStopping(o, rt)
	unwatch := context.AfterFunc(until, func() {
		stop()
		s.watch()
	})
	err = rt.Run(until, func(under context.Context) error {
		err := main(under)
		if under.Err() != nil && ctx.Err() == nil && errors.Is(err, context.Canceled) {
			return nil
		}
		return err
	})
	return s.end(unwatch(), err)
}

// New makes and starts a runtime, for programs that are not written around Run: plain goroutines can start tasks on it
// and use the connections of package netpoll. Until it is closed, SIGUSR2 writes its blocking graph as with Run. The
// caller shuts it down.
func New(opts ...Option) (*task.Runtime, error) {
	o, err := gather(opts)
	if err != nil {
		return nil, err
	}
	return o.start()
}

// start makes the runtime and adds it to the running ones, which answer SIGUSR2, until it is closed.
func (o *options) start() (rt *task.Runtime, err error) {
	m := &member{answers: !o.noDump, stacks: o.stacks}
	if m.path, err = o.dumpPath(); err != nil {
		return nil, err
	}
	leave := func() {}
	o.cfg.Closed = func() { leave() }
	if m.rt, m.graph, err = o.newRuntime(); err != nil {
		return nil, err
	}
	leave = running.join(m, o.log())
	return m.rt, nil
}

// gather applies the environment, then the options.
func gather(opts []Option) (*options, error) {
	o := new(options)
	if err := o.readEnv(os.Getenv); err != nil {
		return nil, err
	}
	for _, opt := range opts {
		if err := opt(o); err != nil {
			return nil, err
		}
	}
	return o, nil
}

// spareLoops is how many loops are made besides one for each of the procs processors of the container, in case it gets
// more; all is how many processors the machine has. A loop takes some 0.3 MB and 4 descriptors.
func spareLoops(procs, all int) int { return max(min(all, 4*procs)-procs, 0) }

func (o *options) readEnv(lookup func(string) string) error {
	if lookup("GOMAXPROCS") == "" { // else it stays as it is
		o.cfg.Spare = spareLoops(runtime.GOMAXPROCS(0), runtime.NumCPU())
	}
	if v := lookup(EnvLoops); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil || n < 1 || n > engine.MaxLoops {
			return fmt.Errorf("capriccio: %s=%q; want a number from 1 to %d", EnvLoops, v, engine.MaxLoops)
		}
		o.cfg.Loops = n
	}
	for _, c := range []struct {
		name  string
		known func(string) error
		to    *string
	}{{EnvPoller, knownPoller, &o.poller}, {EnvAIO, knownAIO, &o.aio}, {EnvSched, knownScheduler, &o.sched.Policy}} {
		v := lookup(c.name)
		if v == "" {
			continue
		}
		if err := c.known(v); err != nil {
			return fmt.Errorf("capriccio: %s: %w", c.name, err)
		}
		*c.to = v
	}
	switch v := lookup(EnvOverload); v {
	case "", "refuse":
	case "wait":
		o.sched.NoRefusals = true
	default:
		return fmt.Errorf("capriccio: %s=%q; want refuse or wait", EnvOverload, v)
	}
	if err := o.readStacksEnv(lookup(EnvStacks)); err != nil {
		return err
	}
	return o.readGraphEnv(lookup)
}

func (o *options) newRuntimeOn(open func() (engine.Poller, error)) (*task.Runtime, *recorder.Graph, error) {
	cfg := o.cfg
	o.pollWith(open, &cfg)
	var graph *recorder.Graph
	if !o.noGraph {
		graph = recorder.New(o.graph)
		cfg.Graph = graph
	}
	scheduler, err := o.schedule(&cfg, graph)
	if err != nil {
		return nil, nil, err
	}
	rt, err := engine.New(cfg)
	if err != nil {
		return nil, nil, err
	}
	if scheduler != nil {
		scheduler.Start(rt)
	}
	return (*task.Runtime)(rt), graph, nil
}

func (o *options) log() *slog.Logger {
	if o.cfg.Log != nil {
		return o.cfg.Log
	}
	return logwriter.Default()
}
