package knot

import (
	"errors"
	"net"
	"os"
	"sync"
	"time"

	"github.com/capriccio-go/capriccio/knot/internal/h1"
	"github.com/capriccio-go/capriccio/knot/internal/nethttp"
	"github.com/capriccio-go/capriccio/knot/internal/peerwatch"
	"github.com/capriccio-go/capriccio/knot/internal/store"
	"github.com/capriccio-go/capriccio/knot/internal/tasks"
	"github.com/capriccio-go/capriccio/knot/internal/tlsin"
	"github.com/capriccio-go/capriccio/task"
)

// What a handler needs that passes requests on to another server, and its responses back.

// ErrNoHijack is what Hijack returns for a request that has no connection of its own.
var ErrNoHijack = errors.New("knot: a request of HTTP/2 has no connection to take over")

// RawPath is the path of the request target as it came, or that of Rewrite, escapes and all; a view. "*" for OPTIONS *.
func (x *Ctx) RawPath() []byte {
	if x.rewritten != nil {
		return x.rewritten.path
	}
	return x.head.Path.Of(x.headBytes())
}

// ReadyBody returns the body if its length is known, all of it has come with the head, and no trailer is to come: a view that
// is good until the next call that may park. The body counts as read then. ok is true too if there is none.
func (x *Ctx) ReadyBody() (body []byte, ok bool) {
	b := &x.body
	if b.Phase == h1.BodyDone && b.err == nil {
		return nil, true
	}
	if b.Chunked || b.trails || b.err != nil || b.Left > int64(x.w-x.r) {
		return nil, false
	}
	body = x.in[x.r : x.r+int(b.Left)]
	x.r += len(body)
	b.owed = false
	b.Took(len(body))
	return body, true
}

// A GoneWatch is what WhenGone needs until Stop. The zero value is ready.
type GoneWatch struct{ peer peerwatch.Watch }

// WhenGone has fn called when the client has closed the connection, or its sending side, and for a request
// of HTTP/2 when it is reset. fn is called on any goroutine, maybe that of a loop itself, and must
// neither park nor block. Call w.Stop before the handler returns.
func (x *Ctx) WhenGone(w *GoneWatch, fn func()) {
	w.peer.Start(x.c.nc, fn)
}

// Stop ends it. It reports whether fn has not been called and will not be; if not, a call may be under
// way, and w must not be used again.
func (w *GoneWatch) Stop() bool {
	return w.peer.Stop()
}

// CopyHeader is AddHeader for a line of a response that is passed on. Date and Server take the place of the
// server's own, and lines of KeepHeader go before; lines that are about the connection, or frame the body, are left out.
func (x *Ctx) CopyHeader(name, value []byte) {
	for _, ch := range name {
		if !h1.TokenByte[ch] {
			return
		}
	}
	switch {
	case len(name) == 0, h1.TokenIs(name, "connection"), h1.TokenIs(name, "transfer-encoding"), h1.TokenIs(name, "content-length"):
		return
	case h1.TokenIs(name, "date"):
		if x.resp.dated {
			return
		}
		x.resp.dated = true
	case h1.TokenIs(name, "server"):
		x.resp.named = true
	}
	if x.resp.keeps(name) {
		return
	}
	x.resp.fields = h1.AppendField(x.resp.fields, h1.Text(name), h1.Text(value))
}

// Inform sends an informational response, 102 to 199, before the response itself. A client of HTTP/1.0 gets
// none. It may park.
func (x *Ctx) Inform(status int, lines ...Header) error {
	if status < 102 || status > 199 || x.head.Minor == 0 || x.resp.phase != respOpen {
		return x.writeErr
	}
	x.out = append(x.out, h1.StatusLine(status)...)
	for _, line := range lines {
		if h1.IsToken(line.Name) {
			x.out = h1.AppendField(x.out, line.Name, line.Value)
		}
	}
	x.out = append(x.out, "\r\n"...)
	return x.flush()
}

// WriteRoom returns how many bytes of the body the client takes now without a wait, about. A handler that reads them from
// elsewhere asks before it reads into a large buffer, which it would hold while the client takes nothing. It is math.MaxInt
// where that can't be told. It never parks.
func (x *Ctx) WriteRoom() int {
	if st := x.c.stream; st != nil {
		return max(st.Room(store.WideSize)-len(x.out), 0)
	}
	return max(x.roomFor(store.WideSize), 0)
}

// SendHead is the whole response if that has no body though its header may speak of one, as that to a HEAD
// request: with the Content-Length that SetContentLength has declared, or none. The error is ErrSent if the
// response has begun. It may park.
func (x *Ctx) SendHead() error {
	if err := x.begun(); err != nil {
		return err
	}
	if len(x.resp.filters) > 0 {
		x.seal(x.resp.length)
	}
	x.commit(x.resp.wire(x.resp.length))
	x.resp.phase, x.resp.written = respDone, 0
	return nil
}

