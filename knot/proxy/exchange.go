package proxy

import (
	"context"
	"errors"
	"io"
	"math"
	"net"
	"os"
	"sync"
	"time"

	"github.com/capriccio-go/capriccio/internal/balance"
	"github.com/capriccio-go/capriccio/internal/logwriter"
	"github.com/capriccio-go/capriccio/internal/ownctx"
	"github.com/capriccio-go/capriccio/internal/peerwatch"
	"github.com/capriccio-go/capriccio/knot"
	"github.com/capriccio-go/capriccio/knot/internal/h1"
)

const (
	firstBuffer = 8 << 10   // for the head, and what comes with it
	smallBuffer = 4 << 10   // for bodies of requests, and tunnels, while they move little
	largeBuffer = 64 << 10  // for long bodies
	headBuffer  = 128 << 10 // what a head may grow the buffer to
)

var smallBuffers = sync.Pool{New: func() any { return new([smallBuffer]byte) }}
var largeBuffers = sync.Pool{New: func() any { return new([largeBuffer]byte) }}

// A wire is a protocol that backends speak. Its methods never park, but prepare may.
type wire interface {
	// prepare comes before a backend is chosen. An error of it is for the client.
	prepare(e *exchange) error
	// request appends the request to e.out, with its body if that is ready.
	request(e *exchange, body []byte, ready bool)
	// frame appends a piece of the body, finish its end.
	frame(e *exchange, out, piece []byte) []byte
	finish(e *exchange, out, trailer []byte) []byte
	// head looks for the head of a response in what has come, and takes it.
	head(e *exchange) (whole bool, err error)
	// next takes the next piece of the body, a view, from what has come; used bytes are gone for good. io.EOF ends it.
	next(e *exchange) (piece []byte, used int, err error)
	// ended returns the error of a connection that ends inside of a body; nil: that is the end of the body.
	ended(e *exchange) error
	// reusable reports whether the connection may have another request, after the end of the body.
	reusable(e *exchange) bool
}

// innerCtx has the methods of a *knot.Ctx that programs do not need, see internal/ownctx.
type innerCtx interface {
	ReadyBody() (body []byte, ok bool)
	BodyApart() (ownctx.Body, error)
	WhenGone(w *peerwatch.Watch, fn func())
	CopyHeader(name, value []byte)
	SendHead() error
	WriteRoom() int
	Passed() []knot.Header
	Span() ownctx.Span
	RemoteIP() string
	Demand() (told ownctx.Demand, read bool)
}

// An exchange is a request on its way. Fields without a word are of the task that serves it.
type exchange struct {
	p       *Proxy
	x       *knot.Ctx
	inner   innerCtx // of x
	method  string
	trusted bool          // the peer is a proxy whose word about the client counts
	lines   []knot.Header // in place of those of the client, see linesOf
	trace   trace
	limits
	choice

	// The present try.
	b             *backend
	u             *upstream
	used          bool  // the connection has had requests before
	upgrade       bool  // the request asks for another protocol
	taken         bool  // a tunnel has the connection
	armed         bool  // the deadline of the first read is set
	sentAt        int64 // when the request, or its head, was sent, see elapsed
	endedFailures int64 // failures of b in a row that its answer has ended, see backend.noteAnswer
	hasReport     bool  // the response has a load report
	waits         *interrupter
	out           []byte // to be sent

	requestBody
	reply
	cgi
}

// limits say how long an exchange may take, and what backends are told of that.
type limits struct {
	deadline         time.Time     // for all of the exchange; zero: no limit
	isClientDeadline bool          // deadline is when the client waits no longer
	demand           ownctx.Demand // what backends are told of the client, if demands
	demands          bool
	tellsGRPC        bool // ... in the line of gRPC, too
}

// A choice is what the choice of a backend goes by.
type choice struct {
	group *group   // where the request belongs
	tried uint64   // backends, by their bits
	home  *backend // which the client sticks to; nil: none
	key   uint64   // hash that chooses the backend, if keyed
	keyed bool
	loads []balance.Load // scratch space of among
	room  []float64      // scratch space of balance.HotCold
}

// A reply is what has come of the response.
type reply struct {
	in      []byte // in[r:w] has come and has not been used
	r, w    int
	own     []byte             // in, at first
	big     *[largeBuffer]byte // in, for long bodies
	res     h1.ResponseHead
	head    []byte // what res was parsed from; a view
	body    h1.ResponseBody
	trailer []knot.Header
}

// cgi is what FastCGI needs.
type cgi struct {
	rec          records
	scriptPath   string // the path of the request after Strip
	script, info string // the name of the script in it, and what follows
}

