package knot

import (
	"context"
	"net"
	"net/http"
	"time"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/knot/internal/h3"
	"github.com/capriccio-go/capriccio/task"
)

// A requestListener has a server of its own, which takes connections and reads the heads of requests: that of HTTP/3 in
// command knot. Its connections are not among those of MaxConns.
type requestListener interface {
	net.Listener
	// ServeRequests has answer take each request on a goroutine, until Close or Drain; it returns when no connection is left.
	// overloaded reports whether a new client is not to get a handshake.
	ServeRequests(answer http.Handler, overloaded func() bool) error
	// Drain has no further connection or request come in. It does not wait.
	Drain(context.Context) error
}

// serveRequests has the requests of ln answered by tasks.
func (s *Server) serveRequests(ln requestListener, on entry) error {
	h := &http3Server{s, on, engine.CurrentRuntime()}
	defer context.AfterFunc(task.Context(), func() { ln.Close() })()
	var err error
	task.Offload(func() { err = ln.ServeRequests(h, s.shedsHandshakes) })
	return err
}

// An http3Server is the Server to requests of HTTP/3 that come by an entry.
type http3Server struct {
	s  *Server
	on entry
	rt *engine.Runtime // nil: requests are served on their goroutines
}

// An http3Request is a request of HTTP/3: to the rest of the package a connection of HTTP/1.1 on which one request comes.
type http3Request struct {
	h3.Stream
	framing stream
	conn    conn // of the request's task
	known   connFacts
}

// ServeHTTP implements http.Handler: it answers a request by a task.
func (h *http3Server) ServeHTTP(w http.ResponseWriter, from *http.Request) {
	s := h.s
	s.conns.requests.Add(1)
	defer s.conns.requests.Add(-1)
	r := new(http3Request)
	var by time.Time
	if limit := s.settings().headTime; limit > 0 {
		by = time.Now().Add(limit)
	}
	if status := r.Begin(w, from, by); status != 0 {
		w.WriteHeader(status)
		return
	}
	r.known.remote, r.known.tls = from.RemoteAddr, from.TLS
	r.framing.streaming = &r.Stream
	c := &r.conn
	c.nc, c.srv, c.endpoint, c.stream, c.known = r, s, h.on.endpoint, &r.framing, &r.known
	if h.rt == nil {
		go r.serve()
	} else {
		h.rt.Spawn(engine.Options{Context: context.Background(), Dropped: r.End}, r.serve)
	}
	r.Answer()
}

// serve is the task of the request.
func (r *http3Request) serve() {
	c := &r.conn
	if !c.srv.readsFirst() {
		c.enter() // before it needs a buffer
	}
	x := c.srv.borrow(c)
	x.closing = true // no other request follows
	x.run()
	giveBack(x)
	c.leave()
	r.End()
}
