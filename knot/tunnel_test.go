package knot

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/rpc"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// forward is a handler as that of a forward proxy: it makes a tunnel to the host of the request.
func forward(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodConnect || r.URL.Host != r.Host || r.RequestURI != r.Host || r.URL.Path != "" || r.URL.Scheme != "" {
		http.Error(w, "not a tunnel", http.StatusBadRequest)
		return
	}
	if r.Header.Get("Proxy-Authorization") == "" {
		http.Error(w, "who is it", http.StatusProxyAuthRequired)
		return
	}
	to, err := net.Dial("tcp", r.Host)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer to.Close()
	var from io.Reader = r.Body
	var back io.Writer = flushingWriter{w}
	w.WriteHeader(http.StatusOK)
	if hijacker, ok := w.(http.Hijacker); ok {
		nc, buffered, err := hijacker.Hijack()
		if err != nil {
			panic(err)
		}
		defer nc.Close()
		from, back = buffered, nc
	} else {
		w.(http.Flusher).Flush()
	}
	go func() {
		io.Copy(to, from)
		to.(*net.TCPConn).CloseWrite()
	}()
	io.Copy(back, to)
}

type flushingWriter struct{ http.ResponseWriter }

func (f flushingWriter) Write(p []byte) (int, error) {
	n, err := f.ResponseWriter.Write(p)
	f.ResponseWriter.(http.Flusher).Flush()
	return n, err
}

// TestTunnels: CONNECT goes to handlers of net/http, over HTTP/1.1 and HTTP/2.
func TestTunnels(t *testing.T) {
	backend := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(w, r.Body)
	}))
	defer backend.Close()
	target := strings.TrimPrefix(backend.URL, "https://")
	everyMode(t, func(t *testing.T, start func(*Server) *served) {
		sv := start(&Server{Handler: adaptBlocking(http.HandlerFunc(forward)), H2C: true, Connect: true})
		proxy := testenv.Need(url.Parse("http://user:word@" + sv.addr))(t)
		transport := backend.Client().Transport.(*http.Transport).Clone()
		transport.Proxy = http.ProxyURL(proxy)
		defer transport.CloseIdleConnections()
		client := &http.Client{Transport: transport, Timeout: time.Minute}
		resp := testenv.Need(client.Post(backend.URL, "text/plain", strings.NewReader("through")))(t)
		testenv.Equal(t, string(testenv.Need(io.ReadAll(resp.Body))(t)), "through", "by HTTP/1.1")
		resp.Body.Close()

		// A handler that has answered and not taken the connection is itself what the tunnel leads to.
		loop := start(&Server{Connect: true, Handler: AdaptHTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodConnect {
				io.WriteString(w, "inside")
			}
		}))}).dial()
		loop.send(req("CONNECT a:1"))
		opened := testenv.Need(http.ReadResponse(loop.r, &http.Request{Method: http.MethodConnect}))(t)
		testenv.Equal(t, opened.StatusCode, 200, "to itself")
		loop.send(req("GET /", "Connection: close"))
		loop.want("200 close", "inside", "to itself")
		loop.nc.Close()

		// The head of what opens a tunnel says nothing of a body. What does not is an ordinary response.
		p := sv.dial()
		p.send(req("CONNECT " + target))
		p.wantStatus("407", "without a password")
		p.send(req("CONNECT "+target, "Proxy-Authorization: x"))
		head := make([]byte, 300)
		n := testenv.Need(p.r.Read(head))(t)
		if text := string(head[:n]); !strings.HasPrefix(text, "HTTP/1.1 200 OK\r\n") || strings.Contains(text, "Content-Length") ||
			strings.Contains(text, "Transfer-Encoding") || strings.Contains(text, "close") || !strings.HasSuffix(text, "\r\n\r\n") {
			t.Errorf("the answer is %q", text)
		}

		framed := testenv.PlainHTTP2(t)
		defer framed.CloseIdleConnections()
		read, write := io.Pipe()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		request := testenv.Need(http.NewRequestWithContext(ctx, http.MethodConnect, sv.url(), read))(t)
		request.Host = target
		request.Header.Set("Proxy-Authorization", "x")
		answer := testenv.Need(framed.RoundTrip(request))(t)
		testenv.MustEqual(t, answer.StatusCode, 200, "by HTTP/2")
		inner := backend.Client().Transport.(*http.Transport).Clone()
		inner.DialContext = func(context.Context, string, string) (net.Conn, error) {
			return streamConn{p.nc, answer.Body, write}, nil
		}
		resp = testenv.Need((&http.Client{Transport: inner}).Post(backend.URL, "text/plain", strings.NewReader("framed")))(t)
		testenv.Equal(t, string(testenv.Need(io.ReadAll(resp.Body))(t)), "framed", "by HTTP/2")
		resp.Body.Close()
		inner.CloseIdleConnections()
	})
}

