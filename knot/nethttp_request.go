package knot

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"net/url"
	"strconv"
	"strings"
)

// The exchange as an http.Request.

// request makes the http.Request. It copies all that it takes from the Ctx. It is called
// in the task.
func (e *exchange) request(ctx context.Context) error {
	x := e.x
	target := x.Target()
	u, err := url.ParseRequestURI(target)
	if err != nil {
		return Status(http.StatusBadRequest)
	}
	r := &http.Request{
		Method: x.Method(), URL: u, Host: x.Host(), RequestURI: target,
		ProtoMajor: 1, ProtoMinor: x.ProtoMinor(),
		Header: make(http.Header), ContentLength: x.ContentLength(), Body: http.NoBody,
		Close: !x.head.persistent(),
	}
	r.Proto = "HTTP/1." + strconv.Itoa(r.ProtoMinor)
	if r.ContentLength != 0 {
		r.Body = (*requestBody)(e)
		if b := &x.body; b.chunked || b.left > int64(x.w-x.r) {
			// Reading the rest does not send the responses to earlier requests.
			if err := x.flush(); err != nil {
				return err
			}
		}
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
	if v := r.Header["Pragma"]; len(v) > 0 && v[0] == "no-cache" && r.Header["Cache-Control"] == nil {
		r.Header["Cache-Control"] = []string{"no-cache"}
	}
	if r.ContentLength < 0 && !announceTrailers(r) {
		return Status(http.StatusBadRequest)
	}
	if addr := e.nc.RemoteAddr(); addr != nil {
		r.RemoteAddr = addr.String()
	}
	if addr := e.nc.LocalAddr(); addr != nil {
		ctx = context.WithValue(ctx, http.LocalAddrContextKey, addr)
	}
	if secure, ok := e.nc.(interface{ ConnectionState() tls.ConnectionState }); ok {
		state := secure.ConnectionState()
		r.TLS = &state
	}
	e.r = r.WithContext(ctx)
	return nil
}

// announceTrailers puts the names that the Trailer header lists into r.Trailer, and
// reports whether all of them may stand there.
func announceTrailers(r *http.Request) bool {
	for _, list := range r.Header["Trailer"] {
		for name := range strings.SplitSeq(list, ",") {
			switch name = http.CanonicalHeaderKey(strings.TrimSpace(name)); name {
			case "":
				continue
			case "Transfer-Encoding", "Trailer", "Content-Length":
				return false
			}
			if r.Trailer == nil {
				r.Trailer = make(http.Header)
			}
			r.Trailer[name] = nil
		}
	}
	delete(r.Header, "Trailer")
	return true
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
	return n, plainError(err)
}

// plainError is err as the body of a net/http server would have it: callers there compare
// it as it is, and don't look into what it wraps.
func plainError(err error) error {
	var timeout net.Error
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return io.ErrUnexpectedEOF
	case errors.As(err, &timeout) && timeout.Timeout():
		return timeout
	}
	return err
}

// Close does not read what is left: the server does, if it is not too much. Nor does it
// wait for a Read that another goroutine is in; that one ends when the handler returns.
func (b *requestBody) Close() error {
	b.closed.Store(true)
	return nil
}
