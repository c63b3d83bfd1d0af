package proxy

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/admit"
	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/poller"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/knot"
)

// recorder is a backend that writes down what it gets.
func recorder(t *testing.T) (backend string, seen chan string) {
	seen = make(chan string, 1000)
	return behind(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		seen <- fmt.Sprintf("%s %s %s %s %s %v", r.Method, r.RequestURI, r.Host, r.Header.Get("A"), body, err)
		w.Header().Set("Set-Cookie", "of=the copy")
		w.WriteHeader(500)
	}), seen
}

// TestMirror: requests that may be repeated come to the other group as they come to the backend, with bodies up to the limit;
// its answers are nobody's.
func TestMirror(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		copies, seen := recorder(t)
		backend := behind(t, func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			fmt.Fprintf(w, "%d %v", len(body), err)
		})
		f := serve(t, Config{Backends: []string{backend}, HTTP2: http2, Strip: "/api", Mirror: &Mirror{Backends: []string{copies}, MaxBody: 20_000}}, 2)
		long := strings.Repeat("x", 20_001)
		n := 0
		for _, test := range []struct {
			method, body string
			chunked      bool
			copied       bool
		}{
			{"GET", "", false, true}, {"HEAD", "", false, true}, {"OPTIONS", "", false, true}, {"DELETE", "", false, true},
			{"PUT", "body", false, true}, {"PUT", long[1:], false, true}, {"PUT", long, false, false}, {"PUT", "body", true, false}, {"POST", "body", false, false}, {"PATCH", "", false, false},
		} {
			req := f.request(test.method, "/api/a%2Fb?c=d", test.body, "Host: example.org", "A: b")
			if test.chunked {
				req.ContentLength = -1
			}
			resp, body := f.do(req)
			if resp.StatusCode != 200 || len(resp.Cookies()) > 0 || test.method != "HEAD" && body != fmt.Sprint(len(test.body), " <nil>") {
				t.Errorf("%s: %d %q %v", test.method, resp.StatusCode, body, resp.Header)
			}
			if test.copied {
				n++
				testenv.Equal(t, <-seen, fmt.Sprintf("%s /a%%2Fb?c=d example.org b %s <nil>", test.method, test.body))
			}
		}
		resp, _ := f.do(f.request("GET", "/", "", "Connection: Upgrade", "Upgrade: chat"))
		testenv.Equal(t, resp.StatusCode, 200, "status")
		testenv.Until(t, "the end of the copies", func() bool { return f.p.mirror.inFlight.Load() == 0 })
		s := f.p.Stats()[1]
		if s.Mirrored != uint64(n) || s.Responses[5] != uint64(n) || s.Dropped != 0 || s.Outstanding != 0 || len(seen) > 0 {
			t.Errorf("of %d copies: %+v", n, s)
		}
	}
}

// TestMirrorTrailer: the backend gets the trailer behind a body of known length, which only HTTP/2 has; such a request is not copied.
func TestMirrorTrailer(t *testing.T) {
	copies, seen := recorder(t)
	backend := behind(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %v %v", body, err, r.Trailer["Sum"])
	})
	f := serve(t, Config{Backends: []string{backend}, HTTP2: true, Mirror: &Mirror{Backends: []string{copies}}}, 1)
	r := f.request("PUT", "/", "body")
	r.Trailer = http.Header{"Sum": {"s"}}
	_, got := roundTrip(t, testenv.PlainHTTP2(t), r)
	testenv.Equal(t, got, "body <nil> [s]", "what the backend got")
	testenv.Equal(t, f.p.Stats()[1].Mirrored, 0, "copies")
	testenv.Equal(t, len(seen), 0, "copies that came")
}

// TestMirrorIsSlow: backends that do not answer hold up no client, and get as many copies as may be under way. Close ends those.
func TestMirrorIsSlow(t *testing.T) {
	release := make(chan bool)
	defer close(release)
	slow := behind(t, func(w http.ResponseWriter, r *http.Request) { <-release })
	c := to(says(t, okResponse))
	c.Mirror = &Mirror{Backends: []string{slow}, MaxInFlight: 3}
	f := serve(t, c, 1)
	for range 10 {
		status, _ := f.ask(aRequest)
		testenv.Equal(t, status, "200", "status")
	}
	s := f.p.Stats()[1]
	if s.Mirrored != 3 || s.Dropped != 7 || s.Outstanding != 3 {
		t.Errorf("%+v", s)
	}
	f.p.Close()
	testenv.Until(t, "the end of the copies", func() bool { return f.p.mirror.inFlight.Load() == 0 })
	testenv.Equal(t, f.p.Stats()[1].Failures["timeout"], 0, "failures")
}

// TestMirrorShare: as many requests are copied as the share says.
func TestMirrorShare(t *testing.T) {
	copies, _ := recorder(t)
	c := to(says(t, okResponse))
	c.Mirror = &Mirror{Backends: []string{copies}, Share: 0.25, MaxInFlight: 100}
	f := serve(t, c, 1)
	for range 40 {
		f.ask(aRequest)
	}
	s := f.p.Stats()[1]
	testenv.AtLeast(t, s.Mirrored, 9, "copies")
	testenv.AtMost(t, s.Mirrored, 11, "copies")
}

// TestMirrorZones: the zones are those of the backends, and not of the backends of copies.
func TestMirrorZones(t *testing.T) {
	for _, copies := range [][]string{{"http://127.0.0.1:3"}, {"http://127.0.0.1:3", "http://127.0.0.1:4"}} {
		c := to("http://127.0.0.1:1", "http://127.0.0.1:2")
		c.Zone, c.Zones, c.Mirror = "a", []string{"a", "b"}, &Mirror{Backends: copies}
		p := testenv.Need(New(c))(t)
		for _, b := range p.mirror.to.all() {
			testenv.Equal(t, b.zone, "", "zone of %s", b.name)
		}
		p.Close()
	}
}