// A streamConn is a stream of HTTP/2 as a connection.
type streamConn struct {
	net.Conn // of which only the addresses and deadlines are used
	io.ReadCloser
	io.WriteCloser
}

func (c streamConn) Read(p []byte) (int, error)  { return c.ReadCloser.Read(p) }
func (c streamConn) Write(p []byte) (int, error) { return c.WriteCloser.Write(p) }
func (c streamConn) Close() error {
	c.ReadCloser.Close()
	return c.WriteCloser.Close()
}

// TestTunnelsMayRest: BodyTimeout is not for what comes through a tunnel over HTTP/2.
func TestTunnelsMayRest(t *testing.T) {
	for request, want := range map[string]time.Duration{
		"CONNECT a:1 HTTP/1.1\r\n\r\n": 0, "CONNECT /a HTTP/1.1\r\nHost: a\r\n\r\n": time.Second, "POST / HTTP/1.1\r\nHost: a\r\n\r\n": time.Second,
	} {
		x := newCtx()
		x.srv = &Server{BodyTimeout: time.Second}
		x.srv.ready()
		if f := x.head.Parse([]byte(request), &x.srv.settings().head); f != nil {
			t.Fatal(f)
		}
		testenv.Equal(t, x.bodyTimeout(), want, "%q", request)
	}
}

// Arith is a service of net/rpc.
type Arith struct{}

func (Arith) Twice(n int, reply *int) error {
	*reply = 2 * n
	return nil
}

// TestNetRPC: its client begins with a CONNECT, whose lines end with a bare LF.
func TestNetRPC(t *testing.T) {
	service := rpc.NewServer()
	testenv.Must(t, service.Register(Arith{}))
	everyMode(t, func(t *testing.T, start func(*Server) *served) {
		sv := start(&Server{Handler: AdaptHTTP(service), Connect: true})
		client := testenv.Need(rpc.DialHTTPPath("tcp", sv.addr, rpc.DefaultRPCPath))(t)
		defer client.Close()
		for n := range 3 {
			var twice int
			testenv.Must(t, client.Call("Arith.Twice", n, &twice))
			testenv.Equal(t, twice, 2*n, "twice")
		}
	})
}

// TestNativeHandlersSeeNoPathOfATunnel: whose answer of 200 ends the connection, as what follows is the tunnel's.
func TestNativeHandlersSeeNoPathOfATunnel(t *testing.T) {
	everyMode(t, func(t *testing.T, start func(*Server) *served) {
		sv := start(&Server{Connect: true, Handler: func(x *Ctx) error {
			return x.Send(200, "text/plain", []byte(x.Method()+" "+x.Host()+" "+x.Path()))
		}})
		testenv.Equal(t, statusAndBody(sv.exchange(req("CONNECT a:1")+req("GET /"))), "200 CONNECT a:1 ")
	})
}

// TestFailuresAfterHijack are logged as those of other handlers are.
func TestFailuresAfterHijack(t *testing.T) {
	everyMode(t, func(t *testing.T, start func(*Server) *served) {
		sv := start(&Server{Handler: func(x *Ctx) error {
			path := x.Path()
			nc, _, err := x.Hijack()
			if err != nil {
				return err
			}
			defer nc.Close()
			if path == "/panic" {
				panic("a panic behind it")
			}
			return errors.New("an error behind it")
		}})
		for _, what := range []string{"panic", "error"} {
			p := sv.dial()
			p.send(req("BREW /" + what))
			p.wantClosed()
			testenv.Until(t, "the log has the "+what, func() bool { return strings.Contains(sv.log.String(), what+" behind it") })
		}
	})
}
