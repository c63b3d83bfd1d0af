package flow

import (
	"fmt"
	"sync/atomic"
)

// A Flow is a sequence of elements that are worked on in order: the data of one
// connection, for example. It lives as long as one of its elements is queued or worked on, or
// a caller holds it, see Hold.
type Flow struct {
	g     *Graph
	id    uint64
	refs  atomic.Int64
	end   func()
	value any
	boxes []any // by instance: its *mailbox; each guarded by the core.mu of its instance
	vars  []any // by variable; each belongs to the servlet that works on the flow at its instance
}

var flowIDs atomic.Uint64

// NewFlow makes a flow of the graph, which must have been started, and which the caller
// holds: Release it when nothing more of it is going to be put into the graph. end, which
// may be nil, is called once, when none of its elements is left and the last holder has released
// the flow; it may park. value is for modules, see Flow.Value.
func (g *Graph) NewFlow(value any, end func()) *Flow {
	f := &Flow{g: g, id: flowIDs.Add(1), value: value, end: end,
		boxes: make([]any, len(g.instances)), vars: make([]any, g.vars)}
	f.refs.Store(1)
	return f
}

// ID is a number that no other flow of the process has had.
func (f *Flow) ID() uint64 { return f.id }

// Value is what NewFlow was called with.
func (f *Flow) Value() any { return f.value }

// Hold keeps the flow alive until one more call of Release. The caller must hold the flow already, or
// work on it. Hold never parks.
func (f *Flow) Hold() {
	if f.refs.Add(1) <= 1 {
		f.refs.Add(-1)
		panic(fmt.Sprintf("flow: Hold of flow %d, which has ended", f.id))
	}
}

// Release undoes one Hold, or the one of NewFlow. The last Release calls the function given to
// NewFlow, and parks if that does.
func (f *Flow) Release() {
	switch n := f.refs.Add(-1); {
	case n == 0 && f.end != nil:
		f.end()
	case n < 0:
		panic(fmt.Sprintf("flow: flow %d was released more often than held", f.id))
	}
}

// An Out is an output of a module, for values of type T. It is a field of the module's
// struct and must not be copied.
type Out[T any] struct {
	c   connection
	put func(f *Flow, v T, via *connection) error // nil: see Discard
}

func (o *Out[T]) connection() *connection { return &o.c }

// Send sends v, as part of f (nil: of none), to the module that the output is connected to. It
// parks while the queue of that module is full. It drops v if the output was given to Discard. The
// error is ErrClosed if the graph has ended, or that of the calling task's context; v has then not
// been sent.
func (o *Out[T]) Send(f *Flow, v T) error {
	if o.put == nil {
		return nil
	}
	if err := o.put(f, v, &o.c); err != nil {
		return err
	}
	o.c.sent.Add(1)
	return nil
}

// Connect connects an output to an instance of the same graph. An output has one connection;
// many outputs may be connected to the same instance.
func Connect[T any](from *Out[T], to *Instance[T]) { connect(from, to, to.put, false) }

// Back is Connect for a connection that closes a cycle: elements sent there are queued even if the queue is full.
func Back[T any](from *Out[T], to *Instance[T]) { connect(from, to, to.put, true) }

// ConnectAs is Connect for an instance that takes elements of another type, such as one with inputs from several
// modules: as converts each element, on the sender's task.
func ConnectAs[T, In any](from *Out[T], to *Instance[In], as func(T) In) {
	connect(from, to, converted(to, as), false)
}

// BackAs is ConnectAs for a connection that closes a cycle.
func BackAs[T, In any](from *Out[T], to *Instance[In], as func(T) In) {
	connect(from, to, converted(to, as), true)
}

func converted[T, In any](to *Instance[In], as func(T) In) func(*Flow, T, *connection) error {
	return func(f *Flow, v T, via *connection) error { return to.put(f, as(v), via) }
}

func connect[T, In any](from *Out[T], to *Instance[In], put func(*Flow, T, *connection) error, back bool) {
	g := to.c.g
	g.building("Connect")
	switch {
	case from.c.graph == nil:
		g.fail("an output to %s belongs to no module that was added", to.c.name)
	case from.c.graph != g:
		for _, either := range []*Graph{g, from.c.graph} {
			either.fail("output %s leads to another graph, to %s", from.c.name, to.c.name)
		}
	case from.c.set:
		g.fail("output %s is connected twice", from.c.name)
	}
	from.put = put
	from.c.target, from.c.set, from.c.back = &to.c, true, back
}

// Discard makes an output drop all values that are sent to it.
func Discard[T any](from *Out[T]) {
	if g := from.c.graph; g != nil {
		g.building("Discard")
		if from.c.set {
			g.fail("output %s is connected twice", from.c.name)
		}
	}
	from.c.set = true
}

// Vars are the variables that a module has for each flow: a T, which is zero at first and ends with the flow. It is a
// field of the module's struct.
type Vars[T any] struct {
	slot int
	c    *core
}

type variables interface{ place(slot int, c *core) }

func (v *Vars[T]) place(slot int, c *core) { v.slot, v.c = slot, c }

// Of returns the variables of f. Only Run may call it, for the flow of an element that it
// has taken in the same call. It finds them without a search.
func (v *Vars[T]) Of(f *Flow) *T {
	if v.c == nil || f == nil || f.g != v.c.g {
		panic("flow: Vars.Of needs a module that was added, and a flow of its graph")
	}
	if p, ok := f.vars[v.slot].(*T); ok {
		return p
	}
	p := new(T)
	f.vars[v.slot] = p
	return p
}