// AddTrailer adds a line to the trailer of the response. The body is sent in chunks then; one whose length
// was declared, and a client of HTTP/1.0, has no trailer. It may park.
func (x *Ctx) AddTrailer(name, value string) error {
	r := &x.resp
	if x.writeErr != nil || !nethttp.MayTrail(name) {
		return x.writeErr
	}
	if r.phase == respOpen && r.length < 0 && x.head.Minor > 0 && x.head.Method != h1.MethodHead && !h1.Bodyless(r.status) {
		if err := x.startStream(); err != nil {
			return err
		}
	}
	r.trailer = h1.AppendField(r.trailer, name, value)
	return nil
}

// Hijack makes the connection the caller's: the server does not know it any more, and Shutdown does not
// wait for it. It has no deadlines; rest is what the client has sent besides the request. The
// access log has the request as a 101. x must not be used afterwards: return from the handler, or go on with nc.
// What nc is may have OnReadable, as a *netpoll.Conn does, over TLS too: then it can wait without a task. It
// fails, and nothing has changed, once the response has begun, and for requests of HTTP/2. It may park.
func (x *Ctx) Hijack() (nc net.Conn, rest []byte, err error) {
	if x.c.stream != nil {
		return nil, nil, ErrNoHijack
	}
	if err := x.begun(); err != nil {
		return nil, nil, err
	}
	x.rejoin()
	if err := x.flush(); err != nil { // responses to requests before this one
		return nil, nil, err
	}
	c := x.c
	if err := c.nc.SetDeadline(time.Time{}); err != nil {
		return nil, nil, err
	}
	rest = x.giveUp()
	c.leave()
	return c.nc, rest, nil
}

// A BodyApart reads the body of a request beside the handler that writes the response: on another task or
// goroutine, one at a time.
type BodyApart struct {
	x, y    *Ctx       // the handler's; that which has the buffer and the state of the body meanwhile
	reading task.Mutex // held by the reader
	trailer []byte     // lines with their CR LF; guarded by reading
	over    bool       // guarded by reading

	control sync.Mutex
	stopped bool // guarded by control
}

// BodyApart parts the body from the request: Body must not be used any more. A client that waits for 100
// Continue gets it. End comes before the handler returns, or is done by the server then. It may park.
func (x *Ctx) BodyApart() (*BodyApart, error) {
	if x.body.owed {
		if err := x.beforeRead(); err != nil {
			return nil, err
		}
	}
	rest := x.in[x.r:x.w]
	y := &Ctx{c: x.c, srv: x.srv, in: make([]byte, max(len(rest), slimIn))}
	b := &BodyApart{x: x, y: y}
	y.w = copy(y.in, rest)
	y.recount()
	x.lendOut()
	x.r, x.w = x.bodyAt, x.bodyAt
	y.body, x.body = x.body, body{}
	y.resp.phase = respDone
	y.apart, x.apart = b, b
	return b, nil
}

// Read is that of Ctx.Body. It parks.
func (b *BodyApart) Read(p []byte) (int, error) {
	b.reading.Lock()
	defer b.reading.Unlock()
	if b.over {
		return 0, errReturned
	}
	return (*bodyReader)(b.y).Read(p)
}

// Unread reports whether the client is known to have sent more, so that a Read will not wait. It may park while another Read
// waits.
func (b *BodyApart) Unread() bool {
	b.reading.Lock()
	defer b.reading.Unlock()
	if b.over {
		return false
	}
	return b.y.r < b.y.w || tlsin.Of(b.y.c.nc) == nil && unread(b.y.c.nc)
}

// Trailer returns the lines of the trailer, each with its CR LF, once Read has returned io.EOF, without lines that may not
// stand in a trailer (RFC 9110, 6.5.1). It may park.
func (b *BodyApart) Trailer() []byte {
	b.reading.Lock()
	defer b.reading.Unlock()
	return b.trailer
}

// End interrupts a Read that waits, and gives the rest of the body back to the request. It is for
// the handler. It may park.
func (b *BodyApart) End() {
	if !b.reading.TryLock() {
		b.control.Lock()
		b.stopped = true
		b.x.c.nc.SetReadDeadline(long)
		b.control.Unlock()
		b.reading.Lock()
	}
	defer b.reading.Unlock()
	if b.over {
		return
	}
	b.over = true
	x, y := b.x, b.y
	if b.stopped {
		x.c.clearRead()
		if errors.Is(y.body.err, os.ErrDeadlineExceeded) || errors.Is(y.body.err, errReturned) {
			y.body.err = nil // ours
		}
	}
	rest := y.in[y.r:y.w]
	if room := len(x.in) - x.w; room < len(rest) {
		x.growIn(x.w + len(rest))
	}
	x.w += copy(x.in[x.w:], rest)
	x.body, x.apart, y.apart, b.y = y.body, nil, nil, nil
	tasks.Buffers.Release(y.counted)
	x.widenOut()
}

// stoppedReading reports whether End waits for the reader.
func (b *BodyApart) stoppedReading() bool {
	b.control.Lock()
	defer b.control.Unlock()
	return b.stopped
}

// rejoin ends what BodyApart has begun, if its user has not.
func (x *Ctx) rejoin() {
	if x.apart != nil {
		x.apart.End()
	}
}

// arm sets the deadline for a read of the body, unless it was stopped.
func (b *BodyApart) arm(x *Ctx) error {
	b.control.Lock()
	defer b.control.Unlock()
	if b.stopped {
		return errReturned
	}
	x.c.armRead(x.bodyTimeout())
	return nil
}
