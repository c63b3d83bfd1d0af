package knot

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/capriccio-go/capriccio/internal/coro"
	"github.com/capriccio-go/capriccio/task"
)

// AdaptHTTP makes a Handler of one that was written for net/http: of a ServeMux, a
// reverse proxy, the handlers of net/http/pprof.
//
// As such code blocks the way goroutines do, it runs on a goroutine of its own while
// the task waits, which costs a few microseconds for each request; it may use
// everything in this project, as any goroutine may. Bodies are streamed both ways, at
// the same time if the handler does so.
//
// The request has what a server of net/http gives it, http.ServerContextKey and
// http.LocalAddrContextKey in its context included, and the ResponseWriter is also a
// Flusher, a Hijacker, a CloseNotifier, and whatever http.ResponseController can use.
// docs/net-http.md goes through it item by item; what is different:
//
//   - The request's context ends within about a second when the client is gone, not at
//     once, and only if the connection has a descriptor.
//   - The limits of Server apply, MaxBody too: http.Server has none for bodies.
//   - The server behind http.ServerContextKey only describes this one.
//   - CONNECT and paths that climb above the root are refused before the handler, and
//     status 101 without Hijack becomes 500, as does a panic before the response.
func AdaptHTTP(h http.Handler) Handler {
	var likeness atomic.Pointer[describedServer]
	return func(x *Ctx) error {
		task.CheckWait() // before the handler begins, which can't be taken back
		d := likeness.Load()
		if d == nil || d.of != x.srv {
			d = describe(x.srv, h)
			likeness.Store(d)
		}
		ctx, cancel := context.WithCancel(context.WithValue(context.Background(), http.ServerContextKey, d.std))
		e := &exchange{x: x, srv: x.srv, header: make(http.Header), cancel: cancel, connControl: connControl{nc: x.c.nc}}
		e.untie = [...]func() bool{context.AfterFunc(x.Context(), cancel), context.AfterFunc(task.Context(), cancel)}
		if err := e.request(ctx); err != nil {
			e.end()
			return err
		}
		x.adapted = e
		e.watch = watchPeer(e.nc, e.peerGone)
		e.run(h)
		return e.failure
	}
}

// A describedServer is what http.ServerContextKey leads to.
type describedServer struct {
	of  *Server
	std *http.Server
}

func describe(s *Server, h http.Handler) *describedServer {
	return &describedServer{s, &http.Server{
		Addr: s.Addr, Handler: h,
		ReadHeaderTimeout: s.limits.headTime, IdleTimeout: s.limits.idle, MaxHeaderBytes: s.limits.head.size,
		ErrorLog: slog.NewLogLogger(s.errorLog().Handler(), slog.LevelError),
	}}
}

var (
	// errReturned is for those who go on writing behind the handler's back.
	errReturned = errors.New("knot: the handler has returned")
	// errUnfit is for statuses that only net/http can send.
	errUnfit = errors.New("knot: a handler of net/http sent a status that can't be sent here")
)

// An exchange is a request and its response as net/http sees them. The handler may
// hand its parts to other goroutines, so everything is guarded: what belongs to the
// request body by reading, the rest by mu, which are held while somebody reads or writes;
// of the two, reading is locked first. Only plain goroutines take them.
type exchange struct {
	reading sync.Mutex
	mu      sync.Mutex
	// x is nil when the handler has returned, or has the connection. Guarded by both: it
	// is changed under both and may be used under either, for what that guards.
	x         *Ctx
	srv       *Server       // fixed
	header    http.Header   // the handler's own: not guarded
	r         *http.Request // fixed, but for its Trailer: guarded by reading
	waiter    *task.Waiter  // of the task, until it is woken; guarded by mu
	wrote     bool          // the head: status and header are fixed; guarded by mu
	typed     bool          // Content-Type is decided; guarded by mu
	duplex    bool          // guarded by mu
	hijacked  bool          // guarded by mu
	sniffed   []byte        // body held back to find out its type; guarded by mu
	announced []string      // trailers of the response; guarded by mu
	closed    atomic.Bool   // the request body is
	bodyErr   error         // first error of the request body but io.EOF; guarded by reading
	failure   error         // what the Handler returns; guarded by mu

	cancel context.CancelFunc
	untie  [2]func() bool // part the request's context from those of server and task
	watch  *peerWatch

	connControl
}

