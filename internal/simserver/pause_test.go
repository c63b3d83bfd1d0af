//go:build linux

package simserver

import (
	"syscall"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/knot"
)

// What comes before a time limit is served although the process was stopped until after
// it. A random scenario found that it was not.
func TestWhatComesWhileTheProcessIsStoppedIsServed(t *testing.T) {
	const limit = 200 * time.Millisecond
	for name, says := range map[string][2]string{
		"new connection":  {"", "GET / HTTP/1.1\r\nHost: a\r\n\r\n"},
		"idle connection": {"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "GET / HTTP/1.1\r\nHost: a\r\n\r\n"},
		"half a head":     {"GET / HTT", "P/1.1\r\nHost: a\r\n\r\n"},
		"half a body":     {"POST /?e0 HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n\x00\x01", "\x02\x03"},
	} {
		t.Run(name, func(t *testing.T) {
			c := &script{}
			r := onMix(t, Config{Seed: 1, Change: func(k *knot.Server) {
				k.IdleTimeout, k.HeadTimeout, k.BodyTimeout = limit, limit, limit
			}}, 1, func(s *Server, _ *Mix) time.Duration {
				c.begin(s)
				s.After(10*time.Millisecond, func() { c.say(says[0]) })
				// The loop is busy then, so that it looks at its timers before it polls.
				s.After(40*time.Millisecond, func() { s.Clients.Once(&Habit{Path: lan, Make: asks("w20000")}, nil) })
				s.After(50*time.Millisecond, func() { s.Stop(time.Second) })
				s.After(80*time.Millisecond, func() { c.say(says[1]) })
				return s.Now() + 3*time.Second
			})
			r.check(t, 1)
			testenv.Contains(t, c.got, "HTTP/1.1 200 ", "the answer")
		})
	}
}

// The time that a connection may rest ends with the next request: one that comes shortly before, and has
// to wait until after it to be let in, is served.
func TestWhatComesAtTheEndOfARestIsServed(t *testing.T) {
	const limit = 200 * time.Millisecond
	c := &script{}
	r := onMix(t, Config{Seed: 1, Change: func(k *knot.Server) { k.IdleTimeout = limit }}, 1, func(s *Server, _ *Mix) time.Duration {
		c.begin(s)
		ask := func() { c.say("GET / HTTP/1.1\r\nHost: a\r\n\r\n") }
		s.After(10*time.Millisecond, ask)
		// The clock that deadlines are set by is one of 50 ms.
		for range 5 {
			s.After(140*time.Millisecond, func() { s.Clients.Once(&Habit{Path: lan, Make: asks("w30000")}, nil) })
		}
		s.After(150*time.Millisecond, ask)
		return s.Now() + 3*time.Second
	})
	r.check(t, 1)
	testenv.Contains(t, c.got, "HTTP/1.1 200 ", "the answer")
}

// A script is a client that a test leads by the hand.
type script struct {
	link *Link
	open *int
	got  string
}

// begin opens the connection.
func (c *script) begin(s *Server) {
	s.Clients.open++
	c.link, c.open = s.Connect(port, lan, c), &s.Clients.open
}

// say forgets what has come so far.
func (c *script) say(text string) {
	c.got = ""
	c.link.Send([]byte(text))
}

func (c *script) connected()        {}
func (c *script) received(b []byte) { c.got += string(b) }

func (c *script) ended(syscall.Errno) {
	c.link.Close()
	*c.open--
}

// A request that was queued when the process was stopped has not waited too long when the process goes on.
func TestALineOutlastsAPause(t *testing.T) {
	r := onMix(t, Config{Seed: 1, Patience: time.Minute, Change: func(k *knot.Server) {
		k.IdleTimeout, k.HeadTimeout = time.Minute, time.Minute
	}}, 1, func(s *Server, _ *Mix) time.Duration {
		s.Clients.ClosedLoop(&Habit{Path: lan, Make: asks("w5000"), KeepAlive: true}, 200, 0, s.Now()+12*time.Second)
		s.After(2500*time.Millisecond, func() { s.Stop(12 * time.Second) })
		return s.Now() + 12*time.Second
	})
	r.check(t, 1)
	want(t, r.Clients.Statuses[503] == 0, r)
}

// Requests that wait as the memory is full when the process is stopped are not refused when the process goes on: no request
// could leave meanwhile.
func TestAPauseAtAFullMemory(t *testing.T) {
	r := onMix(t, Config{Seed: 1, Memory: 110 << 20, Patience: time.Minute}, 1, func(s *Server, _ *Mix) time.Duration {
		h := &Habit{Path: lan, Make: asks("h2000000.s3800000")}
		for range 70 {
			s.Clients.Once(h, nil)
		}
		s.After(400*time.Millisecond, func() { s.Stop(3 * time.Second) })
		return s.Now() + 8*time.Second
	})
	want(t, r.Clients.Statuses[200] == 70, r.Most>>20, "MiB", r.Clients.Statuses, r.Broken)
}

// Requests that compute for longer than a pause lasts at least are found to be too many.
func TestRequestsThatComputeForLongAreNoPause(t *testing.T) {
	r := onMix(t, Config{Seed: 1, Patience: time.Minute}, 1, func(s *Server, _ *Mix) time.Duration {
		s.Clients.OpenLoop(&Habit{Path: lan, Make: asks("w1200000")}, 20, s.Now()+40*time.Second)
		return s.Now() + 40*time.Second
	})
	want(t, r.Clients.Statuses[503] > 600 && len(r.Broken) == 0, r.Clients.Statuses, r.Broken)
}
