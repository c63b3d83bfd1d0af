package programs

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/sim"
	"github.com/capriccio-go/capriccio/stackchunk"
	"github.com/capriccio-go/capriccio/task"
)

// An actor is one task, or one plain goroutine, of a program.
type actor struct {
	w      *world
	rnd    *rand.Rand
	name   string
	task   *engine.Task // nil: a plain goroutine; guarded by world.mu until it is joined
	depth  int          // of spawning
	level  int          // first lock that may still be taken
	ending int          // how it ends; written before the end
}

const (
	endsNormally = iota
	endsByPanic
	endsByGoexit
)

const maxDepth = 3

// spawn makes a new actor, whose choices depend only on those of a.
func (w *world) spawn(rnd *rand.Rand, name string, depth int) *actor {
	a := &actor{w: w, rnd: rand.New(rand.NewPCG(rnd.Uint64(), rnd.Uint64())), name: name, depth: depth}
	w.actors.Add(1)
	if rnd.IntN(6) == 0 && depth == 0 {
		go a.run()
		return a
	}
	o := engine.Options{Name: name}
	if rnd.IntN(2) == 0 {
		o.Loop = w.rt.Loop(rnd.IntN(w.rt.Loops()))
	}
	if len(w.contexts) > 0 && rnd.IntN(2) == 0 {
		o.Context = w.contexts[rnd.IntN(len(w.contexts))].ctx
	}
	t, err := w.rt.Spawn(o, a.run)
	if err != nil {
		w.failf("Spawn: %v", err)
		return a
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	a.task = t
	w.tasks = append(w.tasks, a)
	return a
}

func (a *actor) plain() bool { return engine.Current() == nil }

func (a *actor) run() {
	defer a.w.actors.Done()
	for range 1 + a.rnd.IntN(8) {
		a.call(a.act)
	}
	if a.plain() {
		return
	}
	switch a.rnd.IntN(8) {
	case 0:
		a.ending = endsByPanic
		a.call(func() { panic(a.name) })
	case 1:
		a.ending = endsByGoexit
		a.call(runtime.Goexit)
	}
}

// call calls f, now and then on a stack chunk.
func (a *actor) call(f func()) {
	if a.rnd.IntN(4) != 0 {
		f()
		return
	}
	stackchunk.Call(stackchunk.Bytes(a.rnd.IntN(64<<10)), f)
}

// checkEnd compares what Join returned with how the actor ended.
func (a *actor) checkEnd(err error) {
	var p *engine.PanicError
	ok := err == nil
	switch a.ending {
	case endsByPanic:
		ok = errors.As(err, &p) && p.Value == a.name
	case endsByGoexit:
		ok = errors.Is(err, engine.ErrGoexit)
	}
	if !ok {
		a.w.failf("%s ended in way %d, Join returned %v", a.name, a.ending, err)
	}
}

// checkErr reports an error of an operation unless the task was cancelled.
func (a *actor) checkErr(op string, err error) {
	if err == nil || errors.Is(err, task.ErrChanClosed) || err == errBusy {
		return
	}
	if engine.Err() == nil && engine.Context().Err() == nil { // the error of Context is seen a little earlier
		a.w.failf("%s: %s returned %q but the task is not cancelled", a.name, op, err)
	} else if !errors.Is(err, context.Canceled) {
		a.w.failf("%s: %s returned %q, which is no cancellation", a.name, op, err)
	}
}

type operation struct {
	name string
	fn   func(a *actor) error
}

var operations []operation

func init() {
	operations = []operation{
		{"yield", func(*actor) error { engine.Yield(); return nil }},
		{"sleep", (*actor).sleep},
		{"lock", (*actor).lock}, {"lock", (*actor).lock}, {"lock", (*actor).lock},
		{"send", (*actor).send}, {"send", (*actor).send}, {"send", (*actor).send},
		{"receive", (*actor).receive}, {"receive", (*actor).receive}, {"receive", (*actor).receive},
		{"select", (*actor).choose}, {"select", (*actor).choose}, {"select", (*actor).choose},
		{"ticket", func(a *actor) error { a.w.tickets.add(a.rnd.IntN(2) == 0); return nil }},
		{"ticket", func(a *actor) error { return a.w.tickets.take(a.rnd.IntN(2) == 0) }},
		{"spawn", (*actor).child},
		{"join", (*actor).join},
		{"cancel", (*actor).cancel},
		{"under", (*actor).under},
		{"event", (*actor).event},
		{"timer", (*actor).timer},
		{"offload", (*actor).offload},
		{"group", (*actor).groupOf},
		{"once", func(a *actor) error {
			a.w.once.Do(func() { a.w.onces.Add(1); engine.Yield() })
			if a.w.onces.Load() != 1 {
				a.w.failf("Once.Do returned before its function had run")
			}
			return nil
		}},
	}
}

// act does one random operation.
func (a *actor) act() {
	op := operations[a.rnd.IntN(len(operations))]
	a.checkErr(op.name, op.fn(a))
	a.w.progress.Add(1)
}

func (a *actor) sleep() error {
	if a.plain() {
		runtime.Gosched()
		return nil
	}
	l := engine.CurrentLoop()
	d := time.Duration(a.rnd.Int64N(int64(a.w.settle / 10)))
	start := l.Now()
	err := engine.Sleep(d)
	if slept := l.Now() - start; err == nil && slept < d {
		a.w.failf("Sleep(%v) ended after %v", d, slept)
	}
	if engine.CurrentLoop() != l {
		a.w.failf("a task changed its loop")
	}
	return err
}

func (a *actor) lock() error {
	if a.level >= len(a.w.locks) {
		return nil
	}
	was := a.level
	i := was + a.rnd.IntN(len(a.w.locks)-was)
	release, err := a.w.locks[i].acquire(a)
	if err != nil {
		return err
	}
	a.level = i + 1
	for range a.rnd.IntN(3) {
		a.act()
	}
	a.level = was
	release()
	return nil
}

func (a *actor) pipe() *pipe { return a.w.pipes[a.rnd.IntN(len(a.w.pipes))] }

func (a *actor) send() error {
	p, v := a.pipe(), a.w.values.Add(1)
	var err error
	done := true
	if a.rnd.IntN(4) == 0 {
		done, err = p.c.TrySend(v)
	} else {
		err = p.c.Send(v)
	}
	if err == nil && done {
		p.sent(v)
	}
	return err
}

func (a *actor) receive() error {
	p := a.pipe()
	var v int64
	var err error
	done := true
	if a.rnd.IntN(4) == 0 {
		v, done, err = p.c.TryRecv()
	} else {
		v, err = p.c.Recv()
	}
	if err == nil && done {
		p.received(v)
	}
	return err
}

func (a *actor) choose() error {
	n := 1 + a.rnd.IntN(3)
	cases := make([]task.Case, n)
	then := make([]func(), n)
	for i := range cases {
		p := a.pipe()
		if a.rnd.IntN(2) == 0 {
			v := a.w.values.Add(1)
			cases[i], then[i] = p.c.SendCase(v), func() { p.sent(v) }
		} else {
			var v int64
			cases[i], then[i] = p.c.RecvCase(&v), func() { p.received(v) }
		}
	}
	do := task.Select
	if a.rnd.IntN(4) == 0 {
		do = task.TrySelect
	}
	i, err := do(cases...)
	if err == nil && i >= 0 {
		then[i]()
	}
	return err
}

func (a *actor) child() error {
	if a.depth < maxDepth {
		a.w.spawn(a.rnd, fmt.Sprintf("%s.%d", a.name, a.rnd.IntN(100)), a.depth+1)
	}
	return nil
}

// join waits for one of the children of the world that is not above a: no cycle.
func (a *actor) join() error {
	if a.level > 0 || a.depth >= maxDepth {
		return nil
	}
	b := a.w.spawn(a.rnd, a.name+".joined", a.depth+1)
	if b.task == nil {
		return nil
	}
	err := b.task.Join()
	var p *engine.PanicError
	if err == nil || errors.Is(err, engine.ErrGoexit) || errors.As(err, &p) {
		b.checkEnd(err)
		return nil
	}
	return err
}

func (a *actor) cancel() error {
	if len(a.w.contexts) > 0 && a.rnd.IntN(2) == 0 {
		a.w.contexts[a.rnd.IntN(len(a.w.contexts))].cancel()
	}
	return nil
}

func (a *actor) under() error {
	if a.plain() {
		return nil
	}
	before := engine.Err()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var stop *task.Timer
	if a.rnd.IntN(2) == 0 {
		stop = task.AfterFunc(time.Duration(a.rnd.Int64N(int64(a.w.settle/20))), cancel)
	}
	err := engine.Under(ctx, func() error {
		for range a.rnd.IntN(4) {
			a.act()
		}
		if a.rnd.IntN(3) == 0 {
			cancel()
			err := engine.Await(ctx)
			if !errors.Is(err, context.Canceled) {
				a.w.failf("Await of a cancelled context returned %v", err)
			}
		}
		return nil
	})
	if stop != nil {
		stop.Stop()
	}
	if err != nil {
		a.w.failf("Under returned %v, want what its function returned", err)
	}
	if before != nil && engine.Err() == nil {
		a.w.failf("a task was cancelled before Under and is not after it")
	}
	return nil
}

// An eventPoint is where a waiter for an event is.
type eventPoint atomic.Pointer[engine.Waiter]

func (p *eventPoint) Withdraw(*engine.Waiter) bool {
	return (*atomic.Pointer[engine.Waiter])(p).Swap(nil) != nil
}

// event waits for something that the poller, or another thread, tells.
func (a *actor) event() error {
	var slot atomic.Pointer[engine.Waiter]
	w := engine.Self()
	slot.Store(w)
	fire := func() {
		if w := slot.Swap(nil); w != nil {
			w.Wake()
		}
	}
	if l := w.Loop(); l != nil {
		p, simulated := l.Poller().(*sim.Poller)
		switch {
		case simulated && a.rnd.IntN(2) == 0:
			p.After(time.Duration(a.rnd.Int64N(int64(a.w.settle/20))), fire)
		case a.rnd.IntN(2) == 0:
			l.Post(fire)
		default:
			go fire()
		}
	} else {
		go fire()
	}
	err := w.Wait(engine.ReasonRead, (*eventPoint)(&slot))
	return err
}

func (a *actor) timer() error {
	if a.plain() {
		return nil // which runtime AfterFunc would use is not certain
	}
	w := a.w
	l := engine.CurrentLoop()
	d := time.Duration(a.rnd.Int64N(int64(w.settle / 20)))
	at := l.Now() + d
	w.timers.Add(1)
	t := task.AfterFunc(d, func() {
		if engine.CurrentLoop().Now() < at {
			w.failf("AfterFunc(%v) ran early", d)
		}
		w.timers.Done()
	})
	if a.rnd.IntN(2) == 0 {
		engine.Yield()
		if t.Stop() {
			w.timers.Done()
		}
	}
	return nil
}

func (a *actor) offload() error {
	ran := 0
	engine.Offload(func() {
		if engine.Current() != nil {
			a.w.failf("an offloaded function has a task")
		}
		ran++
	})
	if ran != 1 {
		a.w.failf("an offloaded function ran %d times", ran)
	}
	return nil
}

func (a *actor) groupOf() error {
	if a.plain() {
		return nil
	}
	g, _ := task.NewGroup(engine.Context())
	if a.rnd.IntN(2) == 0 {
		g.SetLimit(1 + a.rnd.IntN(2))
	}
	var failing error
	if a.rnd.IntN(2) == 0 {
		failing = errors.New(a.name)
	}
	n := 1 + a.rnd.IntN(3)
	var ran atomic.Int32
	for i := range n {
		g.Go(func() error {
			ran.Add(1)
			engine.Yield()
			if i == n-1 {
				return failing
			}
			return engine.Sleep(0)
		})
	}
	err := g.Wait()
	if err == nil && (failing != nil || int(ran.Load()) != n) {
		a.w.failf("Group.Wait returned nil: %d of %d ran, one with %v", ran.Load(), n, failing)
	}
	if err != failing {
		return err
	}
	return nil
}
