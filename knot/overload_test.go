package knot

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/admit"
	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/poller"
	"github.com/capriccio-go/capriccio/internal/recorder"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/knot/internal/fdlimit"
	"github.com/capriccio-go/capriccio/netpoll"
	_ "github.com/capriccio-go/capriccio/netpoll" // its pollers
	"github.com/capriccio-go/capriccio/task"
)

// A doorman lets a number in at a time, and refuses all while it is closed. Loop-private.
type doorman struct {
	admit.Open
	room, inside, most int
	closed             atomic.Bool
	refuses            bool // if there is no room
}

func (d *doorman) Next(_ time.Duration, _ int, q *admit.QueueState) admit.Verdict {
	switch {
	case d.closed.Load():
		return admit.Refuse
	case d.inside == d.room && d.refuses:
		return admit.Refuse
	case d.inside == d.room:
		return admit.Defer
	}
	d.inside++
	d.most = max(d.most, d.inside)
	return admit.Admit
}

func (d *doorman) Left(time.Duration, int) { d.inside-- }

// guarded serves on a runtime with one loop and a doorman, until the test ends.
func guarded(t *testing.T, d *doorman, s *Server) *served {
	t.Helper()
	sv := servingOn(t, s, engine.Config{NewAdmission: func(*engine.Loop) engine.Admission { return d }})
	t.Cleanup(func() {
		sv.stop()
		testenv.AtMost(t, d.most, d.room, "were inside at a time")
		testenv.Equal(t, d.inside, 0, "are still inside at the end")
	})
	return sv
}

// servingOn serves on a runtime with one loop until stop is called.
func servingOn(t *testing.T, s *Server, cfg engine.Config) *served {
	t.Helper()
	cfg.Loops, cfg.NewPoller = 1, func(int) (engine.Poller, error) { return poller.Epoll() }
	rt := testenv.Need(engine.New(cfg))(t)
	up := make(chan string, 1)
	s.Addr = "127.0.0.1:0"
	s.Listening = func(a net.Addr) { up <- a.String() }
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- rt.Run(ctx, s.Run) }()
	return &served{Server: s, t: t, addr: <-up, stop: func() {
		cancel()
		testenv.Check(t, <-ended)
	}}
}

// A connection needs no task before its first request: one that only said so to the
// poller would be queued before the request's own, which would wait twice.
func TestConnectionsStartNoTask(t *testing.T) {
	g := recorder.New(recorder.Config{})
	s := &Server{Handler: func(x *Ctx) error { return x.SendString(200, "text/plain", "done") }}
	sv := servingOn(t, s, engine.Config{Graph: g})
	t.Cleanup(sv.stop)
	const n = 20
	for range n {
		sv.dial()
	}
	sv.dial().ask(req("GET /")) // they are accepted in turn: when this one is served, all have been
	if ended := g.Snapshot().Node(bgraph.KeyEnd).Arrivals; s.Stats().Conns < n || ended > 2 {
		t.Errorf("%d connections, and %d tasks have ended; want at least %d and at most 2", s.Stats().Conns, ended, n)
	}
}

