package h1

import (
	"bufio"
	"bytes"
	"net/http"
	"net/textproto"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/internal/httpcases"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// stricter are the faults for which net/http.ReadRequest may take the request, each with the reason.
var stricter = map[*Fault]string{
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
	UnknownVersion:  "checked by net/http's server",
	badName:         "checked by net/http's server",
	badValue:        "checked by net/http's server, and before that in newer versions of Go only",
	badLength:       "net/http unfolds lines; RFC 9112, 5.2",
	badCoding:       "net/http unfolds lines, and ignores codings in HTTP/1.0; RFC 9112, 5.2 and 6.1",
	BodyTooLarge:    "our own limit",
	targetTooLong:   "our own limit",
	HeadTooLarge:    "our own limit",
	tooManyFields:   "our own limit",
}

// badTrailerKey reports whether net/http refuses a head because its Trailer announces a field that no trailer
// may hold. Such a field has no effect where trailers are read (RFC 9110, 6.5.1), so that we need not refuse it.
func badTrailerKey(err error) bool { return strings.HasPrefix(err.Error(), "bad trailer key") }

// laxer reports why net/http.ReadRequest may refuse what Parse takes, with err, or "".
func laxer(b []byte, h *Head, err error) string {
	target := h.Target.Of(b)
	switch {
	case badTrailerKey(err) && h.Chunked:
		return "announces what cannot be in a trailer"
	case h.Start > 0:
		return "empty lines before the request line"
	case h.Refused != nil:
		return "refused later, for its meaning"
	case !bytes.HasPrefix(target, []byte("/")) && len(target) > 1:
		return "authority that is not looked into"
	}
	if _, _, f := CleanPath(h.Path.Of(b), nil); f != nil {
		return "refused later, for its path"
	}
	return ""
}

// FuzzParse compares Head.Parse with net/http.ReadRequest.
func FuzzParse(f *testing.F) {
	f.Add([]byte(httpcases.Browser))
	for _, c := range httpcases.Cases {
		f.Add([]byte(c.Send))
	}
	for _, seed := range []string{
		"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTrailer: x, Content-Length\r\n\r\n",
		"GET http://%c3%a9:80/ HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET http://[fe80::1%25lo]/ HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET / HTTP/1.0\r\nConnection: x, Keep-Alive\r\n\r\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var h Head
		limits := HeadLimits{Line: 4096, Size: 8192, Fields: 50}
		fault := h.Parse(b, &limits)
		if fault == NeedMore {
			return
		}
		r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(b)))
		switch {
		case fault != nil && err == nil:
			if stricter[fault] == "" && fault.Status != 501 { // 501 is refused for its meaning
				t.Fatalf("net/http takes what is refused: %v", fault)
			}
		case fault == nil && err != nil:
			if laxer(b, &h, err) == "" {
				t.Fatalf("net/http refuses what is taken: %v", err)
			}
		case fault == nil:
			compareHeads(t, b, &h, r)
		}
	})
}

func compareHeads(t *testing.T, b []byte, h *Head, r *http.Request) {
	if h.Method != MethodUnknown && MethodNames[h.Method] != r.Method {
		t.Fatalf("method %q, net/http has %q", MethodNames[h.Method], r.Method)
	}
	testenv.MustEqual(t, string(h.Target.Of(b)), r.RequestURI, "target, net/http has %q", r.RequestURI)
	testenv.MustEqual(t, h.Chunked, len(r.TransferEncoding) > 0, "chunked, net/http has %q", r.TransferEncoding)
	if !h.Chunked && h.Length != r.ContentLength && h.Refused == nil {
		t.Fatalf("length %d, net/http has %d", h.Length, r.ContentLength)
	}
	if got := string(h.Host.Of(b)); h.hosts > 0 && h.Method != MethodConnect {
		if r.URL.Host != "" { // net/url decodes it, which RFC 9110, 4.2.3 leaves to comparisons
			u := testenv.Need(url.Parse("http://" + got))(t)
			got = u.Host
		}
		testenv.MustEqual(t, got, r.Host, "host, net/http has %q", r.Host)
	}
	if h.Persistent() == r.Close && h.Refused == nil {
		t.Fatalf("persistent %v, net/http has close %v", h.Persistent(), r.Close)
	}
	for _, one := range h.Fields {
		name := textproto.CanonicalMIMEHeaderKey(string(one.Name.Of(b)))
		switch name {
		case "Host", "Transfer-Encoding", "Content-Length", "Trailer", "Connection":
			continue
		}
		if value := string(one.Value.Of(b)); !slices.Contains(r.Header[name], value) {
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
		clean, _, fault := CleanPath(slices.Clone(escaped), nil)
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
		if again, _, fault := CleanPath(AppendEscaped(nil, clean), nil); fault != nil || string(again) != text {
			t.Fatalf("%q escaped and cleaned again became %q, %v", text, again, fault)
		}
	})
}

// BenchmarkParse parses a request head; its rival is net/http.ReadRequest.
func BenchmarkParse(b *testing.B) {
	for _, request := range []struct{ name, text string }{{"plain", "GET / HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n"}, {"browser", httpcases.Browser}} {
		text := []byte(request.text)
		b.Run("knot/"+request.name, func(b *testing.B) {
			limits := HeadLimits{Line: 8 << 10, Size: 32 << 10, Fields: 100}
			var h Head
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				if f := h.Parse(text, &limits); f != nil {
					b.Fatal(f)
				}
			}
		})
		b.Run("net-http/"+request.name, func(b *testing.B) {
			in := bytes.NewReader(text)
			r := bufio.NewReader(in)
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				in.Reset(text)
				r.Reset(in)
				testenv.Need(http.ReadRequest(r))(b)
			}
		})
	}
}

func TestChunkSizes(t *testing.T) {
	for line, want := range map[string]int64{
		"0": 0, "1f": 31, "1F": 31, "000a": 10, "fffffffffffffff": 1<<60 - 1,
		"5;a": 5, "5;a=b": 5, "5 ; a = b": 5, "5\t;\ta\t=\tb;c;d=e": 5, `5;a="b"`: 5, `5;a="";b="c;\"d\\"`: 5, "5;a=\"\tb\xc3\"": 5,
		"": -1, " 5": -1, "5 ": -1, "x": -1, "0x5": -1, "+5": -1, "5,": -1, "1000000000000000": -1,
		"5;": -1, "5; ": -1, "5;;a": -1, "5;a;": -1, "5;=b": -1, "5;a=": -1, "5;a b": -1, "5;a=b ": -1, "5;bad[=x": -1, "5;a=b[": -1,
		`5;a="b`: -1, `5;a="b\`: -1, `5;a="b\"`: -1, `5;a="b"c`: -1, `5;a"b"`: -1, "5;a=\"\x00\"": -1, "5;a=\"\\\x7f\"": -1, "5;a=\r": -1,
	} {
		got, f := ChunkSize([]byte(line))
		if f != nil {
			got = -1
		}
		testenv.Equal(t, got, want, "%q", line)
	}
}
