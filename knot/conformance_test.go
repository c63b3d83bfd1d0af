package knot

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/httpcases"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// TestConformance runs the table of cases against Knot's own handlers and those of net/http.
func TestConformance(t *testing.T) {
	root := t.TempDir()
	testenv.Must(t, os.WriteFile(filepath.Join(root, "file"), []byte(httpcases.File), 0o644))
	old := time.Now().Add(-time.Hour)
	testenv.Must(t, os.Chtimes(filepath.Join(root, "file"), old, old))
	files := openWith(t, root, keepings[0].config)
	own := func(x *Ctx) error {
		switch x.Path() {
		case httpcases.FilePath, "/none":
			return files.Handle(x)
		case httpcases.NoContent:
			return Status(http.StatusNoContent)
		}
		body, err := io.ReadAll(x.Body())
		if err != nil {
			return err
		}
		x.AddHeader("Seen", httpcases.Seen(x.Method(), x.Path(), string(body)))
		return x.SendString(200, "text/plain", "seen\n")
	}
	for name, handler := range map[string]Handler{"knot": own, "net/http": AdaptHTTP(http.HandlerFunc(httpcases.Handler))} {
		t.Run(name, func(t *testing.T) {
			everyMode(t, func(t *testing.T, start func(*Server) *served) {
				sv := start(&Server{Handler: handler})
				c := &httpcases.Client{Dial: func() (net.Conn, error) { return net.Dial("tcp", sv.addr) }, Patience: time.Minute}
				cases := httpcases.Cases
				if name == "knot" {
					testenv.Must(t, c.Learn())
					cases = append(cases[:len(cases):len(cases)], httpcases.FileCases...)
				}
				runCases(t, c, cases)
			})
		})
	}
}

func runCases(t *testing.T, c *httpcases.Client, cases []httpcases.Case) {
	var all sync.WaitGroup
	places := make(chan bool, 16)
	for _, k := range cases {
		places <- true
		all.Go(func() {
			got, fault := c.Run(&k)
			first, _, _ := strings.Cut(k.Want, "|") // what Knot does, of all that is allowed
			if fault != "" || !httpcases.Same(got, first) {
				t.Errorf("%s (RFC %s): %s, want %s; %s\n%.300q", k.Name, k.Section, got, k.Want, fault, k.Send)
			}
			<-places
		})
	}
	all.Wait()
}

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
