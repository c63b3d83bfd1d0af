//go:build linux

package netpoll_test

//lint:file-ignore SA1019 programs use the HTTP/2 of x/net

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/poller"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/netpoll"
	"github.com/capriccio-go/capriccio/stackchunk"
)

// What net/http's client does in a task: it waits natively for goroutines of its own, which
// use our connections.
func TestHTTPClientInTasks(t *testing.T) {
	native(t, engine.Config{}, func(t *testing.T, rt *engine.Runtime) {
		ln := testenv.Need(netpoll.Listen("tcp", "127.0.0.1:0"))(t)
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			b, _ := io.ReadAll(r.Body)
			w.Write(b)
		})}
		go server.Serve(ln)
		defer server.Close()
		transport := &http.Transport{DialContext: netpoll.DialContext}
		defer transport.CloseIdleConnections()
		client := &http.Client{Transport: transport, Timeout: time.Minute}
		goAll(rt, 20, func(i int) {
			for j := range 5 {
				want := strings.Repeat(fmt.Sprint(i), 1+j*5000)
				resp := testenv.Need(client.Post("http://"+ln.Addr().String(), "text/plain", strings.NewReader(want)))(t)
				got := testenv.Need(io.ReadAll(resp.Body))(t)
				resp.Body.Close()
				testenv.True(t, string(got) == want, "got %d bytes, want %d", len(got), len(want))
			}
		})
	})
}

// A task that is away writes where it is, and comes back when it has to wait for that: the end
// of its context then ends the wait.
func TestWritesOfADetachedTask(t *testing.T) {
	writes := map[string]func(*netpoll.Conn, []byte) error{
		"Write":        func(c *netpoll.Conn, b []byte) error { return testenv.Err(c.Write(b)) },
		"WriteBuffers": func(c *netpoll.Conn, b []byte) error { return testenv.Err(c.WriteBuffers(&net.Buffers{b})) },
	}
	native(t, engine.Config{}, func(t *testing.T, rt *engine.Runtime) {
		l := rt.Loop(0)
		peer := testenv.Listen(t)
		for name, write := range writes {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			waiter, _ := rt.Spawn(engine.Options{Loop: l, Context: ctx}, func() {
				c := testenv.Need(netpoll.Dial("tcp", peer.Addr().String()))(t).(*netpoll.Conn)
				defer c.Close()
				getAway(l)
				err := write(c, make([]byte, 10))
				testenv.Equal(t, l.Runs(), false, "%s: a write that need not wait has brought the task back", name)
				time.AfterFunc(time.Millisecond, cancel)
				for err == nil { // nobody reads
					err = write(c, make([]byte, 1<<20))
				}
				testenv.Equal(t, l.Runs(), true, "%s: a write that waits has brought the task back", name)
				testenv.ErrorIs(t, err, context.Canceled, name)
			})
			waiter.Join()
		}
	})
}

// goAll runs fn in n tasks, numbered from 0, and waits for them.
func goAll(rt *engine.Runtime, n int, fn func(i int)) {
	var all []*engine.Task
	for i := range n {
		all = append(all, rt.Go(func() { fn(i) }))
	}
	for _, k := range all {
		k.Join()
	}
}

// What pgx does after a slow write: a goroutine reads in the background while the task writes,
// and the task then waits for it natively.
func TestBackgroundReader(t *testing.T) {
	native(t, engine.Config{}, func(t *testing.T, rt *engine.Runtime) {
		peer := testenv.Serve(t, testenv.Echo)
		goAll(rt, 10, func(int) {
			c := testenv.Need(netpoll.Dial("tcp", peer))(t)
			defer c.Close()
			const size = 1 << 20
			for range 3 {
				done := make(chan error, 1)
				go func() { _, err := io.CopyN(io.Discard, c, size); done <- err }()
				testenv.Check(t, testenv.Err(c.Write(make([]byte, size))))
				testenv.Check(t, <-done)
				var b [1]byte // and now the task itself reads
				c.Write(b[:])
				testenv.Check(t, testenv.Err(c.Read(b[:])))
			}
		})
	})
}

// A task that waits natively for a goroutine, which waits for a connection, ends with the runtime. So do the handlers of
// libraries with a goroutine that reads: after ln.Close, Serve does not wait for them.
func TestTheEndOfTheRuntimeEndsWaitsOfGoroutines(t *testing.T) {
	for what, handle := range map[string]func(c *netpoll.Conn) error{
		"Read":  func(c *netpoll.Conn) error { return testenv.Err(c.Read(make([]byte, 1))) },
		"Write": func(c *netpoll.Conn) error { return testenv.Err(c.Write(make([]byte, 64<<20))) },
		"Accept": func(*netpoll.Conn) error {
			return testenv.Err(testenv.Need(netpoll.Listen("tcp", "127.0.0.1:0"))(t).Accept())
		},
	} {
		t.Run(what, func(t *testing.T) {
			endWithHandler(t, func(addr string) { testenv.Dial(t, addr) }, func(c *netpoll.Conn) {
				ended := make(chan error)
				go func() { ended <- handle(c) }()
				testenv.ErrorIs(t, <-ended, net.ErrClosed, "the goroutine's wait")
			})
		})
	}
	t.Run("http2.ServeConn", func(t *testing.T) {
		endWithHandler(t, func(addr string) {
			client := &http2.Transport{AllowHTTP: true, DialTLSContext: func(ctx context.Context, network, addr string, _ *tls.Config) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, network, addr)
			}}
			t.Cleanup(client.CloseIdleConnections)
			testenv.Get(t, &http.Client{Transport: client}, "http://"+addr) // and is idle
		}, func(c *netpoll.Conn) {
			new(http2.Server).ServeConn(c, &http2.ServeConnOpts{Handler: http.NotFoundHandler()})
		})
	})
}

