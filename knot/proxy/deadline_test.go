package proxy

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// trickle sends text again and again, n bytes at a time, until it can't.
func trickle(w io.Writer, text string, n int) {
	for {
		for rest := text; rest != ""; rest = rest[min(n, len(rest)):] {
			if _, err := io.WriteString(w, rest[:min(n, len(rest))]); err != nil {
				return
			}
			<-time.After(10 * time.Millisecond)
		}
	}
}

// TestEndlessHeads: the time for the head of a response is not renewed by what comes of it, nor by what comes before it.
func TestEndlessHeads(t *testing.T) {
	const hint = "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"
	line := strings.Repeat("x", 50)
	for _, test := range []struct {
		name    string
		c       Config
		backend func(net.Conn)
		status  string
	}{
		{"bytes of a head", Config{}, scripted(func(_ int, c net.Conn, _ string) {
			trickle(c, "HTTP/1.1 200 OK\r\nA: "+strings.Repeat("a", 10_000), 1)
		}), "504"},
		{"bytes of an informational head", Config{}, scripted(func(_ int, c net.Conn, _ string) { trickle(c, hint, 1) }), "504"},
		{"informational heads", Config{ResponseTimeout: time.Hour}, scripted(func(_ int, c net.Conn, _ string) {
			io.WriteString(c, strings.Repeat(hint, maxInterim+1))
			io.Copy(io.Discard, c)
		}), "502"},
		{"as many as may come", Config{ResponseTimeout: time.Hour}, scripted(func(_ int, c net.Conn, _ string) {
			io.WriteString(c, strings.Repeat(hint, maxInterim)+"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		}), "200"},
		{"records of complaints", Config{FastCGI: &FastCGI{Root: "/nowhere"}}, func(c net.Conn) {
			trickle(c, string(appendRecord(nil, fcgiStderr, []byte(line))), 100)
		}, "504"},
		{"empty records", Config{FastCGI: &FastCGI{Root: "/nowhere"}}, func(c net.Conn) {
			trickle(c, string(appendRecord(nil, fcgiStdout, nil)), 100)
		}, "504"},
		{"records of a head", Config{FastCGI: &FastCGI{Root: "/nowhere"}}, func(c net.Conn) {
			trickle(c, string(appendRecord(nil, fcgiStdout, []byte("A: b\r\n"))), 100)
		}, "504"},
		{"complaints in the body", Config{FastCGI: &FastCGI{Root: "/nowhere"}, IdleTimeout: 200 * time.Millisecond}, func(c net.Conn) {
			c.Write(appendRecord(nil, fcgiStdout, []byte("Content-Type: a/b\r\n\r\nbody")))
			trickle(c, string(appendRecord(nil, fcgiStderr, []byte(line))), 100)
		}, "200"},
	} {
		prefix := "http://"
		if test.c.FastCGI != nil {
			prefix = ""
		}
		if test.c.ResponseTimeout == 0 {
			test.c.ResponseTimeout = 200 * time.Millisecond
		}
		test.c.Backends = []string{prefix + testenv.Serve(t, test.backend)}
		f := serve(t, test.c, 1)
		_, in := f.dial("GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
		status := ""
		all, err := io.ReadAll(in)
		for status = range strings.SplitSeq(string(all), "HTTP/1.1 ") {
		}
		if !strings.HasPrefix(status, test.status) {
			t.Errorf("%s: %.30q, %v; want %s", test.name, status, err, test.status)
		}
	}
	backend := behind(t, func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			w.WriteHeader(103)
			<-time.After(10 * time.Millisecond)
		}
	})
	f := serve(t, Config{Backends: []string{backend}, HTTP2: true, ResponseTimeout: 200 * time.Millisecond}, 1)
	status, _ := f.get("/")
	testenv.Equal(t, status, 504, "informational heads over HTTP/2")
}
