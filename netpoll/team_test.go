//go:build linux

package netpoll

import (
	"context"
	"net"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// TestServeFollowsTheProcessors: loops that begin to work accept, and what loops that have ceased to accept goes
// to others.
func TestServeFollowsTheProcessors(t *testing.T) {
	for _, name := range []string{"epoll", "uring"} {
		for _, network := range []string{"tcp", "unix"} {
			for _, inline := range []bool{true, false} {
				t.Run(name+" "+network, func(t *testing.T) { serveFollows(t, onOneOf(name, 0), network, inline) })
			}
		}
	}
}

func serveFollows(t *testing.T, s setting, network string, inline bool) {
	var procs atomic.Int32
	procs.Store(1)
	rt := s.start(t, func(c *engine.Config) {
		c.Loops, c.Spare, c.Procs = 0, 2, func() int { return int(procs.Load()) }
	})
	ln := need(ListenConfig{DrainLimit: -1}.Listen(context.Background(), network, testAddress(t, network)))(t)
	on := make(chan int, 1)
	take := func(c *Conn) {
		if here := engine.CurrentLoop(); here != c.d.loop {
			t.Errorf("a connection of loop %d is taken on loop %d", c.d.loop.Index(), here.Index())
		}
		on <- c.d.loop.Index()
		c.Close()
	}
	ended := make(chan error, 1)
	go func() {
		rt.Go(func() {
			if inline {
				ended <- ServeInline(ln, take)
			} else {
				ended <- Serve(ln, take)
			}
		}).Join()
	}()
	one := func() int {
		c := need(net.Dial(network, ln.Addr().String()))(t)
		defer c.Close()
		return <-on
	}
	among := func(n int) {
		for range 50 {
			if i := one(); i >= n {
				t.Errorf("%d loops work, and loop %d has got a connection", n, i)
			}
		}
	}
	among(1)
	procs.Store(3)
	rt.Follow()
	for met := make(map[int]bool); network == "tcp" && len(met) < 3; { // of loops that share a socket any may be first
		met[one()] = true
	}
	procs.Store(2)
	rt.Follow()
	among(2)
	procs.Store(1)
	rt.Follow()
	among(1)
	must(t, ln.Close())
	testenv.ErrorIs(t, <-ended, net.ErrClosed, "Serve")
}

// TestServeEndsBeforeLoopsWork: accept tasks of loops that never worked end too.
func TestServeEndsBeforeLoopsWork(t *testing.T) {
	for _, end := range []string{"close", "cancel", "drain"} {
		t.Run(end, func(t *testing.T) {
			s := onOne(t, 0)
			rt := s.start(t, func(c *engine.Config) { c.Loops, c.Spare, c.Procs = 0, 2, func() int { return 1 } })
			ln := need(ListenConfig{DrainLimit: time.Hour}.Listen(context.Background(), "tcp", "127.0.0.1:0"))(t)
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			ended := make(chan error, 1)
			engine.Spawn(engine.Options{Context: ctx}, func() {
				if end == "cancel" {
					ended <- ServeInline(ln, func(c *Conn) { c.Close() })
				} else {
					ended <- Serve(ln, func(c *Conn) { c.Close() })
				}
			})
			for waiting := 0; waiting < 2; runtime.Gosched() { // for loops to begin to work
				waiting = 0
				for _, k := range rt.Tasks() {
					if k.State == "parked" && k.Reason == engine.ReasonContext {
						waiting++
					}
				}
			}
			want := context.Canceled
			if end == "close" {
				must(t, ln.Close())
				want = net.ErrClosed
			} else {
				cancel()
			}
			testenv.ErrorIs(t, <-ended, want, "Serve")
			ln.Close()
		})
	}
}

// TestAcceptLaterAtShutdown: which cancels the accept task, though its context goes on.
func TestAcceptLaterAtShutdown(t *testing.T) {
	rt := onOne(t, 0).start(t, func(c *engine.Config) {
		c.Loops, c.Spare, c.Procs, c.Grace = 0, 1, func() int { return 1 }, 50*time.Millisecond
	})
	ln, err := Listen("tcp", "127.0.0.1:0")
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan error, 1)
	need(rt.Spawn(engine.Options{Context: ctx, Loop: rt.Loop(1)}, func() { ended <- ln.acceptLater(func(*Conn) {}) }))(t)
	must(t, rt.Close())
	select {
	case err = <-ended:
	default: // it went on until it was unwound
	}
	testenv.ErrorIs(t, err, engine.ErrShutdown, "acceptLater")
}
