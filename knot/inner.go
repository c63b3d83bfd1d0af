package knot

import (
	"errors"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/capriccio-go/capriccio/internal/ownconn"
	"github.com/capriccio-go/capriccio/internal/ownctx"
	"github.com/capriccio-go/capriccio/internal/peerwatch"
	"github.com/capriccio-go/capriccio/knot/internal/h1"
	"github.com/capriccio-go/capriccio/knot/internal/store"
	"github.com/capriccio-go/capriccio/knot/internal/tasks"
	"github.com/capriccio-go/capriccio/knot/internal/tlsin"
	"github.com/capriccio-go/capriccio/task"
)

// inner is a Ctx with the methods that only packages of this module call, see internal/ownctx: a proxy's, which passes
// requests on to another server and its responses back.
type inner Ctx

func init() {
	ownctx.Register(func(x any) any { return (*inner)(x.(*Ctx)) })
}

// ReadyBody returns the body if its length is known, all of it has come with the head, and no trailer is to come: a view that
// is good until the next call that may park. The body counts as read then. ok is true too if there is none.
func (i *inner) ReadyBody() (body []byte, ok bool) {
	x := (*Ctx)(i)
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

// WhenGone has w call fn when the client has closed the connection, or its sending side, and for a request
// of HTTP/2 or HTTP/3 when it is reset. fn is called on any goroutine, maybe that of a loop itself, and must
// neither park nor block. Call w.Stop before the handler returns.
func (i *inner) WhenGone(w *peerwatch.Watch, fn func()) { w.Start(i.c.nc, fn) }

// CopyHeader is AddHeader for a line of a response that is passed on. Date and Server take the place of the
// server's own, and lines of KeepHeader go before; lines that are about the connection, or frame the body, are left out.
func (i *inner) CopyHeader(name, value []byte) {
	x := (*Ctx)(i)
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

// RemoteIP is the IP address of RemoteAddr, without port and zone; "" if it has none.
func (i *inner) RemoteIP() string { return i.c.peer().ip }

// KeepHeader is AddHeader for a line that is on the response whatever becomes of that: on the page of an error that takes
// its place too, and in place of lines of that name that CopyHeader passes on.
func (i *inner) KeepHeader(name, value string) {
	from := len(i.resp.fields)
	(*Ctx)(i).AddHeader(name, value)
	i.resp.kept = append(i.resp.kept, i.resp.fields[from:]...)
}

// MarkPrepared marks the response as prepared by a site, and reports whether it was not before.
func (i *inner) MarkPrepared() (first bool) {
	first = !i.prepared
	i.prepared = true
	return first
}

// PassHeader has a proxy that the request goes to send a line with this value in place of all lines with the name, in any case,
// that the client has sent; "": none. The client's lines are gone from the header of the request at once, so that no handler
// takes them for the server's word, and a proxy passes none on from the trailer. The client's Connection has no power over
// the line. Control bytes of the value become spaces. The name is one that proxy.CheckHeader has no error for.
func (i *inner) PassHeader(name, value string) {
	x := (*Ctx)(i)
	text, lower := x.headBytes(), strings.ToLower(name)
	fields := x.head.Fields[:0]
	for _, one := range x.head.Fields {
		if !h1.TokenIs(one.Name.Of(text), lower) {
			fields = append(fields, one)
		}
	}
	x.head.Fields = fields
	line := Header{name, strings.Map(spaceControl, value)}
	if at := slices.IndexFunc(x.passed, func(h Header) bool { return strings.EqualFold(h.Name, name) }); at >= 0 {
		x.passed[at] = line
		return
	}
	x.passed = append(x.passed, line)
}

// spaceControl makes a space of a control character.
func spaceControl(ch rune) rune {
	if ch < ' ' || ch == 0x7f {
		return ' '
	}
	return ch
}

// Passed returns what PassHeader was called with last, by name. It is good until the handler returns.
func (i *inner) Passed() []Header { return i.passed }

// SetRequestID gives the request an id: lines of access logs and error logs have it, and Fetches for the request.
func (i *inner) SetRequestID(id string) { i.id = id }

// RequestID returns what SetRequestID was called with; "": it was not.
func (i *inner) RequestID() string { return i.id }

// SetSpan has s told what becomes of the request.
func (i *inner) SetSpan(s ownctx.Span) { i.span = s }

// Span returns what SetSpan was called with, also for what Fetch fetches in place of the request; nil: it was not.
func (i *inner) Span() ownctx.Span { return i.span }

// WriteRoom returns how many bytes of the body the client takes now without a wait, about. A handler that reads them from
// elsewhere asks before it reads into a large buffer, which it would hold while the client takes nothing. It is math.MaxInt
// where that can't be told. It never parks.
func (i *inner) WriteRoom() int {
	x := (*Ctx)(i)
	if st := x.c.stream; st != nil {
		return max(st.Room(store.WideSize)-len(x.out), 0)
	}
	return max(x.roomFor(store.WideSize), 0)
}

// SendHead sends a response without a body whose header may still describe one, such as the response to HEAD: with the
// Content-Length that SetContentLength has declared, or none. The error is ErrSent if the response has begun. It may park.
func (i *inner) SendHead() error {
	x := (*Ctx)(i)
	if err := x.begun(); err != nil {
		return err
	}
	if len(x.resp.filters) > 0 {
		x.runFilters(x.resp.length)
	}
	x.commit(x.resp.wire(x.resp.length))
	x.resp.phase, x.resp.written = respDone, 0
	return nil
}

// A bodyApart is an ownctx.Body, which documents its methods.
type bodyApart struct {
	x, y    *Ctx       // the handler's; the one that has the buffer and the state of the body meanwhile
	reading task.Mutex // held by the reader
	trailer []byte     // lines with their CR LF; guarded by reading
	over    bool       // guarded by reading

	control sync.Mutex
	stopped bool // guarded by control
}

// BodyApart parts the body from the request: Body must not be used any more. A client that waits for 100
// Continue gets it. End comes before the handler returns, or is done by the server then. It may park.
func (i *inner) BodyApart() (ownctx.Body, error) {
	x := (*Ctx)(i)
	if x.body.owed {
		if err := x.beforeRead(); err != nil {
			return nil, err
		}
	}
	rest := x.in[x.r:x.w]
	y := &Ctx{c: x.c, srv: x.srv, buffers: buffers{in: make([]byte, max(len(rest), slimIn))}}
	b := &bodyApart{x: x, y: y}
	y.w = copy(y.in, rest)
	y.recount()
	y.head.Chunked = x.head.Chunked // see maySendMessages
	x.returnOut()
	x.r, x.w = x.bodyAt, x.bodyAt
	y.body, x.body = x.body, body{}
	y.resp.phase = respDone
	y.apart, x.apart = b, b
	return b, nil
}

func (b *bodyApart) Read(p []byte) (int, error) {
	b.reading.Lock()
	defer b.reading.Unlock()
	if b.over {
		return 0, errReturned
	}
	return (*bodyReader)(b.y).Read(p)
}

func (b *bodyApart) Unread() bool {
	b.reading.Lock()
	defer b.reading.Unlock()
	if b.over {
		return false
	}
	return b.y.r < b.y.w || tlsin.Of(b.y.c.nc) == nil && unread(b.y.c.nc)
}

func (b *bodyApart) Trailer() []byte {
	b.reading.Lock()
	defer b.reading.Unlock()
	return b.trailer
}

func (b *bodyApart) End() {
	if !b.reading.TryLock() {
		b.control.Lock()
		b.stopped = true
		b.x.c.nc.SetReadDeadline(ownconn.Past)
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
func (b *bodyApart) stoppedReading() bool {
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
func (b *bodyApart) arm(x *Ctx) error {
	b.control.Lock()
	defer b.control.Unlock()
	if b.stopped {
		return errReturned
	}
	x.c.armRead(x.bodyTimeout())
	return nil
}
