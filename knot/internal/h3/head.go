package h3

import (
	"net/http"
	"slices"
	"strconv"

	"github.com/capriccio-go/capriccio/knot/internal/h1"
)

// headOf is the head of r as HTTP/1.1 has it: so all that Knot does with a request is done in one place. What could be
// misunderstood on that way has a status as its answer. The server has checked names and values of the lines.
func headOf(r *http.Request, chunked bool) (text []byte, status int) {
	switch {
	case r.Proto != "HTTP/3.0": // an extended CONNECT (RFC 9220)
		return nil, http.StatusNotImplemented
	case !h1.IsToken(r.Method), !isVisible(r.RequestURI), !isVisible(r.Host):
		return nil, http.StatusBadRequest
	}
	size := len(r.Method) + len(r.RequestURI) + len(r.Host) + 96
	for name, values := range r.Header {
		for _, value := range values {
			size += len(name) + len(value) + len(": \r\n")
		}
	}
	b := make([]byte, 0, size)
	b = append(append(b, r.Method...), ' ')
	b = append(append(append(b, r.RequestURI...), " HTTP/1.1\r\nHost: "...), r.Host...)
	b = append(b, "\r\n"...)
	for name, values := range r.Header {
		if name == "Host" || name == "Content-Length" || name == "Transfer-Encoding" {
			continue
		}
		for _, value := range values {
			b = appendLine(b, name, value)
		}
	}
	for name := range r.Trailer { // announced; the server has taken the line
		b = appendLine(b, "Trailer", name)
	}
	switch {
	case chunked:
		b = appendLine(b, "Transfer-Encoding", "chunked")
	case r.ContentLength >= 0:
		b = append(strconv.AppendInt(append(b, "Content-Length: "...), r.ContentLength, 10), "\r\n"...)
	}
	return append(b, "\r\n"...), 0
}

// expectsBody reports whether a request with that method is taken for having a body if it says nothing.
func expectsBody(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodDelete:
		return false
	}
	return true
}

// appendTrailer appends lines of a trailer.
func appendTrailer(b []byte, trailer http.Header) []byte {
	for name, values := range trailer {
		for _, value := range values {
			b = appendLine(b, name, value)
		}
	}
	return b
}

func appendLine(b []byte, name, value string) []byte {
	return append(append(append(append(b, name...), ": "...), value...), "\r\n"...)
}

// isVisible reports whether there are neither spaces nor control bytes in s.
func isVisible(s string) bool {
	return !slices.ContainsFunc([]byte(s), func(ch byte) bool { return ch <= ' ' || ch == 0x7f })
}