// Refused requests get 503 with a Retry-After that is not the same for all, and their connection
// lives on. Requests of HTTP/2 pass the entrance each by itself.
func TestRefusedRequests(t *testing.T) {
	d := &doorman{room: 2}
	s := &Server{H2C: true, Handler: func(x *Ctx) error {
		task.Yield()
		return doneHandler(x)
	}}
	sv := guarded(t, d, s)
	for version, client := range map[int]*http.Client{1: {Transport: &http.Transport{}}, 2: {Transport: testenv.PlainHTTP2(t)}} {
		accepted, waits := s.Stats().Accepted, map[string]bool{}
		for i := range 60 {
			want := 200
			if i%3 == 0 {
				want = 503
			}
			d.closed.Store(want == 503)
			resp, _ := testenv.Get(t, client, sv.url())
			after := resp.Header.Get("Retry-After")
			if resp.StatusCode != want || (want == 503) != (after != "") || resp.ProtoMajor != version {
				t.Errorf("request %d: %s %d, Retry-After %q; want %d", i, resp.Proto, resp.StatusCode, after, want)
			}
			waits[after] = true
		}
		testenv.Equal(t, s.Stats().Accepted, accepted+1, "connections, HTTP/%d", version)
		if len(waits) < 4 { // "" and three others
			t.Errorf("Retry-After is one of %v, want more different ones", waits)
		}
		var all sync.WaitGroup
		for range 30 {
			all.Go(func() {
				resp, err := client.Get(sv.url())
				if err != nil || resp.StatusCode != 200 {
					t.Errorf("many at a time: %v, %v", resp, err)
					return
				}
				resp.Body.Close()
			})
		}
		all.Wait()
		client.CloseIdleConnections()
	}
}

// A request that waits to be admitted is refused when its time is over, with an answer; the end of a
// connection does not wait to be admitted.
func TestWaitingRequestsKeepTheirDeadline(t *testing.T) {
	patiently(t, 100*time.Millisecond, func(limit time.Duration) error {
		held := make(chan bool)
		release := sync.OnceFunc(func() { close(held) })
		defer release()
		sv := guarded(t, &doorman{room: 1}, &Server{
			IdleTimeout: limit,
			Handler: func(x *Ctx) error {
				task.Offload(func() { <-held })
				return x.SendString(200, "text/plain", "done")
			},
		})
		first, idle := sv.dial(), sv.dial()
		first.send(req("GET /"))
		for range 3 {
			p := sv.dial()
			p.send(req("GET /"))
			if resp, err := http.ReadResponse(p.r, nil); err != nil || resp.StatusCode != 503 {
				return fmt.Errorf("%v, %v; want status 503", resp, err)
			}
		}
		// One that has sent nothing is closed at its deadline.
		if n, err := idle.nc.Read(make([]byte, 1)); n != 0 || err != io.EOF {
			return fmt.Errorf("an idle connection: read %d, %v; want the end", n, err)
		}
		release()
		if resp, err := http.ReadResponse(first.r, nil); err != nil || resp.StatusCode != 200 {
			return fmt.Errorf("the first: %v, %v", resp, err)
		}
		return nil
	})
}

// Requests wait until there is room; a panic and a slow client give theirs back.
func TestRequestsWaitForRoom(t *testing.T) {
	d := &doorman{room: 3}
	sv := guarded(t, d, &Server{
		ErrorLog: quietLog(),
		Handler: func(x *Ctx) error {
			if x.Path() == "/panic" {
				panic("no")
			}
			task.Sleep(time.Millisecond)
			return x.SendString(200, "text/plain", "done")
		},
	})
	slow := sv.dial()
	slow.send("GET / HTTP/1.1\r\nHo")
	var clients []*peer
	for i := range 50 {
		p := sv.dial()
		p.send(req([]string{"GET /panic", "GET /"}[min(1, i%5)]))
		clients = append(clients, p)
	}
	for i, p := range clients {
		p.wantStatus([]string{"500 close", "200"}[min(1, i%5)], "request %d", i)
	}
	slow.send("st: h\r\n\r\n")
	slow.wantStatus("200")
}

