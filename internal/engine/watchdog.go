package engine

import (
	"cmp"
	"runtime"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/capriccio-go/capriccio/internal/coro"
	"github.com/capriccio-go/capriccio/internal/logwriter"
)

// A watchdog is the goroutine that looks after the loops of a runtime: it notices
// steps that take too long, and that all tasks wait for each other. It looks again and again
// only while a loop works.
//
//	            all loops sleep        no step for a second
//	watching ────────────────────▶ light ────────────────────▶ dozing
//	   ▲ a loop is awake for an      │                            │ a loop wakes up
//	   │ interval: Loop.watch.alarm  ▼                            ▼
//	   └───────────────────◀─────────┴────────────────◀───────────┘
type watchdog struct {
	rt    *Runtime
	stop  chan struct{}
	done  chan struct{}
	kick  chan struct{}       // mode has become watching; capacity 1
	mode  atomic.Int32        // watching, light or dozing
	woken chan struct{}       // it has been kicked; capacity 1; see Runtime.Woken
	hurry chan struct{}       // a detached task wants its loop, which is held; capacity 1
	now   func() time.Time    // fixed: time.Now, but for tests
	nap   func(time.Duration) // fixed

	seen     []sighting    // private to the goroutine
	looked   time.Time     // private to the goroutine: when it looked last; zero: it has dozed since
	followed time.Time     // private to the goroutine: when it looked for the number of processors last
	interval time.Duration // between two looks; fixed
	reported atomic.Int64  // when the last report was made, loop clock
	muted    atomic.Int64  // reports not made since then
	overruns atomic.Uint64

	deadlock string    // private to the goroutine: the last one reported
	tangle   string    // private to the goroutine: tasks that hold each other up, as last seen by lookBusy
	lastBusy time.Time // private to the goroutine: of lookBusy
	native   nativePlaces
}

// Actions of a watchdog.
const (
	watching = iota // it looks at each interval
	light           // it waits for an alarm of a loop
	dozing          // it waits for a loop to wake up
)

// A watch is how a loop rouses the watchdog. Loop-private but for rang.
type watch struct {
	alarm *alarm      // nil: none
	set   bool        // alarm has been set since the last long wait
	rang  atomic.Bool // and has gone off
}

// overruns are what the watchdog tells a loop of the step that runs there.
type overruns struct {
	step   atomic.Uint64          // that the watchdog found too long; 0: none
	since  atomic.Int64           // since when, UnixNano; written before step
	delays atomic.Pointer[delays] // processDelays near that time; written before step
}

// A sighting is the step at which the watchdog first saw a loop.
type sighting struct {
	step  uint64
	since time.Time

	delays *delays // processDelays when the step was first found unfinished; nil: not yet

	marked, told bool
}

const (
	minWatch       = 100 * time.Microsecond // between two looks
	reportInterval = time.Second            // at most one watchdog report in that time
	followEvery    = time.Second            // between two looks for the number of processors, as the Go runtime does
	deadlockAfter  = time.Second            // of rest
	stillHeld      = 100                    // multiple of the limit after which a step that goes on is reported
	surelyHeld     = 10                     // multiple of the limit from which on a step is too long whatever had to wait
	maxStackDump   = 10_000                 // goroutines; with more, no stacks of a step that goes on
)

func startWatchdog(rt *Runtime) *watchdog {
	w := &watchdog{
		rt: rt, stop: make(chan struct{}), done: make(chan struct{}), kick: make(chan struct{}, 1), woken: make(chan struct{}, 1),
		hurry: make(chan struct{}, 1), now: time.Now, nap: napFor, seen: make([]sighting, len(rt.loops)),
	}
	if rt.cfg.HoldLimit < 0 {
		close(w.done)
		return w
	}
	w.interval = max(rt.cfg.HoldLimit/2, minWatch)
	if after := rt.cfg.DetachAfter; rt.loops[0].detachable() && after < w.interval {
		w.interval = max(after, minWatch)
	}
	for _, l := range rt.loops {
		l.watch.alarm = newAlarm(func() { l.ring(w) })
	}
	go w.run()
	return w
}

func (w *watchdog) close() {
	close(w.stop)
	<-w.done
}

// Woken returns a channel that gets a value when there is work again that lasts: a loop is awake for longer than the
// watchdog's interval, or wakes up after a second without a step. It is nil while there is such work, or if there is no
// watchdog. One goroutine may call it and receive.
func (rt *Runtime) Woken() <-chan struct{} {
	select {
	case <-rt.watch.woken: // of before
	default:
	}
	if rt.watch.mode.Load() == watching {
		return nil
	}
	return rt.watch.woken
}

