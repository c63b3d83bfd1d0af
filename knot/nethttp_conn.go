package knot

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/ownconn"
	"github.com/capriccio-go/capriccio/knot/internal/tlsin"
)

// Methods by which a handler of net/http uses its connection.

// A connControl holds what must not wait for the goroutines that read and write: it is how they are
// interrupted. While there is one, it guards the deadlines of the conn.
type connControl struct {
	nc      net.Conn // fixed
	control sync.Mutex
	stopped bool      // no more reading of the request body; guarded by control
	over    bool      // the handler has no say any more; guarded by control
	ownIn   bool      // the handler has set the read deadline; guarded by control
	ownOut  bool      // ... the write deadline; guarded by control
	readBy  time.Time // the read deadline that it has set; guarded by control
}

// stopReading makes sure that no goroutine reads the body any more, and locks reading.
func (e *exchange) stopReading() {
	if e.reading.TryLock() {
		return
	}
	e.endReads()
	e.reading.Lock()
}

// endReads has every Read of the body fail from now on, one that is under way too.
func (e *exchange) endReads() {
	e.control.Lock()
	defer e.control.Unlock()
	if !e.over { // else it is not ours any more
		e.stopped = true
		e.nc.SetReadDeadline(ownconn.Past)
	}
}

func (e *exchange) stoppedReading() bool {
	e.control.Lock()
	defer e.control.Unlock()
	return e.stopped
}

// armRead is conn.armRead for the reader of the body.
func (e *exchange) armRead(x *Ctx) error {
	e.control.Lock()
	defer e.control.Unlock()
	switch {
	case e.stopped:
		return errReturned
	case !e.ownIn:
		x.c.armRead(x.bodyTimeout())
	case !e.readBy.IsZero() && time.Until(e.readBy) <= 0: // not every connection looks at it while there is something to read
		return bodyTimeoutError(os.ErrDeadlineExceeded)
	}
	return nil
}

// armWrite is conn.armWrite, for writers and for readers.
func (e *exchange) armWrite(x *Ctx) {
	e.control.Lock()
	defer e.control.Unlock()
	if !e.ownOut {
		x.c.armWrite(x.slowOut.Limit(x.srv.settings().write))
	}
}

// SetReadDeadline is for http.ResponseController. BodyTimeout does not apply to the
// request any more.
func (e *exchange) SetReadDeadline(t time.Time) error {
	e.control.Lock()
	defer e.control.Unlock()
	if e.over {
		return errReturned
	}
	e.ownIn, e.readBy = true, t
	if e.stopped {
		return nil
	}
	return e.nc.SetReadDeadline(t)
}

// SetWriteDeadline is for http.ResponseController. WriteTimeout does not apply to the
// request any more.
func (e *exchange) SetWriteDeadline(t time.Time) error {
	e.control.Lock()
	defer e.control.Unlock()
	if e.over {
		return errReturned
	}
	e.ownOut = true
	return e.nc.SetWriteDeadline(t)
}

// releaseConn takes the connection back, and reports whether the handler has set a
// deadline for writing.
func (e *exchange) releaseConn() bool {
	e.control.Lock()
	defer e.control.Unlock()
	e.over = true
	return e.ownOut
}

// freeConn leaves the connection to the handler, without deadlines.
func (e *exchange) freeConn() error {
	e.control.Lock()
	defer e.control.Unlock()
	err := e.nc.SetDeadline(time.Time{})
	e.over = err == nil
	return err
}

// resetDeadlines undoes what the handler has set. It needs reading and mu, after
// releaseConn.
func (e *exchange) resetDeadlines(c *conn) {
	if e.ownIn || e.stopped {
		c.clearRead()
	}
	if e.ownOut {
		c.writeBy = 0
		c.nc.SetWriteDeadline(time.Time{})
	}
}

// EnableFullDuplex is for http.ResponseController. Reading and writing never wait for each
// other, with or without it. Without it, a response that begins before a large request
// body has been read means that the connection is going to be closed.
func (e *exchange) EnableFullDuplex() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.duplex = true
	return nil
}

// Filter is Ctx.Filter, for middleware. It waits for a Read of the body that is under way.
func (e *exchange) Filter(f Filter) {
	e.reading.Lock()
	defer e.reading.Unlock()
	e.mu.Lock()
	defer e.mu.Unlock()
	if x := e.x; x != nil {
		x.keepHead()
		x.Filter(f)
	}
}

