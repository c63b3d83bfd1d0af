package engine

import (
	"context"
	"errors"
	"reflect"

	"github.com/capriccio-go/capriccio/internal/coro"
)

// Options say how a task is spawned. The zero value is what Go uses.
type Options struct {
	// Name is shown in reports; empty: the name of the function.
	Name string
	// Loop is where the task runs; nil: it starts on the spawner's loop, or, spawned
	// by a plain goroutine, on the loops in turn, unless an idle loop takes it first.
	Loop *Loop
	// Context cancels the task, and all that it spawns, when it ends; nil: that of
	// the spawning task, if any.
	Context context.Context
	// Priority says how important the task is, from -32 to 31; of tasks that wait at an Entrance, the least important
	// are refused first. 0: ordinary.
	Priority int
	// Dropped is called if the task ends without having been started, or nil; also if Spawn returns ErrShutdown.
	Dropped func()

	// Scope is Context that several tasks share, see HoldScope.
	Scope *Scope
	// Inner is the function that fn wraps, whose name the task has; nil: fn.
	Inner any
}

// Go runs fn as a new task. Called by a task, the new one starts on the same loop and belongs to the
// same context; called by a plain goroutine, it starts on a loop of the Default runtime.
func Go(fn func()) *Task { return GoWith(Options{}, fn) }

// GoOn is Go on loop l: no other loop will take the task.
func GoOn(l *Loop, fn func()) *Task { return GoWith(Options{Loop: l}, fn) }

// Start is Go without a handle, as a go statement is: the task can't be joined. So
// its memory is used again when it has finished, and starting a task then needs no allocation.
func Start(fn func()) error {
	l := reattach()
	if l == nil || l.cur == nil || l.cur.innerScope() != nil {
		_, err := Spawn(Options{}, fn)
		return err
	}
	l.enqueueStart(l.newStart(fn))
	return nil
}

// GoWith is Go with options.
func GoWith(o Options, fn func()) *Task {
	t, err := Spawn(o, fn)
	if err != nil && t == nil {
		panic(err)
	}
	return t
}

// Spawn is Go with options. It returns ErrShutdown, and a task that has ended, if the
// runtime has been shut down, and an error and no task if there has been none.
func Spawn(o Options, fn func()) (*Task, error) {
	if o.Loop != nil {
		return o.Loop.rt.spawn(reattach(), o, fn)
	}
	if l := reattach(); l != nil {
		return l.rt.spawn(l, o, fn)
	}
	rt := DefaultOrLast()
	if rt == nil {
		return nil, errors.New("task: Go was called, but no runtime runs; start one with capriccio.Run or capriccio.New")
	}
	return rt.spawn(nil, o, fn)
}

// Spawn is like the function Spawn, on this runtime.
func (rt *Runtime) Spawn(o Options, fn func()) (*Task, error) {
	l := reattach()
	if l != nil && l.rt != rt {
		l = nil
	}
	return rt.spawn(l, o, fn)
}

// Go is like the function Go, on this runtime.
func (rt *Runtime) Go(fn func()) *Task {
	t, _ := rt.Spawn(Options{}, fn)
	return t
}

// spawn makes a task. from is the loop on which the caller runs, or nil.
func (rt *Runtime) spawn(from *Loop, o Options, fn func()) (*Task, error) {
	t := &Task{state: stateQueued}
	t.wait.task = t
	t.toRun(fn)
	if o.Inner != nil {
		t.code = reflect.ValueOf(o.Inner).Pointer()
	}
	if o.Name != "" || o.Dropped != nil || o.Priority != 0 {
		e := t.extend()
		e.name, e.dropped, e.priority = o.Name, o.Dropped, clampPriority(o.Priority)
	}
	s := o.Scope
	if s == nil {
		s = newScope(o.Context)
	}
	if s == nil && o.Context == nil && from != nil && from.cur != nil {
		s = from.cur.innerScope()
	}
	return t, rt.place(from, o.Loop, s, t)
}

// place puts t into the queue where it will be found.
func (rt *Runtime) place(from, on *Loop, s *Scope, t *Task) error {
	if s != nil {
		s.add(t)
	}
	switch {
	case from != nil && on == nil:
		from.number(t)
		from.enqueueStart(t)
		return nil
	case from != nil && on == from:
		from.number(t)
		from.enqueue(t)
		return nil
	}
	step := uint64(len(rt.loops)) + 1
	t.id = rt.spawned.Add(1)*step - 1
	if from != nil && from.rt == rt {
		from.countTask(1)
	} else {
		rt.books.Started.Add(1)
	}
	kind := msgStartHere
	if on == nil {
		kind, on = msgStart, rt.NextLoop()
	}
	if !on.send(wakeBy(from, kind, t, on)) {
		on.drop(t)
		return ErrShutdown
	}
	return nil
}

// drop ends t, which will never start.
func (l *Loop) drop(t *Task) {
	t.state, t.on = stateFinished, nil
	l.rt.books.Dropped.Add(1)
	if s := t.extra().scope; s != nil {
		s.remove(t)
	}
	if dropped := t.extra().dropped; dropped != nil {
		dropped()
	}
	t.signalEnd(ErrShutdown)
}

// Start runs fn as a new task on l, without a handle. It is for pollers, which start a task when something happens:
// from Poll, from a function that l calls, or by a task of l it does not allocate, as tasks made by it are used again.
// Called from elsewhere, it goes through the inbox of l. A detached task is reattached first. It never parks.
func (l *Loop) Start(fn func()) {
	if coro.RunsFree(&l.curG) || reattach() == l {
		l.enqueue(l.newStart(fn))
		return
	}
	l.Post(func() { l.enqueue(l.newStart(fn)) })
}

// newStart makes a task whose memory is used again.
func (l *Loop) newStart(fn func()) *Task {
	t := l.crew.spare
	if t != nil {
		l.crew.spare = t.next
		t.next = nil
		l.crew.spares--
	} else {
		t = new(Task)
	}
	t.wait.task = t
	t.recycle = true
	t.toRun(fn)
	l.number(t)
	return t
}

// steal moves tasks that have not started from a busy loop to l, which is idle. It
// returns whether there were any.
func (rt *Runtime) steal(l *Loop) bool {
	if !l.Works() {
		return false
	}
	for i := 1; i < len(rt.loops); i++ {
		victim := rt.loops[(l.index+i)%len(rt.loops)]
		taken := victim.starts.steal(maxSteal)
		if taken.n == 0 {
			continue
		}
		for t := taken.pop(); t != nil; t = taken.pop() {
			l.enqueueStart(t)
		}
		return true
	}
	return false
}

// wakeIdle gets an idle loop to look for tasks to steal, as l has some.
func (rt *Runtime) wakeIdle(l *Loop) {
	if rt.idleLoops.Load() == 0 {
		return
	}
	n := rt.Working()
	for i := 1; i <= n; i++ {
		if other := rt.loops[(l.index+i)%n]; other != l && other.inbox.sleeping.Load() {
			other.nudge()
			return
		}
	}
}

// number gives t its ID. With n loops, loop i deals out i plus multiples of n+1, and
// the runtime itself, for tasks spawned from outside of a loop, n plus multiples.
func (l *Loop) number(t *Task) {
	l.roster.lastID += uint64(len(l.rt.loops)) + 1
	t.id = l.roster.lastID
	l.countTask(1)
}
