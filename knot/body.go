package knot

import (
	"bytes"
	"fmt"
	"io"
	"time"

	"github.com/capriccio-go/capriccio/internal/admit"
	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/knot/internal/h1"
	"github.com/capriccio-go/capriccio/knot/internal/neterr"
	"github.com/capriccio-go/capriccio/knot/internal/nethttp"
	"github.com/capriccio-go/capriccio/task"
)

// bodyRoom is the least room in the read buffer for body bytes.
const bodyRoom = 4096

// body is the state of the current request's body. Every field is loop-private.
type body struct {
	h1.Framing
	err error
	// owed: the client waits for 100 Continue before it sends.
	owed bool
	// trails: a trailer may come behind it, though its length is known, as in HTTP/2.
	trails bool
	most   int64 // the limit that LimitBody has set, in bytes, plus 1; 0: none
	held   admit.Body
	budget *admit.BodyBudget // nil: none
}

// end gives back what the body may yet have taken of the budget.
func (b *body) end() {
	if b.budget != nil {
		b.budget.End(&b.held)
	}
}

func (x *Ctx) beginBody() {
	h := &x.head
	x.body = body{Framing: h1.Framing{Chunked: h.Chunked}}
	switch {
	case h.Chunked:
		x.body.Phase = h1.BodySize
	case h.Length > 0:
		x.body.Phase, x.body.Left = h1.BodyData, h.Length
		if x.c.stream != nil {
			_, x.body.trails = h.Find(x.headBytes(), "trailer")
		}
	default:
		return
	}
	x.body.owed = h.Expect
	if x.body.budget = x.srv.bodies; x.body.budget == nil {
		if l := engine.CurrentLoop(); l != nil {
			x.body.budget = l.Runtime().Bodies()
		}
	}
}

// nextBody returns the next piece of the body, at most most bytes, as a view
// into the read buffer; io.EOF after the last. It may park.
func (x *Ctx) nextBody(most int) ([]byte, error) {
	b := &x.body
	for b.err == nil {
		switch b.Phase {
		case h1.BodyDone:
			if !b.trails {
				return nil, io.EOF
			}
			b.trails = false
			b.err = x.awaitTrailer()
		case h1.BodyData:
			if x.r == x.w {
				b.err = x.fillBody()
				continue
			}
			n := int(min(b.Left, int64(x.w-x.r), int64(most)))
			piece := x.in[x.r : x.r+n : x.r+n]
			x.r += n
			x.body.Took(n)
			return piece, nil
		default:
			b.err = x.chunkStep()
		}
	}
	return nil, b.err
}

// fillBody reads more from the connection behind the head, which stays where
// it is: the handler may still ask for it.
func (x *Ctx) fillBody() error {
	if err := x.beforeRead(); err != nil {
		return err
	}
	x.makeRoom(x.bodyAt)
	if len(x.in)-x.w < 1 || len(x.in)-x.bodyAt < bodyRoom {
		x.growBesideWriter(x.bodyAt + bodyRoom)
	}
	_, err := x.readBody(x.in[x.w:])
	return err
}

// growBesideWriter is growIn while another goroutine of a handler of net/http may be writing, and counting the buffers.
func (x *Ctx) growBesideWriter(size int) {
	if e := x.adapted; e != nil {
		e.mu.Lock()
		defer e.mu.Unlock()
	}
	x.growIn(size)
}

// beforeRead sends what the client may be waiting for. Of a handler of net/http that is
// only the 100 Continue: others may be writing, and they flush themselves.
func (x *Ctx) beforeRead() error {
	if e := x.adapted; e != nil {
		if !x.body.owed {
			return nil
		}
		e.mu.Lock()
		defer e.mu.Unlock()
	}
	if x.body.owed {
		x.body.owed = false
		if x.resp.phase == respOpen {
			x.out = append(x.out, "HTTP/1.1 100 Continue\r\n\r\n"...)
		}
	}
	if x.dropBy != 0 && x.resp.start >= 0 { // its head may have to be changed, see awaitBody
		return nil
	}
	return x.flush()
}

// armRead sets the deadline for a read of the body.
func (x *Ctx) armRead() error {
	if x.dropBy != 0 {
		if x.c.readBy != x.dropBy {
			x.c.setRead(x.dropBy)
		}
		return nil
	}
	if e := x.adapted; e != nil {
		return e.armRead(x)
	}
	if x.apart != nil {
		return x.apart.arm(x)
	}
	x.c.armRead(x.bodyTimeout())
	return nil
}