// CloseNotify implements http.CloseNotifier.
func (e *exchange) CloseNotify() <-chan bool { return e.ctx.CloseNotify() }

// A framedWriter is an exchange without Hijack: the ResponseWriter for a request of HTTP/2 or HTTP/3, which has no
// connection to take over.
type framedWriter struct{ responseWriter }

type responseWriter interface {
	http.ResponseWriter
	http.Flusher
	http.CloseNotifier //lint:ignore SA1019 programs use it
	io.StringWriter
	io.ReaderFrom
	FlushError() error
	SetReadDeadline(t time.Time) error
	SetWriteDeadline(t time.Time) error
	EnableFullDuplex() error
	Filter(f Filter)
}

// writer returns the ResponseWriter that the handler gets.
func (e *exchange) writer() http.ResponseWriter {
	if e.r.ProtoMajor >= 2 {
		return framedWriter{e}
	}
	return e
}

// Hijack implements http.Hijacker: the connection is the caller's from now on, without
// deadlines, and so is the task until the handler returns. The server's buffers are given
// back, the request counts as done for the admission, and Shutdown does not wait for it.
func (e *exchange) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	c, rw, err := e.hijack()
	if c == nil {
		return nil, nil, err
	}
	e.srv.reportState(c, http.StateHijacked)
	return e.nc, rw, err
}

// hijack returns the connection that is the caller's now, or an error.
func (e *exchange) hijack() (*conn, *bufio.ReadWriter, error) {
	e.stopReading()
	defer e.reading.Unlock()
	e.mu.Lock()
	defer e.mu.Unlock()
	x := e.x
	switch {
	case e.hijacked:
		return nil, nil, http.ErrHijacked
	case x == nil:
		return nil, nil, errReturned
	}
	if e.upgrade != nil {
		x.out = append(x.out, e.upgrade...)
		e.upgrade = nil
	} else if e.wrote && e.failure == nil {
		if err := e.settleType(x); err != nil {
			return nil, nil, err
		}
		if err := x.Flush(); err != nil {
			return nil, nil, err
		}
	}
	if err := x.flush(); err != nil { // responses to requests before this one
		return nil, nil, err
	}
	if err := e.freeConn(); err != nil {
		return nil, nil, err
	}
	e.ctx.Detach()
	e.hijacked, e.x, x.adapted = true, nil, nil
	c := x.c
	rest := x.hijack()
	e.leave(c)
	in := bufio.NewReaderSize(e.nc, max(4<<10, len(rest)))
	if len(rest) > 0 {
		in.Reset(io.MultiReader(bytes.NewReader(rest), e.nc))
		if _, err := in.Peek(len(rest)); err != nil {
			return nil, nil, err
		}
	}
	return c, bufio.NewReadWriter(in, bufio.NewWriter(e.nc)), nil
}

// hijack leaves the connection to the handler. It returns the bytes that have come after the request.
func (x *Ctx) hijack() (rest []byte) {
	rest = bytes.Clone(x.in[x.r:x.w])
	x.takenOver, x.closing, x.resp.phase = true, true, respDone
	x.resp.status = http.StatusSwitchingProtocols // for the access log
	if s := tlsin.Of(x.c.nc); s != nil {
		s.HandOver()
	}
	x.srv.handOn(x.c)
	x.conclude()
	x.countAnswered()
	x.ClientAddr() // for logRequest, which has no head then
	x.returnBuffers()
	return rest
}

// leave tells the admission of the loop of c that the request no longer counts as admitted. Any goroutine may call it.
func (e *exchange) leave(c *conn) {
	if e.loop == nil || engine.CurrentLoop() == e.loop {
		c.leave()
		return
	}
	// The conn's own task does not touch it while the handler runs, and does the same later.
	engine.Spawn(engine.Options{Loop: e.loop, Context: context.Background()}, c.leave)
}

// leaveWhileSending is leave for a handler that goes on with its response, maybe on a goroutine: it does nothing if the request has
// ended when the loop comes to it.
func (e *exchange) leaveWhileSending(c *conn) {
	if e.loop == nil || engine.CurrentLoop() == e.loop {
		c.leave()
		return
	}
	engine.Spawn(engine.Options{Loop: e.loop, Context: context.Background()}, func() {
		e.control.Lock()
		over := e.over
		e.control.Unlock()
		if !over { // else c may soon be at another request; it is not yet, as its task is one of this loop
			c.leave()
		}
	})
}
