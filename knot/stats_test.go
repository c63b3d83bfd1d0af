package knot

import (
	"testing"
	"time"
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
