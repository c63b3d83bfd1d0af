package knot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"

	"github.com/capriccio-go/capriccio/internal/coro"
	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/logwriter"
	"github.com/capriccio-go/capriccio/knot/internal/h1"
	"github.com/capriccio-go/capriccio/knot/internal/nethttp"
	"github.com/capriccio-go/capriccio/ressched"
	"github.com/capriccio-go/capriccio/task"
)

// Serve accepts connections on ln and answers their requests with h, a handler of net/http, as http.Serve does; nil
// stands for http.DefaultServeMux. It is Serve of a Server whose Handler is AdaptHTTP(h), with the limits of
// http.Server: heads of 1 MiB (but 10,000 lines at most), and none for request bodies, which handlers limit
// (http.MaxBytesReader). HTTP/2 is served to clients that begin with it (Server.H2C), so that programs with x/net's
// h2c.NewHandler, as many of gRPC have, work, and CONNECT (Server.Connect), for forward proxies and net/rpc. For
// connections of handlers, by an http.Transport, say, it leaves half of the descriptors that it could use, 512 at most
// (Server.Outgoing). Without a runtime, as outside of capriccio.Run, requests are served by goroutines, and nothing
// protects the server from overload. It returns when ln is closed or fails, and when the context of the calling task
// ends: it then stops as Server.Run does, and returns the error of the context if every request has been answered. It
// parks.
func Serve(ln net.Listener, h http.Handler) error {
	s := likeHTTP(&h)
	s.ready()
	ctx := task.Context()
	return cmp.Or(s.serveUntil(ctx, []net.Listener{ln}, nil), ctx.Err())
}

// Settings that callers of Serve don't give.
const (
	serveOutgoing = 512
	serveFields   = 10_000 // their offsets take 160 KB
)

// AdaptHTTP makes a Handler of an http.Handler: a ServeMux, a router, a framework. nil stands for http.DefaultServeMux.
//
// The handler runs in the request's task: no goroutine is started, and the handler may use package task and all
// functions that wait by parking. If it waits natively (for a Go channel, time.Sleep, a lock held across a wait,
// http.Client and with it httputil.ReverseProxy), its loop goes on without it after a millisecond, and later requests
// of the same route (method and path, without parts that have digits) run on goroutines, as under net/http, until
// enough of them have been short. Where loops can't be taken from tasks, under the race detector for instance, all
// requests run on goroutines. Bodies are streamed both ways, at the same time if the handler does so.
//
// The request has what a server of net/http gives it, http.ServerContextKey and
// http.LocalAddrContextKey in its context included, and the ResponseWriter is also a
// Flusher, a Hijacker, a ReaderFrom, a CloseNotifier, and whatever http.ResponseController
// can use. docs/net-http.md goes through it item by item; what is different:
//
//   - The limits of Server apply, MaxBody (8 MB unless set) too: http.Server has none for bodies, nor has Serve.
//   - The server behind http.ServerContextKey only describes this one.
//   - CONNECT, unless Server.Connect is set, and paths that climb above the root are refused before the handler, and
//     a panic before the response becomes 500.
func AdaptHTTP(h http.Handler) Handler {
	return adaptHTTP(&h)
}

// adaptHTTP is AdaptHTTP for a handler that may be set later.
func adaptHTTP(handler *http.Handler) Handler {
	var likeness atomic.Pointer[describedServer]
	native := new(nethttp.Native)
	return func(x *Ctx) error {
		h := *handler
		if h == nil {
			h = http.DefaultServeMux
		}
		d := likeness.Load()
		if d == nil || d.of != x.srv {
			d = describe(x.srv, h)
			likeness.Store(d)
		}
		if x.resp.phase == respOpen && x.flush() != nil { // as net/http does: h may wait, for this client even
			return x.writeErr
		}
		e := &exchange{x: x, srv: x.srv, loop: engine.CurrentLoop(), header: make(http.Header), connControl: connControl{nc: x.c.nc}}
		e.ctx = nethttp.Context{Server: d.std, Conn: x.c.nc, Parents: [...]context.Context{x.srv.ctx, task.Context()}}
		if d := x.demand; d != nil {
			e.ctx.By, e.ctx.Urgency, e.ctx.Urgent = d.deadline, d.urgency, d.urgent
		}
		if err := e.request(); err != nil {
			e.ctx.End()
			return err
		}
		if x.body.Phase != h1.BodyDone && len(x.in)-x.bodyAt < bodyRoom {
			x.growIn(x.bodyAt + bodyRoom) // a goroutine that reads the body would have to wait for one that is writing
		}
		x.adapted = e
		if len(x.resp.filters) > 0 {
			x.keepHead()
		}
		if std := x.srv.std.Std; std != nil {
			e.limitStd(std)
		}
		e.serve(h, native)
		return e.failure
	}
}

