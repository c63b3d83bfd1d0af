package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/capriccio-go/capriccio/internal/admit"
	"github.com/capriccio-go/capriccio/internal/chunk"
	"github.com/capriccio-go/capriccio/internal/coro"
	"github.com/capriccio-go/capriccio/internal/logwriter"
	"github.com/capriccio-go/capriccio/internal/recorder"
)

// A Config says how a Runtime is made. Every zero field has a default, except NewPoller.
type Config struct {
	// Loops is the number of event loops; 0: runtime.GOMAXPROCS, which is then followed while the watchdog
	// runs: when it falls the last loops get no new work, and when it grows Spare ones do.
	Loops int
	// Spare is how many more loops are made if Loops is 0, for when there are more processors.
	Spare int
	// Procs says how many processors there are, if Loops is 0; nil: runtime.GOMAXPROCS. Called by the watchdog.
	Procs func() int
	// NewPoller makes the poller of one loop. Required.
	NewPoller func(loop int) (Poller, error)
	// Graph learns where tasks wait; nil: nothing does, and all tasks are at NodeStart.
	Graph *recorder.Graph
	// NewPolicy makes the scheduling policy of one loop; nil: first in, first out, but for tasks
	// served by a disk, which have every second step at most.
	NewPolicy func(l *Loop) Policy
	// NewAdmission makes the Admission of one loop, which decides what work the entrances of the
	// program admit; nil: all.
	NewAdmission func(l *Loop) Admission
	// Resources returns the state of each resource that NewAdmission goes by; nil: there is none.
	Resources func() []admit.ResourceReport
	// Clock is the source of time; nil: the system's monotonic clock.
	Clock Clock
	// Random is the source of randomness; nil: math/rand/v2. Loops call it at the same time.
	Random func() uint64
	// NoHandOver lets tasks switch to each other only through the loop's own goroutine,
	// at twice the cost. It is for comparison, and for a Go release with which direct
	// switches do not work: New then sets it, and says so in the log.
	NoHandOver bool
	// OnPanic is called on a panicking task, after its deferred functions have run.
	// If it returns, the task ends and the others go on. nil: the panic is printed
	// with the task's stack and the process exits with status 2.
	OnPanic func(*PanicError)
	// HoldLimit is how long a task may keep its loop before the watchdog reports it; 0: 10 ms; negative: no watchdog,
	// and so no detaching, no report of deadlocks, and as many loops as at the start.
	HoldLimit time.Duration
	// DetachAfter is how long a task may wait natively, for a Go channel, a sync.Mutex or
	// in a system call, before it is detached from its loop; 0: 1 ms; negative: for ever. The
	// task is reattached when it next waits as tasks do; until then it runs beside
	// the other tasks. See docs/native-waits.md for where tasks can't be detached.
	DetachAfter time.Duration
	// DetachLimit is how many tasks of one loop may be detached at once; 0: 10,000. While three quarters of the limit
	// are detached, new work waits at the Entrances of the loop. Beyond the limit the next task that waits natively
	// holds its loop.
	DetachLimit int
	// OffloadLimit bounds the goroutines that run offloaded functions; 0: 512.
	OffloadLimit int
	// Grace is how long Shutdown waits for cancelled tasks before it makes their
	// waits end the task; 0: 1 s.
	Grace time.Duration
	// Closed, if not nil, is called at the end of Shutdown, before that returns.
	Closed func()
	// Log receives the reports of watchdog, deadlock detection and pollers; nil:
	// slog.Default.
	Log *slog.Logger
}

// MaxLoops bounds Config.Loops.
const MaxLoops = 1024

// A Runtime is a set of loops and the tasks on them.
type Runtime struct {
	cfg       Config
	clock     Clock
	log       *slog.Logger
	loops     []*Loop
	ctx       context.Context // ends when the tasks are cancelled by a shutdown
	cancel    context.CancelCauseFunc
	unwound   context.Context // ends after the grace time of a shutdown, when every wait ends its task
	unwind    context.CancelCauseFunc
	idleLoops atomic.Int32 // loops that wait in their pollers
	nextLoop  atomic.Uint32
	team      team
	spawned   atomic.Uint64 // tasks numbered by spawn, see Loop.number
	offload   offloader
	watch     *watchdog
	closeOnce sync.Once
	closeErr  error // of closeOnce
	pollErr   atomic.Int64
	books     admit.Books // of the loops
	stages    stages
	bodies    admit.BodyBudget
}

// defaultRuntimes are of the process: a plain goroutine belongs to no runtime, but is to find one.
var defaultRuntimes struct {
	mu    sync.Mutex
	stack []*Runtime // guarded by mu
	top   atomic.Pointer[Runtime]
	last  atomic.Pointer[Runtime] // the one that ended last, when none was left; nil: one has been made since
}

// Default returns the runtime that plain goroutines use: the one most recently made
// and not closed; nil if there is none.
func Default() *Runtime { return defaultRuntimes.top.Load() }

