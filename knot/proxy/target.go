package proxy

import (
	"bytes"
	"strings"

	"github.com/capriccio-go/capriccio/knot/internal/h1"
)

// path is the path that a backend gets: the bytes that came, since escapes, escaped slashes and empty segments may mean
// something there. A path with segments of dots is another matter. The rules of this server went by the path that they
// lead to, and the backend may take them for something else, so it gets that path.
func (e *exchange) path() []byte {
	raw := e.x.RawPath()
	if len(raw) == 0 || hasDots(raw) {
		return h1.AppendEscaped(nil, e.x.PathBytes())
	}
	return raw
}

// hasDots reports whether a segment of the decoded path is "." or "..". Escaped slashes end segments too.
func hasDots(raw []byte) bool {
	if bytes.IndexByte(raw, '.') < 0 && bytes.IndexByte(raw, '%') < 0 {
		return false
	}
	dots, others := 0, 0
	for i := 0; i <= len(raw); {
		ch, n := byte('/'), 1 // the last segment ends too
		if i < len(raw) {
			ch, n = decoded(raw[i:])
		}
		switch i += n; ch {
		case '/':
			if others == 0 && (dots == 1 || dots == 2) {
				return true
			}
			dots, others = 0, 0
		case '.':
			dots++
		default:
			others++
		}
	}
	return false
}

// hidesDots reports whether a segment of a clean path is "." or ".." for some backends: where a backslash is a slash, as
// on Windows, and a semicolon begins parameters, as for servlets.
func hidesDots(clean []byte) bool {
	if bytes.IndexByte(clean, ';') < 0 && bytes.IndexByte(clean, '\\') < 0 {
		return false
	}
	for segment := range strings.FieldsFuncSeq(h1.Text(clean), func(r rune) bool { return r == '/' || r == '\\' }) {
		if name, _, _ := strings.Cut(segment, ";"); name == "." || name == ".." {
			return true
		}
	}
	return false
}

// decoded is the first byte that path, whose escapes are valid, stands for, and how many bytes of it do.
func decoded(path []byte) (ch byte, n int) {
	if path[0] == '%' && len(path) > 2 {
		return byte(h1.HexValue(path[1])<<4 | h1.HexValue(path[2])), 3
	}
	return path[0], 1
}

// strip takes Strip off the beginning of path, if the clean path begins with it. The rest begins with a slash.
func (e *exchange) strip(path []byte) []byte {
	s, clean := e.p.Strip, h1.Text(e.x.PathBytes())
	if s == "" || clean != s && !(strings.HasPrefix(clean, s) && clean[len(s)] == '/') {
		return path
	}
	for last := byte(0); s != ""; {
		ch, n := decoded(path)
		path = path[n:]
		if ch != '/' || last != '/' { // the clean path has one slash for several
			s = s[1:]
		}
		last = ch
	}
	if len(path) == 0 {
		return []byte("/")
	}
	if _, n := decoded(path); n > 1 { // an escaped slash
		return append([]byte("/"), path[n:]...)
	}
	return path
}

// target is what stands in the request line.
func (e *exchange) target() []byte {
	path, query := e.strip(e.path()), e.x.Query()
	if query == "" {
		return path
	}
	return append(append(append(make([]byte, 0, len(path)+1+len(query)), path...), '?'), query...)
}

// escapeOdd escapes the bytes of a raw path that do not belong into one. Go's http.Transport would otherwise encode the path anew, and
// lose its escaped slashes.
func escapeOdd(raw string) string {
	var out []byte
	for part := range strings.SplitAfterSeq(raw, "%") {
		bare, escape := strings.CutSuffix(part, "%")
		if out = h1.AppendEscaped(out, []byte(bare)); escape {
			out = append(out, '%')
		}
	}
	return string(out)
}
