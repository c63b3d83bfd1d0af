package h2

import (
	"cmp"
	"strconv"
	"strings"

	"golang.org/x/net/http2/hpack"

	"github.com/capriccio-go/capriccio/knot/internal/h1"
)

// A requestHead is a head of HTTP/2 that is being received, and becomes one of HTTP/1.1: so all that Knot does
// with a request is done in one place. What could be misunderstood on that way is malformed here
// (RFC 9113, 8.2 and 8.3). It is the reader's.
type requestHead struct {
	id      uint32 // of the stream; 0: there is none
	ends    bool   // there is no body
	trailer bool   // it is behind the body
	frames  int
	block   []byte // all frames, if there are several: the decoder would keep for ever what it saves of them
	size    int    // of the lines
	most    int    // ... which is allowed

	pseudo                          uint8 // a bit for each that has come
	plain                           bool  // a line that is none of them has
	bad                             bool  // it is malformed
	over                            bool  // it is too large
	method, scheme, path, authority string
	host                            string
	text                            []byte // the other lines
	cookie                          []byte // those are one line again
	length                          int64  // of the body as it says; -1: it does not
}

const (
	pseudoMethod uint8 = 1 << iota
	pseudoScheme
	pseudoPath
	pseudoAuthority
)

func (d *requestHead) reset(id uint32, ends bool, most int) {
	*d = requestHead{id: id, ends: ends, most: most, length: -1, text: d.text[:0], cookie: d.cookie[:0]}
}

// headKept is how large a head may be, in bytes, for its memory to be kept while a connection rests.
const headKept = 1 << 10

// rest gives back what a connection that rests should not hold.
func (d *requestHead) rest() {
	if d.size > headKept {
		*d = requestHead{}
	}
}

// field takes a header field; it is called by the decoder.
func (d *requestHead) field(f hpack.HeaderField) {
	if d.size += len(f.Name) + len(f.Value) + len(": \r\n"); d.size > d.most {
		d.over = true
	}
	if d.over || d.bad {
		return
	}
	if strings.HasPrefix(f.Name, ":") {
		d.bad = !d.pseudoField(f)
		return
	}
	d.plain = true
	d.bad = !d.plainField(f)
}

func (d *requestHead) pseudoField(f hpack.HeaderField) (ok bool) {
	var bit uint8
	var to *string
	switch f.Name {
	case ":method":
		bit, to, ok = pseudoMethod, &d.method, h1.IsToken(f.Value)
	case ":scheme":
		bit, to, ok = pseudoScheme, &d.scheme, f.Value == "http" || f.Value == "https"
	case ":path":
		bit, to, ok = pseudoPath, &d.path, f.Value == "*" || strings.HasPrefix(f.Value, "/") && isVisible(f.Value)
	case ":authority":
		bit, to, ok = pseudoAuthority, &d.authority, isVisible(f.Value)
	}
	if !ok || d.plain || d.pseudo&bit != 0 {
		return false
	}
	d.pseudo |= bit
	*to = f.Value
	return true
}

// isVisible reports whether there are neither spaces nor control bytes in s.
func isVisible(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] == 0x7f {
			return false
		}
	}
	return true
}

func (d *requestHead) plainField(f hpack.HeaderField) bool {
	if !h1.IsToken(f.Name) || strings.ToLower(f.Name) != f.Name {
		return false
	}
	for i := range len(f.Value) {
		if ch := f.Value[i]; ch < ' ' && ch != '\t' || ch == 0x7f {
			return false
		}
	}
	switch f.Name {
	case "connection", "proxy-connection", "keep-alive", "transfer-encoding", "upgrade":
		return false
	case "te":
		if f.Value != "trailers" {
			return false
		}
	case "host":
		if !d.trailer {
			if d.host != "" && d.host != f.Value {
				return false
			}
			d.host = f.Value
			return isVisible(f.Value)
		}
	case "content-length":
		n, err := strconv.ParseUint(f.Value, 10, 63)
		if err != nil || d.length >= 0 && d.length != int64(n) {
			return false
		}
		d.length = int64(n)
		return true
	case "cookie":
		if len(d.cookie) > 0 {
			d.cookie = append(d.cookie, "; "...)
		}
		d.cookie = append(d.cookie, f.Value...)
		return true
	}
	d.text = appendCanonical(d.text, f.Name)
	d.text = append(append(append(d.text, ": "...), f.Value...), "\r\n"...)
	return true
}

// appendCanonical appends a name that is in lower case, as HTTP/1.1 mostly has it.
func appendCanonical(b []byte, name string) []byte {
	first := true
	for i := range len(name) {
		ch := name[i]
		if first && 'a' <= ch && ch <= 'z' {
			ch -= 'a' - 'A'
		}
		first = ch == '-'
		b = append(b, ch)
	}
	return b
}

// request is the head as HTTP/1.1 has it; nil if it is malformed. One that is too large is not nil.
func (d *requestHead) request() []byte {
	const all = pseudoMethod | pseudoScheme | pseudoPath
	target := d.path
	switch {
	case d.over:
		return []byte{}
	case d.bad:
		return nil
	case d.ends && d.length > 0:
		return nil
	case d.method == h1.MethodNames[h1.MethodConnect]:
		if d.pseudo != pseudoMethod|pseudoAuthority {
			return nil
		}
		target = d.authority
	case d.pseudo&all != all, d.path == "*" && d.method != h1.MethodNames[h1.MethodOptions]:
		return nil
	}
	host := cmp.Or(d.authority, d.host)
	if host == "" { // RFC 9113, 8.3.1, for http and https, which are all that is taken
		return nil
	}
	b := make([]byte, 0, len(d.text)+len(d.cookie)+len(d.method)+len(target)+len(host)+96)
	b = append(append(b, d.method...), ' ')
	b = append(append(append(b, target...), " HTTP/1.1\r\nHost: "...), host...)
	b = append(append(b, "\r\n"...), d.text...)
	if len(d.cookie) > 0 {
		b = append(append(append(b, "Cookie: "...), d.cookie...), "\r\n"...)
	}
	switch {
	case d.length >= 0 && (d.length > 0 || !d.ends):
		b = append(strconv.AppendInt(append(b, "Content-Length: "...), d.length, 10), "\r\n"...)
	case !d.ends:
		b = append(b, "Transfer-Encoding: chunked\r\n"...)
	}
	return append(b, "\r\n"...)
}