// DefaultOrLast is the runtime on which a plain goroutine starts tasks and timers: Default, or else the runtime that
// ended last, which starts nothing any more, so that a late caller does no harm; nil if there was none.
func DefaultOrLast() *Runtime {
	if rt := Default(); rt != nil {
		return rt
	}
	return defaultRuntimes.last.Load()
}

func (rt *Runtime) setDefault(present bool) {
	d := &defaultRuntimes
	d.mu.Lock()
	defer d.mu.Unlock()
	if present {
		d.stack = append(d.stack, rt)
	} else {
		d.stack = slices.DeleteFunc(d.stack, func(r *Runtime) bool { return r == rt })
	}
	if n := len(d.stack); n > 0 {
		d.top.Store(d.stack[n-1])
		d.last.Store(nil)
	} else {
		d.last.Store(rt) // before there is no Default
		d.top.Store(nil)
	}
}

// New makes a runtime and starts its loops. Shut it down with Shutdown or Close. If one
// loop runs in the process already, New waits until it has come to the end of its step.
func New(cfg Config) (*Runtime, error) {
	if cfg.NewPoller == nil {
		return nil, errors.New("task: Config.NewPoller is nil; want a function that makes a poller (poller.Epoll)")
	}
	if !coro.Simulated() && cfg.Clock == nil && coro.ClockStands() {
		return nil, errBubble
	}
	if cfg.Loops < 0 || cfg.Loops > MaxLoops {
		return nil, fmt.Errorf("task: Config.Loops is %d; want 1 to %d, or 0 for one per CPU", cfg.Loops, MaxLoops)
	}
	if cfg.OffloadLimit < 0 {
		return nil, fmt.Errorf("task: Config.OffloadLimit is %d; want at least 1, or 0 for 512", cfg.OffloadLimit)
	}
	if cfg.Grace < 0 {
		return nil, fmt.Errorf("task: Config.Grace is %v; want more than 0, or 0 for 1s", cfg.Grace)
	}
	if cfg.DetachLimit < 0 {
		return nil, fmt.Errorf("task: Config.DetachLimit is %d; want at least 1, or 0 for 10,000", cfg.DetachLimit)
	}
	cfg.HoldLimit = cmp.Or(cfg.HoldLimit, 10*time.Millisecond)
	cfg.DetachLimit = cmp.Or(cfg.DetachLimit, 10_000)
	cfg.DetachAfter = cmp.Or(cfg.DetachAfter, time.Millisecond)
	cfg.OffloadLimit = cmp.Or(cfg.OffloadLimit, 512)
	cfg.Grace = cmp.Or(cfg.Grace, time.Second)
	if cfg.Random == nil {
		cfg.Random = rand.Uint64
	}
	canBarrier() // registering takes milliseconds once in a process, which no loop is to be held for
	rt := &Runtime{cfg: cfg, clock: cfg.Clock, log: cfg.Log}
	if rt.clock == nil {
		rt.clock = systemClock{}
	}
	if rt.log == nil {
		rt.log = logwriter.Default()
	}
	if !rt.cfg.NoHandOver { // else nothing that Check tries is leant on
		if err := coro.Check(); err != nil {
			rt.log.Warn("task: tasks will switch through their loop", "because", err)
			rt.cfg.NoHandOver = true
		}
	}
	rt.ctx, rt.cancel = context.WithCancelCause(context.Background())
	rt.unwound, rt.unwind = context.WithCancelCause(context.Background())
	rt.offload.limit = cfg.OffloadLimit
	if err := rt.makeLoops(rt.team.gather(&rt.cfg)); err != nil {
		return nil, err
	}
	loops.working.Add(int32(rt.Working()))
	rt.watch = startWatchdog(rt)
	members.addLoops(rt.loops)
	var accounts []*admit.Account
	for _, l := range rt.loops {
		accounts = append(accounts, &l.account)
	}
	rt.books.Open(Tasks, accounts)
	for _, l := range rt.loops {
		go l.run()
	}
	rt.setDefault(true)
	return rt, nil
}

var errBubble = errors.New("task: a runtime can't be made in a bubble of testing/synctest: its loops wait in the kernel, for which the bubble's clock would stand still; make it before synctest.Test, or test with real time")