// OffloadHTTP makes a handler that may block natively of h: h runs on an ordinary
// goroutine while the task of the request waits. That costs some microseconds, and a
// goroutine as long as h takes. It is for what AdaptHTTP serves, or a part of it, as one
// route of a router; on a goroutine it just calls h. It parks.
func OffloadHTTP(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { nethttp.Offload(h, w, r) })
}

// A describedServer has the http.Server behind http.ServerContextKey, and the Server that it describes.
type describedServer struct {
	of  *Server
	std *http.Server
}

func describe(s *Server, h http.Handler) *describedServer {
	if s.std.Std != nil {
		return &describedServer{s, s.std.Std}
	}
	return &describedServer{s, &http.Server{
		Addr: s.Addr, Handler: h,
		ReadHeaderTimeout: s.settings().headTime, IdleTimeout: s.settings().idle, MaxHeaderBytes: s.settings().head.Size,
		ErrorLog: slog.NewLogLogger(s.errorLog().Handler(), slog.LevelError),
	}}
}

var (
	// errReturned is for tasks and goroutines that read or write when the handler has returned.
	errReturned = errors.New("knot: the handler has returned")
	// errUnfit is for handlers that announce another protocol and then do not speak it.
	errUnfit = errors.New("knot: a handler of net/http sent status 101 and did not take the connection over")
)

// An exchange is a request and its response as net/http sees them. The handler may
// hand its parts to other tasks and goroutines, so everything is guarded: what belongs to the
// request body by reading, which is held during a read; the rest by mu, which is held during a
// write. reading is locked first.
type exchange struct {
	reading task.Mutex
	mu      task.Mutex
	// x is nil when the handler has returned, or has the connection. Guarded by both: it
	// is changed under both and may be used under either, for what that guards.
	x         *Ctx
	srv       *Server      // fixed
	loop      *engine.Loop // of the task, nil on a goroutine; fixed
	header    http.Header  // the handler's own: not guarded
	r         http.Request // fixed, but for its Trailer: guarded by reading
	wrote     bool         // the head: status and header are fixed; guarded by mu
	typed     bool         // Content-Type is decided; guarded by mu
	unsized   bool         // Content-Length is not to be sent; guarded by mu
	duplex    bool         // guarded by mu
	hijacked  bool         // guarded by mu
	sniffed   []byte       // body held back to find out its type; guarded by mu
	upgrade   []byte       // the response 101, until Hijack or the end of the handler sends it; guarded by mu
	announced []string     // trailers of the response; guarded by mu
	closed    atomic.Bool  // the request body has been closed
	bodyErr   error        // first error of the request body but io.EOF; guarded by reading
	failure   error        // what the Handler returns; guarded by mu

	ctx nethttp.Context
	connControl

	url url.URL // the target of most requests
}

// serve runs the handler, and completes the response.
func (e *exchange) serve(h http.Handler, native *nethttp.Native) {
	returned := false
	defer func() {
		if !returned {
			v := recover()
			e.unwind(v, v == nil && coro.ByGoexit())
		}
	}()
	if e.r.RequestURI == "*" && e.r.Method == http.MethodOptions && !e.ctx.Server.DisableGeneralOptionsHandler {
		h = http.HandlerFunc(answerForTheServer)
	}
	route, _ := e.x.kind()
	native.Run(e.loop, e.srv.errorLog, route, h, e.writer(), &e.r) // then e may have no Ctx any more
	returned = true
	ressched.Mark(e.r.Pattern)
	e.finish()
}

// answerForTheServer answers OPTIONS *, which is not about anything that a handler has.
func answerForTheServer(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Length", "0")
}

