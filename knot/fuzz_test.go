package knot

import (
	"bufio"
	"bytes"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/internal/httpcases"
)

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
