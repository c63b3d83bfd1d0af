package knot

import (
	"bytes"
	"crypto/tls"
	"net"
	"time"

	"github.com/capriccio-go/capriccio/internal/ownctx"
	"github.com/capriccio-go/capriccio/knot/internal/clientaddr"
	"github.com/capriccio-go/capriccio/knot/internal/counters"
	"github.com/capriccio-go/capriccio/knot/internal/h1"
	"github.com/capriccio-go/capriccio/knot/internal/pace"
	"github.com/capriccio-go/capriccio/knot/internal/store"
	"github.com/capriccio-go/capriccio/knot/internal/tasks"
	"github.com/capriccio-go/capriccio/task"
)

const (
	inSize  = 8 << 10
	outSize = 16 << 10
	// keepSize is the largest buffer that a pooled Ctx keeps, in bytes.
	keepSize = 16 << 10
)

// Handler answers one request. It runs in a task of its own and may block the
// way tasks do. If it returns an error before any of the response has been
// committed, the client gets the standard page for it: a Status by its number,
// anything else 500 and a line in the error log. If it returns nil having
// written nothing, the response is empty.
type Handler func(*Ctx) error

// Ctx is one request and its response. It is valid until the handler returns, and is then used for the next request:
// keep no reference to it, nor to any []byte it returned. Strings may be kept. It belongs to the handler's task: no
// other task or goroutine may touch it.
type Ctx struct {
	// Every field is loop-private, but while adapted is set: exchange says which locks guard the
	// fields then.

	c   *conn
	srv *Server

	buffers
	head h1.Head
	requestFacts
	body body
	resp response
	progress

	span    ownctx.Span // nil: the request is not traced
	adapted *exchange   // while a handler of net/http has the request
	apart   *bodyApart  // while the body is read elsewhere; set in the handler's Ctx and in the reader's
	slowOut pace.Wait   // for the client to take the response; atomic
	slowIn  pace.Wait   // for the client to send the body; atomic
	answers counters.Batch

	// Kept from request to request, so that they need not be made anew.
	scratch  []byte // backing of path when it differs from the target
	pathText string // path as a string, for the next equal path
	fileTools
}

// buffers have what was read of the connection and not used yet, and what is to be written.
type buffers struct {
	// in[r:w] is read and not yet used. While a request is served,
	// in[headAt:bodyAt] is its head.
	in             []byte
	r, w           int
	headAt, bodyAt int
	reads          uint8 // see busyReads

	out      []byte // gathered responses
	writeErr error  // first failed write; nothing is written after it
	vector   net.Buffers
	vectors  [4][]byte

	counted int64 // bytes of in and out, as said to the runtime
	spoiled bool  // not to be used again: its handler panicked, or its buffers were given back
}

// requestFacts are what is known of one request beside its head. resetRequest clears them.
type requestFacts struct {
	headCopy []byte            // the head, for filters while a goroutine may read the body into in; nil: none
	path     []byte            // decoded and cleaned
	user     string            // name of the client, for the access log
	id       string            // of the request, for logs and backends; "": none
	log      *AccessLog        // in place of the server's; nil: that
	client   clientaddr.Client // where the request is from
	demand   *demand           // nil: the request has no deadline and no urgency
	passed   []Header          // lines for backends, see inner.PassHeader
	// rewritten is what Rewrite was given last; nil: nothing
	rewritten  *rewritten
	began      time.Duration // since clock.base: when the request was complete, if log or statistics need it; else 0
	turnedAway bool          // the request was refused before its handler
	prepared   bool          // see inner.Prepare
	pace       pace.Pace
}

// progress is how far the request and its connection are.
type progress struct {
	closing   bool  // the connection ends with the current response
	aborted   bool  // ... at once: the response could not be completed
	takenOver bool  // a handler has taken the connection over
	finished  bool  // the current request is answered and logged
	duplex    bool  // the handler wanted to answer without regard to the body
	dropBy    int64 // until when the rest of the body is awaited before the answer, see awaitBody; else 0
	headBy    int64 // until when a head that has begun must be complete, on the server's clock; 0: none has, or it may take for ever
}

// fileTools are what Files needs for a request: the request as the store sees it, the buffers of widen, what SendFile asks.
type fileTools struct {
	fileRequest store.Request
	wide        *[store.WideSize]byte
	narrowOut   []byte
	pages       entryPages
}

func newCtx() *Ctx {
	return &Ctx{buffers: buffers{in: make([]byte, inSize), out: make([]byte, 0, outSize)}, answers: counters.NewBatch()}
}

// headBytes is the text that the spans of head count from.
func (x *Ctx) headBytes() []byte {
	if x.headCopy != nil {
		return x.headCopy
	}
	return x.in[x.headAt:]
}

// keepHead keeps a copy of the head.
func (x *Ctx) keepHead() {
	if x.headCopy == nil {
		x.headCopy = bytes.Clone(x.in[x.headAt:x.bodyAt])
	}
}

// resetRequest forgets what is known of the request before, and what handlers have said of it.
func (x *Ctx) resetRequest() {
	r := &x.resp
	clear(r.filters)
	r.kept, r.filters = r.kept[:0], r.filters[:0]
	if x.demand != nil {
		x.dropDemand()
	}
	x.requestFacts = requestFacts{}
	x.slowOut.Reset()
	x.slowIn.Reset()
}

// Method is the request method as it came; it may be any token. CONNECT reaches a handler only with Server.Connect. A 2xx
// response to CONNECT opens a tunnel: over HTTP/1 it has no Content-Length, and the connection ends after what the handler
// writes.
func (x *Ctx) Method() string {
	if m := x.head.Method; m != h1.MethodUnknown {
		return h1.MethodNames[m]
	}
	return string(x.head.MethodText(x.headBytes()))
}

