package knot

import (
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/capriccio-go/capriccio/knot/internal/h1"
	"github.com/capriccio-go/capriccio/task"
)

// A Filter changes responses on their way out. It must be comparable, as a pointer is.
type Filter interface {
	// FilterHead is called for a response when its head is about to be sent: status and header are decided, and some of the
	// body may be. x is for questions about the request, and for Status. It must not park, and is called on a goroutine for a
	// handler of net/http that runs on one.
	FilterHead(x *Ctx, h ResponseHead)
}

// An Encoder codes the body of a response while it is sent. Its methods are called by one task or goroutine at a time.
type Encoder interface {
	// Write takes the next bytes of the body, at most 32 KB at a time.
	Write(p []byte) (int, error)
	// Flush writes out all that Write has taken so far.
	Flush() error
	// Close ends the coded body. It is not called if the response is broken off.
	Close() error
	// Release comes last, once, in any case.
	Release()
}

// ResponseHead is the head of a response that is about to be sent. It is good while FilterHead runs.
type ResponseHead struct {
	x      *Ctx
	length int64
}

// Filter has f see the response to this request, also if that becomes the page of an error. Of several filters the
// last one added is called first. A filter that is there already is not added again. It does nothing once the response has
// been committed. Responses that a handler writes to a connection that it has taken over, and informational ones, are not filtered.
func (x *Ctx) Filter(f Filter) {
	if r := &x.resp; !slices.Contains(r.filters, f) {
		r.filters = append(r.filters, f)
	}
}

// Get returns the value of the lines with this name, in any case, joined by ", "; "" if there are none. Content-Length, Date
// and Connection, which the server sets, are not among them.
func (h ResponseHead) Get(name string) string {
	r := &h.x.resp
	if r.ctype != "" && strings.EqualFold(name, "Content-Type") {
		return r.ctype
	}
	return h1.LineValue(r.fields, name)
}

// Add is Ctx.AddHeader.
func (h ResponseHead) Add(name, value string) { h.x.AddHeader(name, value) }

// Set is Add in place of all lines with that name. It takes Content-Type, too.
func (h ResponseHead) Set(name, value string) {
	h.Del(name)
	if strings.EqualFold(name, "Content-Type") {
		h.x.resp.ctype = value
		return
	}
	h.Add(name, value)
}

// Del removes all lines with that name. Of the lines that the server sets itself only Server and
// Content-Type can be removed.
func (h ResponseHead) Del(name string) {
	r := &h.x.resp
	switch {
	case strings.EqualFold(name, "Content-Type"):
		r.ctype = ""
	case strings.EqualFold(name, "Server"):
		r.named = true
	}
	r.fields = h1.WithoutLine(r.fields, name)
}

// Length is that of the body in bytes; -1 if it is not known yet.
func (h ResponseHead) Length() int64 { return h.length }

// Encode has the body coded by what start returns, which writes to out, and reports whether it will be: not if the
// response has no body, or is a part of one (206), or is coded by another filter. The filter that calls Encode sets
// Content-Encoding, and the lines that depend on it.
// The answer to HEAD is only sent without its length. start is called at most once, by Encode; it may return nil, and the
// body is not coded then.
func (h ResponseHead) Encode(start func(out io.Writer) Encoder) bool {
	x := h.x
	r := &x.resp
	switch {
	case h1.Bodyless(r.status), r.status == 206, r.recoded, x.isTunnel():
		return false
	case x.head.Method == h1.MethodHead:
		r.recoded = true
		return true
	}
	c := codings.Get().(*coding)
	c.x = x
	if c.enc = start(c); c.enc == nil {
		c.end()
		return false
	}
	r.coding, r.recoded = c, true
	return true
}

// NotModified makes a response with status 200 to GET or HEAD one with 304; its body is dropped.
func (h ResponseHead) NotModified() {
	if r, m := &h.x.resp, h.x.head.Method; r.status == 200 && (m == h1.MethodGet || m == h1.MethodHead) {
		h.Del("Content-Type")
		r.status, r.drop = 304, true
	}
}

