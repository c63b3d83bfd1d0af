package knot

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/http/pprof"
	"net/url"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	capriccio "github.com/capriccio-go/capriccio"
	"github.com/capriccio-go/capriccio/bgraph/graphhttp"
	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/netpoll"
	"github.com/capriccio-go/capriccio/task"
)

// os/signal keeps a goroutine for good from the first Notify on, which is in
// capriccio.New; the tests that count goroutines are not to find it.
func init() {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGUSR2)
	signal.Stop(c)
}

// adaptBlocking is AdaptHTTP for a handler that blocks natively.
func adaptBlocking(h http.Handler) Handler { return AdaptHTTP(OffloadHTTP(h)) }

// adapters are the ways to run a handler: in the task, and on a goroutine.
var adapters = map[string]func(http.Handler) Handler{"task": AdaptHTTP, "goroutine": adaptBlocking}

func TestAdaptedContextEnds(t *testing.T) {
	everyMode(t, func(t *testing.T, start func(*Server) *served) {
		began, ended := make(chan context.Context), make(chan error)
		sv := start(&Server{Handler: adaptBlocking(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/next" { // sent already when its client left
				return
			}
			//lint:ignore SA1019 programs use it
			closed := w.(http.CloseNotifier).CloseNotify()
			began <- r.Context()
			switch r.URL.Path {
			case "/":
				<-r.Context().Done()
				ended <- r.Context().Err()
			case "/notified":
				<-closed
				ended <- context.Canceled
			}
		}))})
		for _, path := range []string{"/", "/notified"} {
			leaves := sv.dial()
			leaves.send(req("GET "+path) + req("GET /next"))
			<-began
			leaves.nc.Close()
			testenv.ErrorIs(t, <-ended, context.Canceled, "the client has gone")
		}

		returns := sv.dial()
		returns.send(req("GET /returns"))
		ctx := <-began
		returns.response("GET")
		testenv.Until(t, "the context ends, as the handler has returned", func() bool { return ctx.Err() != nil })

		stays := sv.dial()
		stays.send(req("GET /"))
		<-began
		sv.Close()
		testenv.ErrorIs(t, <-ended, context.Canceled, "the server was closed")
	})
}

// TestAdaptedAfterTheHandler: what a handler has passed on to others is of no use when
// it has returned, and does no harm to the next request.
func TestAdaptedAfterTheHandler(t *testing.T) {
	everyMode(t, func(t *testing.T, start func(*Server) *served) {
		type parts struct {
			w http.ResponseWriter
			r *http.Request
		}
		kept := make(chan parts, 1)
		sv := start(&Server{Handler: AdaptHTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			kept <- parts{w, r}
			io.WriteString(w, r.URL.Path)
		}))})
		p := sv.dial()
		p.ask(req("POST /one", "Content-Length: 3") + "abc")
		old := <-kept
		testenv.Fails(t, testenv.Err(old.w.Write([]byte("x"))), "Write works after the handler")
		testenv.Fails(t, http.NewResponseController(old.w).Flush(), "Flush works after the handler")
		old.w.WriteHeader(500)
		testenv.Equal(t, testenv.Err(old.r.Body.Read(make([]byte, 10))), http.ErrBodyReadAfterClose, "Read after the handler")
		p.send(req("GET /two"))
		p.want("200", "/two", "next response")
	})
}

func TestAdaptedBodyTooLarge(t *testing.T) {
	everyMode(t, func(t *testing.T, start func(*Server) *served) {
		sv := start(&Server{MaxBody: 10, Handler: AdaptHTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if _, err := io.ReadAll(r.Body); err != nil && r.URL.Path == "/says" {
				http.Error(w, "too much", 400)
			}
		}))})
		for target, want := range map[string]string{"/": "413", "/says": "400"} {
			testenv.Equal(t, statusOf(sv.exchange(req("PUT "+target, "Transfer-Encoding: chunked")+"20\r\n")), want, "%s: status", target)
		}
	})
}

// TestCloseCutsResponsesOff: a client must not take what it has got for all, although the handlers return when their
// contexts end.
func TestCloseCutsResponsesOff(t *testing.T) {
	everyMode(t, func(t *testing.T, start func(*Server) *served) {
		sv := start(&Server{Handler: AdaptHTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, "the first part")
			w.(http.Flusher).Flush()
			task.Await(r.Context())
		}))})
		var clients [20]*http.Response
		for i := range clients {
			p := sv.dial()
			p.send(req("GET /"))
			clients[i] = p.head()
		}
		sv.Close()
		for i, resp := range clients {
			if body, err := io.ReadAll(resp.Body); err == nil {
				t.Errorf("client %d: %q and no error", i, body)
			}
		}
	})
}

