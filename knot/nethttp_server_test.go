package knot_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/capriccio-go/capriccio"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/knot"
	"github.com/capriccio-go/capriccio/task"
)

// like serves as std does, with TLS if config is not nil, and returns the address.
func like(t *testing.T, std *http.Server, config *tls.Config) string {
	t.Helper()
	s := testenv.Need(knot.FromHTTP(std))(t)
	s.TLS = config
	addr, _ := onALoop(t, s)
	return addr
}

func TestFromHTTP(t *testing.T) {
	cert, _ := testenv.SelfSigned()
	secure := &tls.Config{Certificates: []tls.Certificate{cert}}
	limits := &http.HTTP2Config{MaxConcurrentStreams: 7}
	s := testenv.Need(knot.FromHTTP(&http.Server{
		Addr: "localhost:1", ReadHeaderTimeout: time.Second, ReadTimeout: 2 * time.Second, IdleTimeout: 3 * time.Second, MaxHeaderBytes: 5000, HTTP2: limits, TLSConfig: secure,
	}))(t)
	testenv.Equal(t, s.Addr, "localhost:1", "address")
	testenv.Equal(t, s.HeadTimeout, time.Second, "for heads")
	testenv.Equal(t, s.IdleTimeout, 3*time.Second, "between requests")
	testenv.Equal(t, s.MaxHead, 5000, "the largest head")
	testenv.Equal(t, s.HTTP2, limits, "limits of HTTP/2")
	testenv.EqualSlices(t, s.TLS.Certificates[0].Certificate[0], cert.Certificate[0], "the certificate")
	s.TLS.MinVersion = tls.VersionTLS13
	testenv.Equal(t, secure.MinVersion, 0, "the oldest version, for the http.Server")
	testenv.Equal(t, s.H2C, true, "HTTP/2 without TLS")
	s = testenv.Need(knot.FromHTTP(&http.Server{ReadTimeout: 2 * time.Second, TLSConfig: &tls.Config{NextProtos: []string{"http/1.1"}}}))(t)
	testenv.Equal(t, s.HeadTimeout, 2*time.Second, "for heads")
	testenv.Equal(t, s.IdleTimeout, 2*time.Second, "between requests")
	type next = map[string]func(*http.Server, *tls.Conn, http.Handler)
	s = testenv.Need(knot.FromHTTP(&http.Server{ReadTimeout: -1, TLSNextProto: next{}}))(t)
	testenv.Equal(t, s.HeadTimeout, -1, "for heads")
	testenv.Equal(t, s.H2C, false, "HTTP/2 without TLS, with an empty TLSNextProto")
	std := &http.Server{}
	testenv.Must(t, http2.ConfigureServer(std, nil)) //lint:ignore SA1019 programs use it
	s = testenv.Need(knot.FromHTTP(std))(t)
	testenv.Equal(t, s.H2C, true, "HTTP/2 without TLS, configured by x/net")

	_, err := knot.FromHTTP(&http.Server{TLSNextProto: next{"spdy/3": nil}})
	testenv.ErrorSays(t, err, `"spdy/3"`)
	s = testenv.Need(knot.FromHTTP(&http.Server{TLSConfig: &tls.Config{MinVersion: tls.VersionTLS13}}))(t)
	testenv.ErrorSays(t, s.Run(t.Context()), "has no certificate")
	_, err = knot.FromHTTP(&http.Server{Protocols: new(http.Protocols)})
	testenv.ErrorSays(t, err, "HTTP/1")
}

