package flow

import (
	"context"
	"fmt"
	"time"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/ressched"
)

// A Call is one call of Run. It belongs to the servlet that makes it.
type Call[In any] struct {
	in    *Instance[In]
	box   *mailbox[In]  // the one that was taken, if the module is ByFlow
	batch []element[In] // what was taken from the queue
	next  int           // of batch, for Next
}

// Next takes the next element. It reports false when this call has nothing more to do, and
// never parks.
func (c *Call[In]) Next() (v In, ok bool) {
	if c.next == len(c.batch) {
		return v, false
	}
	v = c.batch[c.next].v
	c.next++
	return v, true
}

// Flow is the flow of the element that Next has returned last; nil if it belongs to none.
func (c *Call[In]) Flow() *Flow {
	if c.next == 0 {
		panic("flow: Call.Flow before Call.Next")
	}
	return c.batch[c.next-1].f
}

// serve is a servlet: it takes elements and runs the module on them until it is surplus or the graph ends.
func (in *Instance[In]) serve() {
	call := &Call[In]{in: in}
	in.c.mu.Lock()
	in.c.coming = false
	in.c.mu.Unlock()
	clean := false
	defer func() { in.leave(clean) }()
	for in.take(call) {
		in.work(call)
	}
	clean = true
}

// leave ends the calling servlet: it no longer counts. If a panic has ended it (clean is false), leave starts another.
func (in *Instance[In]) leave(clean bool) {
	c := &in.c
	defer c.g.gone()
	if !clean {
		c.mu.Lock()
		c.stats.panicked++
		c.work.Signal() // it was going to look for more
		c.mu.Unlock()
		if c.g.state.Load() < ended {
			c.g.spawn(in) // fails only if the runtime has ended, too
		}
	}
}

// take waits for elements and moves a batch of them to call. It reports false if the servlet is to end.
func (in *Instance[In]) take(call *Call[In]) bool {
	c := &in.c
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		if c.surplus > 0 {
			c.surplus--
			c.stats.retired++
			if c.queued > 0 {
				c.work.Signal() // what this one was woken for, perhaps
			}
			return false
		}
		if in.ready.n > 0 || in.queue.n > 0 {
			break
		}
		if c.g.state.Load() >= ended {
			return false
		}
		if c.work.WaitContext(context.Background()) != nil {
			return false
		}
	}
	from, n := &in.queue, 1
	switch c.by {
	case ByFlow:
		call.box = in.ready.pop()
		from = &call.box.queue
		n = min(from.n, maxBatch)
	case ByTask:
		n = min(from.n, maxBatch)
	case ByElement:
		n = min(from.n/c.workers+1, from.n, maxBatch)
	}
	call.batch, call.next = call.batch[:0], 0
	for range n {
		call.batch = append(call.batch, from.pop())
	}
	c.queued -= n
	c.busy++
	for range min(c.senders, n, c.opt.Queue-c.queued) {
		c.room.Signal()
	}
	return true
}

// work calls Run until it has taken all of the batch.
func (in *Instance[In]) work(call *Call[In]) {
	var taken, began time.Duration
	if in.c.sizer != nil {
		taken = in.c.g.rt.Now()
	}
	ressched.YieldAt(in.c.name) // the scheduler runs servlets of one module together, and the blocking graph shows them
	if in.c.sizer != nil {
		began = in.c.g.rt.Now()
	}
	defer in.done(call, taken, began)
	for call.next < len(call.batch) && in.c.g.state.Load() != aborted {
		before := call.next
		engine.Outside(run, call)
		if call.next == before {
			panic(fmt.Sprintf("flow: Run of %s has taken nothing", in.c.name))
		}
	}
}

// run is for engine.Outside.
func run[In any](call *Call[In]) struct{} {
	call.in.m.Run(call)
	return struct{}{}
}

// done ends a batch: it counts it, gives back the mailbox, and releases the elements. It runs also when Run has
// panicked.
func (in *Instance[In]) done(call *Call[In], taken, began time.Duration) {
	c := &in.c
	n := len(call.batch)
	c.mu.Lock()
	c.busy--
	c.stats.handled += uint64(n)
	if c.sizer != nil {
		took, waited := c.g.rt.Now()-began, began-taken
		c.stats.worked += took
		for range n {
			c.sizer.addService(took/time.Duration(n), waited/time.Duration(n))
		}
	}
	if box := call.box; box != nil {
		if box.queue.n > 0 {
			in.ready.push(box) // behind the flows that wait already; this servlet takes the first of them
		} else {
			box.busy = false
			box.queue = ring[element[In]]{}
		}
		call.box = nil
	}
	aborted := c.g.state.Load() == aborted
	c.mu.Unlock()
	if aborted {
		in.dismiss() // what has come to the mailbox meanwhile
	}
	release(c.g, call.batch, call.next)
	clear(call.batch)
}

// release lets go of elements: the first that many have been taken, the others are dropped.
func release[In any](g *Graph, es []element[In], taken int) {
	done := 0
	defer func() {
		if done < len(es) { // the end of a flow, or Dropped, has panicked
			done++
			defer release(g, es[done:], taken-done)
		}
		g.finished(done)
	}()
	for _, e := range es {
		if done >= taken {
			e.drop()
		} else if e.f != nil {
			e.f.Release()
		}
		done++
	}
}

// drop lets go of an element that no module has taken.
func (e element[In]) drop() {
	if e.f != nil {
		defer e.f.Release()
	}
	if d, ok := any(e.v).(Dropper); ok {
		d.Dropped()
	}
}
