package proxy

import (
	"bytes"
	"io"
	"strconv"
	"strings"

	"github.com/capriccio-go/capriccio/knot"
	"github.com/capriccio-go/capriccio/knot/internal/h1"
)

// http1 is HTTP/1.1.
type http1 struct{}

// host is the Host of the request to the backend.
func (e *exchange) host() string {
	host := h1.Text(e.x.HostBytes())
	switch {
	case e.p.Host == "backend", e.p.Host == "" && host == "":
		return e.b.host()
	case e.p.Host == "":
		return host
	}
	return e.p.Host
}

// prepare implements wire.
func (http1) prepare(*exchange) error { return nil }

// request implements wire.
func (http1) request(e *exchange, body []byte, ready bool) {
	x, p := e.x, e.p
	out := append(append(append(e.out, e.method...), ' '), e.target()...)
	out = append(append(append(out, " HTTP/1.1\r\nHost: "...), e.host()...), "\r\n"...)
	var named [][]byte
	if x.HeaderBytes("Connection") != nil {
		named = connectionNames(x.EachHeader)
	}
	upgrade := x.HeaderBytes("Upgrade")
	e.upgrade = upgrade != nil && x.Proto() != "HTTP/1.0" && contains(named, []byte("upgrade")) && mayUpgrade(upgrade)
	if e.upgrade {
		out = append(append(append(out, "Connection: Upgrade\r\nUpgrade: "...), upgrade...), "\r\n"...)
	} else if !p.keeps() {
		out = append(out, "Connection: close\r\n"...)
	}
	x.EachHeader(func(name, value []byte) bool {
		switch {
		case !e.passes(name), contains(named, name), rewritten(name), h1.TextIs(name, "host"), h1.TextIs(name, "content-length"), h1.TextIs(name, "expect"), h1.TextIs(name, "via"):
			return true
		case e.method == "OPTIONS" && h1.TextIs(name, "max-forwards"):
			if n, err := strconv.ParseUint(string(value), 10, 31); err == nil {
				value = strconv.AppendUint(nil, n-1, 10) // 0 was not passed on
			}
		}
		out = appendLine(out, h1.Text(name), value)
		return true
	})
	for _, l := range e.lines {
		if l.Value != "" {
			out = h1.AppendField(out, l.Name, l.Value)
		}
	}
	for _, l := range e.demandLines() {
		out = h1.AppendField(out, l.Name, l.Value)
	}
	if p.byReports && !asksForReport(x) {
		out = append(out, "Endpoint-Load-Metrics-Format: TEXT\r\n"...)
	}
	if te := x.HeaderBytes("TE"); te != nil && h1.TextIs(te, "trailers") {
		out = append(out, "TE: trailers\r\nConnection: TE\r\n"...)
	}
	out = append(out, "Via: "...)
	x.EachHeader(func(name, value []byte) bool {
		if h1.TextIs(name, "via") {
			out = append(append(out, value...), ", "...)
		}
		return true
	})
	out = append(append(out, strings.TrimPrefix(x.Proto(), "HTTP/")...), " knot\r\n"...)
	out = e.appendForwarded(out)
	e.chunked = !ready && x.ContentLength() < 0
	switch {
	case e.chunked:
		out = append(out, "Transfer-Encoding: chunked\r\n"...)
	case !ready:
		out = append(strconv.AppendInt(append(out, "Content-Length: "...), x.ContentLength(), 10), "\r\n"...)
	case len(body) > 0 || e.method == "POST" || e.method == "PUT" || e.method == "PATCH":
		out = append(strconv.AppendInt(append(out, "Content-Length: "...), int64(len(body)), 10), "\r\n"...)
	}
	e.out = append(append(out, "\r\n"...), body...)
}

// frame implements wire.
func (http1) frame(e *exchange, out, piece []byte) []byte {
	if !e.chunked {
		return append(out, piece...)
	}
	return append(append(h1.AppendChunkHead(out, len(piece)), piece...), "\r\n"...)
}

// finish implements wire.
func (http1) finish(e *exchange, out, trailer []byte) []byte {
	if !e.chunked {
		return out
	}
	out = append(out, "0\r\n"...)
	for line := range bytes.Lines(trailer) {
		if name, _, _ := bytes.Cut(line, []byte(":")); mayTrail(name, e.lines) {
			out = append(out, line...)
		}
	}
	return append(out, "\r\n"...)
}

// head implements wire.
func (http1) head(e *exchange) (bool, error) {
	e.head = e.in[e.r:e.w]
	return e.res.Parse(e.head)
}

// next implements wire.
func (http1) next(e *exchange) (piece []byte, used int, err error) {
	return e.body.Next(e.in[e.r:e.w], func(name, value []byte) {
		e.trailer = append(e.trailer, knot.Header{Name: string(name), Value: string(value)})
	})
}

// ended implements wire.
func (http1) ended(e *exchange) error {
	if e.body.UntilClose {
		return nil
	}
	return io.ErrUnexpectedEOF
}

// reusable implements wire.
func (http1) reusable(e *exchange) bool {
	return e.body.Done() && !e.body.UntilClose && e.res.Persistent()
}

func appendLine(out []byte, name string, value []byte) []byte {
	out = append(append(append(out, name...), ": "...), value...)
	return append(out, "\r\n"...)
}