// The function given to ServeInline waits natively for another task of its loop: without detaching, for ever.
func TestNativeWaitInServeInline(t *testing.T) {
	native(t, engine.Config{}, func(t *testing.T, rt *engine.Runtime) {
		ln := testenv.Need(netpoll.Listen("tcp", "127.0.0.1:0"))(t)
		served := rt.Go(func() {
			netpoll.ServeInline(ln, func(c *netpoll.Conn) {
				getAway(engine.CurrentLoop())
				c.Close()
			})
		})
		for range 2 {
			testenv.ErrorIs(t, testenv.Err(testenv.Dial(t, ln.Addr().String()).Read(make([]byte, 1))), io.EOF, "the connection is taken")
		}
		testenv.Check(t, ln.Close())
		testenv.Check(t, served.Join())
	})
}

// endWithHandler serves a client, closes the listener when that is done, and then the runtime: the handler must end.
func endWithHandler(t *testing.T, client func(addr string), handler func(*netpoll.Conn)) {
	native(t, engine.Config{Grace: 20 * time.Millisecond}, func(t *testing.T, rt *engine.Runtime) {
		ln := testenv.Need(netpoll.Listen("tcp", "127.0.0.1:0"))(t)
		begun, ended := make(chan bool), make(chan bool)
		served := rt.Go(func() {
			netpoll.Serve(ln, func(c *netpoll.Conn) {
				defer close(ended)
				defer c.Close()
				close(begun)
				handler(c)
			})
		})
		client(ln.Addr().String())
		<-begun
		ln.Close()
		testenv.Must(t, served.Join())
		rt.Close() // on a slow machine the grace time is too short
		select {
		case <-ended:
		case <-time.After(10 * time.Second):
			t.Error("the handler goes on after the end of the runtime")
		}
	})
}

// A second runtime makes the goroutines of the first known while a task of that waits natively on a chunk, whose goroutine
// a stand-in has taken the place of.
func TestEnrollsTasksAwayOnChunks(t *testing.T) {
	native(t, engine.Config{}, func(t *testing.T, rt *engine.Runtime) {
		away, end := make(chan bool), make(chan bool)
		one := engine.GoOn(rt.Loop(0), func() {
			me := engine.Current()
			stackchunk.Call(100<<10, func() {
				<-end
				testenv.Equal(t, engine.Current(), me, "on the chunk")
			})
			testenv.Equal(t, engine.Current(), me, "behind it")
		})
		engine.GoOn(rt.Loop(0), func() { close(away) }) // which the loop does once it goes on without the other
		<-away
		second := testenv.Need(engine.New(engine.Config{Loops: 1, NewPoller: func(int) (engine.Poller, error) { return poller.Epoll() }}))(t)
		close(end)
		testenv.Check(t, one.Join())
		testenv.Check(t, second.Close())
		testenv.Check(t, rt.Close())
	})
}

// A calledBack waits natively where the runtime or netpoll calls it in the middle of something, on a stack chunk or
// where such a call has room: its loop stays.
type calledBack struct {
	slog.Handler
	t    *testing.T
	need stackchunk.Bytes
	rt   *engine.Runtime
	told bool // of the task
}

func (c *calledBack) waits(where string) {
	before := c.rt.Detached()
	stackchunk.Call(c.need, func() { time.Sleep(10 * time.Millisecond) })
	n := c.rt.Detached() - before
	testenv.True(c.t, n == 0 && c.rt.Loop(0).Runs(), "%s, a need of %d: %d times detached, on its loop %v", where, c.need, n, c.rt.Loop(0).Runs())
}

func (c *calledBack) Enabled(context.Context, slog.Level) bool { return true }

func (c *calledBack) Handle(_ context.Context, r slog.Record) error {
	if strings.HasPrefix(r.Message, "task: a task held its loop") && c.rt.Loop(0).Runs() {
		c.told = true
		c.waits("in a log handler")
	}
	return nil
}

func TestLoopsStayInTheMiddle(t *testing.T) {
	for _, need := range []stackchunk.Bytes{1, 100 << 10} {
		c := &calledBack{Handler: slog.DiscardHandler, t: t, need: need}
		rt, err := engine.New(engine.Config{Loops: 1, HoldLimit: 5 * time.Millisecond, Log: slog.New(c), NewPoller: func(int) (engine.Poller, error) { return poller.Epoll() }})
		testenv.Must(t, err)
		c.rt = rt
		testenv.Check(t, engine.GoOn(rt.Loop(0), func() {
			for !c.told { // the test's time limit ends this
				for began := time.Now(); time.Since(began) < 50*time.Millisecond; { // which is told when it parks, if the watchdog has seen it
				}
				engine.Sleep(time.Millisecond)
			}
			r, w, err := netpoll.Pipe()
			testenv.Must(t, err)
			defer r.Close()
			defer w.Close()
			raw := testenv.Need(w.SyscallConn())(t)
			testenv.Check(t, raw.Write(func(uintptr) bool {
				c.waits("in a function of a RawConn")
				return true
			}))
		}).Join())
		testenv.Check(t, rt.Close())
	}
}