// The protocols that a client of TLS is offered.
func TestFromHTTPProtocols(t *testing.T) {
	cert, _ := testenv.SelfSigned()
	type next = map[string]func(*http.Server, *tls.Conn, http.Handler)
	only1, both := new(http.Protocols), new(http.Protocols)
	only1.SetHTTP1(true)
	both.SetHTTP1(true)
	both.SetHTTP2(true)
	special := &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2"}}
	plain := &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"http/1.1"}}
	for _, c := range []struct {
		what   string
		std    *http.Server
		config *tls.Config
		want   string
	}{
		{"by default", &http.Server{}, &tls.Config{}, "h2"},
		{"with HTTP/1 first", &http.Server{}, &tls.Config{NextProtos: []string{"http/1.1"}}, "http/1.1"},
		{"with a config for the client", &http.Server{}, &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return special, nil }}, "h2"},
		{"with HTTP/1 for the client", &http.Server{}, &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return plain, nil }}, "http/1.1"},
		{"with an empty TLSNextProto", &http.Server{TLSNextProto: next{}}, &tls.Config{NextProtos: []string{"h2", "http/1.1"}}, "http/1.1"},
		{"with h2 in TLSNextProto", &http.Server{TLSNextProto: next{"h2": nil}}, &tls.Config{}, "h2"},
		{"with HTTP/1", &http.Server{Protocols: only1}, &tls.Config{}, "http/1.1"},
		{"with both", &http.Server{Protocols: both, TLSNextProto: next{}}, &tls.Config{}, "h2"},
	} {
		c.config.Certificates = []tls.Certificate{cert}
		ln := testenv.Listen(t)
		reference := &http.Server{Protocols: c.std.Protocols, TLSNextProto: maps.Clone(c.std.TLSNextProto), TLSConfig: c.config.Clone()}
		go reference.ServeTLS(ln, "", "")
		for whose, addr := range map[string]string{"ours": like(t, c.std, c.config), "of net/http": ln.Addr().String()} {
			nc := testenv.Need(tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2", "http/1.1"}}))(t)
			testenv.Equal(t, nc.ConnectionState().NegotiatedProtocol, c.want, c.what+", "+whose)
			nc.Close()
		}
		reference.Close()
	}
	testenv.EqualSlices(t, special.NextProtos, []string{"h2"}, "the config of the program")
}

type contextKey string

// An endless context has a deadline that is reached when the test says so.
type endless struct {
	context.Context
	deadline time.Time
	ended    chan struct{}
}

func (e endless) Deadline() (time.Time, bool) { return e.deadline, true }
func (e endless) Done() <-chan struct{}       { return e.ended }

