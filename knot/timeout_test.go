package knot

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"math"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/knot/internal/neterr"
)

// wantBetween wants that long since begin.
func wantBetween(t *testing.T, begin time.Time, least, most time.Duration, what string) {
	t.Helper()
	took := time.Since(begin)
	testenv.AtLeast(t, took, least, what)
	testenv.AtMost(t, took, most, what)
}

func TestIdleTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pipePeer(t, &Server{Handler: echoHandler, IdleTimeout: time.Minute, HeadTimeout: 10 * time.Second})
		// Requests at intervals below the timeout keep the connection.
		for range 5 {
			time.Sleep(59 * time.Second)
			p.ask(req("GET /"))
		}
		last := time.Now()
		p.wantClosed()
		wantBetween(t, last, time.Minute-time.Second, time.Minute+time.Second, "closed after")
	})
}

// TestNewConnectionWithoutRequest: browsers, proxies and pools connect ahead.
func TestNewConnectionWithoutRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pipePeer(t, &Server{Handler: echoHandler, IdleTimeout: time.Minute, HeadTimeout: 10 * time.Second})
		begin := time.Now()
		p.wantClosed()
		wantBetween(t, begin, time.Minute, time.Minute+time.Second, "closed after")
	})
}

// TestShutdownWaitsALittleForFirstRequests: for those that are on their way, not for connections made ahead.
func TestShutdownWaitsALittleForFirstRequests(t *testing.T) {
	for name, asks := range map[string]bool{"a client that asks": true, "one that does not": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &Server{Handler: doneHandler}
				p := pipePeer(t, s)
				synctest.Wait()
				begin, down := time.Now(), make(chan error)
				go func() { down <- s.Shutdown(t.Context()) }()
				time.Sleep(freshFor - time.Second)
				if asks {
					testenv.Check(t, wantLast(p.nc))
				}
				testenv.Check(t, <-down)
				testenv.AtMost(t, time.Since(begin), freshFor+time.Second, "took")
			})
		})
	}
}

// TestShutdownClosesWhatConnectsMeanwhile: a connection whose handshake ends when Shutdown has begun, and that is not used.
func TestShutdownClosesWhatConnectsMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Server{Handler: doneHandler}
		p := pipePeerTLS(t, s)
		synctest.Wait()
		begin, down := time.Now(), make(chan error)
		go func() { down <- s.Shutdown(t.Context()) }()
		time.Sleep(100 * time.Millisecond)
		testenv.Must(t, p.nc.(*tls.Conn).Handshake())
		go io.Copy(io.Discard, p.nc)
		testenv.Check(t, <-down)
		testenv.AtMost(t, time.Since(begin), freshFor+2*time.Second, "took")
	})
}

// TestHandOverWaitsForLastRequests: of all connections, until its time is up.
func TestHandOverWaitsForLastRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Server{Handler: doneHandler}
		used, unused, silent := pipePeer(t, s), pipePeer(t, s), pipePeer(t, s)
		used.ask(req("GET /"))
		silent.ask(req("GET /"))
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 4*freshFor)
		defer cancel()
		begin, down := time.Now(), make(chan error)
		go func() { down <- s.handOver(ctx) }()
		time.Sleep(2 * freshFor)
		testenv.Check(t, wantLast(used.nc))
		testenv.Check(t, wantLast(unused.nc))
		silent.wantClosed()
		wantBetween(t, begin, 4*freshFor, 4*freshFor+lastAnswers, "the connection without a request closed after")
		testenv.Check(t, <-down)
	})
}

// TestBlankLinesDoNotKeepAConnection: only requests do.
func TestBlankLinesDoNotKeepAConnection(t *testing.T) {
	for _, first := range []string{"", "\r", req("GET /") + "\r"} {
		synctest.Test(t, func(t *testing.T) {
			p := pipePeer(t, &Server{Handler: echoHandler, IdleTimeout: 10 * time.Second, HeadTimeout: 10 * time.Second})
			p.send(first)
			go io.Copy(io.Discard, p.r)
			begin, line := time.Now(), "\r\n"
			if first != "" {
				line = "\n\r" // so that half a line is always there
			}
			for testenv.Err(io.WriteString(p.nc, line)) == nil && time.Since(begin) < time.Minute {
				time.Sleep(time.Second)
			}
			testenv.AtMost(t, time.Since(begin), 12*time.Second, "%q, closed after", first)
		})
	}
}

