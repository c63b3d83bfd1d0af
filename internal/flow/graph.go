package flow

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/task"
)

// ErrClosed is what Put and Send return when the graph has been shut down or has not been started.
var ErrClosed = errors.New("flow: the graph is not running")

// A Graph is a set of modules and the connections between them. Make it with New, add
// modules, connect their outputs, then Start.
type Graph struct {
	name      string
	rt        *engine.Runtime // set by Start
	instances []instance      // fixed by Start
	outs      []out           // fixed by Start
	vars      int             // fields of type Vars in all modules
	failed    error           // the first mistake in Add or Connect, for Start
	onClose   []func()        // fixed by Start

	state    atomic.Int32 // see running
	inside   atomic.Int64 // elements that were sent and have not been worked off
	servlets atomic.Int64 // of all instances
	extra    atomic.Int64 // of those, above the minimum of their instance

	mu      task.Mutex
	changed *task.Cond // on mu: inside has become 0, or extra is not 0 any more
	left    task.WaitGroup
	stop    context.CancelFunc // of the monitor; set by Start

	viscosity atomic.Pointer[viscosity]
}

// States of a Graph, in this order.
const (
	building = iota
	running
	closing // nothing comes in from outside
	ended   // servlets go when there is nothing more to take
	aborted // servlets go
)

// An instance is an Instance of any type.
type instance interface {
	core() *core
	serve()
	decide()
	dismiss()
}

// An out is an Out of any type.
type out interface {
	connection() *connection
}

// A connection is what is known of an Out whatever its type.
type connection struct {
	name   string // "web/parse.Out"
	graph  *Graph
	source *core
	target *core // nil if it is not connected or discards
	set    bool
	back   bool
	sent   atomic.Uint64
}

// New returns a graph without modules. The name stands before those of its modules.
func New(name string) *Graph {
	g := &Graph{name: name}
	g.changed = task.NewCond(&g.mu)
	g.viscosity.Store(&still)
	return g
}

// fail remembers a mistake for Start.
func (g *Graph) fail(format string, args ...any) {
	if g.failed == nil {
		g.failed = fmt.Errorf("flow: "+format, args...)
	}
}

// building panics if the graph can't be changed any more.
func (g *Graph) building(what string) {
	if g.state.Load() != building {
		panic("flow: " + what + " after Start")
	}
}

// adopt finds the outputs and variables among the fields of m, which is a pointer to a struct.
func (g *Graph) adopt(c *core, m any) {
	v := reflect.ValueOf(m)
	if v.Kind() != reflect.Pointer || v.Elem().Kind() != reflect.Struct {
		return // a module without outputs
	}
	v = v.Elem()
	for i := range v.NumField() {
		field := v.Type().Field(i)
		if !field.IsExported() {
			if at := reflect.PointerTo(field.Type); at.Implements(outType) || at.Implements(varsType) {
				g.fail("field %s of module %s must be exported", field.Name, c.name)
			}
			continue
		}
		switch f := v.Field(i).Addr().Interface().(type) {
		case out:
			conn := f.connection()
			if conn.graph != nil {
				g.fail("%T is part of %s already; a module can be added once", m, conn.name)
				return
			}
			conn.name, conn.graph, conn.source = c.name+"."+field.Name, g, c
			g.outs = append(g.outs, f)
		case variables:
			if c.by == ByElement {
				g.fail("module %s is ByElement, so it can't have variables of flows (%s)", c.name, field.Name)
			}
			f.place(g.vars, c)
			g.vars++
		}
	}
}

var (
	outType  = reflect.TypeFor[out]()
	varsType = reflect.TypeFor[variables]()
)

// OnClose has fn called when Shutdown begins: it stops what feeds the graph from outside. It may park.
func (g *Graph) OnClose(fn func()) {
	g.building("OnClose")
	g.onClose = append(g.onClose, fn)
}

// Start checks the graph and starts its servlets, on the runtime of the calling task or
// else the default one. It may be called once and does not park. The error says what was
// wrong: a name used twice, an output that is not connected, a cycle that Back does not close.
func (g *Graph) Start() error {
	g.building("Start")
	if g.failed != nil {
		return g.failed
	}
	for _, o := range g.outs {
		if c := o.connection(); !c.set {
			return fmt.Errorf("flow: output %s is not connected; use Connect, Back or Discard", c.name)
		}
	}
	if cycle := g.cycle(); cycle != "" {
		return fmt.Errorf("flow: the cycle %s must have one connection made by Back, or its queues can fill up for ever", cycle)
	}
	if g.rt = engine.CurrentRuntime(); g.rt == nil {
		return errors.New("flow: Start without a runtime; call it in capriccio.Run, or after capriccio.New")
	}
	ctx, stop := context.WithCancel(context.Background())
	g.stop = stop
	g.state.Store(running)
	adaptive := false
	for _, in := range g.instances {
		c := in.core()
		adaptive = adaptive || c.sizer != nil
		c.workers = c.opt.Min
		for range c.opt.Min {
			if err := g.spawn(in); err != nil {
				return err
			}
		}
	}
	if adaptive {
		g.left.Add(1)
		if _, err := g.rt.Spawn(engine.Options{Name: g.name + "/monitor", Context: ctx, Dropped: g.left.Done}, g.monitor); err != nil {
			return err
		}
	}
	return nil
}

