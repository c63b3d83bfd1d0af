//go:build linux

package netpoll

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/task"
)

// When the context of Serve's task ends, what is under way is finished, a handler that waits for
// a next request ends, and Serve returns after them.
func TestServeDrains(t *testing.T) {
	everywhere(t, func(t *testing.T, rt *engine.Runtime) { serveDrains(t, rt, "tcp") })
	t.Run("unix", func(t *testing.T) { serveDrains(t, withEpoll(t), "unix") })
}

func serveDrains(t *testing.T, rt *engine.Runtime, network string) {
	ln := need(ListenConfig{DrainLimit: time.Hour}.Listen(context.Background(), network, testAddress(t, network)))(t)
	ctx, cancel := context.WithCancel(context.Background())
	working, release := make(chan bool, 10), task.NewChan[bool](0)
	waits := make(chan error, 10)
	finished := false
	serve, _ := engine.Spawn(engine.Options{Context: ctx}, func() {
		err := Serve(ln, func(c *Conn) {
			defer c.Close()
			buf := make([]byte, 100)
			for {
				c.SetDeadline(time.Now().Add(time.Hour)) // does not matter any more when it drains
				n, err := c.Read(buf)
				if err != nil {
					waits <- err
					return
				}
				working <- true
				release.Recv()
				c.Write(buf[:n])
			}
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("Serve returned %v, want the end of its context", err)
		}
		if !finished {
			t.Error("Serve returned before a request was answered")
		}
	})
	busy := need(Dial(network, ln.Addr().String()))(t)
	defer busy.Close()
	idle := need(Dial(network, ln.Addr().String()))(t)
	defer idle.Close()
	need(busy.Write([]byte("request")))(t)
	<-working
	cancel()
	err := <-waits
	testenv.ErrorIs(t, err, ErrDraining, "a handler that waits for a request")
	testenv.ErrorIs(t, err, os.ErrDeadlineExceeded, "a handler that waits for a request")
	var timeout net.Error
	testenv.Equal(t, errors.As(err, &timeout) && timeout.Timeout(), true, "it is a timeout")
	testenv.Equal(t, testenv.Err(idle.Read(make([]byte, 1))), io.EOF, "the client of that")
	finished = true
	release.Close()
	if got, err := io.ReadAll(busy); string(got) != "request" || err != nil {
		t.Errorf("the answer is %q, %v", got, err)
	}
	must(t, serve.Join())
}

// A handler that does not end has so long, and then loses its connection; with no limit at all
// Serve returns at once, and leaves the handlers alone.
func TestServeDrainsForSoLong(t *testing.T) {
	for _, limit := range []time.Duration{time.Millisecond, -1} {
		everywhere(t, func(t *testing.T, rt *engine.Runtime) {
			ln := need(ListenConfig{DrainLimit: limit}.Listen(context.Background(), "tcp", "127.0.0.1:0"))(t)
			defer ln.Close()
			ctx, cancel := context.WithCancel(context.Background())
			stuck, release := make(chan bool), task.NewChan[bool](0)
			ended := make(chan error, 1)
			serve, _ := engine.Spawn(engine.Options{Context: ctx}, func() {
				Serve(ln, func(c *Conn) {
					stuck <- true // natively, for a moment
					release.Recv()
					_, err := c.Write([]byte("x"))
					ended <- err
					c.Close()
				})
			})
			c := need(Dial("tcp", ln.Addr().String()))(t)
			defer c.Close()
			<-stuck
			cancel()
			must(t, serve.Join())
			if limit > 0 {
				if n, err := c.Read(make([]byte, 1)); err == nil {
					t.Errorf("read %d bytes, want the end of the connection", n)
				}
			}
			release.Close()
			if err := <-ended; errors.Is(err, net.ErrClosed) != (limit > 0) {
				t.Errorf("limit %v: writing afterwards: %v", limit, err)
			}
		})
	}
}