// TestMirrorSettings: what is off for requests is off for their copies.
func TestMirrorSettings(t *testing.T) {
	c := to("http://127.0.0.1:1")
	c.ConnectTimeout, c.ResponseTimeout, c.IdleTimeout, c.KeepTimeout, c.FailTime = -1, -1, -1, -1, -1
	c.KeepConns, c.MaxConns, c.MaxFails = -1, -1, -1
	c.Mirror = &Mirror{Backends: []string{"http://127.0.0.1:2"}}
	p := testenv.Need(New(c))(t)
	defer p.Close()
	of := p.mirror.to
	testenv.EqualSlices(t, []time.Duration{of.ConnectTimeout, of.ResponseTimeout, of.IdleTimeout, of.KeepTimeout, of.FailTime}, make([]time.Duration, 5), "times of copies")
	testenv.EqualSlices(t, []int{of.KeepConns, of.MaxConns, of.MaxFails}, make([]int, 3), "numbers of copies")
	testenv.True(t, of.all()[0].http2.DisableKeepAlives, "connections of copies are kept")
}

// TestMirrorIsDead: a backend of copies that can't be reached, or is late, gets none for a while, though it is the only one.
func TestMirrorIsDead(t *testing.T) {
	release := make(chan bool)
	defer close(release)
	for cause, dead := range map[string]string{
		"connect": refusing(t), "broken": says(t, ""), "timeout": behind(t, func(w http.ResponseWriter, r *http.Request) { <-release }),
	} {
		c := to(says(t, okResponse))
		c.Mirror, c.TotalTimeout = &Mirror{Backends: []string{dead}}, time.Minute
		c.PanicThreshold = 0.5 // which is about the requests, not about copies of them
		if cause == "timeout" {
			c.TotalTimeout = 20 * time.Millisecond
		}
		f := serve(t, c, 1)
		for range DefaultMaxFails {
			f.ask(aRequest)
			testenv.Until(t, "the end of the copy", func() bool { return f.p.mirror.inFlight.Load() == 0 })
		}
		f.ask(aRequest)
		if s := f.p.Stats()[1]; s.Failures[cause] != DefaultMaxFails || s.Dropped != 1 || s.Up || s.Ejected != 1 {
			t.Errorf("%s: %+v", cause, s)
		}
	}
}

// TestMirrorThatFailsAtOnceIsNotIdle: a backend that fails copies at once gets no more of them than the others.
func TestMirrorThatFailsAtOnceIsNotIdle(t *testing.T) {
	var failed atomic.Int64
	c := to(says(t, okResponse))
	c.now = func() time.Time { return time.Unix(0, 0) }
	c.Mirror = &Mirror{MaxInFlight: 100, Backends: append(behinds(t, 1), behind(t, func(w http.ResponseWriter, r *http.Request) {
		failed.Add(1)
		w.WriteHeader(500)
	}))}
	f := serve(t, c, 1)
	for range 10 {
		f.p.mirror.to.all()[0].latency.Store(int64(time.Hour)) // however long it takes in truth
		f.ask(aRequest)
		testenv.Until(t, "the end of the copy", func() bool { return f.p.mirror.inFlight.Load() == 0 })
	}
	testenv.AtMost(t, failed.Load(), 2, "copies that have failed")
}

// A oneByOne lets one request in at a time.
type oneByOne struct {
	admit.Open
	inside  bool         // loop-private
	waiting atomic.Int32 // as Next was last told
}

func (d *oneByOne) Next(_ time.Duration, _ int, q *admit.QueueState) admit.Verdict {
	if d.waiting.Store(int32(q.Waiting)); d.inside {
		return admit.Defer
	}
	d.inside = true
	return admit.Admit
}

func (d *oneByOne) Left(time.Duration, int) { d.inside = false }

func (d *oneByOne) Limit(time.Duration, int, admit.BacklogState) int { return 0 }

// TestMirrorUnderLoad: a request that comes in while another waits for that is not copied.
func TestMirrorUnderLoad(t *testing.T) {
	copies, _ := recorder(t)
	release := make(chan bool)
	c := to(behind(t, func(w http.ResponseWriter, r *http.Request) { <-release }))
	c.Mirror = &Mirror{Backends: []string{copies}}
	p := testenv.Need(New(c))(t)
	defer p.Close()
	d := &oneByOne{}
	rt := testenv.Need(engine.New(engine.Config{
		Loops: 1, NewPoller: func(int) (engine.Poller, error) { return poller.Epoll() },
		NewAdmission: func(*engine.Loop) engine.Admission { return d },
	}))(t)
	up := make(chan string, 1)
	s := &knot.Server{Addr: "127.0.0.1:0", Handler: p.Handle, Listening: func(a net.Addr) { up <- a.String() }}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- rt.Run(ctx, s.Run) }()
	defer func() {
		cancel()
		testenv.Check(t, <-ended)
	}()
	f := &front{t: t, p: p, addr: <-up}
	answers := make(chan string, 3)
	ask := func() {
		go func() {
			status, _ := f.ask(aRequest)
			answers <- status
		}()
	}
	ask()
	testenv.Until(t, "the first request", func() bool { return f.stats().Outstanding == 1 })
	ask()
	ask()
	testenv.Until(t, "the others", func() bool { return d.waiting.Load() == 2 })
	for range 3 {
		release <- true
		testenv.Equal(t, <-answers, "200", "status")
	}
	if s := p.Stats()[1]; s.Mirrored != 2 || s.Dropped != 1 {
		t.Errorf("%+v, want a copy of the first and last", s)
	}
}
