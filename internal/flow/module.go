package flow

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/capriccio-go/capriccio/task"
)

// A Module does the work of one node of a graph. It is a pointer to a struct; the fields of
// type Out are its outputs, a field of type Vars is what it remembers of each flow.
type Module[In any] interface {
	// Run is called when there is something to do. It takes at least one element by
	// Call.Next, and is called again for what it leaves. It may park.
	Run(c *Call[In])
}

// A Parallelism says what of a module may run side by side.
type Parallelism uint8

// The kinds of parallelism; see the package.
const (
	ByTask Parallelism = iota
	ByFlow
	ByElement
)

func (p Parallelism) String() string {
	return [...]string{"task", "flow", "element"}[p]
}

// Options say how an instance is run. The zero value is what Add uses.
type Options struct {
	// Queue is how many elements may wait. A sender to a full queue parks. 0: 1,024.
	Queue int
	// Min and Max bound the number of servlets; 0: 1, and 1,024. If they are equal there are
	// always as many, and nothing is measured. A module that is ByTask has one.
	Min, Max int
	// High is how many times more servlets than are busy are kept, to be ready for more; 0: 20,
	// as in the paper. Less gives them back sooner, and starts them more often.
	High float64
}

const (
	defaultQueue = 1024
	defaultMax   = 1024
	maxBatch     = 64 // elements that a servlet takes at once
)

// An Instance is a module in a graph.
type Instance[In any] struct {
	c     core
	m     Module[In]
	queue ring[element[In]]  // guarded by c.mu: of a module that is not ByFlow
	ready ring[*mailbox[In]] // guarded by c.mu: flows that have something to do and that no servlet has
}

// A Dropper is an element that has something to give back if no module takes it. Dropped may park.
type Dropper interface{ Dropped() }

// An element is what was sent, and the flow that it belongs to.
type element[In any] struct {
	f *Flow
	v In
}

// A mailbox is what is queued of one flow at one instance. It is idle, ready (in the
// instance's queue) or taken (a servlet works on it):
//
//	idle ──put──▶ ready ──take──▶ taken ──nothing left──▶ idle
//	                ▲───────something left──┘
type mailbox[In any] struct {
	queue ring[element[In]] // guarded by core.mu
	busy  bool              // guarded by core.mu: ready or taken
}

// A core is what there is of an Instance whatever its type.
type core struct {
	g     *Graph
	name  string // with that of the graph
	index int    // among the instances, and so in Flow.boxes
	by    Parallelism
	opt   Options

	waiting atomic.Int64 // servlets that wait for room behind an output
	waited  atomic.Int64 // when one did last

	mu      task.Mutex
	work    *task.Cond // on mu: there is an element to take, or a servlet is to end
	room    *task.Cond // on mu: the queue is below its limit
	queued  int        // guarded by mu: elements that no servlet has taken
	senders int        // guarded by mu: senders that wait for room
	workers int        // guarded by mu: servlets, without the surplus
	coming  bool       // guarded by mu: a servlet has been started because of the load and has not run yet
	surplus int        // guarded by mu: servlets that have been told to end and have not yet
	sizer   *sizer     // guarded by mu; nil: the number of servlets is fixed
	busy    int        // guarded by mu: servlets in Run
	stats   counters   // guarded by mu
}

type counters struct {
	handled, spawned, retired, panicked uint64
	most                                int
	worked                              time.Duration
}

// Add adds a module to the graph, under a name of its own. It must not be called after Start,
// which reports what is wrong with it.
func Add[In any](g *Graph, name string, by Parallelism, m Module[In]) *Instance[In] {
	return AddWith(g, name, by, Options{}, m)
}

// AddWith is Add with options.
func AddWith[In any](g *Graph, name string, by Parallelism, opt Options, m Module[In]) *Instance[In] {
	g.building("Add")
	in := &Instance[In]{m: m}
	c := &in.c
	*c = core{g: g, name: g.name + "/" + name, index: len(g.instances), by: by}
	c.work, c.room = task.NewCond(&c.mu), task.NewCond(&c.mu)
	switch {
	case name == "" || strings.ContainsAny(name, "/\n"):
		g.fail("a module can't be called %q", name)
	case by > ByElement:
		g.fail("module %s: there is no Parallelism %d", c.name, by)
	case opt.Queue < 0 || opt.Min < 0 || opt.Max < 0 || opt.High < 0:
		g.fail("module %s: negative Options %+v", c.name, opt)
	case opt.Max != 0 && opt.Min > opt.Max:
		g.fail("module %s: Options.Min is %d, above Max, %d", c.name, opt.Min, opt.Max)
	case by == ByTask && (opt.Min > 1 || opt.Max > 1):
		g.fail("module %s is ByTask: it has one servlet, not up to %d", c.name, max(opt.Min, opt.Max))
	case slices.ContainsFunc(g.instances, func(other instance) bool { return other.core().name == c.name }):
		g.fail("there are two modules %s", c.name)
	}
	if opt.Queue == 0 {
		opt.Queue = defaultQueue
	}
	opt.Min = max(opt.Min, 1)
	if by == ByTask {
		opt.Max = 1
	} else if opt.Max == 0 {
		opt.Max = max(defaultMax, opt.Min)
	}
	c.opt = opt
	if opt.Max > opt.Min {
		c.sizer = newSizer(opt.High, opt.Min, opt.Max)
	}
	c.stats.most = opt.Min
	c.waited.Store(int64(-monitorPause))
	g.adopt(c, m)
	g.instances = append(g.instances, in)
	return in
}

func (in *Instance[In]) core() *core { return &in.c }

