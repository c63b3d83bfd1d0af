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
