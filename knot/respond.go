package knot

import (
	"errors"
	"strconv"

	"github.com/capriccio-go/capriccio/internal/ownctx"
	"github.com/capriccio-go/capriccio/knot/internal/h1"
	"github.com/capriccio-go/capriccio/task"
)

// bodyHold is how many body bytes are held back to learn the Content-Length
// before a response is streamed.
const bodyHold = 16 << 10

var (
	// ErrSent is returned for a response that has already been committed.
	ErrSent = errors.New("knot: response already sent")
	// ErrTooLong is returned for more body than SetContentLength said.
	ErrTooLong = errors.New("knot: more body than the declared Content-Length")
	// ErrNoBody is returned for body bytes of a status that has no body.
	ErrNoBody = errors.New("knot: this status has no body")
	// ErrTooShort is reported for less body than SetContentLength said.
	ErrTooShort = errors.New("knot: less body than the declared Content-Length")
)

// respPhase is how far the response has come. A response is committed once it
// has left open.
//
//	open ─→ fixed | chunked | untilClose ─→ done
//	  └──────────────────────────────────────↗
//
// The answer to HEAD, flushed before its end, is in respUntilClose too, and the connection stays.
type respPhase uint8

const (
	respOpen respPhase = iota
	respFixed
	respChunked
	respUntilClose
	respDone
)

// response is the answer being built. Every field is loop-private.
type response struct {
	ctype   string
	fields  []byte // header lines set by the handler
	kept    []byte // those of KeepHeader
	held    []byte // body while open
	length  int64  // declared, or -1
	written int64  // body bytes from the handler
	start   int    // offset of the head in Ctx.out, -1 once some of it has left
	chunk   int    // bytes of the chunk that ends Ctx.out, 0 if none does
	trailer []byte // trailer lines
	status  int
	phase   respPhase
	dated   bool // Date is among fields
	named   bool // Server is
	lasts   bool // Connection: keep-alive is sent if the connection goes on

	filters []Filter
	coding  *coding // what codes the body; nil: nothing
	sealed  bool    // the filters have seen the head
	recoded bool    // a filter codes the body, so that length is not what is sent
	drop    bool    // a filter has dropped the body

	// The line Content-Type of an earlier response, and the type in it. Most have the same.
	typeLine   []byte
	typeLineOf string
}

// begin makes a new response. Lines of KeepHeader stay, until forget.
func (r *response) begin() {
	r.ctype, r.fields, r.held, r.trailer = "", append(r.fields[:0], r.kept...), r.held[:0], nil
	r.dated, r.named, r.lasts = false, r.keeps([]byte("server")), false
	r.length, r.written, r.start, r.chunk = -1, 0, -1, 0
	r.status, r.phase = 200, respOpen
	r.sealed, r.recoded, r.drop = false, false, false
}

func (r *response) forget() {
	r.ctype, r.trailer, r.kept = "", nil, nil
	if cap(r.fields) > 4096 {
		r.fields = nil
	}
	if cap(r.held) > bodyHold {
		r.held = nil
	}
}

// SetStatus sets the status code of the response, 200 by default. It panics
// below 200 and above 599.
func (x *Ctx) SetStatus(code int) {
	if code < 200 || code > h1.LastStatus {
		panic("knot: status " + strconv.Itoa(code) + " is not in 200 to 599")
	}
	x.resp.status = code
}

// SetContentType sets the Content-Type of the response. Line breaks and other control
// bytes become spaces, here and in Send.
func (x *Ctx) SetContentType(ctype string) { x.resp.ctype = ctype }

// SetContentLength declares the length of the body in bytes, so that Write can
// stream it as it comes. It is not sent with a status that has no body.
func (x *Ctx) SetContentLength(n int64) { x.resp.length = n }

// Status is the status code that the response has, or had, 200 at first.
func (x *Ctx) Status() int { return x.resp.status }

// CloseAfter makes this response the last one of the connection. Over HTTP/2 the client is told to send no further
// requests on it, which may park; requests that it has sent are served. Over HTTP/3 it has no effect.
func (x *Ctx) CloseAfter() {
	x.closing = true
	if st := x.c.stream; st != nil && st.on != nil {
		st.on.Leave()
	}
}