// bodyTimeout is for how long the client may stop in the middle of the body. Bytes of a tunnel are no body.
func (x *Ctx) bodyTimeout() time.Duration {
	if x.isTunnel() && !x.finished {
		return 0
	}
	return x.slowIn.Limit(x.srv.settings().body)
}

// maySendMessages reports whether the body may be a stream of messages, as clients of gRPC send it: over HTTP/2, without a length.
func (x *Ctx) maySendMessages() bool { return x.c.stream != nil && x.head.Chunked }

// readBody reads from the connection. If p is the free part of the read
// buffer the bytes become part of it.
func (x *Ctx) readBody(p []byte) (int, error) {
	if err := x.armRead(); err != nil {
		return 0, err
	}
	x.armReply()
	began := x.srv.clock.Now()
	n, err := x.c.nc.Read(p)
	if (x.finished || !x.c.answering.Load()) && !x.maySendMessages() { // else a client may send what there is to send
		x.slowIn.Add(x.srv.clock.Now()-began, n, x.srv.settings().rate)
	}
	x.busyReads()
	if n == 0 && neterr.TimedOut(err) {
		n = x.c.late(p)
	}
	switch {
	case n > 0:
		if x.w < len(x.in) && &p[0] == &x.in[x.w] {
			x.w += n
		}
		return n, x.countBody(n)
	case neterr.TimedOut(err):
		return 0, bodyTimeoutError(err)
	case err == nil || err == io.EOF:
		return 0, incompleteBodyError(io.ErrUnexpectedEOF)
	case neterr.CutOff(err):
		return 0, incompleteBodyError(err)
	}
	return 0, err
}

// incompleteBodyError is the error for a body that has ended too early.
func incompleteBodyError(err error) error {
	return fmt.Errorf("%w: %w", (*fault)(h1.BodyIncomplete), err)
}

// bodyTimeoutError returns the error for a body that did not go on before the deadline of the read.
func bodyTimeoutError(err error) error { return fmt.Errorf("%w: %w", (*fault)(h1.BodyTimeout), err) }

// countBody counts n bytes that were read of the body, and parks while memory is short and others go first.
func (x *Ctx) countBody(n int) error {
	b := &x.body
	if b.budget == nil || x.finished || x.dropBy != 0 { // no handler keeps it
		return nil
	}
	left := int64(-1)
	if !b.Chunked {
		left = max(b.Left-int64(n), 0)
	}
	for pause := b.budget.Read(&b.held, n, left); pause > 0 && !x.readsOver(); {
		if err := task.Sleep(pause); err != nil {
			return err
		}
		var refused bool
		if pause, refused = b.budget.Held(&b.held, left); refused {
			x.srv.refusedAt.Store(x.srv.clock.Now())
			return Status(503)
		}
	}
	return nil
}

// readsOver reports whether the handler has returned, or has no use for its body any more, while another task or
// goroutine reads it.
func (x *Ctx) readsOver() bool {
	switch {
	case x.adapted != nil:
		return x.adapted.stoppedReading()
	case x.apart != nil:
		return x.apart.stoppedReading()
	}
	return false
}

// chunkStep takes one line of chunked framing.
func (x *Ctx) chunkStep() error {
	b := &x.body
	most := h1.MaxChunkLine
	if b.Phase == h1.BodyTrailer {
		most = max(min(x.srv.settings().head.Size, h1.MaxTrailer)-b.Trailer, 0) // the limit may be less than it was
	}
	line, err := x.chunkLine(most)
	if err != nil {
		return err
	}
	name, value, f := b.Step(line, x.maxBody())
	if f != nil {
		return (*fault)(f)
	}
	if name != nil {
		x.noteTrailer(name, value)
	}
	return nil
}

// awaitTrailer waits for the end of a request of HTTP/2 whose body has come, as net/http does if its client has announced a
// trailer.
func (x *Ctx) awaitTrailer() error {
	if err := x.beforeRead(); err != nil {
		return err
	}
	_, err := x.readBody(make([]byte, 1)) // nothing comes but the end
	lines, received := x.c.stream.Trailer()
	if !received {
		return err
	}
	for line := range bytes.Lines(lines) {
		name, value, _ := bytes.Cut(bytes.TrimSuffix(line, []byte("\r\n")), []byte(": "))
		x.noteTrailer(name, value)
	}
	return nil
}

func (x *Ctx) noteTrailer(name, value []byte) {
	if x.adapted != nil {
		x.adapted.noteTrailer(name, value)
	}
	if x.apart != nil && nethttp.MayTrail(h1.Text(name)) {
		x.apart.trailer = h1.AppendField(x.apart.trailer, h1.Text(name), h1.Text(value))
	}
}