// runFilters has the filters see the head, once. length is that of the body, -1 if it is not known. It is called before commit, if
// there are filters.
func (x *Ctx) runFilters(length int64) {
	r := &x.resp
	if r.sealed {
		return
	}
	r.sealed = true
	for _, f := range slices.Backward(r.filters) {
		f.FilterHead(x, ResponseHead{x, length})
	}
	if r.drop {
		r.held = r.held[:0]
	}
}

// wire is the length that the head says, of a body of that length.
func (r *response) wire(length int64) int64 {
	if r.recoded {
		return -1
	}
	return length
}

// pass adds p to the body of a committed response, coded if it is to be.
func (x *Ctx) pass(p []byte) error {
	if len(x.resp.filters) > 0 {
		switch r := &x.resp; {
		case r.drop:
			return nil
		case r.coding != nil:
			return x.encode(p)
		}
	}
	return x.streamPaced(p)
}

// encodePiece is how much is coded before other tasks get their turn, in bytes: some 0.3 ms with Brotli.
const encodePiece = 32 << 10

// A coding is the coded body of a response on its way out. Its fields are guarded as those of Ctx.
type coding struct {
	x    *Ctx
	enc  Encoder
	out  []byte // coded bytes, until the response is committed
	sent int64  // bytes
	busy int    // bytes coded since other tasks had their turn
}

var codings = sync.Pool{New: func() any { return new(coding) }}

// Write takes coded bytes.
func (c *coding) Write(p []byte) (int, error) {
	c.sent += int64(len(p))
	if r := &c.x.resp; r.phase == respOpen {
		if len(c.out)+len(p) <= bodyHold {
			c.out = append(c.out, p...)
			return len(p), nil
		}
		if err := c.x.startCoded(); err != nil {
			return 0, err
		}
	}
	return len(p), c.x.streamPaced(p)
}

// end gives everything back.
func (c *coding) end() {
	if c.enc != nil {
		c.enc.Release()
	}
	if cap(c.out) > bodyHold {
		c.out = nil
	}
	*c = coding{out: c.out[:0]}
	codings.Put(c)
}

// startCoded commits a response whose coded end is not known yet.
func (x *Ctx) startCoded() error {
	r := &x.resp
	r.phase = respChunked
	if x.head.Minor == 0 {
		r.phase, x.closing = respUntilClose, true
	}
	x.commit(-1)
	return x.streamPaced(r.coding.out)
}

// encode codes the next part of the body. It may park.
func (x *Ctx) encode(p []byte) error {
	for len(p) > 0 {
		c := x.resp.coding
		n := min(len(p), encodePiece)
		if _, err := c.enc.Write(p[:n]); err != nil {
			return err
		}
		p = p[n:]
		if c.busy += n; c.busy >= encodePiece {
			c.busy = 0
			task.Yield()
		}
	}
	return x.writeErr
}

// encodeHeld codes what was held back.
func (x *Ctx) encodeHeld() error {
	held := x.resp.held
	x.resp.held = held[:0]
	return x.encode(held)
}

// finishCoded ends the coded body, and commits the response if that is still open.
func (x *Ctx) finishCoded() error {
	r := &x.resp
	if r.length >= 0 && r.written < r.length {
		return ErrTooShort
	}
	if err := x.encodeHeld(); err != nil {
		return err
	}
	c := r.coding
	if err := c.enc.Close(); err != nil {
		return err
	}
	switch r.phase {
	case respOpen: // it is short enough to tell its length
		x.commit(c.sent)
		r.phase = respDone
		return x.emit(c.out)
	case respChunked:
		x.endChunks()
	}
	r.phase = respDone
	return x.writeErr
}

// unfilter gives back what coded the response, and counts what was sent of it.
func (x *Ctx) unfilter() {
	r := &x.resp
	if r.drop {
		r.written = 0
	}
	if c := r.coding; c != nil {
		r.coding, r.written = nil, c.sent
		c.end()
	}
}
