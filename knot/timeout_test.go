package knot

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/knot/internal/neterr"
)

// pipeServer serves one end of a pipe on a fake clock.
func pipeServer(t *testing.T, s *Server) (net.Conn, *bufio.Reader) {
	near, far := net.Pipe()
	go s.ServeConn(far)
	t.Cleanup(func() {
		near.Close()
		s.Close()
	})
	return near, bufio.NewReader(near)
}

// pipeServerTLS is pipeServer over TLS.
func pipeServerTLS(t *testing.T, s *Server) (net.Conn, *bufio.Reader) {
	ca := testenv.NewCA(t)
	s.TLS = ca.Server(t)
	nc, _ := pipeServer(t, s)
	secure := tls.Client(nc, ca.Client())
	return secure, bufio.NewReader(secure)
}

func TestIdleTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Server{Handler: echoHandler, IdleTimeout: time.Minute, HeadTimeout: 10 * time.Second}
		nc, r := pipeServer(t, s)
		begin := time.Now()
		// Requests at intervals below the timeout keep the connection.
		for range 5 {
			time.Sleep(9 * time.Second)
			io.WriteString(nc, "GET / HTTP/1.1\r\nHost: h\r\n\r\n")
			testenv.Need(http.ReadResponse(r, nil))(t)
			r.Discard(r.Buffered())
			time.Sleep(50 * time.Second)
		}
		last := time.Since(begin) - 50*time.Second
		if rest, err := io.ReadAll(r); err != nil || len(rest) > 0 {
			t.Fatalf("got %q, %v; want a close without a word", rest, err)
		}
		idle := time.Since(begin) - last
		if idle < time.Minute-time.Second || idle > time.Minute+time.Second {
			t.Errorf("closed after %v idle", idle)
		}
	})
}

// TestNewConnectionWithoutRequest: browsers, proxies and pools connect ahead.
func TestNewConnectionWithoutRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nc, r := pipeServer(t, &Server{Handler: echoHandler, IdleTimeout: time.Minute, HeadTimeout: 10 * time.Second})
		begin := time.Now()
		if rest, err := io.ReadAll(r); err != nil || len(rest) > 0 {
			t.Fatalf("got %q, %v; want a close without a word", rest, err)
		}
		if took := time.Since(begin); took < time.Minute || took > time.Minute+time.Second {
			t.Errorf("closed after %v", took)
		}
		nc.Close()
	})
}

// TestShutdownWaitsALittleForFirstRequests: for those that are on their way, not for connections made ahead.
func TestShutdownWaitsALittleForFirstRequests(t *testing.T) {
	for name, asks := range map[string]bool{"a client that asks": true, "one that does not": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &Server{Handler: doneHandler}
				nc, _ := pipeServer(t, s)
				synctest.Wait()
				begin, down := time.Now(), make(chan error)
				go func() { down <- s.Shutdown(t.Context()) }()
				time.Sleep(freshFor - time.Second)
				if asks {
					testenv.Check(t, wantLast(nc))
				}
				testenv.Check(t, <-down)
				testenv.AtMost(t, time.Since(begin), freshFor+time.Second, "took")
			})
		})
	}
}

// TestBlankLinesDoNotKeepAConnection: only requests do.
func TestBlankLinesDoNotKeepAConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nc, _ := pipeServer(t, &Server{Handler: echoHandler, IdleTimeout: 10 * time.Second})
		begin := time.Now()
		for {
			if _, err := io.WriteString(nc, "\r\n"); err != nil {
				break
			}
			time.Sleep(time.Second)
		}
		testenv.AtMost(t, time.Since(begin), 12*time.Second, "closed after")
	})
}

// wantTimeout reads the answer to a request that came too slowly.
func wantTimeout(t *testing.T, r *bufio.Reader, begin time.Time, least, most time.Duration) {
	t.Helper()
	resp := testenv.Need(http.ReadResponse(r, nil))(t)
	if resp.StatusCode != 408 || !resp.Close {
		t.Errorf("status %d, close %v", resp.StatusCode, resp.Close)
	}
	if took := time.Since(begin); took < least || took > most {
		t.Errorf("answered after %v", took)
	}
}

func TestHeadTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nc, r := pipeServer(t, &Server{Handler: echoHandler, HeadTimeout: 10 * time.Second})
		begin := time.Now()
		sent := make(chan bool)
		go func() {
			defer close(sent)
			// A byte a second: activity does not help.
			for _, ch := range []byte("GET / HTTP/1.1\r\nHost: h\r\nA: " + strings.Repeat("b", 100)) {
				if _, err := nc.Write([]byte{ch}); err != nil {
					return
				}
				time.Sleep(time.Second)
			}
		}()
		wantTimeout(t, r, begin, 9*time.Second, 11*time.Second)
		nc.Close()
		<-sent
	})
}

func TestBodyTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nc, r := pipeServer(t, &Server{Handler: echoHandler, BodyTimeout: 10 * time.Second, LeastRate: -1})
		io.WriteString(nc, "PUT /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\n")
		begin := time.Now()
		sent := make(chan bool)
		go func() {
			defer close(sent)
			// Slow, but never pausing for long: fine.
			for range 10 {
				nc.Write([]byte("x"))
				time.Sleep(4 * time.Second)
			}
		}()
		wantTimeout(t, r, begin, 40*time.Second, 51*time.Second)
		<-sent
	})
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
		p.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
		if err := <-left; !neterr.TimedOut(err) {
			t.Errorf("Send returned %v", err)
		}
		if n, _ := io.Copy(io.Discard, p.r); n >= int64(len(payload)) {
			t.Errorf("all %d bytes arrived", n)
		}
	})
}

// TestSlowReaderOfOneWrite: WriteTimeout is for a client that takes nothing, however long one that takes something needs for
// all that a handler writes at once.
func TestSlowReaderOfOneWrite(t *testing.T) {
	payload := bytes.Repeat([]byte("0123456789"), 1<<20)
	for name, handler := range map[string]Handler{
		"Send": func(x *Ctx) error { return x.Send(200, "", payload) },
		"chunked": func(x *Ctx) error {
			_, err := x.Write(payload)
			return err
		},
		"net/http": AdaptHTTP(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write(payload) })),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				nc, r := pipeServer(t, &Server{WriteTimeout: 10 * time.Second, Handler: handler})
				io.WriteString(nc, "GET / HTTP/1.1\r\nHost: h\r\n\r\n")
				resp, err := http.ReadResponse(r, nil)
				testenv.Must(t, err)
				begin, got := time.Now(), 0
				piece := make([]byte, 64<<10)
				for err == nil {
					var n int
					n, err = resp.Body.Read(piece)
					got += n
					time.Sleep(time.Second)
				}
				if err != io.EOF || got != len(payload) {
					t.Errorf("%d of %d bytes in %v, %v", got, len(payload), time.Since(begin), err)
				}
			})
		})
	}
}