func (e endless) Err() error {
	select {
	case <-e.ended:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

func TestFromHTTPContexts(t *testing.T) {
	for what, secure := range map[string]*tls.Config{"HTTP/1": nil, "HTTP/2": selfSigned()} {
		t.Run(what, func(t *testing.T) {
			deadline := time.Now().Add(time.Hour)
			ended := make(chan struct{})
			base := endless{context.WithValue(t.Context(), contextKey("base"), "of the listener"), deadline, ended}
			var conns atomic.Int64
			waits := make(chan bool, 1)
			std := &http.Server{
				BaseContext: func(ln net.Listener) context.Context { return context.WithValue(base, contextKey("addr"), ln.Addr()) },
				ConnContext: func(ctx context.Context, c net.Conn) context.Context {
					conns.Add(1)
					if ctx.Value(http.ServerContextKey) == nil || ctx.Value(contextKey("base")) == nil {
						t.Error("ConnContext has no server, or no base")
					}
					return context.WithValue(ctx, contextKey("conn"), c.RemoteAddr().String())
				},
			}
			std.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				ctx := r.Context()
				if r.URL.Path == "/wait" || r.URL.Path == "/hijacked" {
					if r.URL.Path == "/hijacked" && r.ProtoMajor == 1 {
						nc, _, err := http.NewResponseController(w).Hijack()
						testenv.Check(t, err)
						defer nc.Close()
						io.WriteString(nc, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
					}
					waits <- true
					task.Await(ctx)
					testenv.Equal(t, ctx.Err(), context.DeadlineExceeded, "why it has ended")
					return
				}
				testenv.Equal(t, ctx.Value(http.ServerContextKey), any(std), "the server")
				testenv.Equal(t, ctx.Value(contextKey("base")), any("of the listener"), "of BaseContext")
				testenv.Equal(t, ctx.Value(contextKey("addr")).(net.Addr).String(), ctx.Value(http.LocalAddrContextKey).(net.Addr).String(), "the listener")
				testenv.Equal(t, ctx.Value(contextKey("conn")), any(r.RemoteAddr), "of ConnContext")
				if by, ok := ctx.Deadline(); !ok || !by.Equal(deadline) {
					t.Errorf("the deadline is %v, want that of BaseContext", by)
				}
				io.WriteString(w, "answer")
			})
			addr := like(t, std, secure)
			client := trusting(t, true)
			url := "http://" + addr
			if secure != nil {
				url = "https://" + addr
			}
			for range 3 {
				resp, text := testenv.Get(t, client, url)
				testenv.Equal(t, text, "answer")
				testenv.Equal(t, resp.Proto[:6], what[:6])
			}
			testenv.Equal(t, conns.Load(), 1, "calls of ConnContext")
			answered := make(chan string)
			for _, path := range []string{"/wait", "/hijacked"} {
				go func() { answered <- textOf(t, client, url+path) }()
				<-waits
			}
			close(ended)
			<-answered
			<-answered
		})
	}
}

func TestFromHTTPNilContexts(t *testing.T) {
	s := testenv.Need(knot.FromHTTP(&http.Server{BaseContext: func(net.Listener) context.Context { return nil }}))(t)
	testenv.ErrorSays(t, s.Serve(testenv.Listen(t)), "BaseContext returned nil")
	lines := make(testenv.Records, 10)
	addr := like(t, &http.Server{ConnContext: func(context.Context, net.Conn) context.Context { return nil }, ErrorLog: log.New(lines, "", 0)}, nil)
	resp, _ := testenv.Get(t, http.DefaultClient, "http://"+addr)
	testenv.Equal(t, resp.StatusCode, 500)
	lines.Next(t, "ConnContext returned nil")
}

func TestFromHTTPConnState(t *testing.T) {
	states := make(chan string, 100)
	std := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			states <- "handler"
			if r.URL.Path == "/hijack" {
				nc, _, err := http.NewResponseController(w).Hijack()
				testenv.Check(t, err)
				nc.Close()
			}
		}),
		ConnState: func(nc net.Conn, state http.ConnState) {
			if nc.RemoteAddr() == nil {
				t.Error("a connection without an address")
			}
			states <- state.String()
		},
	}
	plain, secure := like(t, std, nil), like(t, std, selfSigned())
	expect := func(what string, want ...string) {
		t.Helper()
		for i, w := range want {
			if got := <-states; got != w {
				t.Fatalf("%s: %d: %s, want %q", what, i, got, want)
			}
		}
	}
	ask := func(nc net.Conn, in *bufio.Reader, path string) {
		t.Helper()
		testenv.Need(io.WriteString(nc, "GET "+path+" HTTP/1.1\r\nHost: h\r\n\r\n"))(t)
		if path == "/" {
			testenv.Need(http.ReadResponse(in, nil))(t).Body.Close()
		}
	}
	nc := testenv.Dial(t, plain)
	in := bufio.NewReader(nc)
	expect("connected", "new")
	for range 2 {
		ask(nc, in, "/")
		expect("a request", "active", "handler", "idle")
	}
	nc.Close()
	expect("left", "closed")

	nc = testenv.Dial(t, plain)
	ask(nc, nil, "/hijack")
	expect("hijacked", "new", "active", "handler", "hijacked")
	nc.Close()

	nc = testenv.Dial(t, plain)
	testenv.Need(io.WriteString(nc, "GET / HTTP/1.0\r\n\r\n"))(t)
	expect("one request", "new", "active", "handler")
	testenv.Need(io.ReadAll(nc))(t)
	nc.Close()
	expect("the end of it", "closed")

	client := trusting(t, true)
	for i := range 2 {
		resp, _ := testenv.Get(t, client, "https://"+secure)
		testenv.Equal(t, resp.ProtoMajor, 2)
		if i == 0 {
			expect("HTTP/2", "new", "active", "idle")
		}
		expect("a request of HTTP/2", "active", "handler", "idle")
	}
	client.CloseIdleConnections()
	expect("left", "closed")
}

