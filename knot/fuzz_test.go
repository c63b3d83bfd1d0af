package knot

import (
	"bufio"
	"bytes"
	"net/http"
	"net/textproto"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/internal/httpcases"
)

// stricter are the faults for which net/http.ReadRequest may take the request, each with the reason.
var stricter = map[*fault]string{
	badLineEnd:      "net/http takes LF for CR LF; RFC 9112, 2.2 lets a server choose",
	twoLengths:      "net/http takes equal lengths; RFC 9112, 6.3 lets a server choose",
	twoCodings:      "net/http ignores codings in HTTP/1.0; RFC 9112, 6.1",
	badFold:         "net/http joins the lines; RFC 9112, 5.2 lets a server choose",
	badTarget:       "net/http leaves to handlers what net/url parses; RFC 9112, 3.2",
	noHost:          "checked by net/http's server",
	twoHosts:        "checked by net/http's server",
	badHost:         "net/http looks for bad bytes only; RFC 9110, 7.2",
	codingAndLength: "net/http goes by the coding, and keeps the connection; RFC 9112, 6.1",
	codingBefore11:  "net/http ignores the coding; RFC 9112, 6.1",
	unknownVersion:  "checked by net/http's server",
	badName:         "checked by net/http's server",
	badValue:        "checked by net/http's server, and before that in newer versions of Go only",
	badCoding:       "net/http unfolds lines, and ignores codings in HTTP/1.0; RFC 9112, 5.2 and 6.1",
	bodyTooLarge:    "our own limit",
	targetTooLong:   "our own limit",
	headTooLarge:    "our own limit",
	tooManyFields:   "our own limit",
}

// laxer reports why net/http.ReadRequest may refuse what parse takes, or "".
func laxer(b []byte, h *head) string {
	target := h.target.of(b)
	switch {
	case h.start > 0:
		return "empty lines before the request line"
	case h.refused != nil:
		return "refused later, for its meaning"
	case !bytes.HasPrefix(target, []byte("/")) && len(target) > 1:
		return "authority that is not looked into"
	}
	if _, _, f := cleanPath(h.path.of(b), nil); f != nil {
		return "refused later, for its path"
	}
	return ""
}

// FuzzParse compares parse with net/http.ReadRequest.
func FuzzParse(f *testing.F) {
	f.Add([]byte(browserRequest))
	for _, c := range httpcases.Cases {
		f.Add([]byte(c.Send))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var h head
		limits := headLimits{line: 4096, size: 8192, fields: 50}
		fault := h.parse(b, &limits)
		if fault == needMore {
			return
		}
		r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(b)))
		switch {
		case fault != nil && err == nil:
			if stricter[fault] == "" && fault.status != 501 { // 501 is refused for its meaning
				t.Fatalf("net/http takes what is refused: %v", fault)
			}
		case fault == nil && err != nil:
			if laxer(b, &h) == "" {
				t.Fatalf("net/http refuses what is taken: %v", err)
			}
		case fault == nil:
			compareHeads(t, b, &h, r)
		}
	})
}

func compareHeads(t *testing.T, b []byte, h *head, r *http.Request) {
	if h.method != methodUnknown && methodNames[h.method] != r.Method {
		t.Fatalf("method %q, net/http has %q", methodNames[h.method], r.Method)
	}
	if got := string(h.target.of(b)); got != r.RequestURI {
		t.Fatalf("target %q, net/http has %q", got, r.RequestURI)
	}
	if h.chunked != (len(r.TransferEncoding) > 0) {
		t.Fatalf("chunked %v, net/http has %q", h.chunked, r.TransferEncoding)
	}
	if !h.chunked && h.length != r.ContentLength && h.refused == nil {
		t.Fatalf("length %d, net/http has %d", h.length, r.ContentLength)
	}
	if got := string(h.host.of(b)); h.hosts > 0 && got != r.Host && h.method != methodConnect {
		t.Fatalf("host %q, net/http has %q", got, r.Host)
	}
	if h.persistent() == r.Close && h.minor > 0 && h.refused == nil {
		t.Fatalf("persistent %v, net/http has close %v", h.persistent(), r.Close)
	}
	for _, one := range h.fields {
		name := textproto.CanonicalMIMEHeaderKey(string(one.name.of(b)))
		switch name {
		case "Host", "Transfer-Encoding", "Content-Length", "Trailer", "Connection":
			continue
		}
		if value := string(one.value.of(b)); !slices.Contains(r.Header[name], value) {
			t.Fatalf("field %s has %q, net/http has %q", name, value, r.Header[name])
		}
	}
}

