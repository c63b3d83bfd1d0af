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
	const limit = 100 * time.Millisecond
	trickles := func(text string) string {
		return script(t, func(_ int, c net.Conn, _ string) { trickle(c, text, 1) })
	}
	records := func(first string, kind byte, content string) string {
		return testenv.Serve(t, func(c net.Conn) {
			io.WriteString(c, first)
			trickle(c, string(appendRecord(nil, kind, []byte(content))), 100)
		})
	}
	hints := behind(t, func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			w.WriteHeader(103)
			<-time.After(10 * time.Millisecond)
		}
	})
	line := strings.Repeat("x", 50)
	begun := string(appendRecord(nil, fcgiStdout, []byte("Content-Type: a/b\r\n\r\nbody")))
	for _, test := range []struct {
		name, backend string
		c             Config
		status        string
	}{
		{"bytes of a head", trickles("HTTP/1.1 200 OK\r\nA: " + strings.Repeat("a", 10_000)), Config{ResponseTimeout: limit}, "504"},
		{"bytes of an informational head", trickles(hint), Config{ResponseTimeout: limit}, "504"},
		{"informational heads", says(t, strings.Repeat(hint, maxInterim+1)), Config{ResponseTimeout: time.Hour}, "502"},
		{"as many as may come", says(t, strings.Repeat(hint, maxInterim)+okResponse), Config{ResponseTimeout: time.Hour}, "200"},
		{"informational heads over HTTP/2", hints, Config{HTTP2: true, ResponseTimeout: limit}, "504"},
		{"records of complaints", records("", fcgiStderr, line), Config{FastCGI: nowhere, ResponseTimeout: limit}, "504"},
		{"empty records", records("", fcgiStdout, ""), Config{FastCGI: nowhere, ResponseTimeout: limit}, "504"},
		{"records of a head", records("", fcgiStdout, "A: b\r\n"), Config{FastCGI: nowhere, ResponseTimeout: limit}, "504"},
		{"complaints in the body", records(begun, fcgiStderr, line), Config{FastCGI: nowhere, IdleTimeout: limit}, "200"},
	} {
		test.c.Backends = []string{test.backend}
		status, _ := serve(t, test.c, 1).ask(aRequest)
		testenv.Equal(t, status, test.status, test.name)
	}
}

// TestHintsForNobody: a client that does not take early hints is no failure of the backend.
func TestHintsForNobody(t *testing.T) {
	backend := script(t, func(_ int, c net.Conn, _ string) {
		hints := "HTTP/1.1 103 Early Hints\r\nLink: <" + strings.Repeat("x", 60_000) + ">\r\n\r\n"
		for err := error(nil); err == nil; {
			_, err = io.WriteString(c, hints)
		}
	})
	f := serve(t, to(backend), 1, func(s *knot.Server) { s.WriteTimeout = 100 * time.Millisecond })
	raw := testenv.Need(f.ln.(syscall.Conn).SyscallConn())(t)
	raw.Control(func(fd uintptr) { unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUF, 4<<10) }) // or all may fit
	f.dial("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
	failures := func() map[string]uint64 { return f.stats().Failures }
	testenv.Until(t, "the end", func() bool { return failures()["client gone"]+failures()["broken"] == 1 })
	testenv.Equal(t, failures()["broken"], 0, "failures of the backend")
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
			f.raw(aRequest)
		}
		if s := f.stats(); s.Up || s.Failures["broken"] != 3 {
			t.Errorf("HTTP/2 %v: after 10 requests to two backends it is up: %v, with %v", http2, s.Up, s.Failures)
		}
	}
}
