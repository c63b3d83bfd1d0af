package knot

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/textproto"

	"github.com/capriccio-go/capriccio/knot/internal/nethttp"
)

// The exchange as an http.Request.

// request makes the http.Request, which keeps nothing of the Ctx. It is called in the task.
func (e *exchange) request() error {
	x, r := e.x, &e.r
	of := nethttp.Source{Head: &x.head, Text: x.headBytes(), Framed: x.c.framed(), Trails: x.body.trails}
	if x.rewritten != nil {
		of.Target = x.rewritten.target
	}
	if !of.Fill(r, &e.ctx, &e.url) {
		return Status(http.StatusBadRequest)
	}
	if r.ContentLength != 0 {
		r.Body = (*requestBody)(e)
		if b := &x.body; b.Chunked || b.Left > int64(x.w-x.r) {
			// Reading the rest does not send the responses to earlier requests.
			if err := x.flush(); err != nil {
				return err
			}
		}
	}
	r.RemoteAddr, r.TLS = x.c.facts()
	e.ctx.Std = x.srv.stdContext(x.c)
	return nil
}

// connFacts are facts about a connection, for Ctx.TLS and for requests of net/http.
type connFacts struct {
	remote string
	tls    *tls.ConnectionState
	std    nethttp.ConnHooks // of the connection itself, not of a request of HTTP/2
}

// facts returns the client's address and what is known of TLS.
func (c *conn) facts() (remote string, secure *tls.ConnectionState) {
	if c.known == nil {
		f := new(connFacts)
		if addr := c.nc.RemoteAddr(); addr != nil {
			f.remote = addr.String()
		}
		if s, ok := c.nc.(interface{ ConnectionState() tls.ConnectionState }); ok {
			state := s.ConnectionState()
			f.tls = &state
		}
		c.known = f
	}
	return c.known.remote, c.known.tls
}

// noteTrailer takes up a trailer line of the request. It is called by the reader of the
// body.
func (e *exchange) noteTrailer(name, value []byte) {
	if e.r.Trailer == nil {
		e.r.Trailer = make(http.Header)
	}
	key := textproto.CanonicalMIMEHeaderKey(string(name))
	e.r.Trailer[key] = append(e.r.Trailer[key], string(value))
}

// A requestBody is the body of an exchange.
type requestBody exchange

func (b *requestBody) Read(p []byte) (int, error) {
	e := (*exchange)(b)
	e.reading.Lock()
	defer e.reading.Unlock()
	if e.x == nil || e.closed.Load() {
		return 0, http.ErrBodyReadAfterClose
	}
	n, err := e.x.Body().Read(p)
	if err == nil || err == io.EOF {
		return n, err
	}
	if errors.Is(err, errReturned) || e.stoppedReading() {
		return n, http.ErrBodyReadAfterClose
	}
	if e.bodyErr == nil {
		e.bodyErr = err
	}
	return n, plainError(err, e.x.maxBody())
}

// plainError is err as the body of a net/http server would have it: callers there compare
// it as it is, and don't look into what it wraps.
func plainError(err error, maxBody int64) error {
	var ofConn net.Error // a timeout, a reset
	switch {
	case errors.Is(err, Status(http.StatusRequestEntityTooLarge)):
		return &http.MaxBytesError{Limit: maxBody}
	case errors.Is(err, io.ErrUnexpectedEOF):
		return io.ErrUnexpectedEOF
	case errors.As(err, &ofConn):
		return ofConn
	}
	return err
}

// Close does not read what is left: the server does, if it is not too much. Nor does it
// wait for a Read that another goroutine is in; that one ends when the handler returns, and
// for a request of HTTP/2 at once, since handlers (of gRPC) wait for it after Close.
func (b *requestBody) Close() error {
	b.closed.Store(true)
	if e := (*exchange)(b); e.r.ProtoMajor == 2 {
		e.endReads()
	}
	return nil
}