// AddHeader adds a header line to the response. Line breaks and other control
// bytes in value become spaces. It panics if name is not a token, and for the
// names that are the server's own: Content-Length and Content-Type (which have
// their own functions), Transfer-Encoding, Connection (CloseAfter) and Date. Upgrade
// brings its Connection: Upgrade along (RFC 9110, 7.8). Server takes the place of Server.Name.
func (x *Ctx) AddHeader(name, value string) {
	b := h1.Bytes(name)
	for i := range b {
		if !h1.TokenByte[b[i]] {
			panic("knot: header name " + strconv.Quote(name) + " is not a token")
		}
	}
	for _, own := range h1.OwnFields {
		if len(name) == 0 || h1.TokenIs(b, own) {
			panic("knot: header " + strconv.Quote(name) + " can't be set by AddHeader")
		}
	}
	fields := x.resp.fields
	switch {
	case h1.TokenIs(b, "upgrade"):
		fields = append(fields, "Connection: Upgrade\r\n"...)
	case h1.TokenIs(b, "server"):
		x.resp.named = true
	}
	x.resp.fields = h1.AppendField(fields, name, value)
}

// keeps reports whether KeepHeader has set a line of that name.
func (r *response) keeps(name []byte) bool { return h1.HasLine(r.kept, name) }

// Send is the whole response in one call: head and body leave in one write. It allocates nothing and keeps no reference
// to body. ctype "" sends no Content-Type. The error is ErrSent if a response has begun, ErrNoBody for a body that the
// status does not allow, else that of the connection. It panics with a status that SetStatus does not take. It may
// park.
func (x *Ctx) Send(status int, ctype string, body []byte) error {
	x.SetStatus(status)
	r := &x.resp
	if err := x.begun(); err != nil {
		return err
	}
	if len(r.held) > 0 {
		return ErrSent
	}
	r.ctype, r.held = ctype, r.held[:0]
	if h1.Bodyless(status) && len(body) > 0 {
		return ErrNoBody
	}
	r.written = int64(len(body))
	r.length = r.written
	if len(r.filters) > 0 {
		x.runFilters(r.length)
		if r.coding != nil {
			if err := x.encode(body); err != nil {
				return err
			}
			return x.complete()
		}
	}
	x.commit(r.wire(r.length))
	r.phase = respDone
	if x.head.Method == h1.MethodHead || r.drop {
		r.written = 0
		return nil
	}
	return x.emit(body)
}

// SendString is Send for a string. It may park.
func (x *Ctx) SendString(status int, ctype string, body string) error {
	return x.Send(status, ctype, h1.Bytes(body))
}

// SendError sends the page for a status, of Server.ErrorPage or the standard one, keeping the
// headers added so far; returning a Status from the handler drops them instead. With 499 nothing is sent, see Status. It
// may park.
func (x *Ctx) SendError(status int) error {
	if status == ownctx.StatusGone {
		err := x.begun()
		if err == nil {
			x.resp.status, x.resp.phase = status, respDone
			x.closing, x.aborted = true, true
		}
		return err
	}
	if !h1.Bodyless(status) {
		if ctype, page := x.errorPage(status); page != nil {
			x.resp.held = x.resp.held[:0]
			return x.Send(status, ctype, page)
		}
	}
	page := appendErrorPage(x.resp.held[:0], status)
	x.resp.held = page[:0]
	return x.Send(status, errorPageType, page)
}

// Redirect sends the client to location with a 3xx status and the page for it. It may park.
func (x *Ctx) Redirect(status int, location string) error {
	x.AddHeader("Location", location)
	return x.SendError(status)
}

