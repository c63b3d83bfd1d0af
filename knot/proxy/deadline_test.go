package proxy

import (
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/knot"
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

// TestHintsForNobody: a client that does not take early hints is no failure of the backend.
func TestHintsForNobody(t *testing.T) {
	backend := script(t, func(_ int, c net.Conn, _ string) {
		hints := "HTTP/1.1 103 Early Hints\r\nLink: <" + strings.Repeat("x", 60_000) + ">\r\n\r\n"
		for err := error(nil); err == nil; {
			_, err = io.WriteString(c, hints)
		}
	})
	f := serve(t, Config{Backends: []string{backend}}, 1, func(s *knot.Server) { s.WriteTimeout = 100 * time.Millisecond })
	raw := testenv.Need(f.ln.(syscall.Conn).SyscallConn())(t)
	raw.Control(func(fd uintptr) { unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUF, 4<<10) }) // or all may fit
	f.dial("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
	testenv.Until(t, "the end", func() bool {
		s := f.p.Stats()[0]
		return s.Failures["client gone"]+s.Failures["broken"] == 1
	})
	if s := f.p.Stats()[0]; s.Failures["broken"] != 0 {
		t.Errorf("%v", s.Failures)
	}
}

// TestAnswersThatBreakOff: a backend that begins each answer and breaks off is taken out as one that gives none.
func TestAnswersThatBreakOff(t *testing.T) {
	cut := behind(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "10")
		io.WriteString(w, "begin")
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	})
	good := behind(t, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "good") })
	for _, http2 := range []bool{false, true} {
		f := serve(t, Config{Backends: []string{cut, good}, HTTP2: http2, MaxFails: 3, FailTime: time.Hour}, 1)
		for range 10 {
			f.raw("GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
		}
		if s := f.p.Stats()[0]; s.Up || s.Failures["broken"] != 3 {
			t.Errorf("HTTP/2 %v: after 10 requests to two backends it is up: %v, with %v", http2, s.Up, s.Failures)
		}
	}
}
