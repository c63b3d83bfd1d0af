package knot

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

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
		p.send("GET /own HTTP/1.1\r\nHost: h\r\n\r\n")
		p.response("GET")
		for range 3 {
			p.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
			p.response("GET")
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
			one.ServeConn(newScriptConn([]byte("GET / HTTP/1.1\r\nHost: h\r\n\r\n"), nil, 1))
		}
	}
	if d := timed.Stats().Durations; d.Count != 10 {
		t.Errorf("timed: %+v", d)
	}
	if d := s.Stats().Durations; d.Count != 0 || s.Stats().Responses[2] != 10 {
		t.Errorf("%+v", d)
	}
}

// TestJSONLog: whatever clients send, each line is an object that a parser takes.
func TestJSONLog(t *testing.T) {
	for _, test := range []struct {
		request string
		want    map[string]any
	}{
		{"GET /a?b HTTP/1.0\r\nReferer: r\r\nUser-Agent: \"x\\\t\xff\xc3\xa9\r\n\r\n", map[string]any{
			"client": "192.0.2.1", "user": "al \"ice", "method": "GET", "target": "/a?b", "proto": "HTTP/1.0", "host": "", "status": 200.0, "bytes": 2.0,
			"referer": "r", "user_agent": "\"x\\\t\ufffdé"}},
		{"\x00bad\"\r\n\r\n", map[string]any{"client": "192.0.2.1", "line": "\x00bad\"", "status": 400.0}},
		{"GET /" + strings.Repeat("\xc3\xa9", 1000) + " HTTP/1.1\r\nHost: h\r\n\r\n", map[string]any{"target": "/" + strings.Repeat("é", 511), "host": "h"}},
		{"GET / HTTP/1.1\r\nHost: h\r\nUser-Agent: \xe2\x80\xa8\xc2\x80\x7f\r\n\r\n", map[string]any{"status": 400.0}},
		{"GET / HTTP/1.1\r\nHost: h\r\nUser-Agent: \xe2\x80\xa8\xc2\x80\r\n\r\n", map[string]any{"user_agent": "\u2028\u0080"}},
	} {
		var out testenv.Buffer
		s := &Server{AccessLog: NewAccessLog(&out, LogJSON), Handler: func(x *Ctx) error {
			x.SetUser("al \"ice")
			return x.SendString(200, "", "ok")
		}}
		serveScript(s, newScriptConn([]byte(test.request), nil, 1))
		testenv.Must(t, s.AccessLog.Close())
		line := out.String()
		var got map[string]any
		if err := json.Unmarshal([]byte(line), &got); err != nil || strings.Count(line, "\n") != 1 || strings.ContainsAny(line, "\u2028\u0080") {
			t.Fatalf("%v: %q", err, line)
		}
		for key, want := range test.want {
			if got[key] != want {
				t.Errorf("%.40q: %s is %v, want %v", test.request, key, got[key], want)
			}
		}
		if at, err := time.Parse(time.RFC3339, got["time"].(string)); err != nil || time.Since(at) > time.Hour {
			t.Errorf("%v, %v", at, err)
		}
		if _, timed := got["duration_ms"]; timed == (got["status"] == 400.0) {
			t.Errorf("%.40q: %s", test.request, line)
		}
	}
}

// TestJSONLogWithoutAClient has no such member for a peer without an address, unless a proxy is trusted that tells one.
func TestJSONLogWithoutAClient(t *testing.T) {
	for trust, want := range map[string]any{"": nil, "unix:": "192.0.2.7"} {
		var out testenv.Buffer
		s := &Server{Trust: testenv.Need(ParseTrust(strings.Fields(trust)...))(t), AccessLog: NewAccessLog(&out, LogJSON), Handler: func(x *Ctx) error { return nil }}
		serveScript(s, unixConn{newScriptConn([]byte("GET / HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: 192.0.2.7\r\n\r\n"), nil, 1)})
		testenv.Must(t, s.AccessLog.Close())
		var got map[string]any
		testenv.Must(t, json.Unmarshal([]byte(out.String()), &got), out.String())
		client, told := got["client"]
		testenv.Equal(t, client, want, "trust %q", trust)
		testenv.Equal(t, told, want != nil, "trust %q: %s", trust, out.String())
	}
}

// TestUserInTheLog stands where the two common forms have it.
func TestUserInTheLog(t *testing.T) {
	var out testenv.Buffer
	s := &Server{AccessLog: NewAccessLog(&out, LogCommon), Handler: func(x *Ctx) error {
		if x.Path() == "/a" {
			x.SetUser("al\"i ce\n")
		}
		return nil
	}}
	serveScript(s, newScriptConn([]byte("GET /a HTTP/1.1\r\nHost: h\r\n\r\nGET /b HTTP/1.1\r\nHost: h\r\n\r\n"), nil, 1))
	s.AccessLog.Close()
	lines := strings.Split(out.String(), "\n")
	if !strings.HasPrefix(lines[0], `192.0.2.1 - al\"i_ce\x0a [`) || !strings.HasPrefix(lines[1], "192.0.2.1 - - [") {
		t.Errorf("%q", lines)
	}
}
