package knot

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// What the lines say of requests and responses; package accesslog has their form.
func TestAccessLogLines(t *testing.T) {
	for _, test := range []struct {
		request, line string
		format        LogFormat
	}{
		{req("GET /a?b", "Referer: http://r/", "User-Agent: u 1"), `^192\.0\.2\.1 - u \[.*\] "GET /a\?b HTTP/1.1" 200 10 "http://r/" "u 1"\n$`, LogCombined},
		{req("HEAD /a"), `"HEAD /a HTTP/1.1" 200 0\n$`, LogCommon},
		{"\x16\x03\x01\"\r\n", `^192\.0\.2\.1 - - .*"\\x16\\x03\\x01\\"" 400 95\n$`, LogCommon},
		{req("GET /panic"), `"GET /panic HTTP/1.1" 500 ` + strconv.Itoa(len(appendErrorPage(nil, 500))), LogCommon},
		{req("GET /half"), `"GET /half HTTP/1.1" 200 10\n$`, LogCommon},
		{req("GET /a"), `"target":"/a","proto":"HTTP/1.1","host":"h","status":200,"bytes":9,"duration_ms":`, LogJSON},
		{"\x16\x03\x01\"\r\n", `"status":400,"bytes":95}\n$`, LogJSON},
	} {
		var out testenv.Buffer
		s := &Server{AccessLog: NewAccessLog(&out, test.format), ErrorLog: quietLog(), Handler: func(x *Ctx) error {
			x.SetUser("u")
			return echoHandler(x)
		}}
		s.ServeConn(script(test.request))
		s.Close()
		testenv.Must(t, s.AccessLog.Close())
		if line := out.String(); !regexp.MustCompile(test.line).MatchString(line) {
			t.Errorf("\n got %swant %s", line, test.line)
		}
	}
}

// stuckWriter blocks until it is told to go on, and then fails.
type stuckWriter struct{ entered, leave chan bool }

func (w *stuckWriter) Write(p []byte) (int, error) {
	w.entered <- true
	<-w.leave
	return 0, errors.New("disk full")
}

// TestAccessLogDropsWhenTheDiskIsStuck: bounded memory, no waiting.
func TestAccessLogDropsWhenTheDiskIsStuck(t *testing.T) {
	w := &stuckWriter{make(chan bool, 10), make(chan bool)}
	log := NewAccessLog(w, LogCommon)
	s := &Server{AccessLog: log, Handler: echoHandler, MaxRequestLine: 4000}
	defer s.Close()
	request := req("GET /" + strings.Repeat("a", 1000))
	for log.Dropped() == 0 {
		s.ServeConn(script(request))
	}
	<-w.entered
	close(w.leave)
	testenv.ErrorSays(t, log.Close(), "disk full", "Close")
}

func TestStats(t *testing.T) {
	everyMode(t, func(t *testing.T, start func(*Server) *served) {
		sv := start(&Server{Timed: true, Handler: func(x *Ctx) error {
			switch x.Path() {
			case "/none":
				return Status(404)
			case "/own":
				return x.SendString(404, "text/plain", "no")
			}
			return x.SendString(200, "text/plain", "12345")
		}})
		p := sv.dial()
		for _, path := range []string{"/own", "/", "/", "/"} {
			p.ask(req("GET " + path))
		}
		p.send("GET /none HTTP/1.1\r\nHost: h\r\n\r\nGET / HTTP/9.9\r\n\r\n")
		p.response("GET")
		p.response("GET")
		s := sv.Stats()
		if s.Responses != [6]uint64{2: 3, 4: 2, 5: 1} || len(s.Errors) != 2 || s.Errors[404] != 2 || s.Errors[505] != 1 || s.Bytes < 15 || s.Accepted != 1 || s.MaxConns == 0 || s.Stopping {
			t.Errorf("%+v", s)
		}
		var sum uint64
		for _, n := range s.Durations.Counts {
			sum += n
		}
		if d := s.Durations; d.Count != 5 || sum > 5 || d.Sum <= 0 || d.Sum > time.Hour {
			t.Errorf("%+v", d)
		}
		p.nc.Close() // else the server would go on reading for a while after its 505
		sv.stop()
		if !sv.Stats().Stopping {
			t.Error("not stopping")
		}
	})
}

// TestStatsWithoutTimes: also not of requests of another server, whose Ctx has come to this one.
func TestStatsWithoutTimes(t *testing.T) {
	handler := func(x *Ctx) error { return nil }
	timed, s := &Server{Handler: handler, Timed: true}, &Server{Handler: handler}
	defer timed.Close()
	defer s.Close()
	for range 10 {
		for _, one := range []*Server{timed, s} {
			one.ServeConn(script(req("GET /")))
		}
	}
	if d := timed.Stats().Durations; d.Count != 10 {
		t.Errorf("timed: %+v", d)
	}
	if d := s.Stats().Durations; d.Count != 0 || s.Stats().Responses[2] != 10 {
		t.Errorf("%+v", d)
	}
}