// TestServe: large bodies and heads, as http.Serve takes them, with a length and without, over both versions of HTTP.
func TestServe(t *testing.T) {
	rt := testenv.Need(capriccio.New(capriccio.WithLoops(1)))(t)
	defer rt.Close()
	ln := testenv.Need(netpoll.Listen("tcp", "127.0.0.1:0"))(t)
	served := rt.Go(func() {
		Serve(ln, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			n, err := io.Copy(io.Discard, r.Body)
			fmt.Fprint(w, r.Proto, n, err)
		}))
	})
	for proto, transport := range map[string]*http.Transport{"HTTP/1.1": {}, "HTTP/2.0": testenv.PlainHTTP2(t)} {
		client := &http.Client{Transport: transport}
		for _, body := range []io.Reader{strings.NewReader(strings.Repeat("x", DefaultMaxBody+1)), io.LimitReader(endless{}, DefaultMaxBody+1)} {
			resp := testenv.Need(client.Post("http://"+ln.Addr().String(), "", body))(t)
			got, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if want := fmt.Sprint(proto, DefaultMaxBody+1, nil); err != nil || string(got) != want {
				t.Errorf("status %d, %q, %v; want %q", resp.StatusCode, got, err, want)
			}
		}
		r := testenv.Need(http.NewRequest("GET", "http://"+ln.Addr().String()+"/?"+strings.Repeat("a=1&", 100_000), nil))(t)
		for i := range 2000 {
			r.Header.Set(fmt.Sprint("X-", i), strings.Repeat("v", 200))
		}
		resp := testenv.Need(client.Do(r))(t)
		testenv.Equal(t, resp.StatusCode, 200, "a large head, %s", proto)
		resp.Body.Close()
		client.CloseIdleConnections()
	}
	testenv.Must(t, ln.Close())
	testenv.Must(t, served.Join())
}

// TestServeStops: when the context of its task ends, requests under way are answered.
func TestServeStops(t *testing.T) {
	ctx, stop := context.WithCancel(context.Background())
	addr, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		ended <- capriccio.Run(ctx, func(context.Context) error {
			ln, err := netpoll.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				return err
			}
			addr <- ln.Addr().String()
			return Serve(ln, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				stop()
				task.Await(ctx)
				for range 1000 { // turns of the task that serves
					task.Yield()
				}
				fmt.Fprint(w, "answered ", r.Context().Err())
			}))
		}, capriccio.WithLoops(1))
	}()
	resp, err := http.Post("http://"+<-addr, "", nil) // not tried again
	testenv.Must(t, err)
	defer resp.Body.Close()
	if got, err := io.ReadAll(resp.Body); err != nil || string(got) != "answered <nil>" {
		t.Errorf("%q, %v", got, err)
	}
	testenv.ErrorIs(t, <-ended, context.Canceled)
}

// endless is a body of any length.
type endless struct{}

func (endless) Read(b []byte) (int, error) { return len(b), nil }

func TestAdaptedReverseProxy(t *testing.T) {
	backend := httptest.NewServer(promiseMux())
	defer backend.Close()
	to, _ := url.Parse(backend.URL)
	proxy := httputil.NewSingleHostReverseProxy(to)
	transport := &http.Transport{}
	proxy.Transport = transport
	everyMode(t, func(t *testing.T, start func(*Server) *served) {
		defer transport.CloseIdleConnections()
		sv := start(&Server{Handler: adaptBlocking(proxy)})
		large := strings.Repeat("x", 200_000)
		for range 3 {
			p := sv.dial()
			p.send(fmt.Sprintf(req("POST /body", "Content-Length: %d")+"%s", len(large), large))
			_, body := p.response("POST")
			testenv.Contains(t, body, large, "there and back")
			_, body = p.ask(req("GET /sniff?large"))
			testenv.Contains(t, body, large[:100_000], "back")
		}
	})
}

func TestAdaptedPprofAndGraph(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.Handle("/debug/bgraph/", graphhttp.Handler(nil))
	everyMode(t, func(t *testing.T, start func(*Server) *served) {
		sv := start(&Server{Handler: AdaptHTTP(mux)})
		p := sv.dial()
		_, body := p.ask(req("GET /debug/pprof/goroutine?debug=2"))
		testenv.Contains(t, body, "goroutine ", "pprof")
		resp, body := p.ask(req("GET /debug/bgraph/?format=json"))
		if engine.Default().Graph() == nil {
			testenv.Equal(t, resp.StatusCode, 503, "without a runtime: status")
			return
		}
		var s bgraph.Snapshot
		if err := json.Unmarshal([]byte(body), &s); err != nil || len(s.Loops) == 0 {
			t.Errorf("graph: status %d, %v, %d loops", resp.StatusCode, err, len(s.Loops))
		}
		// The handlers did not wait, and are told apart by their patterns.
		i := slices.IndexFunc(s.Nodes, func(n bgraph.Node) bool { return n.Label == "/debug/pprof/" })
		if i < 0 || s.Nodes[i].Arrivals != 1 || s.Nodes[i].Departures != 1 || s.Nodes[i].Reason != "mark" {
			t.Errorf("the pattern of the first request is not in the graph: %.2000s", body)
		}
	})
}

