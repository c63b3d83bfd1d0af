package knot

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/capriccio-go/capriccio/internal/ownctx"
	"github.com/capriccio-go/capriccio/knot/internal/h1"
	"github.com/capriccio-go/capriccio/knot/internal/tasks"
)

// A fetch is a request that a handler makes in place of its client, see inner.Fetch.
type fetch struct {
	srv      *Server
	head     []byte
	handler  Handler
	to       ownctx.Receiver
	conn     fetchConn
	parsed   h1.ResponseHead
	body     h1.ResponseBody
	id       string      // of the request that it is made for
	user     string      // who sent that request, see Ctx.User
	span     ownctx.Span // of that, too
	demand   *demand     // how important that is; nil: it has not said
	begun    bool        // the head of the response has come
	unparsed []byte      // what has come of the head, or of the framing of the body
}

// errStopped ends a fetch that was stopped.
var errStopped = errors.New("knot: the fetch was stopped")

// Fetch begins a request without a body that h answers, in a task of its own. It counts as from the client of x, by the same
// connection, and goes on when x has ended, as other requests may use the response. head is its text in HTTP/1.1, with
// the blank line, and is not to be changed. It is neither admitted, counted nor logged as a request of a client. stop tells h
// that the response is not wanted any more, as if the client had gone. It never parks, and may be called from anywhere.
func (i *inner) Fetch(head []byte, h Handler, to ownctx.Receiver) (stop func()) {
	x := (*Ctx)(i)
	remote, secure := x.c.facts()
	f := &fetch{srv: x.srv, head: head, handler: h, to: to, id: x.id, user: x.user, span: x.span}
	if d := i.demand; d != nil && d.urgent { // its deadline is of its client alone
		f.demand = &demand{urgency: d.urgency, urgent: true}
	}
	f.conn = fetchConn{f: f, remote: x.RemoteAddr(), local: x.LocalAddr()}
	f.conn.c.nc, f.conn.c.srv, f.conn.c.remote = &f.conn, x.srv, x.c.peer()
	f.conn.c.known = &connFacts{remote: remote, tls: secure}
	f.conn.c.endpoint = x.c.endpoint
	tasks.SpawnApart(f.run)
	return f.stop
}

func (f *fetch) stop() {
	f.conn.mu.Lock()
	f.conn.stopped = true
	fn := f.conn.hangup
	f.conn.hangup = nil
	f.conn.mu.Unlock()
	if fn != nil {
		(*fn)()
	}
}

func (f *fetch) run() {
	err := errors.New("knot: the handler of a fetch has panicked, or left by runtime.Goexit")
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("knot: the handler of a fetch has panicked: %v", p)
		}
		f.to.End(err)
	}()
	err = f.serve()
}

// serve has the handler answer.
func (f *fetch) serve() error {
	x := f.srv.borrow(&f.conn.c)
	defer giveBack(x)
	x.spoiled = true // until the handler has returned
	if len(x.in) < len(f.head) {
		x.growIn(len(f.head))
	}
	x.headAt, x.w = 0, copy(x.in, f.head)
	if bad := x.head.Parse(x.in[:x.w], &x.srv.settings().head); bad != nil {
		return fmt.Errorf("knot: the head of a fetch: %w", (*fault)(bad))
	}
	x.r, x.bodyAt = x.head.Size, x.head.Size
	x.closing, x.id, x.user, x.span, x.demand = true, f.id, f.user, f.span, f.demand
	defer func() { x.span = nil }() // it is not ended by this
	x.resp.kept = x.resp.kept[:0]
	x.resp.begin()
	x.beginBody()
	var fault *h1.Fault
	if x.path, x.scratch, fault = h1.CleanPath(x.head.Path.Of(x.headBytes()), x.scratch); fault != nil {
		return Status(fault.Status)
	}
	method := x.Method()
	f.conn.method = method
	err := f.handler(x)
	x.rejoin()
	if err == nil {
		err = x.complete()
	}
	if err == nil {
		err = x.flush()
	}
	x.spoiled = false
	switch {
	case x.writeErr != nil:
		return x.writeErr // the receiver's
	case err == nil && (!f.begun || !f.body.Done() && !f.body.UntilClose):
		return io.ErrUnexpectedEOF
	}
	return err
}

// take takes what the Ctx has written.
func (f *fetch) take(p []byte) error {
	data := p
	if len(f.unparsed) > 0 {
		f.unparsed = append(f.unparsed, p...)
		data = f.unparsed
	}
	for !f.begun {
		whole, err := f.parsed.Parse(data)
		if err != nil {
			return err
		}
		if !whole {
			f.keep(data)
			return nil
		}
		if f.parsed.Status >= 200 {
			f.begun = true
			if err := f.to.Head(f.parsed.Status, f.parsed.Length(), f.lines(data)); err != nil {
				return err
			}
			f.body = f.parsed.Body(f.conn.method)
		}
		data = data[f.parsed.Size:]
	}
	for {
		piece, used, err := f.body.Next(data, nil)
		if len(piece) > 0 {
			if err := f.to.Body(piece); err != nil {
				return err
			}
		}
		data = data[used:]
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		case used == 0:
			f.keep(data)
			return nil
		}
	}
}

// keep keeps a head, or a line of framing, that is not whole.
func (f *fetch) keep(data []byte) { f.unparsed = append(f.unparsed[:0], data...) }

// lines calls a function for the lines of the head in b, without those that frame the body.
func (f *fetch) lines(b []byte) func(func(name, value []byte) bool) {
	return func(fn func(name, value []byte) bool) {
		f.parsed.Each(b, func(name, value []byte) bool {
			return h1.TokenIs(name, "connection") || h1.TokenIs(name, "transfer-encoding") || h1.TokenIs(name, "content-length") ||
				fn(name, value)
		})
	}
}

// A fetchConn is the connection of a fetch, as its Ctx sees it.
type fetchConn struct {
	f             *fetch
	c             conn
	remote, local net.Addr
	method        string

	mu      sync.Mutex
	hangup  *func() // guarded by mu
	stopped bool    // guarded by mu
}

// OnHangup is that of a *netpoll.Conn: stop hangs up.
func (n *fetchConn) OnHangup(fn *func()) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	was := n.hangup != nil
	switch n.hangup = fn; {
	case fn == nil:
		return was
	case n.stopped:
		n.hangup = nil
		go (*fn)() // not on the caller's goroutine
	}
	return true
}

func (n *fetchConn) Write(p []byte) (int, error) {
	n.mu.Lock()
	stopped := n.stopped
	n.mu.Unlock()
	if stopped {
		return 0, errStopped
	}
	if err := n.f.take(p); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (n *fetchConn) Read([]byte) (int, error)         { return 0, io.EOF }
func (n *fetchConn) Close() error                     { return nil }
func (n *fetchConn) LocalAddr() net.Addr              { return n.local }
func (n *fetchConn) RemoteAddr() net.Addr             { return n.remote }
func (n *fetchConn) SetDeadline(time.Time) error      { return nil }
func (n *fetchConn) SetReadDeadline(time.Time) error  { return nil }
func (n *fetchConn) SetWriteDeadline(time.Time) error { return nil }