func (rt *Runtime) makeLoops(n int) error {
	observed := &recorder.Runtime{Books: &rt.books, Counts: rt.Counts, Tasks: Tasks}
	for i := range n {
		p, err := rt.cfg.NewPoller(i)
		if err != nil {
			for _, l := range rt.loops {
				l.poller.Close()
				l.chunks.Close(nil)
				if l.rec != nil {
					l.rec.Close()
				}
			}
			rt.cancel(ErrShutdown)
			return fmt.Errorf("task: making the poller of loop %d: %w", i, err)
		}
		l := &Loop{plugs: plugs{rt: rt, index: i, poller: p, shared: n > 1}}
		l.idleWaits.rester, _ = p.(Rester)
		l.end.stopped = make(chan struct{})
		l.starts.shared = l.shared
		l.roster.lastID = uint64(i)
		l.chunks = chunk.NewPool(l)
		l.timers.wheel.Init(rt.clock.Now())
		if g := rt.cfg.Graph; g != nil {
			l.rec = g.Observe(recorder.Loop{
				Runtime: observed, Index: i, Account: &l.account,
				State: func() (int, bool) { return l.Tasks(), l.Works() },
			})
		}
		l.setPolicy(rt.cfg.NewPolicy)
		if rt.cfg.NewAdmission != nil {
			l.admission = rt.cfg.NewAdmission(l)
		}
		l.hub = rt.cfg.NoHandOver
		rt.loops = append(rt.loops, l)
	}
	return nil
}

// Random returns a number from Config.Random, or, if l is nil, of the process.
func (l *Loop) Random() uint64 {
	if l == nil {
		return rand.Uint64()
	}
	return l.rt.cfg.Random()
}

// Loops is the number of loops, whether they work or not.
func (rt *Runtime) Loops() int { return len(rt.loops) }

// Loop returns loop i, 0 ≤ i < Loops().
func (rt *Runtime) Loop(i int) *Loop { return rt.loops[i] }

// NextLoop returns the loops that work in turn, for spreading work that has no loop yet.
func (rt *Runtime) NextLoop() *Loop {
	return rt.loops[int(rt.nextLoop.Add(1)-1)%rt.Working()]
}

// Log is where the runtime's reports go.
func (rt *Runtime) Log() *slog.Logger { return rt.log }

// Now is the time of the runtime's clock, from an arbitrary zero.
func (rt *Runtime) Now() time.Duration { return rt.clock.Now() }

// Context ends, with cause ErrShutdown, when a shutdown cancels the tasks.
func (rt *Runtime) Context() context.Context { return rt.ctx }

// Run runs main as a task under ctx: the waits of main, and of the tasks that it spawns, end
// with the context's error when ctx ends.
func (rt *Runtime) Run(ctx context.Context, main func(ctx context.Context) error) error {
	var mainErr error
	t, err := rt.Spawn(Options{Name: "main", Context: ctx}, func() { mainErr = Outside(main, ctx) })
	if err == nil {
		err = t.Join()
	}
	closeErr := rt.Close()
	if err == nil && closeErr == nil {
		return mainErr // itself, as callers may compare it
	}
	return errors.Join(err, mainErr, closeErr)
}

// A PanicError is a panic of a task.
type PanicError struct {
	Task  string // name and number
	Value any    // what panic was called with
	Stack []byte // of the task, where it panicked
}

func (p *PanicError) Error() string {
	return fmt.Sprintf("task %s panicked: %v", p.Task, p.Value)
}

// Unwrap returns the value if it is an error.
func (p *PanicError) Unwrap() error {
	err, _ := p.Value.(error)
	return err
}

// taskPanicked is called by the deferred function that recovered v. It ends the task,
// even if the handler ends by runtime.Goexit.
func (l *Loop) taskPanicked(t *Task, v any) {
	p := &PanicError{Task: t.String(), Value: v, Stack: append([]byte(t.chunkStacksOfPanic(v)), debug.Stack()...)}
	defer l.finish(t, p)
	if l.rt.cfg.OnPanic == nil {
		p.crash()
		return
	}
	defer func() {
		if v := recover(); v != nil {
			(&PanicError{Task: p.Task + ", in OnPanic for " + fmt.Sprint(p.Value), Value: v, Stack: debug.Stack()}).crash()
		}
	}()
	Outside(p.tell, l.rt.cfg.OnPanic)
}

// tell is for Outside.
func (p *PanicError) tell(fn func(*PanicError)) struct{} {
	fn(p)
	return struct{}{}
}

// crash ends the process by a panic of a goroutine of its own, which no coroutine hands on. It is the Go
// runtime that prints it, so that GOTRACEBACK, core dumps and debug.SetCrashOutput work as ever.
func (p *PanicError) crash() {
	go panic(crashReport{p})
	select {} // so that the task's goroutine is in a dump of all
}

// A crashReport is a panic that was not recovered. Its text has the value, the task and the stacks.
type crashReport struct{ *PanicError }

func (c crashReport) Error() string {
	text := fmt.Sprintf("%v\n\ntask %s:\n%s", c.Value, c.Task, c.Stack)
	if inner, ok := c.Value.(*PanicError); ok {
		text += fmt.Sprintf("\ntask %s:\n%s", inner.Task, inner.Stack)
	}
	return text
}

// Bodies is the budget by which large bodies are read in an order while memory is short.
func (rt *Runtime) Bodies() *admit.BodyBudget { return &rt.bodies }

// Resources returns the state of each resource that the admission of tasks goes by. It never parks.
func (rt *Runtime) Resources() []admit.ResourceReport {
	if rt.cfg.Resources == nil {
		return nil
	}
	return rt.cfg.Resources()
}
