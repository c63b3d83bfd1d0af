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

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/netpoll/internal/sockaddr"
	"github.com/capriccio-go/capriccio/task"
)

// TestDrain: what was in the backlog is served, and nothing after.
func TestDrain(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		t.Run(network, func(t *testing.T) {
			everywhere(t, func(t *testing.T, rt *engine.Runtime) {
				address := "127.0.0.1:0"
				if network == "unix" {
					address = filepath.Join(t.TempDir(), "s")
				}
				ln := need(Listen(network, address))(t)
				var all []net.Conn
				for range 32 {
					all = append(all, client(t, ln.Addr()))
				}
				drained, served := make(chan error, 1), make(chan error, 1)
				go func() { drained <- ln.Drain(context.Background()) }()
				go func() { served <- Serve(ln, func(c *Conn) { io.WriteString(c, "hello"); c.Close() }) }()
				for _, c := range all {
					readsAll(t, c, "hello")
				}
				testenv.Check(t, <-drained, "Drain")
				testenv.ErrorIs(t, <-served, net.ErrClosed, "Serve")
				testenv.Fails(t, testenv.Err(net.Dial(network, ln.Addr().String())), "a client after Drain")
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
		ln := need(Listen("tcp", address))(t)
		to := ln.Addr().String()
		if address == ":0" {
			_, port, _ := net.SplitHostPort(to)
			to = net.JoinHostPort("127.0.0.1", port)
		}
		first := testenv.Dial(t, to)
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
		readFails(t, first, syscall.ECONNRESET, "the first, which nobody has accepted")
	}
}

// TestDrainAtShutdown: from then on no task accepts.
func TestDrainAtShutdown(t *testing.T) {
	rt := onOne(t, 1).start(t, func(c *engine.Config) { c.Grace = time.Minute })
	ln := listen(t, "tcp")
	client(t, ln.Addr())
	testenv.Until(t, "the client is in the backlog", func() bool { return !ln.d.backlogEmpty() })
	drained := make(chan error, 1)
	rt.Go(func() { drained <- ln.Drain(context.Background()) })
	testenv.Until(t, "it drains", func() bool {
		all := rt.Tasks()
		return len(all) == 1 && all[0].Reason == engine.ReasonOffload
	})
	must(t, rt.Close())
	testenv.ErrorIs(t, <-drained, engine.ErrShutdown, "Drain")
}

// TestUnread on every poller, as some receive before anybody reads.
func TestUnread(t *testing.T) {
	everywhere(t, func(t *testing.T, rt *engine.Runtime) {
		for _, reset := range []bool{false, true} { // which counts too: the connection must not be used again
			ours, theirs := connPair(t, "tcp")
			testenv.Equal(t, ours.Unread(), false, "when nothing was sent")
			for _, text := range []string{"a", "bc"} {
				need(io.WriteString(theirs, text))(t)
				testenv.Until(t, text+" has come", ours.Unread)
				reads(t, ours, text)
				testenv.Equal(t, ours.Unread(), false, "when all was read")
			}
			if reset {
				must(t, theirs.SetLinger(0))
			}
			must(t, theirs.Close())
			testenv.Until(t, "the end has come", ours.Unread)
			must(t, ours.Close())
			testenv.Equal(t, ours.Unread(), false, "when it is closed")
		}
	})
}

// When the context of Serve's task ends, what is under way is finished, a handler that waits for
// a next request ends, and Serve returns after them.
func TestServeDrains(t *testing.T) {
	everywhere(t, func(t *testing.T, rt *engine.Runtime) { serveDrains(t, rt, "tcp") })
	t.Run("unix", func(t *testing.T) { serveDrains(t, withEpoll(t), "unix") })
}

func serveDrains(t *testing.T, rt *engine.Runtime, network string) {
	ln := drainingFor(t, network, time.Hour)
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
		testenv.ErrorIs(t, err, context.Canceled, "Serve")
		testenv.Equal(t, finished, true, "Serve returned when requests were answered")
	})
	busy, idle := dial(t, ln.Addr()), dial(t, ln.Addr())
	need(busy.Write([]byte("request")))(t)
	<-working
	cancel()
	err := <-waits
	testenv.ErrorIs(t, err, ErrDraining, "a handler that waits for a request")
	testenv.ErrorIs(t, err, os.ErrDeadlineExceeded, "a handler that waits for a request")
	var timeout net.Error
	testenv.Equal(t, errors.As(err, &timeout) && timeout.Timeout(), true, "it is a timeout")
	readFails(t, idle, io.EOF, "the client of that")
	finished = true
	release.Close()
	readsAll(t, busy, "request", "the answer")
	must(t, serve.Join())
}

// A handler that does not end has so long, and then loses its connection; with no limit at all
// Serve returns at once, and leaves the handlers alone.
func TestServeDrainsForSoLong(t *testing.T) {
	for _, limit := range []time.Duration{time.Millisecond, -1} {
		everywhere(t, func(t *testing.T, rt *engine.Runtime) {
			ln := drainingFor(t, "tcp", limit)
			ctx, cancel := context.WithCancel(context.Background())
			stuck, release := make(chan bool), task.NewChan[bool](0)
			ended := make(chan error, 1)
			serve, _ := engine.Spawn(engine.Options{Context: ctx}, func() {
				Serve(ln, func(c *Conn) {
					stuck <- true // natively, for a moment
					release.Recv()
					ended <- testenv.Err(c.Write([]byte("x")))
					c.Close()
				})
			})
			c := dial(t, ln.Addr())
			<-stuck
			cancel()
			must(t, serve.Join())
			if limit > 0 {
				testenv.Fails(t, testenv.Err(c.Read(make([]byte, 1))), "reading when the limit is over")
			}
			release.Close()
			testenv.Equal(t, errors.Is(<-ended, net.ErrClosed), limit > 0, "limit %v: writing afterwards fails", limit)
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
	ln := drainingFor(t, network, -1)
	on := make(chan int, 1)
	take := func(c *Conn) {
		testenv.Equal(t, engine.CurrentLoop().Index(), c.d.loop.Index(), "a connection is taken on loop")
		on <- c.d.loop.Index()
		c.Close()
	}
	serve := Serve
	if inline {
		serve = ServeInline
	}
	ended := make(chan error, 1)
	rt.Go(func() { ended <- serve(ln, take) })
	one := func() int {
		client(t, ln.Addr())
		return <-on
	}
	work := func(n int32) {
		procs.Store(n)
		rt.Follow()
	}
	among := func(n int32) {
		work(n)
		for range 50 {
			testenv.AtMost(t, one(), int(n)-1, "of %d loops that work a connection goes to loop", n)
		}
	}
	among(1)
	work(3)
	for met := make(map[int]bool); network == "tcp" && len(met) < 3; { // of loops that share a socket any may be first
		met[one()] = true
	}
	among(2)
	among(1)
	must(t, ln.Close())
	testenv.ErrorIs(t, <-ended, net.ErrClosed, "Serve")
}

// TestServeEndsBeforeLoopsWork: accept tasks of loops that never worked end too.
func TestServeEndsBeforeLoopsWork(t *testing.T) {
	for _, end := range []string{"close", "cancel", "drain"} {
		t.Run(end, func(t *testing.T) {
			rt := onOne(t, 0).start(t, func(c *engine.Config) { c.Loops, c.Spare, c.Procs = 0, 2, func() int { return 1 } })
			ln := drainingFor(t, "tcp", time.Hour)
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			serve, ended := Serve, make(chan error, 1)
			if end == "cancel" {
				serve = ServeInline
			}
			engine.Spawn(engine.Options{Context: ctx}, func() { ended <- serve(ln, func(c *Conn) { c.Close() }) })
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
		})
	}
}

// TestAcceptLaterAtShutdown: which cancels the accept task, though its context goes on.
func TestAcceptLaterAtShutdown(t *testing.T) {
	rt := onOne(t, 0).start(t, func(c *engine.Config) {
		c.Loops, c.Spare, c.Procs, c.Grace = 0, 1, func() int { return 1 }, time.Minute
	})
	ln := need(Listen("tcp", "127.0.0.1:0"))(t)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan error, 1)
	need(rt.Spawn(engine.Options{Context: ctx, Loop: rt.Loop(1)}, func() { ended <- ln.acceptLater(func(*Conn) {}) }))(t)
	must(t, rt.Close())
	testenv.MustEqual(t, len(ended), 1, "acceptLater has returned, and was not unwound")
	testenv.ErrorIs(t, <-ended, engine.ErrShutdown, "acceptLater")
}

// TestListenOnAnothersSocket: connections that come before, and while two listeners have the
// socket, are all served, and closing one of them loses none.
func TestListenOnAnothersSocket(t *testing.T) {
	for _, loops := range []int{1, 3} {
		onOneOf("epoll", loops).start(t)
		first := listen(t, "tcp")
		echo := func(c *Conn) { defer c.Close(); io.Copy(c, c) }
		ended := make(chan error, 8)
		go func() { ended <- Serve(first, echo) }()
		try := func() {
			t.Helper()
			c := client(t, first.Addr())
			talkOnce(t, c, c)
		}
		for range 20 {
			try()
		}
		files := need(first.Files())(t)
		testenv.MustEqual(t, len(files), loops, "sockets")
		var second []*Listener
		for _, f := range files {
			ln := need(ListenOn(duplicate(t, f), false))(t)
			second = append(second, ln)
			testenv.Equal(t, ln.Addr().String(), first.Addr().String(), "listens on")
		}
		// Nobody accepts from the second ones yet: a client that comes now waits for them.
		must(t, first.Close())
		<-ended
		waiting := client(t, second[0].Addr())
		for _, ln := range second {
			go func() { ended <- Serve(ln, echo) }()
		}
		talkOnce(t, waiting, waiting)
		for range 20 {
			try()
		}
		again := need(second[0].Files())(t)
		testenv.MustEqual(t, len(again), 1, "sockets of the second")
		again[0].Close()
		must(t, waiting.Close())
		for _, ln := range second {
			testenv.Check(t, ln.Drain(context.Background()))
			<-ended
		}
		testenv.Fails(t, testenv.Err(net.Dial("tcp", first.Addr().String())), "somebody still listens")
	}
}

// TestSharedListenerLeavesTheQueue: when a shared one is drained, what waits stays for the others.
func TestSharedListenerLeavesTheQueue(t *testing.T) {
	withEpoll(t)
	owner := testenv.Listen(t)
	ln := need(ListenOn(duplicate(t, need(owner.(*net.TCPListener).File())(t)), true))(t)
	client(t, ln.Addr())
	testenv.Check(t, ln.Drain(context.Background()))
	client(t, owner.Addr()) // new clients are not kept out
	for range 2 {
		must(t, need(owner.Accept())(t).Close())
	}
}

// TestListenOnRemovesTheFileIfToldTo: by itself it leaves the file of a unix socket.
func TestListenOnRemovesTheFileIfToldTo(t *testing.T) {
	withEpoll(t)
	for _, remove := range []bool{false, true} {
		path := filepath.Join(t.TempDir(), "s")
		first := need(Listen("unix", path))(t)
		first.SetUnlinkOnClose(false)
		second := need(ListenOn(handedOver(t, first), false))(t)
		if remove {
			second.SetUnlinkOnClose(true)
		}
		testenv.Check(t, first.Close())
		testenv.Check(t, second.Close())
		_, err := os.Lstat(path)
		testenv.Equal(t, errors.Is(err, os.ErrNotExist), remove, "the file is removed")
	}
}

// TestDrainLeavesTheSocketToOthers: what keeps new clients out belongs to the socket, which may be that of
// another process by then. It goes in the end.
func TestDrainLeavesTheSocketToOthers(t *testing.T) {
	if !testenv.SocketFilters() {
		t.Skip("no socket filter can be had here")
	}
	withEpoll(t)
	first := listen(t, "tcp")
	second := closing(t, need(ListenOn(handedOver(t, first), true))(t))
	testenv.Check(t, first.Drain(context.Background()))
	closing(t, need(net.DialTimeout("tcp", second.Addr().String(), 10*time.Second))(t)) // not kept out for good
}

// handedOver is a duplicate of the only socket of ln, as another process would get it.
func handedOver(t *testing.T, ln *Listener) (fd int) {
	t.Helper()
	files := need(ln.Files())(t)
	testenv.MustEqual(t, len(files), 1, "sockets")
	return duplicate(t, files[0])
}

// duplicate closes f, which is then another descriptor.
func duplicate(t *testing.T, f *os.File) (fd int) {
	t.Helper()
	defer f.Close()
	must(t, need(f.SyscallConn())(t).Control(func(old uintptr) { fd = need(unix.FcntlInt(old, unix.F_DUPFD_CLOEXEC, 0))(t) }))
	return fd
}

func TestListenOnWhatDoesNotListen(t *testing.T) {
	withEpoll(t)
	r, w, err := os.Pipe()
	must(t, err)
	defer r.Close()
	defer w.Close()
	stream := need(unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0))(t)
	defer unix.Close(stream)
	datagram := need(unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0))(t)
	defer unix.Close(datagram)
	for _, fd := range []int{int(r.Fd()), stream, datagram, 9999, -1} {
		testenv.Fails(t, testenv.Err(ListenOn(fd, false)), "descriptor %d is taken", fd)
	}
}
