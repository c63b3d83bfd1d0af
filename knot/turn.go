package knot

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/capriccio-go/capriccio/internal/coro"
	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/logwriter"
	"github.com/capriccio-go/capriccio/internal/ownctx"
	"github.com/capriccio-go/capriccio/knot/internal/h1"
	"github.com/capriccio-go/capriccio/knot/internal/neterr"
	"github.com/capriccio-go/capriccio/knot/internal/store"
)

// run is one turn of the connection, guarded against panics of the handler.
func (x *Ctx) run() (v verdict) {
	returned := false
	defer func() {
		if !returned {
			p := recover()
			v = x.abandon(p, p == nil && coro.ByGoexit())
		}
	}()
	v = x.turn()
	returned = true
	return v
}

// turn reads what is there and serves it, and goes on while a request is
// incomplete.
func (x *Ctx) turn() verdict {
	c := x.c
	x.armReply()
	n, err := c.nc.Read(x.in)
	if c.lingering {
		return lingerRead(n, err)
	}
	if !c.awake() {
		return turnClose
	}
	if n == 0 && neterr.TimedOut(err) {
		if c.refused && c.extend() || !c.refused && c.outlastedDeadline() {
			return turnRest
		}
		n = c.late(x.in)
	}
	if n == 0 {
		return turnClose
	}
	c.extended = false
	x.srv.reportState(c, http.StateActive)
	if !x.srv.readsFirst() && !c.inside && !c.refused {
		c.enter()
	}
	x.w = n
	scanned := 0
	for {
		v := x.serveBuffered(scanned)
		if x.flush() != nil {
			return turnClose
		}
		if v != turnMore {
			return v
		}
		if limit := x.srv.settings().headTime; limit > 0 && x.headBy == 0 {
			x.headBy = c.srv.clock.Now() + int64(limit)
		}
		x.makeRoom(0)
		scanned = x.w
		if v := x.fillHead(); v != turnMore {
			return v
		}
	}
}

// fillHead reads more of an incomplete head.
func (x *Ctx) fillHead() verdict {
	c := x.c
	if x.w == len(x.in) {
		x.growIn(0)
	}
	if x.headBy == 0 {
		c.clearRead()
	} else if c.readBy != x.headBy {
		c.setRead(x.headBy)
	}
	in := c.inside
	c.leave() // a slow client must not keep others out
	x.armReply()
	n, err := c.nc.Read(x.in[x.w:])
	if in {
		c.enter()
	}
	x.busyReads()
	if n == 0 && neterr.TimedOut(err) {
		n = c.late(x.in[x.w:])
	}
	x.w += n
	switch {
	case n > 0:
		return turnMore
	case neterr.TimedOut(err):
		c.readBy = 0
		x.refuse(h1.HeadTimeout)
		if x.flush() != nil {
			return turnClose
		}
		return turnLinger
	}
	return turnClose
}

// serveBuffered serves every request that stands complete in the buffer.
// scanned bytes of the first have been looked at before.
func (x *Ctx) serveBuffered(scanned int) verdict {
	for {
		// An empty line between requests is no part of the next.
		for x.r+1 < x.w && x.in[x.r] == '\r' && x.in[x.r+1] == '\n' {
			x.r += 2
			scanned = max(scanned-2, 0)
		}
		if x.r == x.w {
			return turnRest
		}
		if scanned > 0 && !h1.EndsHead(x.in[:x.w], scanned) && x.w-x.r < x.srv.settings().head.Size {
			return turnMore
		}
		scanned = 0
		switch f := x.head.Parse(x.in[x.r:x.w], &x.srv.settings().head); f {
		case nil:
		case h1.NeedMore:
			return turnMore
		default:
			if x.beginsHTTP2(f) {
				x.takenOver = true
				x.srv.serveHTTP2(x.c, bytes.Clone(x.in[x.r:x.w]))
				return turnGone
			}
			x.refuse(f)
			return turnLinger
		}
		x.headAt = x.r
		x.r += x.head.Size
		x.bodyAt = x.r
		x.serveRequest()
		switch {
		case x.takenOver:
			return turnGone
		case x.aborted || x.writeErr != nil:
			return turnClose
		case x.closing && (x.r < x.w || x.body.Phase != h1.BodyDone || x.srv.conns.stopping.Load()):
			return turnLinger
		case x.closing:
			return turnClose
		}
		if len(x.out) > outSize*3/4 && x.flush() != nil {
			return turnClose
		}
	}
}

