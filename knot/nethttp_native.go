package knot

import (
	"net/http"
	"sync/atomic"
	"time"

	"github.com/capriccio-go/capriccio/internal/engine"
)

// nativeRoutes remembers which routes have handlers that wait natively. Each such wait costs
// its loop a millisecond, until the loop is taken from the task (engine.Config.DetachAfter); so once it
// has been, requests of that route run on goroutines, which is what their handler was
// written for. They are tried in tasks again when enough of them have been short. Where no loop is taken from a task
// all run on goroutines.
type nativeRoutes struct {
	marked atomic.Int32                  // elements of left that are above 0
	left   [nativeRoutesMax]atomic.Int32 // by route: how many short requests still run on goroutines
}

const (
	nativeRoutesMax = 1024
	nativeTrust     = 64
	nativeShort     = time.Millisecond
)

// saidWhyHeld reports whether the log says why handlers run on goroutines. atomic
var saidWhyHeld atomic.Bool

// run calls h for e, in the task of the request or on a goroutine. When h returns, e may have
// been hijacked, and has no Ctx any more.
func (n *nativeRoutes) run(e *exchange, h http.Handler) {
	if e.loop != nil && !e.loop.Runtime().Detaches() {
		if !saidWhyHeld.Swap(true) {
			e.srv.errorLog().Info("knot: loops can't be taken from tasks that wait natively: handlers of net/http run on goroutines (told once)",
				"why", e.loop.Runtime().WhyHeld())
		}
		offloadHTTP(h, e.writer(), &e.r)
		return
	}
	route, _ := e.x.kind()
	left := &n.left[route%nativeRoutesMax]
	if n.marked.Load() > 0 && left.Load() > 0 {
		began := time.Now()
		offloadHTTP(h, e.writer(), &e.r)
		if time.Since(began) < nativeShort && left.Add(-1) == 0 {
			n.marked.Add(-1)
		}
		return
	}
	before := engine.Detachments()
	engine.Outside(exchangeOf.run, exchangeOf{e, h})
	if engine.Detachments() != before && left.Swap(nativeTrust) <= 0 {
		n.marked.Add(1)
	}
}