func (w *watchdog) run() {
	defer close(w.done)
	tick := time.NewTicker(w.interval)
	defer tick.Stop()
	for {
		busy, detached := w.look(time.Now())
		if detached {
			w.chase(runtime.GOMAXPROCS(0))
		}
		if !busy {
			tick.Stop()
			if !w.doze(w.interval) {
				return
			}
			signal(w.woken)
			w.looked = time.Time{}
			tick.Reset(w.interval)
			continue
		}
		w.lookBusy(time.Now())
		select {
		case <-w.stop:
			return
		case <-w.hurry:
			w.chase(runtime.GOMAXPROCS(0))
		case <-tick.C:
		}
	}
}

// forgive takes away the time in which this goroutine, too, did not get a processor, as where a
// container has used up its share: steps that were under way then were not at work. processDelays
// knows of that time only what passes after a step was found unfinished.
func (w *watchdog) forgive(now time.Time) {
	if late := now.Sub(w.looked) - w.interval; !w.looked.IsZero() && late >= w.rt.cfg.HoldLimit {
		for i := range w.seen {
			w.seen[i].since = w.seen[i].since.Add(late)
		}
	}
	w.looked = now
}

// look checks every loop. It reports whether one is awake, and whether a task was detached.
func (w *watchdog) look(now time.Time) (busy, detached bool) {
	w.forgive(now)
	w.follow(now)
	for i, l := range w.rt.loops {
		s := &w.seen[i]
		step := coro.Peek(uintptr(unsafe.Pointer(&l.switches)))
		switch {
		case step != s.step:
			*s = sighting{step: step, since: now}
			busy = busy || !l.inbox.sleeping.Load()
			if l.runsTask() && w.detach(l, step, true) {
				detached = true
			}
		case l.inbox.sleeping.Load():
			*s = sighting{step: step, since: now}
		case !l.runsTask(): // it has just been woken, or is asking its poller
			*s = sighting{step: step, since: now}
			busy = true
		default:
			busy = true
			if s.delays == nil {
				now := processDelays()
				s.delays = &now
			}
			held := now.Sub(s.since)
			if held >= w.rt.cfg.DetachAfter && w.detach(l, step, false) {
				*s = sighting{step: step, since: now}
				detached = true
				continue
			}
			if held >= w.rt.cfg.HoldLimit {
				w.held(l, s, held)
			}
		}
	}
	return busy, detached
}

// follow looks for the number of processors, if it is time.
func (w *watchdog) follow(now time.Time) {
	if now.Sub(w.followed) >= followEvery {
		w.followed = now
		w.rt.Follow()
	}
}

// runsTask reports whether a task runs on l at this moment. For the watchdog.
func (l *Loop) runsTask() bool { return coro.Peek(uintptr(unsafe.Pointer(&l.cur))) != 0 }

// held is called when a step of l has lasted for at least that long.
func (w *watchdog) held(l *Loop, s *sighting, lasted time.Duration) {
	if !s.marked {
		s.marked = true
		l.overrun.since.Store(s.since.UnixNano())
		l.overrun.delays.Store(s.delays)
		l.overrun.step.Store(s.step)
	}
	if lasted < stillHeld*w.rt.cfg.HoldLimit || s.told || !w.mayReport() {
		return
	}
	s.told = true
	stack := "(too many goroutines to take it)"
	name, from := l.taskAt(s.step)
	if runtime.NumGoroutine() <= maxStackDump {
		stack = runningStacks()
	}
	if l.rec != nil && name != "" {
		l.rec.Overruns(name, from, lasted, stack)
	}
	w.rt.log.Warn("task: a task has held its loop for a long time and still does; "+holdAdvice(stack),
		"task", name, "loop", l.index, "held", lasted.Round(time.Millisecond), "at", userFrame(stack), "doing", goroutineState(stack), "stack", l.logStack(stack))
}

// mayReport limits the rate of reports.
func (w *watchdog) mayReport() bool {
	now := time.Now().UnixNano()
	last := w.reported.Load()
	if now-last < int64(reportInterval) || !w.reported.CompareAndSwap(last, now) {
		w.muted.Add(1)
		return false
	}
	return true
}

