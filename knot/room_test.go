package knot

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/knot/internal/fdlimit"
	"github.com/capriccio-go/capriccio/netpoll"
)

// TestFarTooManyConnectionsWait: of clients that are far too many each is told, by and by.
func TestFarTooManyConnectionsWait(t *testing.T) {
	everyMode(t, func(t *testing.T, start func(*Server) *served) {
		srv := &Server{Handler: echoHandler, MaxConns: 1}
		srv.ready()
		srv.limits.rest, srv.limits.linger = time.Hour, time.Hour // a client that has been told stays until it leaves
		sv := start(srv)
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
	serve := func(t *testing.T, start func(*Server) *served, raw bool) {
		hijacked := make(chan net.Conn, 1)
		srv := &Server{MaxConns: 1, Handler: func(x *Ctx) error {
			nc, _, err := x.Hijack()
			if err == nil {
				hijacked <- nc
			}
			return err
		}}
		if !raw {
			srv.Handler = AdaptHTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				nc, _, err := http.NewResponseController(w).Hijack()
				testenv.Check(t, err)
				hijacked <- nc
			}))
		}
		srv.ready()
		srv.limits.linger = time.Hour // a client that has been told stays until it leaves
		sv := start(srv)
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
		srv := &Server{TLS: k, Handler: echoHandler, MaxConns: 1}
		srv.ready()
		srv.limits.rest = time.Hour
		sv := start(srv)
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
