//go:build linux

package netpoll

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/task"
)

const (
	defaultDrainLimit = 10 * time.Second
	// drainReads is for how long a Read may still wait once a Serve drains. What is on its way
	// at that moment arrives in that time.
	drainReads = 500 * time.Millisecond
)

// A serving is one Serve: the connections whose handlers run.
type serving struct {
	ln      *Listener
	handler func(*Conn)
	active  atomic.Int64         // handlers, and 1 until it drains
	gone    *task.Chan[struct{}] // closed when active is 0
	loops   []servedList         // by index of the loop
}

// A servedList is loop-private.
type servedList struct{ first *served }

// A served is a connection whose handler runs. Loop-private.
type served struct {
	sv         *serving
	c          *Conn
	prev, next *served
}

func newServing(ln *Listener, handler func(*Conn)) *serving {
	sv := &serving{ln: ln, handler: handler, gone: task.NewChan[struct{}](0)}
	sv.loops = make([]servedList, ln.d.loop.Runtime().Loops())
	sv.active.Store(1)
	return sv
}

// take starts the handler of c, on the loop of c.
func (sv *serving) take(c *Conn) {
	s := &served{sv: sv, c: c}
	l := &sv.loops[c.d.loop.Index()]
	if s.next = l.first; s.next != nil {
		s.next.prev = s
	}
	l.first = s
	sv.active.Add(1)
	c.d.loop.Start(s.run())
}

var _ = engine.CallsForth((*served)(nil).run())

// run returns the function that the task of s runs. The handler is the only call in it that may wait, see
// engine.CallsForth. A literal has one frame less than a method value.
//
//go:noinline
func (s *served) run() func() {
	return func() {
		defer s.end()
		s.sv.handler(s.c)
	}
}

func (s *served) end() {
	engine.CurrentLoop() // after a native wait the task is reattached here
	if s.prev != nil {
		s.prev.next = s.next
	} else {
		s.sv.loops[s.c.d.loop.Index()].first = s.next
	}
	if s.next != nil {
		s.next.prev = s.prev
	}
	s.sv.release()
}

func (sv *serving) release() {
	if sv.active.Add(-1) == 0 {
		sv.gone.Close()
	}
}

// drain is called when the calling task has been cancelled; accepting are the tasks that accept.
func (sv *serving) drain(accepting []*engine.Task) {
	limit := sv.ln.cfg.DrainLimit
	if limit == 0 {
		limit = defaultDrainLimit
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	err := engine.Shield(ctx, func() error {
		sv.ln.Drain(ctx)
		for _, t := range accepting {
			if err := t.Join(); err != nil {
				return err
			}
		}
		last := time.Now().Add(drainReads)
		sv.each(func(c *Conn) { c.d.endReads(last) })
		sv.release()
		if _, err := sv.gone.Recv(); err != task.ErrChanClosed {
			return err
		}
		return nil
	})
	if err != nil {
		sv.each(func(c *Conn) { c.d.close() })
	}
}

// each calls f for the connections whose handlers run, on their loops' own goroutines, at some
// time soon.
func (sv *serving) each(f func(*Conn)) {
	rt := sv.ln.d.loop.Runtime()
	for i := range sv.loops {
		rt.Loop(i).Post(func() {
			for s := sv.loops[i].first; s != nil; s = s.next {
				f(s.c)
			}
		})
	}
}