// FuzzCleanPath checks what the file handler relies on.
func FuzzCleanPath(f *testing.F) {
	for _, seed := range []string{"/", "/a/../b", "/%2e%2e/x", "//a//b/./c/", "/a/..", "/%00", "/..%2f", "/a%5c..%5cb", "/.", "/a/b/../../.."} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, escaped []byte) {
		if len(escaped) == 0 || escaped[0] != '/' || bytes.IndexByte(escaped, 0) >= 0 {
			return
		}
		clean, _, fault := cleanPath(slices.Clone(escaped), nil)
		if fault != nil {
			return
		}
		text := string(clean)
		if text == "" || text[0] != '/' || strings.Contains(text, "//") || strings.Contains(text, "\x00") {
			t.Fatalf("%q became %q", escaped, text)
		}
		for _, segment := range strings.Split(text, "/") {
			if segment == "." || segment == ".." {
				t.Fatalf("%q became %q", escaped, text)
			}
		}
		// filepath.Clean is the oracle, but for the slash at the end.
		decoded, _ := unescape(nil, escaped)
		if want := filepath.Clean(string(decoded)); strings.TrimSuffix(text, "/") != strings.TrimSuffix(want, "/") {
			t.Fatalf("%q became %q, filepath.Clean says %q", escaped, text, want)
		}
		if again, _, fault := cleanPath(appendEscaped(nil, clean), nil); fault != nil || string(again) != text {
			t.Fatalf("%q escaped and cleaned again became %q, %v", text, again, fault)
		}
	})
}

// blankBeforeExtension is what net/http refuses although the grammar has it (RFC 9112, 7.1.1: BWS before the semicolon).
var blankBeforeExtension = regexp.MustCompile("(?m)^[0-9A-Fa-f]+[ \t]+;")

// FuzzChunked checks that a chunked body comes out as net/http reads it, and
// that the bytes after it are where the next request begins.
func FuzzChunked(f *testing.F) {
	f.Add([]byte("3\r\nabc\r\n0\r\n\r\n"), 1)
	f.Add([]byte("A;x=y\r\n0123456789\r\n00\r\nT: v\r\n\r\n"), 7)
	f.Add([]byte("1\r\na\r\n1\r\nb\r\n0\r\n\r\nGET / HTTP/1.1\r\n"), 2)
	for _, c := range httpcases.Cases {
		if head, framed, ok := strings.Cut(c.Send, "\r\n\r\n"); ok && strings.HasSuffix(head, "chunked") {
			f.Add([]byte(framed), 100)
		}
	}
	f.Fuzz(func(t *testing.T, framed []byte, step int) {
		if step <= 0 || len(framed) > 4000 {
			return
		}
		const head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
		var body []byte
		var err error
		used := -1
		server := &Server{MaxBody: 1 << 20, Handler: func(x *Ctx) error {
			body, err = readAll(x.Body())
			return err
		}}
		nc := newScriptConn([]byte(head), framed, step)
		x := serveScript(server, nc)
		if err == nil {
			used = nc.taken - (x.w - x.r) - len(head)
		}
		r, _ := http.ReadRequest(bufio.NewReader(strings.NewReader(head + string(framed))))
		want, wantErr := readAll(r.Body)
		if wantErr != nil && blankBeforeExtension.Match(framed) {
			return
		}
		if err == nil && wantErr != nil {
			t.Fatalf("net/http refuses what is taken: %v", wantErr)
		}
		if err == nil && !bytes.Equal(body, want) {
			t.Fatalf("body %q, net/http has %q", body, want)
		}
		if err == nil && used > len(framed) {
			t.Fatalf("used %d of %d bytes", used, len(framed))
		}
	})
}