// ReadTimeout and WriteTimeout are for a request, unless its handler wants others.
func TestFromHTTPTimeouts(t *testing.T) {
	const limit = 200 * time.Millisecond // a busy machine needs that to begin
	results := make(chan error, 1)
	addr := like(t, &http.Server{IdleTimeout: time.Minute, ReadHeaderTimeout: time.Minute, ReadTimeout: limit, WriteTimeout: 2 * limit, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var err error
		switch r.URL.Path {
		case "/read":
			_, err = io.ReadAll(r.Body)
		case "/later":
			testenv.Check(t, http.NewResponseController(w).SetReadDeadline(time.Time{}))
			_, err = io.ReadFull(r.Body, make([]byte, 2))
		case "/write":
			for piece := make([]byte, 1<<20); err == nil; {
				_, err = w.Write(piece)
			}
		}
		results <- err
	})}, nil)
	start := func(request string) net.Conn {
		nc := testenv.Dial(t, addr)
		t.Cleanup(func() { nc.Close() })
		testenv.Need(io.WriteString(nc, request+" HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\na"))(t)
		return nc
	}
	for _, path := range []string{"/read", "/write"} {
		start("POST " + path)
		if err := <-results; !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: %v, want the deadline", path, err)
		}
	}
	nc := start("POST /later")
	select {
	case err := <-results:
		t.Errorf("the deadline that the handler has taken away: %v", err)
	case <-time.After(2 * limit):
	}
	testenv.Need(io.WriteString(nc, "b"))(t)
	testenv.Must(t, <-results)
}

func TestFromHTTPOptions(t *testing.T) {
	for _, disabled := range []bool{false, true} {
		addr := like(t, &http.Server{DisableGeneralOptionsHandler: disabled, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusTeapot)
		})}, nil)
		nc := testenv.Dial(t, addr)
		testenv.Need(io.WriteString(nc, "OPTIONS * HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"))(t)
		answer := testenv.Need(io.ReadAll(nc))(t)
		nc.Close()
		testenv.Equal(t, bytes.Contains(answer, []byte(" 418 ")), disabled, "the handler is asked")
	}
}

func TestFromHTTPErrorLog(t *testing.T) {
	lines := make(testenv.Records, 10)
	std := &http.Server{ErrorLog: log.New(lines, "prefix ", 0), Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("words") })}
	addr := like(t, std, nil)
	testenv.Get(t, http.DefaultClient, "http://"+addr)
	line := lines.Next(t, "words")
	if !strings.HasPrefix(line, "prefix knot: handler panicked panic=words") {
		t.Errorf("%q", line)
	}
}

// Functions of the http.Server that wait natively do not hold the loop.
func TestFromHTTPHoldsNoLoop(t *testing.T) {
	var states, contexts atomic.Int64
	conn, state := make(chan bool), make(chan bool)
	std := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "answer") }),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			if contexts.Add(1) == 2 { // the first client's is the second
				<-conn
			}
			return ctx
		},
		ConnState: func(nc net.Conn, s http.ConnState) {
			if s == http.StateActive && states.Add(1) == 1 {
				<-state
			}
		},
	}
	addr := onOneLoop(t, testenv.Need(knot.FromHTTP(std))(t))
	answers := make(chan bool)
	get := func() {
		testenv.Equal(t, textOf(t, &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, "http://"+addr), "answer")
		answers <- true
	}
	go get()
	testenv.Until(t, "ConnState waits", func() bool { return states.Load() == 1 })
	go get()
	<-answers // of the second client
	state <- true
	testenv.Until(t, "ConnContext waits", func() bool { return contexts.Load() == 2 })
	go get()
	<-answers // of the third
	conn <- true
	<-answers
}

