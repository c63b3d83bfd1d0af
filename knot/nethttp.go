package knot

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"net/url"
	"sync"
	"time"

	"github.com/capriccio-go/capriccio/task"
)

// AdaptHTTP makes a Handler of one that was written for net/http: of a ServeMux, a
// reverse proxy, the handlers of net/http/pprof.
//
// As such code blocks the way goroutines do, it runs on a goroutine of its own while
// the task waits, which costs a few microseconds for each request; it may use
// everything in this project, as any goroutine may. Bodies are streamed both ways. The
// request's context ends when the handler has returned, when the server is closed, and
// within about a second when the client is gone, if the connection has a descriptor.
// http.Flusher and http.ResponseController.Flush work.
//
// Not so: connections can't be hijacked, deadlines can't be set, trailers and 1xx
// responses are not sent, and a status above 599 becomes 500. While a goroutine waits
// for more of the request body, others that write the response wait for it.
func AdaptHTTP(h http.Handler) Handler {
	return func(x *Ctx) error {
		e := &exchange{x: x, header: make(http.Header)}
		ctx, cancel := context.WithCancel(x.Context())
		defer cancel()
		defer context.AfterFunc(task.Context(), cancel)()
		r, err := e.request(ctx)
		if err != nil {
			return err
		}
		gone := watchPeer(x.c.nc, cancel)
		defer gone.stop()
		onGoroutine(func() { e.serve(h, r) })
		return e.failure
	}
}

// onGoroutine runs fn on a goroutine of its own while the calling task waits, whatever
// happens to it: fn uses what belongs to the task.
func onGoroutine(fn func()) {
	if task.Current() == nil {
		fn()
		return
	}
	w := task.Self()
	defer w.Release()
	go func() {
		defer w.Wake()
		fn()
	}()
	woken := false
	defer func() {
		if !woken {
			w.Absorb()
		}
	}()
	woken = w.Park(task.ReasonOffload, nil) == nil
}

var (
	// errReturned is for those who go on writing behind the handler's back.
	errReturned = errors.New("knot: the handler has returned")
	// errUnfit is for statuses that only net/http can send.
	errUnfit = errors.New("knot: a handler of net/http sent a status that can't be sent here")
)

// An exchange is a request and its response as net/http sees them. The handler may
// hand its parts to other goroutines, so everything is guarded by mu, which is held
// while one of them reads or writes; only plain goroutines take it.
type exchange struct {
	mu      sync.Mutex
	x       *Ctx        // nil when the handler has returned
	header  http.Header // the handler's own: not guarded
	wrote   bool        // the head: status and header are fixed
	typed   bool        // Content-Type is decided
	closed  bool        // the request body is
	bodyErr error       // first error of the request body but io.EOF
	failure error       // what the Handler returns
}

// serve runs the handler, on its goroutine.
func (e *exchange) serve(h http.Handler, r *http.Request) {
	returned := false
	defer func() {
		var v any
		if !returned {
			v = recover()
		}
		e.finish(returned, v)
	}()
	h.ServeHTTP(e, r)
	returned = true
}

// finish completes the response. From then on nothing of the Ctx is touched any more.
func (e *exchange) finish(returned bool, v any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	x := e.x
	e.x = nil
	switch {
	case returned && !e.wrote && e.bodyErr != nil:
		e.failure = e.bodyErr // better than an empty 200
	case returned:
		if !e.wrote {
			e.writeHead(x, http.StatusOK)
		}
		if r := &x.resp; e.failure == nil && x.head.method == methodHead && r.phase == respOpen && r.length < 0 && r.written == 0 {
			// The length is not known: a handler may not bother to write for HEAD.
			x.commit(-1)
			r.phase = respDone
		}
	case v == http.ErrAbortHandler:
		x.closing, x.torn = true, true
		x.resp.phase = respDone
	default:
		what := "handler panicked"
		if v == nil {
			what = "handler left by runtime.Goexit"
		}
		x.logRequest(what, "panic", fmt.Sprint(v), "stack", string(task.PanicStack(v)))
		x.closing = true
		e.failure = Status(http.StatusInternalServerError)
	}
}

// request makes the http.Request. It copies all that it takes from the Ctx.
func (e *exchange) request(ctx context.Context) (*http.Request, error) {
	x := e.x
	target := x.Target()
	u, err := url.ParseRequestURI(target)
	if err != nil {
		return nil, Status(http.StatusBadRequest)
	}
	r := &http.Request{
		Method: x.Method(), URL: u, Host: x.Host(), RequestURI: target,
		ProtoMajor: 1, ProtoMinor: x.ProtoMinor(),
		Header: make(http.Header), ContentLength: x.ContentLength(), Body: http.NoBody,
		Close: !x.head.persistent(),
	}
	r.Proto = fmt.Sprintf("HTTP/1.%d", r.ProtoMinor)
	if r.ContentLength != 0 {
		r.Body = (*requestBody)(e)
	}
	x.EachHeader(func(name, value []byte) bool {
		key := textproto.CanonicalMIMEHeaderKey(string(name))
		switch key {
		case "Host":
		case "Transfer-Encoding":
			r.TransferEncoding = []string{"chunked"}
		default:
			r.Header[key] = append(r.Header[key], string(value))
		}
		return true
	})
	nc := x.c.nc
	if addr := nc.RemoteAddr(); addr != nil {
		r.RemoteAddr = addr.String()
	}
	if addr := nc.LocalAddr(); addr != nil {
		ctx = context.WithValue(ctx, http.LocalAddrContextKey, addr)
	}
	if secure, ok := nc.(interface{ ConnectionState() tls.ConnectionState }); ok {
		state := secure.ConnectionState()
		r.TLS = &state
	}
	return r.WithContext(ctx), nil
}

// A requestBody is the body of an exchange.
type requestBody exchange

func (b *requestBody) Read(p []byte) (int, error) {
	e := (*exchange)(b)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.x == nil || e.closed {
		return 0, http.ErrBodyReadAfterClose
	}
	n, err := e.x.Body().Read(p)
	if err != nil && err != io.EOF && e.bodyErr == nil {
		e.bodyErr = err
	}
	return n, err
}

// Close does not read what is left: the server does, if it is not too much.
func (b *requestBody) Close() error {
	e := (*exchange)(b)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	return nil
}

// A peerWatch looks now and then whether the other side of a connection has closed it.
type peerWatch struct {
	mu      sync.Mutex
	timer   *time.Timer // guarded by mu
	stopped bool        // guarded by mu
}

// peerInterval is how often a peerWatch looks. Most handlers have returned before the
// first time.
const peerInterval = 500 * time.Millisecond

// watchPeer calls gone, on a plain goroutine, when the client has closed nc, or its
// sending side.
func watchPeer(nc net.Conn, gone func()) *peerWatch {
	w := new(peerWatch)
	look := peerCheck(nc)
	if look == nil {
		return w
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer = time.AfterFunc(peerInterval, func() {
		switch closed, err := look(); {
		case err != nil:
			return
		case closed:
			gone()
			return
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if !w.stopped {
			w.timer.Reset(peerInterval)
		}
	})
	return w
}

func (w *peerWatch) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
	if w.timer != nil {
		w.timer.Stop()
	}
}
