//go:build linux

package netpoll

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/netpoll/internal/sockaddr"
	"github.com/capriccio-go/capriccio/task"
)

// TestDrain: what was in the backlog is served, and nothing after.
func TestDrain(t *testing.T) {
	const clients = 32
	for _, network := range []string{"tcp", "unix"} {
		t.Run(network, func(t *testing.T) {
			everywhere(t, func(t *testing.T, rt *engine.Runtime) {
				address := "127.0.0.1:0"
				if network == "unix" {
					address = filepath.Join(t.TempDir(), "s")
				}
				ln := testenv.Need(Listen(network, address))(t)
				address = ln.Addr().String()
				var all []net.Conn
				for range clients {
					nc := testenv.Need(net.Dial(network, address))(t)
					defer nc.Close()
					all = append(all, nc)
				}
				drained, served := make(chan error, 1), make(chan error, 1)
				go func() { drained <- ln.Drain(context.Background()) }()
				go func() {
					served <- Serve(ln, func(c *Conn) {
						defer c.Close()
						io.WriteString(c, "hello")
					})
				}()
				for _, nc := range all {
					nc.SetDeadline(time.Now().Add(time.Minute))
					if got, err := io.ReadAll(nc); string(got) != "hello" {
						t.Errorf("%q, %v", got, err)
					}
				}
				testenv.Check(t, <-drained, "Drain")
				testenv.ErrorIs(t, <-served, net.ErrClosed, "Serve")
				if nc, err := net.Dial(network, address); err == nil {
					nc.Close()
					t.Error("a client after Drain")
				}
			})
		})
	}
}

// TestDrainKeepsNewClientsOut while those in the backlog wait.
func TestDrainKeepsNewClientsOut(t *testing.T) {
	settings()[0].start(t)
	if !testenv.SocketFilters() {
		t.Skip("no socket filter can be had here")
	}
	for _, address := range []string{"127.0.0.1:0", "[::1]:0", ":0"} {
		if address[0] == '[' && !sockaddr.HaveIPv6() {
			continue
		}
		ln := testenv.Need(Listen("tcp", address))(t)
		to := ln.Addr().String()
		if address == ":0" {
			_, port, _ := net.SplitHostPort(to)
			to = net.JoinHostPort("127.0.0.1", port)
		}
		first := testenv.Need(net.Dial("tcp", to))(t)
		defer first.Close()
		testenv.Until(t, "the first is in the backlog", func() bool { return !ln.d.backlogEmpty() })
		ctx, cancel := context.WithCancel(context.Background())
		drained := make(chan error, 1)
		go func() { drained <- ln.Drain(ctx) }()
		for kept := false; !kept; { // until the filter is there
			nc, err := net.DialTimeout("tcp", to, 100*time.Millisecond)
			var late net.Error
			kept = errors.As(err, &late) && late.Timeout()
			if err == nil {
				nc.Close()
			} else if !kept {
				t.Fatal(err)
			}
		}
		cancel()
		testenv.Equal(t, <-drained, context.Canceled, "Drain")
		// Nobody has accepted the first, which is reset.
		testenv.ErrorIs(t, testenv.Err(first.Read(make([]byte, 1))), syscall.ECONNRESET, "a client whom nobody accepts")
	}
}

// TestUnread on every poller, as some receive before anybody reads.
func TestUnread(t *testing.T) {
	everywhere(t, func(t *testing.T, rt *engine.Runtime) {
		for _, reset := range []bool{false, true} { // which counts too: the connection must not be used again
			unread(t, reset)
		}
	})
}

func unread(t *testing.T, reset bool) {
	ours, theirs := connPair(t, "tcp")
	if ours.Unread() {
		t.Error("nothing was sent")
	}
	buf := make([]byte, 10)
	for _, text := range []string{"a", "bc"} {
		testenv.Need(io.WriteString(theirs, text))(t)
		for !ours.Unread() {
			breathe(time.Millisecond)
		}
		if n, err := ours.Read(buf); string(buf[:n]) != text {
			t.Errorf("%q, %v", buf[:n], err)
		}
		if ours.Unread() {
			t.Error("all was read")
		}
	}
	if reset {
		must(t, theirs.SetLinger(0))
	}
	theirs.Close()
	for !ours.Unread() {
		breathe(time.Millisecond)
	}
	ours.Close()
	if ours.Unread() {
		t.Error("closed")
	}
}

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
