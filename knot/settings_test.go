package knot

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// TestReconfigure: a connection that is open goes by the new settings from its next request on, and what was set before the
// start counts.
func TestReconfigure(t *testing.T) {
	s := &Server{Handler: func(x *Ctx) error { return x.SendString(200, "text/plain", x.ClientAddr().String()) }, Name: "never"}
	s.Reconfigure(&Server{Name: "early", MaxBody: 10, IdleTimeout: -1})
	sv := startServer(t, s, 1)
	p := sv.dial()
	ask := func(request string, status int, name, body string) {
		t.Helper()
		resp, got := p.ask(request)
		testenv.Equal(t, resp.StatusCode, status, "status")
		testenv.Equal(t, resp.Header.Get("Server"), name, "server")
		testenv.Contains(t, got, body)
	}
	ask("POST / HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: 192.0.2.7\r\nContent-Length: 2\r\n\r\nab", 200, "early", "127.0.0.1")
	var log bytes.Buffer
	trust := testenv.Need(ParseTrust("127.0.0.1"))(t)
	to := &Server{Name: "late", MaxBody: 1, Trust: trust, AccessLog: NewAccessLog(&log, LogJSON), HeadTimeout: time.Hour, MaxConns: 1}
	s.Reconfigure(to)
	ask("GET / HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: 192.0.2.7\r\n\r\n", 200, "late", "192.0.2.7")
	testenv.Equal(t, s.Stats().MaxConns, 1, "connections at most")
	ask("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nab", 413, "late", "")
	sv.stop()
	testenv.Must(t, to.AccessLog.Close())
	testenv.Equal(t, strings.Count(log.String(), "duration_ms"), 2, "lines of the log")
}

// TestReconfigureWithoutWriteTimeout: a deadline of the time before does not end a write for which there is no limit any more.
func TestReconfigureWithoutWriteTimeout(t *testing.T) {
	s := &Server{Handler: func(x *Ctx) error { return x.SendString(200, "text/plain", "hello") }, WriteTimeout: time.Millisecond}
	p := startServer(t, s, 1).dial()
	ask := func() {
		t.Helper()
		resp, _ := p.ask("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
		testenv.Equal(t, resp.StatusCode, 200, "status")
	}
	ask()
	s.Reconfigure(&Server{WriteTimeout: -1})
	begin := time.Now()
	testenv.Until(t, "the deadline of the first write has passed", func() bool { return time.Since(begin) > 20*time.Millisecond })
	ask()
}
