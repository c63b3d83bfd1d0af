package engine

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/capriccio-go/capriccio/internal/logwriter"
	"github.com/capriccio-go/capriccio/internal/wheel"
)

const (
	// busyCheck is how often locks are looked at while the loops do not rest. A deadlock
	// is reported when it is found twice: what is seen of several loops may not be of one
	// moment.
	busyCheck = 10 * time.Second
	// busyTasks is the largest number of tasks with which locks are looked at then, as a look takes some 100 ns a task.
	busyTasks = 10_000
	// deadlockLines is how many tasks a report names.
	deadlockLines = 100
)

// A Holder is a WaitPoint that one task holds: only that task can end the wait. HeldBy returns it, nil if no task holds
// the point or the holder is not known. It is called on the loop of a task that waits, and must not park.
type Holder interface {
	WaitPoint
	HeldBy() *Task
}

// WaitEnd is what can end a wait, or the lack of one.
type WaitEnd uint8

// Sources of wakes.
const (
	EndsByItself  WaitEnd = iota // the task runs, or time or something under way ends its wait
	EndsByClients                // it listens: an event begins new work, and ends no wait for a lock
	EndsByTasks                  // another task must do something
)

// An Ender is a WaitPoint that knows better than the Reason what ends the wait. It is called as HeldBy is.
type Ender interface {
	WaitPoint
	EndsBy() WaitEnd
}

// A waiting is what the deadlock check knows of a task.
type waiting struct {
	ends  WaitEnd
	held  bool  // its wait point is held by the task by, which may have ended
	by    *Task // only compared, as it belongs to its loop
	joins bool  // it waits for the end of by
	info  TaskInfo
}

// checkDeadlock is called when all loops have rested for a while. It reports what findDeadlock finds.
func (w *watchdog) checkDeadlock() {
	if w.rt.stopping() {
		return
	}
	all, found, why := w.rt.findDeadlock(w.stop, behindEnded)
	text := describe(found, all)
	if len(found) == 0 || text == w.deadlock {
		return
	}
	w.deadlock = text
	w.rt.log.Error("task: deadlock: "+why, "tasks", len(found), "waits", logwriter.OneLine(text))
}

// DeadlockOf returns what the tasks of a deadlock wait for, if one of that name is among them; else it is empty. What
// is seen of several loops may not be of one moment, so only what is found twice is certain. A lock whose holder has ended
// counts only if no other task goes on. DeadlockOf must be called on a plain goroutine.
func (rt *Runtime) DeadlockOf(name string) (waits string) {
	all, found, _ := rt.findDeadlock(nil, inCircles)
	if !slices.ContainsFunc(found, func(t *Task) bool { return all[t].info.Name == name }) {
		return ""
	}
	return describe(found, all)
}

// findDeadlock finds
//
//   - tasks that are stuck, as how says, whatever other tasks do;
//   - if nothing is under way that could wake a task, locks whose holders have ended or wait for another
//     task: only a new client, or a plain goroutine, could help;
//   - if nothing could come at all, all tasks that are left.
func (rt *Runtime) findDeadlock(stop <-chan struct{}, how stuckness) (all map[*Task]*waiting, found []*Task, why string) {
	all, order := rt.describeWaits(stop)
	listens, quiet := false, len(all) > 0
	for _, t := range order {
		listens = listens || all[t].ends == EndsByClients
		quiet = quiet && all[t].ends != EndsByItself
	}
	if quiet && !listens && !rt.canWake(stop) {
		return all, order, "all tasks are parked, and nothing in the runtime can wake them (a plain goroutine still could)"
	}
	certain, likely := stuckTasks(all, order, how), stuckTasks(all, order, behindIdle)
	if quiet && len(likely) > len(certain) && !rt.timersOrOffloads(stop) {
		return all, likely, "tasks wait for locks whose holders wait too or have ended, and nothing but new clients can come (a plain goroutine still could help)"
	}
	return all, certain, holdUp
}

const holdUp = "tasks hold each other up, or wait for a lock whose holder has ended (another task or goroutine still could unlock it)"

// lookBusy looks for deadlocks while other tasks go on: tasks that wait for each other in a circle, or for a
// lock whose holder has ended.
func (w *watchdog) lookBusy(now time.Time) {
	if now.Sub(w.lastBusy) < busyCheck || w.rt.stopping() {
		return
	}
	first := w.lastBusy.IsZero()
	w.lastBusy = now
	n := 0
	for _, l := range w.rt.loops {
		n += l.Tasks()
	}
	if first || n > busyTasks {
		return
	}
	all, order := w.rt.describeWaits(w.stop)
	found := stuckTasks(all, order, behindEnded)
	text := describe(found, all)
	if len(found) > 0 && text == w.tangle && text != w.deadlock {
		w.deadlock = text
		w.rt.log.Error("task: deadlock: "+holdUp, "tasks", len(found), "waits", logwriter.OneLine(text))
	}
	w.tangle = text
}

// stopping reports whether a shutdown has begun.
func (rt *Runtime) stopping() bool { return rt.ctx.Err() != nil }

// describeWaits describes the tasks that have started, loop by loop; nil if a loop does not
// answer.
func (rt *Runtime) describeWaits(stop <-chan struct{}) (map[*Task]*waiting, []*Task) {
	all := make(map[*Task]*waiting) // guarded by mu: a loop may answer too late
	var mu sync.Mutex
	each := make([][]*Task, len(rt.loops)) // guarded by mu: in an order that is the same next time
	answers := 0                           // guarded by mu
	rt.onLoops(stop, func(l *Loop) {
		var own []*Task
		var what []*waiting
		for t := l.roster.tasks; t != nil; t = t.allNext {
			own, what = append(own, t), append(what, t.waiting())
		}
		mu.Lock()
		defer mu.Unlock()
		answers++
		each[l.index] = own
		for i, t := range own {
			all[t] = what[i]
		}
	})
	mu.Lock()
	defer mu.Unlock()
	if answers < len(rt.loops) {
		return nil, nil
	}
	return all, slices.Concat(each...)
}