// reportOverrun is called by a task that seems to have held l too long, at the end of
// its step. "until" in the report is the function of the program where the step ended. The time in which threads
// of the process waited for a processor does not count, or on an overloaded machine every step would be too
// long. The kernel adds that time up only when the threads run again, so the watchdog can't know it.
func (l *Loop) reportOverrun() {
	step := l.overrun.step.Swap(0)
	if step != l.switches || l.cur == nil {
		return
	}
	w := l.rt.watch
	lasted := time.Duration(time.Now().UnixNano() - l.overrun.since.Load())
	if before := l.overrun.delays.Load(); before != nil && *before != nil {
		lasted = ownHold(lasted, l.rt.cfg.HoldLimit, *before, processDelays())
	}
	if lasted < l.rt.cfg.HoldLimit {
		return
	}
	w.overruns.Add(1)
	report, stack := w.mayReport(), ""
	if report {
		stack = string(debug.Stack()) + l.chunkCallers()
	}
	if l.rec != nil {
		l.rec.Overran(l.cur.String(), lasted, stack)
	}
	if !report {
		return
	}
	l.rt.log.Warn("task: a task held its loop too long; blocking calls belong in task.Offload, long computations need task.Yield",
		"task", l.cur.String(), "loop", l.index, "held", lasted.Round(time.Millisecond/10), "limit", l.rt.cfg.HoldLimit, "until", cmp.Or(userFrame(stack), "the functions of the program had returned"),
		"overruns", w.overruns.Load(), "reports_left_out", w.muted.Swap(0), "stack", l.logStack(stack))
}

// ownHold is how long a step that lasted for lasted has held its loop, without the time in which threads
// of the process waited for a processor; 0 if that is not surely longer than limit. If the threads waited one after the other,
// as when a step moves between threads, the sum of their waits is subtracted; if they waited at the same time, the
// longest wait. Always subtracting the sum would hide every long step on an overloaded machine.
func ownHold(lasted, limit time.Duration, before, now delays) time.Duration {
	sum, most := now.since(before)
	if held := lasted - most; lasted-sum >= limit || held >= surelyHeld*limit {
		return held
	}
	return 0
}

// logStack is the stack of a step for the log. With a recorder, which keeps the stack, the log only says so.
func (l *Loop) logStack(stack string) string {
	if l.rec != nil {
		return "in the dump of the blocking graph"
	}
	return logwriter.OneLine(stack)
}

// doze waits until there is work for the watchdog. It returns false if it is to end. Loops that a deadlock check wakes
// do not count: after it the loops get the time settle to go back to sleep.
func (w *watchdog) doze(settle time.Duration) bool {
	rest := time.NewTimer(deadlockAfter)
	defer rest.Stop()
	steps := w.rt.Steps()
	for mode := int32(light); ; {
		w.mode.Store(mode)
		if !w.allSleep() && w.mode.CompareAndSwap(mode, watching) {
			return true // it woke up before it could see the mode
		}
		select {
		case <-w.stop:
			return false
		case <-w.kick:
			return true
		case <-w.hurry:
			w.mode.Store(watching)
			w.chase(runtime.GOMAXPROCS(0))
			return true
		case now := <-rest.C:
			if w.worked(&steps, now) {
				rest.Reset(deadlockAfter)
				continue
			}
			w.mode.Store(watching)
			w.checkDeadlock()
			select {
			case <-w.stop:
				return false
			case <-time.After(settle):
			}
			select {
			case <-w.kick:
			default:
			}
			mode = dozing
		}
	}
}

// worked reports whether the loops have made steps since there were that many, and does what is due at times while
// they do.
func (w *watchdog) worked(steps *uint64, now time.Time) bool {
	s := w.rt.Steps()
	if s == *steps {
		return false
	}
	*steps = s
	w.follow(now)
	w.lookBusy(now)
	return true
}

func (w *watchdog) allSleep() bool {
	return !slices.ContainsFunc(w.rt.loops, func(l *Loop) bool { return !l.inbox.sleeping.Load() })
}

// rouse has the watchdog look if it is in that mode.
func (w *watchdog) rouse(from int32) {
	if w.mode.CompareAndSwap(from, watching) {
		signal(w.kick)
	}
}

// signal puts a value into c, of capacity 1, unless there is one.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// wokeUp is called by a loop that has left its poller. While the watchdog has nothing to do the loop
// sets its alarm, which goesToSleep stops before it goes off, unless l stays awake.
func (l *Loop) wokeUp() {
	switch w := l.rt.watch; w.mode.Load() {
	case light:
		if !l.watch.set || l.watch.rang.Load() {
			l.watch.set = true
			l.watch.rang.Store(false)
			l.watch.alarm.set(w.interval)
		}
	case dozing:
		w.rouse(dozing)
	}
}

// ring is what l's alarm does. It may find the watchdog at work, which may rest again before l does: then the
// next wake has to set the alarm anew.
func (l *Loop) ring(w *watchdog) {
	l.watch.rang.Store(true)
	w.rouse(light)
}

// goesToSleep is called by a loop that expects to wait for long.
func (l *Loop) goesToSleep() {
	if l.watch.set {
		l.watch.set = false
		l.watch.alarm.stop()
	}
}