// Path is the path of the request target, percent escapes decoded, "." and ".."
// resolved and slashes joined; "*" for OPTIONS *; "" for CONNECT to an authority, which is Host.
func (x *Ctx) Path() string {
	if x.pathText != string(x.path) {
		x.pathText = string(x.path)
	}
	return x.pathText
}

// PathBytes is Path as a view, without a copy.
func (x *Ctx) PathBytes() []byte { return x.path }

// Query is the query of the request target as it came, without its question
// mark, or that of Rewrite.
func (x *Ctx) Query() string {
	if x.rewritten != nil {
		return x.rewritten.query
	}
	return string(x.head.Query.Of(x.headBytes()))
}

// Target is the request target as it came. Rewrite does not change it.
func (x *Ctx) Target() string { return string(x.head.Target.Of(x.headBytes())) }

// Host is the authority that the request is for; it may be empty.
func (x *Ctx) Host() string { return string(x.head.Host.Of(x.headBytes())) }

// HostBytes is Host as a view, without a copy.
func (x *Ctx) HostBytes() []byte { return x.head.Host.Of(x.headBytes()) }

// Proto is the version of HTTP that the request came by: "HTTP/1.0", "HTTP/1.1", "HTTP/2.0" or "HTTP/3.0".
func (x *Ctx) Proto() string {
	switch {
	case x.c.stream != nil:
		return h1.FramedProto(x.c.framed())
	case x.head.Minor == 0:
		return "HTTP/1.0"
	}
	return "HTTP/1.1"
}

// Header returns the value of the first header line with this name, in any
// case, or "".
func (x *Ctx) Header(name string) string { return string(x.HeaderBytes(name)) }

// HeaderBytes is Header as a view, without a copy; nil if there is none.
func (x *Ctx) HeaderBytes(name string) []byte {
	b := x.headBytes()
	for i := range x.head.Fields {
		one := &x.head.Fields[i]
		if int(one.Name.To-one.Name.From) == len(name) && h1.SameFold(one.Name.Of(b), name) {
			return one.Value.Of(b)
		}
	}
	return nil
}

// EachHeader calls fn for every header line in order, with views, until fn
// returns false.
func (x *Ctx) EachHeader(fn func(name, value []byte) bool) {
	b := x.headBytes()
	for _, one := range x.head.Fields {
		if !fn(one.Name.Of(b), one.Value.Of(b)) {
			return
		}
	}
}

// ContentLength is the length of the request body in bytes, -1 if it is
// chunked.
func (x *Ctx) ContentLength() int64 {
	if x.head.Chunked {
		return -1
	}
	return x.head.Length
}

// RemoteAddr is the address at the other end of the connection: that of the client, or of a proxy (see ClientAddr).
func (x *Ctx) RemoteAddr() net.Addr { return x.c.nc.RemoteAddr() }

// LocalAddr is the address of the server that the client has connected to.
func (x *Ctx) LocalAddr() net.Addr { return x.c.nc.LocalAddr() }

// TLS is what is known of the connection if it is over TLS, else nil. It is shared by all
// requests of the connection, and must not be changed.
func (x *Ctx) TLS() *tls.ConnectionState {
	_, state := x.c.facts()
	return state
}

// User names the client, as SetUser said; "" if SetUser was not called.
func (x *Ctx) User() string { return x.user }

// SetUser names the client, for the access log.
func (x *Ctx) SetUser(name string) { x.user = name }

// makeRoom moves in[r:w] down to keep.
func (x *Ctx) makeRoom(keep int) {
	if x.r > keep {
		x.w = keep + copy(x.in[keep:], x.in[x.r:x.w])
		x.r = keep
	}
}

// growIn makes the read buffer at least twice as large, and at least size.
func (x *Ctx) growIn(size int) {
	bigger := make([]byte, max(size, 2*len(x.in)))
	copy(bigger, x.in[:x.w])
	x.in = bigger
	x.recount()
}

// busyReads lets other tasks run when a client sends so fast that reads never
// park.
func (x *Ctx) busyReads() {
	if x.reads++; x.reads%16 == 0 {
		task.Yield()
	}
}

// returnBuffers gives the buffers back, for a request that goes on without them.
func (x *Ctx) returnBuffers() {
	tasks.Buffers.Release(x.counted)
	x.counted, x.spoiled = 0, true
	y := &Ctx{buffers: buffers{in: x.in, out: x.out[:0]}, head: h1.Head{Fields: x.head.Fields}}
	x.in, x.out, x.head.Fields, x.r, x.w = nil, nil, nil, 0, 0
	y.recycle()
	contexts.Put(y)
}

// recycle drops what a pooled Ctx must not hold.
func (x *Ctx) recycle() {
	x.unfilter()
	x.resetRequest()
	x.c, x.srv, x.writeErr = nil, nil, nil
	x.head.Reset()
	x.r, x.w, x.headAt, x.bodyAt = 0, 0, 0, 0
	x.body = body{}
	x.resp.forget()
	x.progress = progress{}
	x.out = x.out[:0]
	if len(x.in) > keepSize || len(x.in) < inSize {
		x.in = make([]byte, inSize)
	}
	if cap(x.out) > keepSize || cap(x.out) < outSize {
		x.out = make([]byte, 0, outSize)
	}
	if cap(x.scratch) > keepSize {
		x.scratch = nil
	}
	if len(x.pathText) > 1024 {
		x.pathText = ""
	}
	x.fileRequest.Forget(keepSize)
	if cap(x.head.Fields) > 256 {
		x.head.Fields = nil
	}
}