// unixConn is a scriptConn on a Unix socket.
type unixConn struct{ *scriptConn }

func (unixConn) RemoteAddr() net.Addr { return &net.UnixAddr{Net: "unix"} }

// TestClient: who a request is from, for handlers and the access log; package clientaddr has the rest. The peer of a
// scriptConn is 192.0.2.1.
func TestClient(t *testing.T) {
	for _, test := range []struct {
		name, trust, also string
		unix              bool
		client            string // "": none
		trusted           bool
	}{
		{"nobody is trusted", "", "", false, "192.0.2.1", false},
		{"a proxy", "192.0.2.1", "", false, "198.51.100.7", true},
		{"a handler trusts more", "10.0.0.1", "192.0.2.1", false, "198.51.100.7", true},
		{"unix", "", "", true, "", false},
		{"unix is trusted", "unix:", "", true, "198.51.100.7", true},
	} {
		var log strings.Builder
		s := &Server{Trust: testenv.Need(ParseTrust(strings.Fields(test.trust)...))(t), AccessLog: NewAccessLog(&log, LogCommon)}
		got, trusted := "", false
		s.Handler = func(x *Ctx) error {
			x.ClientAddr() // decided before a handler says more
			trusted = x.TrustPeers(testenv.Need(ParseTrust(strings.Fields(test.also)...))(t))
			if addr := x.ClientAddr(); addr.IsValid() {
				got = addr.String()
			}
			return nil
		}
		var nc net.Conn = script(req("GET /", "X-Forwarded-For: 6.6.6.6, 198.51.100.7"))
		if test.unix {
			nc = unixConn{nc.(*scriptConn)}
		}
		serveScript(s, nc)
		testenv.Equal(t, got, test.client, test.name)
		testenv.Equal(t, trusted, test.trusted, "%s: trusted", test.name)
		s.AccessLog.Close()
		logged, _, _ := strings.Cut(log.String(), " ")
		testenv.Equal(t, strings.TrimPrefix(logged, "-"), test.client, "%s: access log", test.name)
	}
}

// TestCountsForClient: in the admission of requests the connections of a trusted proxy count for the clients that it
// forwards for, and others for their peer.
func TestCountsForClient(t *testing.T) {
	for _, trust := range []string{"127.0.0.1", "10.0.0.1"} {
		trusts := trust == "127.0.0.1"
		sv := startServer(t, &Server{H2C: true, Trust: testenv.Need(ParseTrust(trust))(t), Handler: func(x *Ctx) error {
			return x.SendString(200, "", fmt.Sprint(x.c.client()))
		}}, 1)
		for _, http2 := range []bool{false, true} {
			transport := &http.Transport{}
			if http2 {
				transport = testenv.PlainHTTP2(t)
			}
			ask := func(client string) string {
				req := testenv.Need(http.NewRequest("GET", sv.url(), nil))(t)
				req.Header.Set("X-Forwarded-For", client)
				resp := testenv.Need(transport.RoundTrip(req))(t)
				defer resp.Body.Close()
				return string(testenv.Need(io.ReadAll(resp.Body))(t))
			}
			one, other, again := ask("192.0.2.1"), ask("192.0.2.2"), ask("192.0.2.1")
			testenv.Equal(t, one == again, true, "HTTP/2 %v: one client is one", http2)
			testenv.Equal(t, one != other, trusts, "HTTP/2 %v, trust %s: two clients are two", http2, trust)
			transport.CloseIdleConnections()
		}
	}
}

// TestLogTo: of the requests on a connection only those that say so are in another log, with the time that they took, which the
// statistics of a server that is not Timed do not count.
func TestLogTo(t *testing.T) {
	var all, own strings.Builder
	other := NewAccessLog(&own, LogJSON)
	s := &Server{AccessLog: NewAccessLog(&all, LogCommon), Handler: func(x *Ctx) error {
		if x.Path() == "/own" {
			x.LogTo(other)
		}
		return echoHandler(x)
	}}
	s.ServeConn(script(req("GET /a") + req("GET /own") + req("GET /b") + "\x16\r\n"))
	s.Close()
	testenv.Must(t, s.AccessLog.Close())
	testenv.Must(t, other.Close())
	testenv.Equal(t, strings.Count(all.String(), "\n"), 3, all.String())
	testenv.Equal(t, strings.Count(own.String(), "\n"), 1, own.String())
	for _, want := range []string{`"target":"/own"`, `"duration_ms":`} {
		testenv.Contains(t, own.String(), want)
	}
	testenv.Equal(t, s.Stats().Durations.Count, 0)
}
