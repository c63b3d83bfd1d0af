package knot

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/internal/httpcases"
)

// FuzzChunked checks that a chunked body comes out as net/http reads it, and
// that the bytes after it are where the next request begins.
func FuzzChunked(f *testing.F) {
	f.Add([]byte("3\r\nabc\r\n0\r\n\r\n"), 1)
	f.Add([]byte("A;x=y\r\n0123456789\r\n00\r\nT: v\r\n\r\n"), 7)
	f.Add([]byte("1\r\na\r\n1\r\nb\r\n0\r\n\r\nGET / HTTP/1.1\r\n"), 2)
	f.Add([]byte("1\r\na\r\n0\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"), 30)
	for _, c := range httpcases.Cases {
		if head, framed, ok := strings.Cut(c.Send, "\r\n\r\n"); ok && strings.HasSuffix(head, "chunked") {
			f.Add([]byte(framed), 100)
		}
	}
	f.Fuzz(func(t *testing.T, framed []byte, step int) {
		if step <= 0 || len(framed) > 4000 {
			return
		}
		head := req("POST /", "Connection: close", "Transfer-Encoding: chunked")
		var body []byte
		var err error
		left := 0
		nc := newScriptConn(head, string(framed), step)
		serveScript(&Server{MaxBody: 1 << 20, Handler: func(x *Ctx) error {
			body, err = io.ReadAll(x.Body())
			left = len(head) + len(framed) - nc.taken + x.w - x.r
			return err
		}}, nc)
		text := strings.NewReader(head + string(framed))
		in := bufio.NewReader(text)
		r, _ := http.ReadRequest(in)
		want, wantErr := io.ReadAll(r.Body)
		if wantErr != nil && httpcases.BlankBeforeExtension.Match(framed) {
			return
		}
		if err == nil && wantErr != nil {
			t.Fatalf("net/http refuses what is taken: %v", wantErr)
		}
		if err == nil && !bytes.Equal(body, want) {
			t.Fatalf("body %q, net/http has %q", body, want)
		}
		if want := text.Len() + in.Buffered(); err == nil && left != want {
			t.Fatalf("%d bytes are left of %d, with net/http %d", left, len(framed), want)
		}
	})
}