var exchanges = sync.Pool{New: func() any {
	return &exchange{reply: reply{own: make([]byte, firstBuffer)}, out: make([]byte, 0, 2<<10), waits: newInterrupter()}
}}

func (e *exchange) begin(p *Proxy, x *knot.Ctx) {
	e.p, e.x, e.inner, e.method, e.group = p, x, ownctx.Of(x).(innerCtx), x.Method(), &p.stable
	e.trusted = x.TrustPeers(p.Trust)
	e.lines = p.linesOf(x, e.inner.Passed())
	if span := e.inner.Span(); span != nil {
		e.beginTrace(span)
	}
	e.in = e.own
	e.content, e.ready = e.inner.ReadyBody()
	if p.TotalTimeout > 0 {
		e.deadline = now().Add(p.TotalTimeout)
	}
	if e.demand, e.demands = e.inner.Demand(); e.demands {
		e.takeDemand()
	}
	switch e.method {
	case "GET", "HEAD", "OPTIONS", "PUT", "DELETE":
		e.repeatable = true
	}
}

// end drops what a pooled exchange must not hold.
func (e *exchange) end() {
	if e.big != nil {
		largeBuffers.Put(e.big)
	}
	if said := e.rec.stderr; len(said) > 0 {
		e.p.Log.Warn("knot: a FastCGI program complains", "backend", e.b.name, "text", logwriter.OneLine(string(said)))
	}
	if e.rec.cut {
		e.p.Log.Warn("knot: a FastCGI program has sent more than its Content-Length", "backend", e.b.name, "script", e.script)
	}
	if e.file != nil {
		e.file.Close()
	}
	out := e.out[:0]
	if cap(out) > largeBuffer {
		out = nil
	}
	clear(e.trailer)
	e.p, e.x, e.inner, e.method, e.lines, e.trace = nil, nil, nil, "", nil, trace{}
	e.limits, e.choice = limits{}, choice{loads: e.loads, room: e.room}
	e.b, e.u, e.upgrade, e.taken, e.waits.why, e.out = nil, nil, false, false, nil, out
	e.content, e.repeatable, e.bodyTaken, e.file, e.fileSize = nil, false, false, nil, 0
	e.trailer, e.big, e.in, e.head = e.trailer[:0], nil, nil, nil
	e.res.Trim()
	e.cgi = cgi{}
}

// sooner returns the earlier of deadline and limit after since (see elapsed). A zero deadline or limit sets none.
func sooner(deadline time.Time, since int64, limit time.Duration) time.Time {
	if limit > 0 {
		if by := loaded.Add(time.Duration(since) + limit); deadline.IsZero() || by.Before(deadline) {
			return by
		}
	}
	return deadline
}

// withDeadline is context.WithDeadline; a zero deadline sets none.
func withDeadline(ctx context.Context, by time.Time) (context.Context, context.CancelFunc) {
	if by.IsZero() {
		return ctx, func() {}
	}
	return context.WithDeadline(ctx, by)
}

// late reports whether there is no time left for all of the request.
func (e *exchange) late() bool { return !e.deadline.IsZero() && !now().Before(e.deadline) }

// arm sets a deadline, limit after since, unless there is no point in waiting.
func (e *exchange) arm(set func(time.Time) error, since int64, limit time.Duration) error {
	by := sooner(e.deadline, since, limit)
	e.waits.mu.Lock()
	defer e.waits.mu.Unlock()
	switch {
	case e.waits.why != nil:
		return e.waits.why
	case e.waits.answered:
		return errHedgeAnswered
	}
	return set(by)
}

// admit waits until b may have another request, for QueueTimeout, as long as there is time for this one, and until its client
// goes: requests behind it are not to wait for one whose client has gone. It parks.
func (e *exchange) admit(b *backend) error {
	if b.slots == nil || b.slots.TryAcquire(1) {
		return nil
	}
	b.counts.queued.Add(1)
	if e.trace.step != nil {
		defer e.trace.queued(time.Now())
	}
	ctx, drop := withDeadline(e.waits.ctx, sooner(e.deadline, elapsed(), b.p.QueueTimeout))
	defer drop()
	err := b.slots.AcquireContext(ctx, 1)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.DeadlineExceeded):
		return &failure{status: 503, cause: causeQueue, backend: b.name, err: errQueued}
	}
	return e.broken(err, true, true)
}

// try sends the request to b and the response back.
func (e *exchange) try(b *backend) error {
	if e.trace.span != nil {
		return e.tryTraced(b)
	}
	return e.tryOnce(b)
}