// serveRequest answers the request that head describes and brings r to the
// first byte after its body.
func (x *Ctx) serveRequest() {
	x.finished, x.duplex, x.headBy = false, false, 0
	x.resetRequest()
	x.resp.begin()
	x.beginBody()
	x.c.answering.Store(false)
	if x.srv.settings().timed {
		x.began = x.srv.clock.Elapsed()
	}
	x.c.served = true
	x.countForClient()
	h := &x.head
	var f *h1.Fault
	if !x.isTunnel() {
		x.path, x.scratch, f = h1.CleanPath(h.Path.Of(x.headBytes()), x.scratch)
	}
	var err error
	switch {
	case h.Refused != nil:
		x.closing = true
		err = Status(h.Refused.Status)
	case h.Method == h1.MethodConnect && !x.srv.Connect:
		x.closing = true
		err = Status(501)
	case f != nil:
		err = Status(f.Status)
	case h.Length > x.srv.settings().maxBody:
		// The client may or may not send it: don't wait for it.
		x.closing = true
		err = (*fault)(h1.BodyTooLarge)
	case !x.mayEnter() || !x.mayGoOn():
		x.turnedAway = true
		x.srv.refusedAt.Store(x.srv.clock.Now())
		x.AddHeader("Retry-After", retryAfter())
		err = x.SendError(503)
	case x.isLate():
		err = x.refuseLate()
	default:
		answer := x.handlerOf()
		err = engine.Outside(answer, x)
		x.rejoin()
		x.body.end()
		if x.takenOver {
			x.endSpan(101)
			if err != nil {
				x.settle(err)
			}
			return
		}
		x.awaitBody()
	}
	if err == nil {
		err = x.complete()
	}
	if err != nil {
		x.settle(err)
	}
	x.conclude()
	if !x.closing && !x.drainBody() {
		x.closing = true
	}
}

// mayEnter reports whether the request may be served. If not, the program is overloaded or the client has left,
// and it is turned away.
func (x *Ctx) mayEnter() bool {
	c := x.c
	if x.srv.readsFirst() {
		c.leave() // the request before
		if x.srv.demands != nil {
			x.readDemand(x.srv.demands)
		}
		x.rank()
		c.enter()
	}
	return !c.refused
}

// mayGoOn is mayEnter once it is known what the request is for.
func (x *Ctx) mayGoOn() bool {
	if !x.c.inside || !engine.Watched() {
		return true
	}
	began := x.srv.clock.Now()
	for refused((*engine.Entrance)(requests).As(x.kind())) {
		if !x.c.endStalled() {
			return false
		}
	}
	return x.srv.clock.Now()-began < int64(goneAfter) || !x.c.hungUp()
}

// goneAfter is how long a request may have waited to go on for the client to be still interested
// when it has ended its side of the connection: some do so right after their request.
const goneAfter = time.Second

func (c *conn) hungUp() bool {
	at, ok := c.at()
	return ok && at.HungUp()
}

// kind is h1.Kind of the request.
func (x *Ctx) kind() (route, detail uint32) {
	return h1.Kind(x.head.Method, x.path, x.head.Query.Of(x.headBytes()))
}

// conclude is called at the end of every answered request.
func (x *Ctx) conclude() {
	x.finished = true
	if len(x.resp.filters) > 0 {
		x.unfilter()
	}
	x.count()
	if x.span != nil {
		x.endSpan(x.resp.status)
	}
	if now := x.srv.clock.Now(); x.c.since.Load() != now {
		x.c.since.Store(now)
	}
	if l := cmp.Or(x.log, x.srv.settings().log); l != nil {
		l.record(x)
	}
}

// endSpan ends the span of the request, if it has one.
func (x *Ctx) endSpan(status int) {
	if s := x.span; s != nil {
		x.span = nil
		s.End(status, x.resp.written, x.lasted())
	}
}