// Write adds to the response body. Up to 16 KiB are held back; a longer body is streamed, chunked unless
// SetContentLength was called. The error is ErrSent after a whole response, ErrTooLong for more than was declared,
// ErrNoBody for a body that the status does not allow, else that of the connection. It may park.
func (x *Ctx) Write(p []byte) (int, error) {
	r := &x.resp
	if x.writeErr != nil {
		return 0, x.writeErr
	}
	if r.drop {
		return len(p), nil
	}
	if r.phase == respDone {
		return 0, ErrSent
	}
	if h1.Bodyless(r.status) && len(p) > 0 {
		return 0, ErrNoBody
	}
	if r.length >= 0 && int64(len(p)) > r.length-r.written {
		return 0, ErrTooLong
	}
	r.written += int64(len(p))
	if x.head.Method == h1.MethodHead {
		return len(p), nil
	}
	if r.phase == respOpen {
		if r.length < 0 && len(r.held)+len(p) <= bodyHold {
			r.held = append(r.held, p...)
			return len(p), nil
		}
		if err := x.startStream(); err != nil {
			return 0, err
		}
	}
	if err := x.pass(p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// WriteString is Write for a string. It may park.
func (x *Ctx) WriteString(s string) (int, error) { return x.Write(h1.Bytes(s)) }

// Flush sends what has been written so far. It may park.
func (x *Ctx) Flush() error {
	r := &x.resp
	switch {
	case x.begun() != nil:
	case x.head.Method == h1.MethodHead: // what is written does not count; the end may be far
		if len(r.filters) > 0 {
			x.runFilters(r.length)
		}
		x.commit(r.wire(r.length))
		r.phase = respUntilClose
	default:
		if err := x.startStream(); err != nil {
			return err
		}
	}
	if r.coding != nil && r.phase != respDone && x.writeErr == nil {
		if err := r.coding.enc.Flush(); err != nil {
			return err
		}
	}
	return x.flush()
}

// startStream commits a response whose end is not known yet.
func (x *Ctx) startStream() error {
	r := &x.resp
	if len(r.filters) > 0 {
		x.runFilters(r.length)
	}
	switch {
	case x.writeErr != nil:
		return x.writeErr
	case r.coding != nil:
		if err := x.startCoded(); err != nil {
			return err
		}
		return x.encodeHeld()
	case h1.Bodyless(r.status):
		if len(r.held) > 0 {
			return ErrNoBody
		}
		r.phase = respDone
	case x.opensTunnel():
		r.phase = respUntilClose
	case r.length >= 0 && r.length < int64(len(r.held)):
		return ErrTooLong
	case r.length >= 0 && !x.announcesTrailer():
		r.phase = respFixed
	case x.head.Minor > 0:
		r.phase = respChunked
	default:
		r.phase, x.closing = respUntilClose, true
	}
	x.commit(r.length)
	return x.stream(r.held)
}

// opensTunnel reports whether the head of the response is all that there is of it: what follows is the tunnel's
// (RFC 9110, 9.3.6).
func (x *Ctx) opensTunnel() bool {
	return x.isTunnel() && x.resp.status/100 == 2 && x.c.stream == nil
}

// isTunnel reports whether the request is for a tunnel, and not for what CONNECT is to net/rpc.
func (x *Ctx) isTunnel() bool { return x.head.Method == h1.MethodConnect && x.head.Path == (h1.Span{}) }

// commitOpen appends the head but for its last lines: what the body is, and the blank
// line.
func (x *Ctx) commitOpen() {
	r := &x.resp
	x.closing = x.closing || x.mustClose()
	x.c.answering.Store(true)
	r.start = len(x.out)
	out, now := x.out, x.srv.clock.Stamp()
	switch {
	case r.dated:
		out = append(out, h1.StatusLine(r.status)...)
	case r.status == 200:
		out = append(out, now.Okay...)
	default:
		out = append(append(out, h1.StatusLine(r.status)...), now.Date...)
	}
	if name := x.srv.settings().name; name != "" && !r.named {
		out = h1.AppendField(out, "Server", name)
	}
	switch {
	case x.opensTunnel():
	case x.closing:
		out = append(out, "Connection: close\r\n"...)
	case x.head.Minor == 0, r.lasts:
		out = append(out, "Connection: keep-alive\r\n"...)
	}
	x.out = append(out, r.fields...)
}

// commit appends the head. length -1 means chunked or until close, as phase
// says.
func (x *Ctx) commit(length int64) {
	r := &x.resp
	x.commitOpen()
	out := x.out
	if r.ctype != "" {
		if r.ctype != r.typeLineOf {
			r.typeLine, r.typeLineOf = h1.AppendField(r.typeLine[:0], "Content-Type", r.ctype), r.ctype
		}
		out = append(out, r.typeLine...)
	}
	switch {
	case h1.Bodyless(r.status):
	case x.opensTunnel():
		x.closing = x.closing || length != 0 // the client could not tell where the tunnel ends
	case r.phase == respChunked:
		out = append(out, "Transfer-Encoding: chunked\r\n"...)
	case length >= 0:
		out = append(out, "Content-Length: "...)
		out = append(strconv.AppendInt(out, length, 10), "\r\n"...)
	}
	x.out = append(out, "\r\n"...)
}

// mustClose reports whether the connection can't outlive this response.
func (x *Ctx) mustClose() bool {
	if !x.head.Persistent() || x.srv.conns.stopping.Load() {
		return true
	}
	of, reading := x, (*task.Mutex)(nil)
	switch {
	case x.adapted != nil && x.adapted.duplex:
		return false // the rest of the body is going to be read
	case x.adapted != nil:
		reading = &x.adapted.reading
	case x.apart != nil:
		of, reading = x.apart.y, &x.apart.reading
	}
	if reading != nil {
		if !reading.TryLock() { // it is being read, and how much of it has come can't be told
			return x.head.Length > x.srv.settings().drain
		}
		defer reading.Unlock()
	}
	return of.leavesBody()
}

// leavesBody reports whether more of the body may be left than is worth to be read.
func (x *Ctx) leavesBody() bool {
	b := &x.body
	return b.Phase != h1.BodyDone && (b.owed || b.err != nil || b.Left > max(x.srv.settings().drain, int64(x.w-x.r)))
}

// complete ends the response that the handler left. If it returns an error
// and the response is still open, nothing has been committed.
func (x *Ctx) complete() error {
	r := &x.resp
	switch r.phase {
	case respDone:
		return x.writeErr
	case respUntilClose:
		if x.head.Method == h1.MethodHead {
			r.written = 0
		} else if r.coding != nil {
			return x.finishCoded()
		}
	case respOpen:
		length := r.length // of what GET would get
		if x.head.Method == h1.MethodHead {
			length = max(length, r.written)
		} else if length < 0 {
			length = int64(len(r.held))
		}
		if len(r.filters) > 0 {
			x.runFilters(length)
			if r.coding != nil {
				return x.finishCoded()
			}
		}
		if x.head.Method == h1.MethodHead {
			r.written = 0
			x.commit(r.wire(length))
			break
		}
		if h1.Bodyless(r.status) {
			if len(r.held) > 0 {
				return ErrNoBody
			}
			x.commit(-1)
			break
		}
		switch {
		case r.length > int64(len(r.held)):
			return ErrTooShort
		case r.length >= 0 && r.length < int64(len(r.held)):
			return ErrTooLong
		}
		x.commit(int64(len(r.held)))
		r.phase = respDone
		return x.emit(r.held)
	case respFixed:
		if r.written < r.length {
			return ErrTooShort
		}
	case respChunked:
		if x.srv.ctx.Err() != nil { // a handler that returns as Close has ended its context need not be done
			x.closing, x.aborted = true, true
			break
		}
		if r.coding != nil {
			return x.finishCoded()
		}
		if r.written < r.length {
			return ErrTooShort
		}
		x.endChunks()
	}
	r.phase = respDone
	return x.writeErr
}

func (x *Ctx) endChunks() {
	x.out = append(append(append(x.out, "0\r\n"...), x.resp.trailer...), "\r\n"...)
}

// begun returns why no response can begin: the first write error, or ErrSent.
func (x *Ctx) begun() error {
	if x.writeErr == nil && x.resp.phase != respOpen {
		return ErrSent
	}
	return x.writeErr
}

// ResponseBegun reports whether the response has been committed: its status and header can't be
// changed any more.
func (x *Ctx) ResponseBegun() bool { return x.resp.phase != respOpen }