// unwind is finish for a handler that panicked with v, or, with goexit, ended its goroutine:
// then the caller of the Handler answers for it.
func (e *exchange) unwind(v any, goexit bool) {
	defer e.removeForm()
	e.ctx.End()
	e.stopReading()
	defer e.reading.Unlock()
	e.mu.Lock()
	defer e.mu.Unlock()
	if v == task.ErrGoexit {
		e.log("handler left by runtime.Goexit")
	} else if !goexit && v != http.ErrAbortHandler {
		value, stack := v, []byte(nil)
		if offloaded, ok := v.(*task.PanicError); ok {
			value, stack = offloaded.Value, offloaded.Stack
		} else {
			stack = engine.PanicStack(v)
		}
		e.log("handler panicked", "panic", logwriter.OneLine(fmt.Sprint(value)), "stack", logwriter.OneLine(string(stack)))
	}
	x := e.x
	if x == nil {
		return // hijacked
	}
	x.closing = true
	x.dropGathered()
	if v == http.ErrAbortHandler {
		x.aborted = true
		x.resp.phase = respDone
	} else {
		e.failure = Status(http.StatusInternalServerError)
	}
	e.part(x)
}

// finish completes the response. From then on nothing of the Ctx is touched any more.
func (e *exchange) finish() {
	defer e.removeForm()
	e.ctx.End()
	e.stopReading()
	defer e.reading.Unlock()
	e.mu.Lock()
	defer e.mu.Unlock()
	if x := e.x; x != nil { // else hijacked
		if !e.wrote && e.bodyErr != nil {
			e.failure = e.bodyErr // better than an empty 200
		} else {
			e.conclude(x)
		}
		if e.releaseConn() && e.failure == nil {
			// The handler's own deadline is for all of its response.
			x.closing = x.closing || x.resp.phase == respOpen && !e.duplex && x.leavesBody()
			if e.failure = x.complete(); e.failure == nil {
				x.flush()
			}
		}
		e.part(x)
	}
}

// part takes the Ctx back. It needs reading and mu.
func (e *exchange) part(x *Ctx) {
	e.releaseConn()
	e.resetDeadlines(x.c)
	e.x, x.adapted, x.duplex = nil, nil, e.duplex
}

// removeForm removes the temporary files of a form. That is disk work.
func (e *exchange) removeForm() {
	f := e.r.MultipartForm
	if f == nil {
		return
	}
	for _, files := range f.File {
		if len(files) > 0 {
			task.Offload(func() { f.RemoveAll() })
			return
		}
	}
}

// conclude ends the response of a handler that has returned. It needs mu.
func (e *exchange) conclude(x *Ctx) {
	if !e.wrote {
		e.writeHead(x, http.StatusOK)
	}
	if e.upgrade != nil {
		e.log("handler failed", "error", errUnfit, "status", http.StatusSwitchingProtocols)
		if x.c.stream == nil { // what it has answered; the client will find that nothing follows
			end := len(e.upgrade) - len("\r\n")
			x.out = append(x.out, e.upgrade[:end]...)
			if _, own := e.header["Date"]; !own {
				x.out = append(x.out, x.srv.clock.Stamp().Date...)
			}
			x.out = append(x.out, "\r\n"...)
			x.resp.status, x.resp.phase, x.closing = http.StatusSwitchingProtocols, respDone, true
			return
		}
		e.failure = Status(http.StatusInternalServerError)
	}
	if e.failure != nil {
		return
	}
	if e.failure = e.settleType(x); e.failure != nil {
		return
	}
	r := &x.resp
	if x.head.Method == h1.MethodHead && r.phase == respOpen && r.length < 0 && (r.written == 0 || e.unsized) {
		// The length is not known: a handler may not bother to write for HEAD.
		if len(r.filters) > 0 {
			x.runFilters(-1)
		}
		x.commit(-1)
		r.phase, r.written = respDone, 0
		return
	}
	if e.failure = e.addTrailers(x); e.failure != nil && x.writeErr == nil {
		e.log("handler failed", "error", e.failure)
	}
}

// log writes a line about the request to the error log. It does not use the Ctx, whose
// buffer a reader of the body may be moving.
func (e *exchange) log(message string, args ...any) {
	args = append(args, "client", e.r.RemoteAddr, "method", e.r.Method, "target", e.r.RequestURI)
	e.srv.errorLog().Error("knot: "+message, args...)
}
