package knot

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/capriccio-go/capriccio/knot/internal/h1"
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
	if x.head.Minor == 0 { // they can't take it
		return
	}
	if code == http.StatusContinue && e.reading.TryLock() { // else it is being sent
		x.body.owed = false
		e.reading.Unlock()
	}
	x.out = e.appendEarly(x.out, code)
	x.flush()
}

// appendEarly appends an informational response. It needs mu.
func (e *exchange) appendEarly(out []byte, code int) []byte {
	out = append(out, h1.StatusLine(code)...)
	var few [fewNames]string
	for _, name := range e.names(few[:0]) {
		if key := headerKey(name); key == "Content-Length" || key == "Transfer-Encoding" || !h1.IsToken(name) {
			continue
		}
		for _, v := range e.header[name] {
			out = h1.AppendField(out, name, v)
		}
	}
	return append(out, "\r\n"...)
}

// fewNames is what most headers have at most.
const fewNames = 8

// names appends those of the header, in order.
func (e *exchange) names(names []string) []string {
	for name := range e.header {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// trailerNames are those of the header that http.TrailerPrefix makes trailers, in order.
func (e *exchange) trailerNames() (names []string) {
	for name := range e.header {
		if strings.HasPrefix(name, http.TrailerPrefix) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// writeHead fixes status and header of the response. It needs mu.
func (e *exchange) writeHead(x *Ctx, code int) {
	e.wrote = true
	if code < 200 { // 101, which Hijack sends, or the end of the handler
		e.upgrade = e.appendEarly(nil, code)
		return
	}
	x.resp.status = code
	coding := e.header["Content-Encoding"] // Get would first see to the name
	e.typed = h1.Bodyless(code) || len(coding) > 0 && coding[0] != ""
	var few [fewNames]string
	for _, name := range e.names(few[:0]) {
		e.setHeader(x, name, e.header[name])
	}
	if code == http.StatusNotModified {
		x.SetContentType("")
	}
}

func (e *exchange) setHeader(x *Ctx, name string, values []string) {
	switch key := headerKey(name); {
	case key == "Content-Type":
		e.typed = true
		if len(values) > 0 && values[0] != "" {
			x.SetContentType(values[0])
		} else {
			addFields(x, name, values)
		}
	case key == "Content-Length" && len(values) == 0:
		e.unsized = true
	case key == "Content-Length":
		text := strings.Join(values, ",")
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 0 {
			e.log("invalid Content-Length", "value", text)
			return
		}
		x.SetContentLength(n)
	case key == "Connection":
		e.setConnection(x, values)
	case key == "Trailer":
		e.announce(x, values)
	case key == "Transfer-Encoding", !h1.IsToken(name): // the latter with http.TrailerPrefix, too
	case key == "Date":
		x.resp.dated = true
		addFields(x, name, values)
	case key == "Server":
		x.resp.named = true
		addFields(x, name, values)
	default:
		for _, v := range values {
			x.AddHeader(name, v)
		}
	}
}

// addFields adds header lines that AddHeader does not take.
func addFields(x *Ctx, name string, values []string) {
	for _, v := range values {
		x.resp.fields = h1.AppendField(x.resp.fields, name, v)
	}
}

// setConnection passes on the options of Connection that are not the server's own.
func (e *exchange) setConnection(x *Ctx, values []string) {
	for _, v := range values {
		for option := range strings.SplitSeq(v, ",") {
			switch option = strings.TrimSpace(option); {
			case strings.EqualFold(option, "close"):
				x.CloseAfter()
			case !h1.IsToken(option):
			case strings.EqualFold(option, "keep-alive"):
				x.resp.lasts = true
			case strings.EqualFold(option, "upgrade") && e.header.Get("Upgrade") != "": // AddHeader knows
			default:
				addFields(x, "Connection", []string{option})
			}
		}
	}
}

// Write implements http.ResponseWriter. It may wait for the client.
func (e *exchange) Write(p []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	x, err := e.writing()
	switch {
	case err != nil:
		return 0, err
	case len(p) == 0:
		return 0, nil
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
	x, err := e.writing()
	if err != nil {
		return err
	}
	if err := e.settleType(x); err != nil {
		return err
	}
	return x.Flush()
}

// writing is the Ctx to write to. It needs mu.
func (e *exchange) writing() (*Ctx, error) {
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

// notTrailers may not stand in a trailer (RFC 9110, 6.5.1), as net/http has them.
var notTrailers = map[string]bool{
	"Authorization": true, "Cache-Control": true, "Connection": true, "Content-Encoding": true,
	"Content-Length": true, "Content-Range": true, "Content-Type": true, "Expect": true, "Host": true,
	"Keep-Alive": true, "Max-Forwards": true, "Pragma": true, "Proxy-Authenticate": true,
	"Proxy-Authorization": true, "Proxy-Connection": true, "Range": true, "Realm": true, "Te": true,
	"Trailer": true, "Transfer-Encoding": true, "Www-Authenticate": true,
}

// announce takes up the Trailer header. It needs mu.
func (e *exchange) announce(x *Ctx, values []string) {
	for _, list := range values {
		for name := range strings.SplitSeq(list, ",") {
			name = http.CanonicalHeaderKey(strings.TrimSpace(name))
			if h1.IsToken(name) && !notTrailers[name] && !strings.HasPrefix(name, "If-") && !slices.Contains(e.announced, name) {
				e.announced = append(e.announced, name)
			}
		}
		x.AddHeader("Trailer", list)
	}
}

// addTrailers prepares the trailer of the response if it can have one. It needs mu.
func (e *exchange) addTrailers(x *Ctx) error {
	r := &x.resp
	var lines []byte
	for _, name := range e.announced {
		for _, v := range e.header[name] {
			lines = h1.AppendField(lines, name, v)
		}
	}
	for _, name := range e.trailerNames() {
		bare := name[len(http.TrailerPrefix):]
		if !h1.IsToken(bare) || notTrailers[http.CanonicalHeaderKey(bare)] {
			continue
		}
		for _, v := range e.header[name] {
			lines = h1.AppendField(lines, bare, v)
		}
	}
	trailer := len(lines) > 0 || len(e.announced) > 0
	if !trailer && !e.unsized {
		return nil
	}
	if r.phase == respOpen && r.length < 0 && (x.head.Minor > 0 || e.unsized) && x.head.Method != h1.MethodHead && !h1.Bodyless(r.status) {
		if err := x.startStream(); err != nil { // only chunks have a trailer
			return err
		}
	}
	r.trailer = lines
	return nil
}
