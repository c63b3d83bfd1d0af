//go:build linux

package netpoll_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/rpc"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/netpoll"
)

// Handlers of Serve that wait natively for other handlers of the same loop.
func TestServeNativeWaits(t *testing.T) {
	native(t, engine.Config{}, func(t *testing.T, rt *engine.Runtime) {
		const clients = 10
		var meet sync.WaitGroup // all handlers wait for each other
		meet.Add(clients)
		ln := testenv.Need(netpoll.Listen("tcp", "127.0.0.1:0"))(t)
		served := rt.Go(func() {
			netpoll.Serve(ln, func(c *netpoll.Conn) {
				defer c.Close()
				var b [1]byte
				testenv.Check(t, testenv.Err(c.Read(b[:])))
				meet.Done()
				meet.Wait()
				c.Write(b[:])
			})
		})
		var all sync.WaitGroup
		for range clients {
			all.Go(func() {
				c, err := net.Dial("tcp", ln.Addr().String())
				if err != nil {
					t.Error(err)
					return
				}
				defer c.Close()
				c.Write([]byte("x"))
				if b, err := io.ReadAll(c); len(b) != 1 || err != nil {
					t.Errorf("the answer is %q, %v", b, err)
				}
			})
		}
		all.Wait()
		ln.Close()
		served.Join()
	})
}

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
				resp, err := client.Post("http://"+ln.Addr().String(), "text/plain", strings.NewReader(want))
				if err != nil {
					t.Error(err)
					return
				}
				got, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if err != nil || string(got) != want {
					t.Errorf("got %d bytes, %v; want %d", len(got), err, len(want))
				}
			}
		})
	})
}

// A task that is away writes where it is, and comes back when it has to wait for that: the end
// of its context then ends the wait.
func TestWritesOfADetachedTask(t *testing.T) {
	writes := map[string]func(net.Conn, []byte) error{
		"Write": func(c net.Conn, b []byte) error { _, err := c.Write(b); return err },
		"WriteBuffers": func(c net.Conn, b []byte) error {
			_, err := c.(*netpoll.Conn).WriteBuffers(&net.Buffers{b})
			return err
		},
	}
	native(t, engine.Config{}, func(t *testing.T, rt *engine.Runtime) {
		l := rt.Loop(0)
		peer := testenv.Listen(t)
		for name, write := range writes {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			waiter, _ := rt.Spawn(engine.Options{Loop: l, Context: ctx}, func() {
				c, err := netpoll.Dial("tcp", peer.Addr().String())
				if err != nil {
					t.Error(err)
					return
				}
				defer c.Close()
				end := make(chan bool)
				engine.GoOn(l, func() { close(end) })
				<-end
				testenv.Check(t, write(c, make([]byte, 10)), name)
				if l.Runs() {
					t.Errorf("%s: a write that need not wait has brought the task back", name)
				}
				time.AfterFunc(time.Millisecond, cancel)
				for err == nil { // nobody reads
					err = write(c, make([]byte, 1<<20))
				}
				if !errors.Is(err, context.Canceled) || !l.Runs() {
					t.Errorf("%s: a write that waits ended with %v, on the loop: %v", name, err, l.Runs())
				}
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
			c, err := netpoll.Dial("tcp", peer)
			if err != nil {
				t.Error(err)
				return
			}
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

// What net/rpc and yamux do: a goroutine reads answers and gives them to the callers, which wait
// natively, and write under a sync.Mutex.
func TestSharedConnectionWithAReader(t *testing.T) {
	native(t, engine.Config{}, func(t *testing.T, rt *engine.Runtime) {
		ln := testenv.Need(netpoll.Listen("tcp", "127.0.0.1:0"))(t)
		server := rpc.NewServer()
		testenv.Must(t, server.RegisterName("Twice", new(Twice)))
		rt.Go(func() {
			netpoll.Serve(ln, func(c *netpoll.Conn) { server.ServeConn(c) })
		})
		defer ln.Close()
		var client *rpc.Client
		rt.Go(func() {
			c, err := netpoll.Dial("tcp", ln.Addr().String())
			if err != nil {
				t.Error(err)
				return
			}
			client = rpc.NewClient(c)
		}).Join()
		if client == nil {
			return
		}
		goAll(rt, 50, func(i int) {
			for range 5 {
				var got int
				if err := client.Call("Twice.Of", i, &got); err != nil || got != 2*i {
					t.Errorf("twice %d is %d, %v", i, got, err)
				}
			}
		})
		client.Close()
	})
}

// Twice is a service of net/rpc.
type Twice struct{}

// Of doubles n.
func (*Twice) Of(n int, out *int) error { *out = 2 * n; return nil }