// TestSlowRequests: a head has to be complete in HeadTimeout, and a body may not pause for longer than BodyTimeout.
func TestSlowRequests(t *testing.T) {
	for _, test := range []struct {
		name, first, slow string
		every             time.Duration // between two bytes of slow
		s                 *Server
		least, most       time.Duration
	}{
		{"a head that comes steadily", "", "GET / HTTP/1.1\r\nHost: h\r\nA: " + strings.Repeat("b", 100), time.Second,
			&Server{HeadTimeout: 10 * time.Second}, 9 * time.Second, 11 * time.Second},
		{"a body that comes steadily, and then stops", req("PUT /echo", "Content-Length: 100"), "0123456789", 4 * time.Second,
			&Server{BodyTimeout: 10 * time.Second, LeastRate: -1}, 40 * time.Second, 51 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				test.s.Handler = echoHandler
				p := pipePeer(t, test.s)
				begin, sent := time.Now(), make(chan bool)
				go func() {
					defer close(sent)
					if test.first != "" {
						io.WriteString(p.nc, test.first)
					}
					for _, ch := range []byte(test.slow) {
						if _, err := p.nc.Write([]byte{ch}); err != nil {
							return
						}
						time.Sleep(test.every)
					}
				}()
				p.wantStatus("408 close")
				wantBetween(t, begin, test.least, test.most, "answered after")
				p.nc.Close()
				<-sent
			})
		})
	}
}

// TestWriteTimeout: a client that reads nothing loses the connection.
func TestWriteTimeout(t *testing.T) {
	payload := bytes.Repeat([]byte("x"), 32<<20)
	everyMode(t, func(t *testing.T, start func(*Server) *served) {
		left := make(chan error, 1)
		sv := start(&Server{WriteTimeout: 50 * time.Millisecond, Handler: func(x *Ctx) error {
			err := x.Send(200, "", payload)
			left <- err
			return err
		}})
		p := sv.dial()
		p.send(req("GET /"))
		if err := <-left; !neterr.TimedOut(err) {
			t.Errorf("Send returned %v", err)
		}
		n, _ := io.Copy(io.Discard, p.r)
		testenv.AtMost(t, n, int64(len(payload))-1, "bytes that arrive")
	})
}

// TestSlowReaderOfOneWrite: WriteTimeout is for a client that takes nothing, however long one that takes something needs for
// all that a handler writes at once.
func TestSlowReaderOfOneWrite(t *testing.T) {
	payload := bytes.Repeat([]byte("0123456789"), 1<<20)
	for name, handler := range map[string]Handler{
		"Send":     func(x *Ctx) error { return x.Send(200, "", payload) },
		"chunked":  func(x *Ctx) error { return testenv.Err(x.Write(payload)) },
		"net/http": AdaptHTTP(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write(payload) })),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := pipePeer(t, &Server{WriteTimeout: 10 * time.Second, Handler: handler})
				p.send(req("GET /"))
				resp := p.head()
				got, err := 0, error(nil)
				for piece := make([]byte, 64<<10); err == nil; time.Sleep(time.Second) {
					var n int
					n, err = resp.Body.Read(piece)
					got += n
				}
				testenv.Equal(t, err, io.EOF)
				testenv.Equal(t, got, len(payload), "bytes")
			})
		})
	}
}

// TestTimeoutsNearTheEndOfTime: a limit so large that adding it to the time of day
// overflows never passes.
func TestTimeoutsNearTheEndOfTime(t *testing.T) {
	for _, limit := range []time.Duration{200 * 365 * 24 * time.Hour, 1 << 61, 1<<61 + 1, math.MaxInt64 - 1, math.MaxInt64} {
		t.Run(limit.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := pipePeer(t, &Server{
					Handler:     echoHandler,
					IdleTimeout: limit, HeadTimeout: limit, BodyTimeout: limit, WriteTimeout: limit,
				})
				for range 3 {
					for _, part := range []string{"PUT /echo HTTP/1.1\r\nHost: h\r\n", "Content-Length: 2\r\n\r\n", "a", "b"} {
						time.Sleep(time.Hour)
						p.send(part)
					}
					p.want("200", "ab")
				}
			})
		})
	}
}
