package knot

import (
	"errors"
	"net/http"
	"strconv"

	"github.com/capriccio-go/capriccio/knot/internal/h1"
	"github.com/capriccio-go/capriccio/knot/internal/nethttp"
)

// The exchange as an http.ResponseWriter.

// Header implements http.ResponseWriter.
func (e *exchange) Header() http.Header { return e.header }

// WriteHeader implements http.ResponseWriter.
func (e *exchange) WriteHeader(code int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.hijacked:
		e.log("WriteHeader after Hijack", "status", code)
	case e.x == nil:
	case e.wrote:
		e.log("superfluous call of WriteHeader", "status", code)
	case code < 100 || code > h1.WidestStatus:
		panic("invalid WriteHeader code " + strconv.Itoa(code)) // in the words of net/http, which middleware may know
	case code < 200 && code != http.StatusSwitchingProtocols:
		e.writeEarly(e.x, code)
	default:
		e.writeHead(e.x, code)
	}
}

// writeEarly sends an informational response, with the header as it is now. It needs mu.
func (e *exchange) writeEarly(x *Ctx, code int) {
	if x.head.Minor == 0 { // HTTP/1.0 has no informational responses
		return
	}
	if code == http.StatusContinue && e.reading.TryLock() { // else it is being sent
		x.body.owed = false
		e.reading.Unlock()
	}
	x.out = nethttp.AppendEarly(x.out, code, e.header)
	x.flush()
}

// writeHead fixes status and header of the response. It needs mu.
func (e *exchange) writeHead(x *Ctx, code int) {
	e.wrote = true
	if code < 200 { // 101, which Hijack sends, or the end of the handler
		e.upgrade = nethttp.AppendEarly(nil, code, e.header)
		return
	}
	r, h := &x.resp, nethttp.ReadHead(e.header, code, x.resp.fields)
	r.status, r.fields, r.ctype, r.length = code, h.Fields, h.Type, h.Length
	r.dated, r.named, r.lasts = h.Dated, h.Named || r.named, h.Lasts
	e.typed, e.unsized, e.announced = h.Typed, h.Unsized, h.Announced
	if h.Close {
		x.CloseAfter()
	}
	if h.Invalid != "" {
		e.log("invalid Content-Length", "value", h.Invalid)
	}
}

// Write implements http.ResponseWriter. It may wait for the client.
func (e *exchange) Write(p []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	x, err := e.prepareWrite()
	switch {
	case err != nil:
		return 0, err
	case len(p) == 0:
		return 0, nil
	case x.resp.drop:
		return len(p), nil
	case h1.Bodyless(x.resp.status):
		return 0, http.ErrBodyNotAllowed
	}
	if !e.typed {
		held := int64(len(e.sniffed) + len(p))
		if r := &x.resp; r.length >= 0 && held > r.length {
			return 0, http.ErrContentLength
		}
		if held < sniffSize {
			e.sniffed = append(e.sniffed, p...)
			return len(p), nil
		}
		fit := min(len(p), sniffSize-len(e.sniffed))
		x.SetContentType(http.DetectContentType(append(e.sniffed, p[:fit]...)))
		if err := e.settleType(x); err != nil {
			return 0, err
		}
	}
	n, err := x.Write(p)
	if errors.Is(err, ErrTooLong) {
		err = http.ErrContentLength
	}
	return n, err
}

// settleType decides the Content-Type and writes what was held back for it. It needs mu.
func (e *exchange) settleType(x *Ctx) error {
	held := e.sniffed
	e.sniffed = nil
	if !e.typed && len(held) > 0 && x.resp.ctype == "" {
		x.SetContentType(http.DetectContentType(held))
	}
	e.typed = true
	if len(held) == 0 {
		return nil
	}
	_, err := x.Write(held)
	return err
}

// WriteString implements io.StringWriter.
func (e *exchange) WriteString(s string) (int, error) { return e.Write(h1.Bytes(s)) }

// Flush implements http.Flusher.
func (e *exchange) Flush() { e.FlushError() }

// FlushError is what http.ResponseController.Flush calls.
func (e *exchange) FlushError() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	x, err := e.prepareWrite()
	if err != nil {
		return err
	}
	if err := e.settleType(x); err != nil {
		return err
	}
	return x.Flush()
}

// prepareWrite returns the Ctx that the handler writes the body to, and fixes status and header before the first write. An error
// says why the response takes no more. It needs mu.
func (e *exchange) prepareWrite() (*Ctx, error) {
	switch {
	case e.hijacked:
		return nil, http.ErrHijacked
	case e.x == nil:
		return nil, errReturned
	}
	if !e.wrote {
		e.writeHead(e.x, http.StatusOK)
	}
	if e.failure != nil {
		return nil, e.failure
	}
	if e.upgrade != nil {
		return nil, http.ErrBodyNotAllowed
	}
	return e.x, e.x.writeErr
}

// addTrailers prepares the trailer of the response if it can have one. It needs mu.
func (e *exchange) addTrailers(x *Ctx) error {
	r := &x.resp
	lines := nethttp.Trailer(e.header, e.announced)
	trailer := len(lines) > 0 || len(e.announced) > 0
	if !trailer && !e.unsized {
		return nil
	}
	if x.c.stream != nil && r.length == r.written { // an empty body, if the response is open
		r.length = -1
	}
	if r.phase == respOpen && r.length < 0 && (x.head.Minor > 0 || e.unsized) && x.head.Method != h1.MethodHead && !h1.Bodyless(r.status) {
		if err := x.startStream(); err != nil { // only chunks have a trailer
			return err
		}
	}
	r.trailer = lines
	return nil
}

// announcesTrailer reports whether a trailer follows the body though its length is declared. HTTP/1 has none then; over HTTP/2 and
// HTTP/3 the body is sent in chunks, without its Content-Length.
func (x *Ctx) announcesTrailer() bool {
	return x.c.stream != nil && x.adapted != nil && len(x.adapted.announced) > 0
}