// TestFarTooManyConnectionsWait: of clients that are far too many each is told, by and by.
func TestFarTooManyConnectionsWait(t *testing.T) {
	everyMode(t, func(t *testing.T, start func(*Server) *served) {
		sv := start(limited(&Server{Handler: echoHandler, MaxConns: 1}, func(l *settings) {
			l.rest, l.linger = time.Hour, time.Hour // a client that has been told stays until it leaves
		}))
		first := sv.dial()
		first.ask(req("GET /"))
		all := make([]*peer, 4*fdlimit.Rejects(1))
		for i := range all {
			all[i] = sv.dial()
		}
		// Some wait until others have left, which of them is not known.
		answers := make(chan int)
		for _, p := range all {
			go func() {
				resp, err := http.ReadResponse(p.r, nil)
				if err != nil || resp.StatusCode != 503 || resp.Header.Get("Retry-After") == "" {
					t.Errorf("got %v, %v; want 503 with Retry-After", resp, err)
				}
				p.nc.Close()
				answers <- 1
			}()
		}
		for range all {
			<-answers
		}
		if s := sv.Stats(); int(s.TurnedAway) != len(all) || !s.Full {
			t.Errorf("%+v; want %d turned away, and full", s, len(all))
		}
		testenv.Equal(t, strings.Count(sv.log.String(), "too many connections"), 1, "lines in the log: %s", sv.log)
	})
}

// TestHijackedConnectionsCount: what a handler has taken over counts for MaxConns until it is closed.
func TestHijackedConnectionsCount(t *testing.T) {
	serve := func(t *testing.T, start func(*Server) *served, adapted bool) {
		hijacked := make(chan net.Conn, 1)
		srv := &Server{MaxConns: 1, Handler: func(x *Ctx) error {
			nc, _, err := x.Hijack()
			hijacked <- nc
			return err
		}}
		if adapted {
			srv.Handler = AdaptHTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				nc, _, err := http.NewResponseController(w).Hijack()
				testenv.Check(t, err)
				hijacked <- nc
			}))
		}
		sv := start(limited(srv, func(l *settings) { l.linger = time.Hour })) // a client that has been told stays until it leaves
		ask := func() *peer {
			p := sv.dial()
			p.send(req("GET /"))
			return p
		}
		ask()
		first := <-hijacked
		if _, own := first.(*netpoll.Conn); !own {
			first.Close()
			return
		}
		if s := sv.Stats(); s.Conns != 1 || s.Hijacked != 1 {
			t.Errorf("%+v; want 1 connection, which is hijacked", s)
		}
		refused := ask()
		refused.wantStatus("503 close", "beside a hijacked connection")
		refused.nc.Close()
		first.Close()
		testenv.Until(t, "the server notes that the one it refused has left", func() bool {
			s := sv.Stats()
			return s.Conns == 0 && s.Hijacked == 0
		})
		ask()
		second := <-hijacked
		second.Close()
	}
	everyMode(t, func(t *testing.T, start func(*Server) *served) {
		serve(t, start, true)
		serve(t, start, false)
	})
}

// TestTooManyTLSConnections: over TLS an alert says it.
func TestTooManyTLSConnections(t *testing.T) {
	k := testenv.NewCA(t).Server(t)
	everyMode(t, func(t *testing.T, start func(*Server) *served) {
		sv := start(limited(&Server{TLS: k, Handler: echoHandler, MaxConns: 1}, func(l *settings) { l.rest = time.Hour }))
		sv.dialTLS(&tls.Config{InsecureSkipVerify: true})
		_, err := tls.Dial("tcp", sv.addr, &tls.Config{InsecureSkipVerify: true})
		testenv.ErrorSays(t, err, "internal error", "the alert for the second client")
	})
}

// TestHandlerWithoutDescriptors: it answers 503 with Retry-After, and the log has one line for many.
func TestHandlerWithoutDescriptors(t *testing.T) {
	everyMode(t, func(t *testing.T, start func(*Server) *served) {
		sv := start(&Server{Handler: func(*Ctx) error { return fmt.Errorf("%w: %w", Status(503), unix.EMFILE) }})
		p := sv.dial()
		for range 5 {
			if resp, _ := p.ask(req("GET /")); resp.StatusCode != 503 || resp.Header.Get("Retry-After") == "" {
				t.Errorf("got %v, want 503 with Retry-After", resp)
			}
		}
		testenv.Equal(t, strings.Count(sv.log.String(), "want of descriptors"), 1, "lines in the log: %s", sv.log)
	})
}
