package knot

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	capriccio "github.com/capriccio-go/capriccio"
	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/graphview/lint"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/netpoll"
	"github.com/capriccio-go/capriccio/task"
)

// TestRunStopsWithItsContext runs a server the way programs do; the end of the
// context must not cut off the request under way.
func TestRunStopsWithItsContext(t *testing.T) {
	checkLeaks(t)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	addr := make(chan string, 1)
	s := &Server{
		Addr:      "127.0.0.1:0",
		Listening: func(a net.Addr) { addr <- a.String() },
		Handler: func(x *Ctx) error {
			cancel()
			for !x.srv.conns.stopping.Load() { // while this request is under way
				task.Yield()
			}
			return x.SendString(200, "text/plain", "in time")
		},
	}
	ended := make(chan error, 1)
	go func() {
		ended <- capriccio.Run(ctx, s.Run, capriccio.WithoutSignals(), capriccio.WithoutRefusals(), capriccio.WithLoops(2))
	}()
	_, body := testenv.Get(t, http.DefaultClient, "http://"+<-addr)
	testenv.Equal(t, body, "in time")
	testenv.Check(t, <-ended, "Run")
	http.DefaultClient.CloseIdleConnections()
}

func TestRunReportsAddressInUse(t *testing.T) {
	checkLeaks(t)
	ln := testenv.Listen(t)
	s := &Server{Addr: ln.Addr().String()}
	err := capriccio.Run(context.Background(), s.Run, capriccio.WithoutSignals(), capriccio.WithoutRefusals(), capriccio.WithLoops(1))
	if !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), ln.Addr().String()) {
		t.Errorf("Run returned %v", err)
	}
}

// TestServesListenersOfPackageNet in a task, without holding the loop: a client that says nothing is
// there, and requests are answered all the same, until the context ends.
func TestServesListenersOfPackageNet(t *testing.T) {
	wraps := map[string]func(net.Listener) net.Listener{"tcp": func(ln net.Listener) net.Listener { return ln }}
	if !testenv.Race { // no loop is taken from a task then
		wraps["wrapped"] = func(ln net.Listener) net.Listener { return struct{ net.Listener }{ln} }
	}
	for name, wrap := range wraps {
		t.Run(name, func(t *testing.T) {
			checkLeaks(t)
			ln := testenv.Listen(t)
			ctx, stop := context.WithCancel(context.Background())
			for way, serve := range map[string]func() error{
				"Serve":        func() error { return Serve(wrap(ln), http.NotFoundHandler()) },
				"Server.Serve": func() error { return (&Server{ErrorLog: quietLog()}).Serve(wrap(ln)) },
			} {
				ended := make(chan error, 1)
				go func() {
					ended <- capriccio.Run(ctx, func(context.Context) error { return serve() },
						capriccio.WithoutSignals(), capriccio.WithLoops(1), capriccio.WithLogger(quietLog()))
				}()
				silent, asks := dialPeer(t, ln.Addr().String()), dialPeer(t, ln.Addr().String())
				resp, _ := asks.ask(req("GET /"))
				testenv.Equal(t, resp.StatusCode, 404, way)
				asks.nc.Close()
				silent.nc.Close()
				stop()
				testenv.ErrorIs(t, <-ended, context.Canceled, way)
				ctx, stop = context.WithCancel(context.Background())
				ln = testenv.Listen(t)
			}
			stop()
			ln.Close()
		})
	}
}

// TestFlushedHead: Flush sends the answer to HEAD, whenever the handler ends, and the connection stays.
func TestFlushedHead(t *testing.T) {
	everyMode(t, func(t *testing.T, start func(*Server) *served) {
		for way, handler := range map[string]func(more *task.Chan[bool]) Handler{
			"task":      func(more *task.Chan[bool]) Handler { return AdaptHTTP(flushing(more)) },
			"goroutine": func(more *task.Chan[bool]) Handler { return adaptBlocking(flushing(more)) },
		} {
			more := task.NewChan[bool](0)
			p := start(&Server{Handler: handler(more)}).dial()
			for range 2 {
				if resp, _ := p.ask(req("HEAD /")); resp.StatusCode != 200 || resp.ContentLength != -1 || resp.Close {
					t.Errorf("%s: %v", way, resp)
				}
				more.Send(true)
			}
			p.nc.Close()
		}
	})
}

func flushing(more *task.Chan[bool]) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "a")
		w.(http.Flusher).Flush()
		more.Recv()
		io.WriteString(w, "b")
		w.(http.Flusher).Flush()
	})
}

// TestDeadlockOfHandlers is logged, and found in the graph, while the server goes on listening
// and a connection rests.
func TestDeadlockOfHandlers(t *testing.T) {
	checkLeaks(t)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var a, b task.Mutex
	both := task.NewChan[bool](2)
	meet := func() { // both have their first lock
		both.Send(true)
		for both.Len() < 2 {
			task.Yield()
		}
	}
	addr := make(chan string, 1)
	s := &Server{Addr: "127.0.0.1:0", ErrorLog: quietLog(), Listening: func(a net.Addr) { addr <- a.String() }, Handler: func(x *Ctx) error {
		first, second := &a, &b
		switch x.Path() {
		case "/ba":
			first, second = &b, &a
		case "/":
			return doneHandler(x)
		}
		first.Lock()
		meet()
		second.Lock()
		second.Unlock()
		first.Unlock()
		return doneHandler(x)
	}}
	var log testenv.Buffer
	ended := make(chan error, 1)
	go func() {
		ended <- capriccio.Run(context.Background(), func(context.Context) error { return s.Run(ctx) },
			capriccio.WithoutSignals(), capriccio.WithLoops(1), capriccio.WithLogger(textLog(&log)))
	}()
	sv := &served{Server: s, t: t, addr: <-addr}
	idle, one, two := sv.dial(), sv.dial(), sv.dial()
	idle.ask(req("GET /"))
	one.send(req("GET /ab"))
	two.send(req("GET /ba"))
	testenv.Until(t, "the log tells of a deadlock", func() bool {
		return strings.Contains(log.String(), "task: deadlock: tasks hold each other up")
	})
	testenv.Equal(t, strings.Count(log.String(), "held by task"), 2, "tasks are named: %s", &log)
	testenv.Until(t, "the deadlock is found in the graph", func() bool {
		return slices.ContainsFunc(lint.Find(engine.Default().Graph().Snapshot()), func(f lint.Finding) bool {
			return f.Check == lint.CheckStuck && f.Severity == lint.SeverityError && strings.Contains(f.Message, "deadlock")
		})
	})
	a.Unlock() // as no handler can; the one that gets it unlocks b, and the other then fails to unlock a
	for _, p := range []*peer{one, two, idle} {
		p.nc.Close()
	}
	cancel()
	<-ended
}

// wrappedConn holds a connection in a field that is not exported, as netutil.LimitListener and libraries for the PROXY
// protocol do.
type wrappedConn struct {
	net.Conn
	inner net.Conn
	_     sync.Once
}

// TestWrappedConnsKeepTheirTasks: a connection is served by a task if it is one of netpoll, however it is wrapped.
func TestWrappedConnsKeepTheirTasks(t *testing.T) {
	for inner, want := range map[net.Conn]bool{new(netpoll.Conn): true, new(net.TCPConn): false, new(http2Request): true} {
		for i, nc := range []net.Conn{inner, struct{ net.Conn }{inner}, &wrappedConn{inner: inner}, struct{ net.Conn }{&wrappedConn{inner: inner}}} {
			testenv.Equal(t, parks(reflect.ValueOf(nc)), want, "%T, wrapped in way %d", inner, i)
		}
	}
}