func (e *exchange) tryOnce(b *backend) error {
	e.b, e.u, e.used, e.endedFailures, e.hasReport = b, nil, false, 0, false
	if err := e.admit(b); err != nil {
		b.exit()
		return err
	}
	if b.removed.Load() {
		b.leave(nil, false)
		return errRemoved
	}
	if b.http2 != nil {
		return e.tryHTTP2(b)
	}
	u, err := b.get(e.waits.ctx, e.deadline)
	if err != nil {
		b.leave(nil, false)
		if errors.Is(err, context.DeadlineExceeded) && !errors.As(err, new(*net.OpError)) {
			return &failure{status: 503, cause: causeQueue, backend: b.name, err: errQueued}
		}
		return e.unreached(err)
	}
	e.u, e.used = u, u.used
	e.r, e.w, e.sent, e.armed = 0, 0, true, false
	e.rec = records{stderr: e.rec.stderr}
	keep := false
	defer func() {
		e.join()
		e.waits.attach(nil)
		if !e.taken {
			e.b.leave(e.u, keep)
		}
	}()
	if why := e.waits.attach(u); why != nil {
		return e.broken(why, true, true)
	}
	if err := e.send(); err != nil {
		return err
	}
	if e.mayHedge() {
		if err := e.awaitEither(); err != nil {
			return err
		}
	}
	if err := e.receiveHead(); err != nil || e.taken {
		return err
	}
	e.b.counts.status[e.res.Status/100].Add(1)
	e.endedFailures = e.b.noteAnswer()
	if err := e.passBack(); err != nil {
		return err
	}
	e.join()
	keep = e.p.keeps() && e.sent && e.r == e.w && e.p.wire.reusable(e) && !e.u.unasked()
	return nil
}

// send sends the request, and begins to send its body if that has not come yet.
func (e *exchange) send() error {
	e.out = e.out[:0]
	e.p.wire.request(e, e.content, e.ready)
	if e.ready && len(e.out) <= smallRequest {
		return e.sendSmall()
	}
	if err := e.arm(e.u.SetWriteDeadline, elapsed(), e.p.IdleTimeout); err != nil {
		return e.broken(err, true, true)
	}
	if n, err := e.u.Write(e.out); err != nil {
		return e.broken(err, n == 0, true)
	}
	e.sentAt = elapsed()
	if e.ready {
		return nil
	}
	if e.file != nil {
		e.source = io.NewSectionReader(e.file, 0, e.fileSize)
	} else {
		apart, err := e.inner.BodyApart()
		if err != nil {
			return err
		}
		e.apart, e.source = apart, apart
	}
	e.bodyTaken, e.sent = true, false
	e.done.Store(false)
	e.sending.Add(1)
	spawn(e.sendBody)
	return nil
}

// smallRequest is what a connection's send buffer has room for, so that a write of it does not wait: requests before it
// have been answered.
const smallRequest = 4 << 10

// sendSmall sends a whole request, and sets the deadline of its response with that of the write.
func (e *exchange) sendSmall() error {
	e.sentAt = elapsed()
	if err := e.arm(e.u.SetDeadline, e.sentAt, e.p.ResponseTimeout); err != nil {
		return e.broken(err, true, true)
	}
	if n, err := e.u.Write(e.out); err != nil {
		return e.broken(err, n == 0, true)
	}
	e.armed = true
	return nil
}

// fill reads more. It waits until limit after since, or after the last progress of the request's body; as long as the client
// lets that wait there is no limit.
func (e *exchange) fill(since int64, limit time.Duration) error {
	if e.r == e.w {
		e.r, e.w = 0, 0
	}
	if e.w == len(e.in) && e.r > 0 {
		e.w = copy(e.in, e.in[e.r:e.w])
		e.r = 0
	}
	if e.w == len(e.in) {
		if len(e.in) >= headBuffer {
			return e.malformed(errTooLong)
		}
		bigger := make([]byte, 2*len(e.in))
		copy(bigger, e.in)
		e.in = bigger
	}
	for {
		if e.source != nil {
			since = max(since, min(e.movedAt.Load(), elapsed()))
		}
		if e.armed {
			e.armed = false
		} else if err := e.arm(e.u.SetReadDeadline, since, limit); err != nil {
			return err
		}
		n, err := e.u.Read(e.in[e.w:])
		e.w += n
		switch {
		case n > 0:
			return nil
		case errors.Is(err, os.ErrDeadlineExceeded) && e.source != nil && e.movedAt.Load() > since && !e.late():
			continue
		case errors.Is(err, os.ErrDeadlineExceeded) && e.apart != nil && e.movedAt.Load() == math.MaxInt64:
			e.endLateBody()
		case err == nil:
			return io.ErrUnexpectedEOF
		}
		return err
	}
}