// A connection in the middle of its handshake, which a program has from ConnState, tells nothing, and holds nobody up.
func TestFromHTTPHalfAHandshake(t *testing.T) {
	conns, kept := make(chan net.Conn, 10), make(chan net.Conn, 1)
	std := &http.Server{
		TLSConfig: selfSigned(),
		ConnState: func(nc net.Conn, state http.ConnState) {
			if state == http.StateNew {
				conns <- nc
			}
		},
	}
	std.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		half := <-kept
		kept <- half
		testenv.Equal(t, half.(interface{ ConnectionState() tls.ConnectionState }).ConnectionState().Version, 0, "the version")
		for what, err := range map[string]error{"Write": testenv.Err(half.Write([]byte("x"))), "Read": testenv.Err(half.Read(make([]byte, 1))), "CloseWrite": half.(interface{ CloseWrite() error }).CloseWrite()} {
			testenv.ErrorSays(t, err, "handshake", what)
		}
		io.WriteString(w, "answer")
	})
	addr, _ := onALoop(t, testenv.Need(knot.FromHTTP(std))(t), capriccio.WithDetaching(-1, 0))
	nc := testenv.Dial(t, addr)
	defer nc.Close()
	testenv.Need(nc.Write([]byte("\x16\x03\x01\x02\x00\x01")))(t)
	kept <- <-conns
	for range 3 { // the handshake has begun by then
		client := trusting(t, false)
		testenv.Equal(t, textOf(t, client, "https://"+addr), "answer")
		client.CloseIdleConnections()
	}
}

// A ConnState that panics ends the connection, not the process, and leaves nothing behind.
func TestFromHTTPConnStatePanics(t *testing.T) {
	lines := make(testenv.Records, 10)
	s := testenv.Need(knot.FromHTTP(&http.Server{ErrorLog: log.New(lines, "", 0), ConnState: func(_ net.Conn, state http.ConnState) {
		if state == http.StateActive {
			panic("words")
		}
	}}))(t)
	addr, _ := onALoop(t, s)
	testenv.Fails(t, testenv.Err(http.Get("http://"+addr)))
	lines.Next(t, "ConnState panicked", "words")
	testenv.Until(t, "the connection is gone", func() bool { return s.Stats().Conns == 0 })
}

// As an http.Server with a certificate: Serve speaks HTTP, ServeTLS HTTPS, of one server at the same time.
func TestFromHTTPSpeaksTLSWhereToldTo(t *testing.T) {
	ca := testenv.NewCA(t)
	certFile, keyFile := ca.Files(t, t.TempDir(), "knot.test")
	for _, c := range []struct {
		what              string
		config            *tls.Config
		certFile, keyFile string
	}{
		{"a certificate in TLSConfig", ca.Server(t), "", ""},
		{"files", nil, certFile, keyFile},
		{"files beside a TLSConfig without a certificate", &tls.Config{MinVersion: tls.VersionTLS13}, certFile, keyFile},
	} {
		t.Run(c.what, func(t *testing.T) {
			s := testenv.Need(knot.FromHTTP(&http.Server{TLSConfig: c.config, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				fmt.Fprint(w, r.TLS != nil)
			})}))(t)
			plain, secure := testenv.Listen(t), testenv.Listen(t)
			ended := make(chan error, 2)
			go func() { ended <- s.Serve(plain) }()
			go func() { ended <- s.ServeTLS(secure, c.certFile, c.keyFile) }()
			client := &http.Client{Transport: &http.Transport{TLSClientConfig: ca.Client()}}
			testenv.Equal(t, textOf(t, client, "http://"+plain.Addr().String()), "false", "by Serve")
			testenv.Equal(t, textOf(t, client, "https://"+secure.Addr().String()), "true", "by ServeTLS")
			client.CloseIdleConnections()
			testenv.Must(t, s.Shutdown(t.Context()))
			for range 2 {
				testenv.ErrorIs(t, <-ended, http.ErrServerClosed)
			}
		})
	}
	s := testenv.Need(knot.FromHTTP(&http.Server{}))(t)
	testenv.ErrorSays(t, s.ServeTLS(testenv.Listen(t), "", ""), "no certificate")
	testenv.ErrorSays(t, s.ListenAndServeTLS("missing.pem", "missing.pem"), "missing.pem")
}