// settle answers for a handler that returned an error.
func (x *Ctx) settle(err error) {
	if x.body.err != nil {
		x.closing = true
	}
	if x.writeErr != nil {
		return
	}
	var status Status
	var f *fault
	switch {
	case errors.As(err, &status) && status >= 200 && status <= h1.LastStatus:
	case errors.As(err, &f) && f.Status != 0:
		status = Status(f.Status)
	default:
		status = 500
	}
	switch {
	case store.Scarce(err):
		if before, due := x.srv.warned.scarcity.Due(x.srv.clock.Now()); due {
			x.logRequest("handler failed for want of descriptors", "error", err, "unreported", before)
		}
	case status < 500 || err == error(status):
	case x.srv.ctx.Err() != nil || errors.Is(err, engine.ErrShutdown):
		x.logRequest("the server has stopped before the response was complete", "error", err)
	default:
		message, attrs := "handler failed", []any{"error", err}
		if own, ok := err.(ownctx.LoggedError); ok {
			message, attrs = own.LogLine()
		}
		x.logRequest(message, attrs...)
	}
	if x.resp.phase == respOpen {
		x.replace(int(status))
		return
	}
	if x.resp.phase != respDone {
		x.closing, x.aborted = true, true
	}
}

// replace answers with the standard page instead of what was prepared.
func (x *Ctx) replace(status int) {
	x.unfilter()
	x.resp.begin()
	if h1.Bodyless(status) {
		x.Send(status, "", nil)
		return
	}
	if status == 503 {
		x.AddHeader("Retry-After", retryAfter())
	}
	x.SendError(status)
}

// replaceLast is replace where no other function recovers. If a Filter panics the connection ends without an answer.
func (x *Ctx) replaceLast(status int) {
	defer func() {
		if p := recover(); p != nil {
			x.logPanic("Filter panicked", p)
		}
	}()
	x.replace(status)
}

// refuse answers a request that can't be parsed. The connection ends with it.
func (x *Ctx) refuse(f *h1.Fault) {
	x.headAt = x.r
	x.resetRequest()
	method := x.head.Method // an answer to HEAD has no body, whatever it says
	x.head.Reset()
	x.head.Method = method
	x.head.Refused = f
	x.head.Minor = 1
	x.body = body{}
	x.closing = true
	x.replaceLast(f.Status)
	x.conclude()
}

// abandon cleans up after a handler that panicked with p, or, with goexit, left by
// runtime.Goexit: then the caller's frames are gone and all is done here.
func (x *Ctx) abandon(p any, goexit bool) verdict {
	x.rejoin()
	x.body.end()
	what := "handler panicked"
	if goexit {
		what = "handler left by runtime.Goexit"
	}
	if goexit && errors.Is(engine.Err(), engine.ErrShutdown) {
		x.logRequest("the runtime ended before the handler")
	} else {
		x.logPanic(what, p)
	}
	if x.takenOver {
		x.endSpan(101)
		return turnGone
	}
	if !x.finished {
		x.dropGathered()
	}
	x.closing = true
	if !x.finished {
		if x.resp.phase == respOpen && x.writeErr == nil {
			x.replaceLast(500)
		}
		x.conclude()
	}
	x.spoiled = true
	err := x.flush()
	if !goexit && err == nil {
		return turnLinger
	}
	if goexit { // the caller's frames are gone
		giveBack(x)
		x.c.leave()
		x.c.end(err == nil)
	}
	return turnClose
}

// logPanic writes a line about p, which a deferred function has recovered.
func (x *Ctx) logPanic(message string, p any) {
	x.logRequest(message, "panic", logwriter.OneLine(fmt.Sprint(p)), "stack", logwriter.OneLine(string(engine.PanicStack(p))))
}

// logRequest writes a line about the current request to the error log.
func (x *Ctx) logRequest(message string, args ...any) {
	args = append(args, "client", x.clientText())
	if !x.takenOver { // else its head is gone
		args = append(args, "method", x.Method(), "target", x.Target())
	}
	if x.id != "" {
		args = append(args, "request_id", x.id)
	}
	x.srv.errorLog().Error("knot: "+message, args...)
}