func TestAdaptedOverTLS(t *testing.T) {
	checkLeaks(t)
	cert, pool := testenv.SelfSigned()
	rt := startRuntime(t, 1)
	inner := testenv.Need(netpoll.Listen("tcp", "127.0.0.1:0"))(t)
	began, ended := make(chan bool), make(chan error)
	s := &Server{Handler: adaptBlocking(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began <- r.TLS != nil && r.TLS.HandshakeComplete
		<-r.Context().Done()
		ended <- r.Context().Err()
	}))}
	served := make(chan error, 1)
	rt.Go(func() {
		served <- s.Serve(tls.NewListener(inner, &tls.Config{Certificates: []tls.Certificate{cert}}))
	})
	nc := testenv.Need(tls.Dial("tcp", inner.Addr().String(), &tls.Config{RootCAs: pool}))(t)
	io.WriteString(nc, req("GET /"))
	testenv.Equal(t, <-began, true, "the handler knows of TLS")
	nc.Close() // sends an alert before the end of the stream
	testenv.ErrorIs(t, <-ended, context.Canceled, "the client has gone")
	s.Close()
	testenv.Equal(t, <-served, ErrServerClosed, "Serve")
}

func TestAdaptedPanics(t *testing.T) {
	for way, adapt := range adapters {
		t.Run(way, func(t *testing.T) { testPanics(t, adapt) })
	}
}

func testPanics(t *testing.T, adapt func(http.Handler) Handler) {
	everyMode(t, func(t *testing.T, start func(*Server) *served) {
		sv := start(&Server{Handler: adapt(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Has("half") {
				io.WriteString(w, "half of it")
				w.(http.Flusher).Flush()
			}
			switch r.URL.Path {
			case "/panic":
				panicsInHandler()
			case "/abort":
				panic(http.ErrAbortHandler)
			case "/600":
				w.WriteHeader(600)
			case "/101":
				w.WriteHeader(101)
			case "/twice":
				w.WriteHeader(200)
				w.WriteHeader(500)
			}
		}))})
		for target, want := range map[string]string{"/panic": "500", "/abort": "", "/600": "600", "/101": "101", "/twice": "200"} {
			testenv.Equal(t, statusOf(sv.exchange(req("GET "+target))), want, "%s: status", target)
		}
		for _, target := range []string{"/panic?half", "/abort?half"} {
			if all := sv.exchange(req("GET " + target)); !strings.HasSuffix(all, "half of it\r\n") {
				t.Errorf("%s: %q does not end in the middle", target, all)
			}
		}
		log := sv.log.String()
		for _, text := range []string{"a handler's panic", "panicsInHandler", "status=101", "superfluous"} {
			testenv.Contains(t, log, text, "the log")
		}
		testenv.Equal(t, strings.Contains(log, "abort Handler"), false, "http.ErrAbortHandler is logged")
	})
}

//go:noinline
func panicsInHandler() { panic("a handler's panic") }

func TestAdaptedGoexit(t *testing.T) {
	everyMode(t, func(t *testing.T, start func(*Server) *served) {
		for way, adapt := range adapters {
			sv := start(&Server{Handler: adapt(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { runtime.Goexit() }))})
			testenv.Equal(t, statusOf(sv.exchange(req("GET /"))), "500", "%s: status", way)
			testenv.Equal(t, strings.Count(sv.log.String(), "handler left by"), 1, "%s: lines in the log", way)
		}
	})
}

// With GODEBUG=panicnil=1, recover returns nil for a panic too: it is answered and logged like
// any other, and the connection is closed as after any other.
func TestPanicsWithNil(t *testing.T) {
	t.Setenv("GODEBUG", "panicnil=1")
	h := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(nil) })
	everyMode(t, func(t *testing.T, start func(*Server) *served) {
		for name, handler := range map[string]Handler{"native": func(*Ctx) error { panic(nil) }, "adapted": AdaptHTTP(h), "offloaded": adaptBlocking(h)} {
			sv := start(&Server{Handler: handler})
			testenv.Equal(t, statusOf(sv.exchange(req("GET /"))), "500", "%s: status", name)
			if log := sv.log.String(); strings.Count(log, "handler panicked") != 1 || strings.Contains(log, "Goexit\"") {
				t.Errorf("%s: want a panic in the log:\n%s", name, log)
			}
		}
	})
}

// A task that is locked to its thread can't wait for an offloaded handler: it is told so before
// that has begun.
func TestOffloadedOnALockedThread(t *testing.T) {
	checkLeaks(t)
	var began atomic.Bool
	adapted := AdaptHTTP(OffloadHTTP(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { began.Store(true) })))
	sv := startServer(t, &Server{Handler: func(x *Ctx) error {
		runtime.LockOSThread()
		return adapted(x)
	}}, 1)
	if got := statusOf(sv.exchange(req("GET /"))); got != "500" || began.Load() {
		t.Errorf("status %q, want 500; the handler began: %v", got, began.Load())
	}
	testenv.Contains(t, sv.log.String(), "runtime.LockOSThread", "the log does not say why")
}