// chunkLine returns the next line without its CR LF, which follow it in the
// buffer.
func (x *Ctx) chunkLine(most int) ([]byte, error) {
	seen := 0
	for {
		for i := x.r + seen; i < x.w; i++ {
			if x.in[i] != '\n' {
				continue
			}
			if i == x.r || x.in[i-1] != '\r' || i-1-x.r > most {
				return nil, (*fault)(h1.BadChunk)
			}
			line := x.in[x.r : i-1]
			x.r = i + 1
			return line, nil
		}
		seen = x.w - x.r
		if seen > most {
			return nil, (*fault)(h1.BadChunk)
		}
		if x.body.Phase == h1.BodyDataEnd && seen > 0 && (seen > 1 || x.in[x.r] != '\r') {
			return nil, (*fault)(h1.BadChunk)
		}
		if err := x.fillBody(); err != nil {
			return nil, err
		}
	}
}

// awaitMost is how long an answer waits for the end of a body of unknown length.
const awaitMost = 250 * time.Millisecond

// awaitBody takes what the handler left of a chunked body if nothing of the answer has been sent. Only the end of the body
// tells how much was left, and the answer must say whether the connection goes on. It may park.
func (x *Ctx) awaitBody() {
	switch {
	case !x.body.Chunked || x.body.Phase == h1.BodyDone || x.resp.phase != respOpen && x.resp.start < 0 || x.closing:
		return
	case x.c.stream != nil || x.duplex || x.isTunnel():
		return
	}
	if x.closing = x.mustClose(); !x.closing {
		limit := x.srv.settings().await
		if x.srv.settings().drain == 0 { // what is there may be the end
			limit = 0
		}
		x.dropBy = int64(x.srv.clock.Elapsed() + limit)
		x.closing = !x.drainBody()
		if x.c.readBy == x.dropBy { // it had to be read, and may be idle for longer now
			x.c.clearRead()
		}
		x.dropBy = 0
	}
	if x.closing && x.resp.start >= 0 {
		x.sayClose()
	}
}

// drainBody takes what the handler left of the body. It returns false when
// that is too much, or can't be had: the connection must then be closed.
func (x *Ctx) drainBody() bool {
	if x.body.Phase == h1.BodyDone {
		return true
	}
	if x.body.owed || x.body.err != nil {
		return false
	}
	b := &x.body
	for before := b.Read + b.Framed; b.Read+b.Framed-before <= x.srv.settings().drain; {
		if _, err := x.nextBody(1 << 30); err != nil {
			return err == io.EOF
		}
	}
	return b.Phase == h1.BodyDone
}

// LimitBody limits the body of this request to n bytes, or to Server.MaxBody if that is less. The error matches Status(413)
// if the request declares a larger body: hand that error back. Call it before the body is read. It never parks.
func (x *Ctx) LimitBody(n int64) error {
	b := &x.body
	n = max(n, 0)
	b.most = n + 1
	if !b.Chunked && x.head.Length > n {
		b.err = (*fault)(h1.BodyTooLarge)
	}
	return b.err
}

// maxBody is how large the body may be, in bytes.
func (x *Ctx) maxBody() int64 {
	if most := x.body.most; most > 0 {
		return min(most-1, x.srv.settings().maxBody)
	}
	return x.srv.settings().maxBody
}

// Body is the request body. Reads return io.EOF at its end, an error that
// matches Status(413) when it is larger than Server.MaxBody or LimitBody, Status(408) when
// the client is too slow, and Status(400) when it is malformed or cut off;
// hand that error back and the client gets the right answer. A Read may park.
// Valid until the handler returns.
func (x *Ctx) Body() io.Reader { return (*bodyReader)(x) }

type bodyReader Ctx

func (r *bodyReader) Read(p []byte) (int, error) {
	x := (*Ctx)(r)
	if len(p) == 0 {
		return 0, nil
	}
	b := &x.body
	// A large piece of plain body need not pass through the buffer.
	if b.Phase == h1.BodyData && b.err == nil && x.r == x.w && !b.owed && len(p) >= bodyRoom {
		if b.err = x.beforeRead(); b.err == nil {
			var n int
			n, b.err = x.readBody(p[:min(int64(len(p)), b.Left)])
			x.body.Took(n)
			return n, b.err
		}
	}
	piece, err := x.nextBody(len(p))
	return copy(p, piece), err
}
