package nethttp

import (
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/capriccio-go/capriccio/internal/coro"
	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/task"
)

// Native runs handlers, and remembers which routes have handlers that wait natively. Each such wait costs
// its loop a millisecond, until the loop is taken from the task (engine.Config.DetachAfter); so once it
// has been, requests of that route run on goroutines, which is what their handler was
// written for. They are tried in tasks again when enough of them have been short. Where no loop is taken from a task
// all run on goroutines. The zero value is ready. Safe from anywhere.
type Native struct {
	marked atomic.Int32            // elements of left that are above 0
	left   [routesMax]atomic.Int32 // by route: how many short requests still run on goroutines
}

const (
	routesMax   = 1024
	nativeTrust = 64 // short requests on goroutines until those of their route are tried in tasks again
	nativeShort = time.Millisecond
)

// SaidWhyHeld reports whether the log says why handlers run on goroutines; tests take it back. atomic
var SaidWhyHeld atomic.Bool

// Run calls h for a request of this route, in the calling task or on a goroutine while the task waits. loop is that of the
// task; nil on a goroutine.
func (n *Native) Run(loop *engine.Loop, log func() *slog.Logger, route uint32, h http.Handler, w http.ResponseWriter, r *http.Request) {
	if loop != nil && !loop.Runtime().Detaches() {
		if !SaidWhyHeld.Swap(true) {
			log().Info("knot: loops can't be taken from tasks that wait natively: handlers of net/http run on goroutines (told once)",
				"why", loop.Runtime().WhyHeld())
		}
		Offload(h, w, r)
		return
	}
	left := &n.left[route%routesMax]
	if n.marked.Load() > 0 && left.Load() > 0 {
		began := time.Now()
		Offload(h, w, r)
		if time.Since(began) < nativeShort && left.Add(-1) == 0 {
			n.marked.Add(-1)
		}
		return
	}
	before := engine.Detachments()
	engine.Outside(callHandler, call{h, w, r})
	if engine.Detachments() != before && left.Swap(nativeTrust) <= 0 {
		n.marked.Add(1)
	}
}

// A call is one of a handler.
type call struct {
	h http.Handler
	w http.ResponseWriter
	r *http.Request
}

// callHandler is for engine.Outside; there is no result.
func callHandler(c call) struct{} {
	c.h.ServeHTTP(c.w, c.r)
	return struct{}{}
}

// Offload runs h on an ordinary goroutine while the calling task waits for its end, whatever becomes of the task: h uses what
// belongs to it. A panic of h is one of Offload, as a *task.PanicError. On a goroutine it just calls h.
func Offload(h http.Handler, w http.ResponseWriter, r *http.Request) {
	if task.Current() == nil {
		h.ServeHTTP(w, r)
		return
	}
	engine.CheckWait() // before h has begun, which can't be taken back
	o := offloaded{w: engine.Self()}
	go o.run(call{h, w, r})
	o.w.Wait(engine.ReasonOffload, nil)
	if o.panicked != nil {
		panic(o.panicked)
	}
}

// An offloaded is a call of a handler on a goroutine of its own.
type offloaded struct {
	w        *engine.Waiter
	panicked any // written before the wake
}

func (o *offloaded) run(c call) {
	returned := false
	defer func() {
		if !returned {
			o.panicked = recover()
			switch {
			case o.panicked == nil && coro.ByGoexit():
				o.panicked = task.ErrGoexit
			case o.panicked == http.ErrAbortHandler:
			default:
				o.panicked = &task.PanicError{Task: "a handler of net/http", Value: o.panicked, Stack: engine.PanicStack(o.panicked)}
			}
		}
		o.w.Wake()
	}()
	callHandler(c)
	returned = true
}