// Put sends v, as part of f (nil: of none), to the instance, from outside of the graph. It parks while the instance's
// queue is full. It returns ErrClosed when the graph is not running or is being shut down, and the error of the calling
// task's context if that ends; v has then not been sent.
func (in *Instance[In]) Put(f *Flow, v In) error {
	if in.c.g.state.Load() != running {
		return ErrClosed
	}
	return in.put(f, v, nil)
}

// put queues v, which has come over via, nil: from outside. What may panic is done before the lock is taken.
func (in *Instance[In]) put(f *Flow, v In, via *connection) error {
	c := &in.c
	switch {
	case f == nil:
	case c.by == ByFlow && f.g != c.g:
		panic(fmt.Sprintf("flow: a flow of graph %s was sent to %s", f.g.name, c.name))
	case f.refs.Load() <= 0:
		f.Hold() // panics
	}
	c.mu.Lock()
	for c.queued >= c.opt.Queue && (via == nil || !via.back) && c.g.state.Load() < ended {
		c.senders++
		if via != nil {
			via.source.waiting.Add(1)
		}
		err := c.room.WaitContext(context.Background())
		if via != nil {
			via.source.waited.Store(int64(c.g.rt.Now()))
			via.source.waiting.Add(-1)
		}
		c.senders--
		if err != nil {
			c.mu.Unlock()
			return err
		}
	}
	if c.g.state.Load() >= ended {
		c.mu.Unlock()
		return ErrClosed
	}
	c.g.inside.Add(1)
	if via == nil && c.g.state.Load() != running { // Shutdown may have found nothing inside
		if c.senders > 0 {
			c.room.Signal() // what this one was woken for, perhaps
		}
		c.mu.Unlock()
		c.g.finished(1)
		return ErrClosed
	}
	c.queued++
	wake := true
	e := element[In]{f, v}
	if c.by == ByFlow {
		box := in.box(f)
		box.queue.push(e)
		if wake = !box.busy; wake {
			box.busy = true
			in.ready.push(box)
		}
	} else {
		in.queue.push(e)
	}
	if f != nil {
		f.Hold()
	}
	change := 0
	if c.sizer != nil {
		if now := c.g.rt.Now(); c.sizer.arrivedAt(now) {
			change = c.change(now)
		}
	}
	if wake {
		c.work.Signal()
	}
	c.mu.Unlock()
	if change > 0 {
		in.grow()
	}
	return nil
}

// box is the mailbox of f. Caller holds c.mu.
func (in *Instance[In]) box(f *Flow) *mailbox[In] {
	if f == nil {
		return new(mailbox[In])
	}
	box, _ := f.boxes[in.c.index].(*mailbox[In])
	if box == nil {
		box = new(mailbox[In])
		f.boxes[in.c.index] = box
	}
	return box
}

// change reports how many servlets more or less there should be, and counts them: the caller starts the one that comes;
// the one that is to go finds surplus above 0. Caller holds mu.
func (c *core) change(now time.Duration) int {
	change := c.sizer.decide(now, c.workers, c.queued, *c.g.viscosity.Load())
	if change > 0 && (c.coming || c.waiting.Load() > 0 || now-time.Duration(c.waited.Load()) < monitorPause) {
		return 0 // one has not come to its first work yet, or more would wait for room, too
	}
	c.workers += change
	switch {
	case change > 0:
		c.coming = true
		c.stats.spawned++
		c.stats.most = max(c.stats.most, c.workers)
		c.g.extra.Add(1)
	case change < 0:
		c.surplus++
		c.g.extra.Add(-1)
		c.work.Signal()
	}
	return change
}

// grow starts a servlet that has been counted.
func (in *Instance[In]) grow() {
	g := in.c.g
	if g.spawn(in) != nil { // the runtime is being shut down
		in.c.mu.Lock()
		in.c.workers--
		in.c.coming = false
		in.c.mu.Unlock()
		g.extra.Add(-1)
		return
	}
	g.announce() // the monitor may be waiting for that
}

// decide is for the monitor: it changes the number of servlets also while nothing arrives.
func (in *Instance[In]) decide() {
	in.c.mu.Lock()
	change := in.c.change(in.c.g.rt.Now())
	in.c.mu.Unlock()
	if change > 0 {
		in.grow()
	}
}

// dismiss wakes all servlets, and all senders that wait for room, after the end of the graph. Elements queued in an
// aborted graph are dropped.
func (in *Instance[In]) dismiss() {
	c := &in.c
	c.mu.Lock()
	var dropped []element[In]
	if c.g.state.Load() == aborted {
		for in.queue.n > 0 {
			dropped = append(dropped, in.queue.pop())
		}
		for in.ready.n > 0 {
			for box := in.ready.pop(); box.queue.n > 0; {
				dropped = append(dropped, box.queue.pop())
			}
		}
		c.queued -= len(dropped)
	}
	c.work.Broadcast()
	c.room.Broadcast()
	c.mu.Unlock()
	release(c.g, dropped, 0)
}

// A ring is a queue, first in, first out. The zero value is empty.
type ring[T any] struct {
	buf  []T // its length is a power of two
	head int
	n    int
}

func (r *ring[T]) push(v T) {
	if r.n == len(r.buf) {
		grown := make([]T, max(2*len(r.buf), 4))
		for i := range r.n {
			grown[i] = r.buf[(r.head+i)&(len(r.buf)-1)]
		}
		r.buf, r.head = grown, 0
	}
	r.buf[(r.head+r.n)&(len(r.buf)-1)] = v
	r.n++
}

func (r *ring[T]) pop() T {
	v := r.buf[r.head]
	var zero T
	r.buf[r.head] = zero
	r.head = (r.head + 1) & (len(r.buf) - 1)
	r.n--
	return v
}