// spawn starts a servlet that has been counted among the workers of its instance.
func (g *Graph) spawn(in instance) error {
	g.left.Add(1)
	g.servlets.Add(1)
	_, err := g.rt.Spawn(engine.Options{Name: in.core().name, Loop: g.rt.NextLoop(), Context: context.Background(), Dropped: g.gone}, in.serve)
	return err
}

// gone takes a servlet off the count.
func (g *Graph) gone() {
	g.servlets.Add(-1)
	g.left.Done()
}

// cycle returns the names along a cycle of connections that Back has not made, "" if there
// is none.
func (g *Graph) cycle() string {
	const open, done = 1, 2
	state := map[*core]int{}
	var path []*core
	var visit func(c *core) string
	visit = func(c *core) string {
		path = append(path, c)
		state[c] = open
		for _, o := range g.outs {
			conn := o.connection()
			if conn.source != c || conn.target == nil || conn.back {
				continue
			}
			switch state[conn.target] {
			case open:
				text := ""
				for _, on := range path[slices.Index(path, conn.target):] {
					text += on.name + " → "
				}
				return text + conn.target.name
			case 0:
				if found := visit(conn.target); found != "" {
					return found
				}
			}
		}
		state[c] = done
		path = path[:len(path)-1]
		return ""
	}
	for _, in := range g.instances {
		if state[in.core()] == 0 {
			if found := visit(in.core()); found != "" {
				return found
			}
		}
	}
	return ""
}

// monitorPause is how often the monitor looks, as in the paper.
const monitorPause = 100 * time.Millisecond

// monitor measures the damping while modules have more servlets than their minimum, and ends idle
// servlets. Otherwise it waits.
func (g *Graph) monitor() {
	defer g.left.Done()
	var all damper
	for {
		v := all.tick(g.rt.Now(), int(g.servlets.Load()))
		g.viscosity.Store(&v)
		if g.extra.Load() > 0 {
			for _, in := range g.instances {
				if in.core().sizer != nil {
					in.decide()
				}
			}
			if task.Sleep(monitorPause) != nil {
				return
			}
			continue
		}
		g.mu.Lock()
		var err error
		for g.extra.Load() == 0 && err == nil {
			err = g.changed.WaitContext(context.Background())
		}
		g.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// finished subtracts n elements from the count of elements inside the graph.
func (g *Graph) finished(n int) {
	if n > 0 && g.inside.Add(int64(-n)) == 0 && g.state.Load() == closing {
		g.announce()
	}
}

// Shutdown ends the graph: no more elements come in from outside, the elements inside are worked
// off, then the servlets end. If ctx ends before that, queued elements are dropped (see Dropper), their flows
// are released, and the error of ctx is returned; servlets then end when their Run returns.
// Shutdown parks, and does not end early when the calling task is cancelled. Later calls return
// nil at once.
func (g *Graph) Shutdown(ctx context.Context) error {
	if !g.state.CompareAndSwap(running, closing) {
		return nil
	}
	defer g.stop()
	for _, fn := range g.onClose {
		fn()
	}
	unwatch := context.AfterFunc(ctx, g.announce)
	defer unwatch()
	g.mu.Lock()
	left := g.inside.Load() > 0 // a Put that will be refused may be among them
	for left && ctx.Err() == nil {
		g.changed.Wait()
		left = g.inside.Load() > 0
	}
	g.mu.Unlock()
	if left {
		g.state.Store(aborted)
	} else {
		g.state.Store(ended)
	}
	for _, in := range g.instances {
		in.dismiss()
	}
	if g.state.Load() == aborted {
		return ctx.Err()
	}
	g.stop()
	g.left.Wait()
	return nil
}

// announce wakes Shutdown and monitor, which wait for a change of the graph.
func (g *Graph) announce() {
	g.mu.Lock()
	g.changed.Broadcast()
	g.mu.Unlock()
}