// run runs the handler on a goroutine of its own while the calling task waits, whatever
// happens to it: the handler uses what belongs to the task. A handler that takes the
// connection over is not waited for any more.
func (e *exchange) run(h http.Handler) {
	if task.Current() == nil {
		e.serve(h)
		return
	}
	w := task.Self()
	defer w.Release()
	e.waiter = w
	go e.serve(h)
	woken := false
	defer func() {
		if !woken {
			w.Absorb()
		}
	}()
	woken = w.Park(task.ReasonOffload, nil) == nil
}

// wakeTask lets the task go on, which then owns the Ctx alone. It needs mu.
func (e *exchange) wakeTask() {
	if w := e.waiter; w != nil {
		e.waiter = nil
		w.Wake()
	}
}

// serve runs the handler, on its goroutine.
func (e *exchange) serve(h http.Handler) {
	returned := false
	defer func() {
		var v any
		goexit := false
		if !returned {
			v = recover()
			goexit = v == nil && coro.ByGoexit()
		}
		e.finish(returned, goexit, v)
		if f := e.r.MultipartForm; f != nil {
			f.RemoveAll()
		}
	}()
	if e.r.RequestURI == "*" && e.r.Method == http.MethodOptions {
		h = http.HandlerFunc(answerForTheServer)
	}
	h.ServeHTTP(e, e.r)
	returned = true
}

// answerForTheServer answers OPTIONS *, which is not about anything that a handler has.
func answerForTheServer(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Length", "0")
}

// end ends what goes on beside the handler.
func (e *exchange) end() {
	e.detach()
	e.cancel()
}

// detach leaves the request's context to the handler alone.
func (e *exchange) detach() {
	for _, stop := range e.untie {
		stop()
	}
	if e.watch != nil {
		e.watch.stop()
	}
}

// finish completes the response. From then on nothing of the Ctx is touched any more.
func (e *exchange) finish(returned, goexit bool, v any) {
	e.end()
	e.stopReading()
	defer e.reading.Unlock()
	e.mu.Lock()
	defer e.mu.Unlock()
	if !returned && v != http.ErrAbortHandler {
		what := "handler panicked"
		if goexit {
			what = "handler left by runtime.Goexit"
		}
		e.log(what, "panic", fmt.Sprint(v), "stack", string(task.PanicStack(v)))
	}
	x := e.x
	if x == nil {
		return // hijacked
	}
	switch {
	case returned && !e.wrote && e.bodyErr != nil:
		e.failure = e.bodyErr // better than an empty 200
	case returned:
		e.conclude(x)
	case v == http.ErrAbortHandler:
		x.closing, x.torn = true, true
		x.resp.phase = respDone
	default:
		x.closing = true
		e.failure = Status(http.StatusInternalServerError)
	}
	if e.releaseConn() && e.failure == nil && returned {
		// The handler's own deadline is for all of its response.
		if e.failure = x.complete(); e.failure == nil {
			x.flush()
		}
	}
	e.resetDeadlines()
	e.x, x.adapted = nil, nil
	e.wakeTask()
}

// conclude ends the response of a handler that has returned. It needs mu.
func (e *exchange) conclude(x *Ctx) {
	if !e.wrote {
		e.writeHead(x, http.StatusOK)
	}
	if e.failure != nil {
		return
	}
	if e.failure = e.settleType(x); e.failure != nil {
		return
	}
	r := &x.resp
	if x.head.method == methodHead && r.phase == respOpen && r.length < 0 && r.written == 0 {
		// The length is not known: a handler may not bother to write for HEAD.
		x.commit(-1)
		r.phase = respDone
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