// waiting describes t. Own loop only.
func (t *Task) waiting() *waiting {
	w := new(waiting)
	switch {
	case t.state != stateParked || t.notified || !t.fixed && t.hasDeadline():
		return w
	case t.on == nil: // see Waiter.Absorb: the Wake is under way
		return w
	case t.why == ReasonAccept || t.why == ReasonContext:
		w.ends = EndsByClients
	case isExternal(t.why):
		return w
	default:
		w.ends = EndsByTasks
	}
	if e, ok := t.on.(Ender); ok {
		if w.ends = e.EndsBy(); w.ends == EndsByItself {
			return w
		}
	}
	if h, ok := t.on.(Holder); ok && w.ends == EndsByTasks {
		w.by, w.joins = h.HeldBy(), t.why == ReasonJoin
		if w.held = w.by != nil; w.held && !w.joins && w.by.loop.rt != t.loop.rt {
			return new(waiting) // of another runtime, and what goes on there is not known
		}
	}
	w.info = t.describe()
	return w
}

// hasDeadline reports whether time ends the waits of t that can be cancelled.
func (t *Task) hasDeadline() bool {
	ends := func(s *Scope) bool {
		if s == nil {
			return false
		}
		_, ok := s.ctx.Deadline()
		return ok
	}
	x := t.extra()
	for s := x.under; s != nil; s = s.outer {
		if ends(s) {
			return true
		}
		if s.shields {
			return false
		}
	}
	return ends(x.scope)
}

// A stuckness says when a task counts as stuck that waits for a lock or for the end of a task. Each includes those before it.
type stuckness int

const (
	inCircles   stuckness = iota // tasks wait for each other in a circle
	behindEnded                  // the holder of the lock has ended; another task could still unlock it
	behindIdle                   // the holder waits for something else that only tasks can do
)

// stuckTasks returns the tasks whose waits lead from holder to holder to what how says, and the tasks on the way there.
func stuckTasks(all map[*Task]*waiting, order []*Task, how stuckness) (stuck []*Task) {
	found := make(map[*Task]bool)
	for _, t := range order {
		locked, last := false, false // a lock is on the way, and the last of it: by joining alone servers wait too
		var way []*Task
		for at := t; ; at = all[at].by {
			w := all[at]
			left := how >= behindEnded && w == nil && last // after a Join, it is about to return, or at has not begun
			idles := how == behindIdle && locked && w != nil && !w.held && w.ends == EndsByTasks
			if idles {
				way = append(way, at)
			}
			if left || idles || len(way) > len(all) { // the last: a circle
				for _, one := range way {
					found[one] = true
				}
				break
			}
			if w == nil || !w.held {
				break
			}
			way = append(way, at)
			last = !w.joins
			locked = locked || last
		}
	}
	for _, t := range order {
		if found[t] {
			stuck = append(stuck, t)
		}
	}
	return stuck
}

// describe has a line for each of the tasks.
func describe(tasks []*Task, all map[*Task]*waiting) string {
	var text strings.Builder
	for _, t := range tasks[:min(len(tasks), deadlockLines)] {
		text.WriteString("\n  " + all[t].info.String())
	}
	return text.String()
}

// canWake reports whether a timer, an event or an offloaded function may still come.
func (rt *Runtime) canWake(stop <-chan struct{}) bool {
	return rt.anyLoopOrOffload(stop, func(l *Loop) bool {
		return l.timers.wheel.Len() > 0 || l.poller.Active() || l.inbox.pending.Load()
	})
}

// timersOrOffloads is canWake without the events that can only bring new work: events of descriptors, and
// their deadlines.
func (rt *Runtime) timersOrOffloads(stop <-chan struct{}) bool {
	return rt.anyLoopOrOffload(stop, func(l *Loop) bool { return l.timers.wheel.Any(waitsForTime) || l.inbox.pending.Load() })
}

// anyLoopOrOffload reports whether fn is true of a loop, or an offloaded function is running.
func (rt *Runtime) anyLoopOrOffload(stop <-chan struct{}, fn func(l *Loop) bool) bool {
	var yes atomic.Bool
	rt.onLoops(stop, func(l *Loop) {
		if fn(l) {
			yes.Store(true)
		}
	})
	rt.offload.mu.Lock()
	defer rt.offload.mu.Unlock()
	return yes.Load() || rt.offload.running.Load() > 0
}

// waitsForTime reports whether a timer belongs to a sleeping task, rather than to the deadline of a descriptor.
func waitsForTime(of wheel.Expirer) bool {
	_, deadline := of.(*Alarm)
	return !deadline
}

// isExternal reports whether what ends a wait for r comes from outside of the tasks: such a wait is never part of a deadlock.
func isExternal(r Reason) bool {
	switch r {
	case ReasonSleep, ReasonContext, ReasonOffload, ReasonLoop, ReasonRead, ReasonWrite,
		ReasonAccept, ReasonConnect, ReasonDisk, ReasonEntrance, ReasonDescriptor, ReasonClose, ReasonNative, ReasonYield, ReasonStart:
		return true
	}
	return false
}
