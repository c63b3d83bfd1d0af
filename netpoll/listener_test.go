//go:build linux

package netpoll

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/netpoll/internal/sockaddr"
	"github.com/capriccio-go/capriccio/netpoll/internal/sys"
)

func TestListenAgain(t *testing.T) {
	rt := withEpoll(t)
	for _, packets := range []string{"udp", "unixgram"} {
		testenv.ErrorIs(t, testenv.Err(Listen(packets, "127.0.0.1:0")), net.UnknownNetworkError(packets), "Listen")
	}
	ln := need(Listen("tcp", "127.0.0.1:0"))(t)
	addr := ln.Addr().String()
	must(t, ln.Close())
	testenv.ErrorIs(t, testenv.Err(ln.Accept()), net.ErrClosed, "Accept after Close")
	testenv.ErrorIs(t, ln.Close(), net.ErrClosed, "second Close")
	inTask(t, rt, func() { // the address is free as soon as Close has returned
		for range 20 {
			ln := need(Listen("tcp", addr))(t)
			acceptor := spawn(func() { ln.Accept() })
			awaitWaiter(&ln.d.read)
			must(t, ln.Close())
			must(t, acceptor())
		}
	})
}

func TestListenWithoutRuntime(t *testing.T) {
	testenv.ErrorIs(t, testenv.Err(Listen("tcp", "127.0.0.1:0")), errNoRuntime, "Listen")
	if _, _, err := Pipe(); !errors.Is(err, errNoRuntime) {
		t.Errorf("Pipe: %v, want errNoRuntime", err)
	}
}

func TestWildcardTakesBothVersions(t *testing.T) {
	withEpoll(t)
	for _, x := range []struct{ network, address, dial string }{
		{"tcp", ":0", "127.0.0.1"}, {"tcp", ":0", "[::1]"}, {"tcp", "0.0.0.0:0", "127.0.0.1"},
		{"tcp4", ":0", "127.0.0.1"}, {"tcp6", ":0", "[::1]"}, {"tcp", "localhost:0", "127.0.0.1"},
	} {
		if !sockaddr.HaveIPv6() && strings.Contains(x.dial, ":") {
			continue
		}
		ln := need(Listen(x.network, x.address))(t)
		_, port, _ := net.SplitHostPort(ln.Addr().String())
		c := need(Dial("tcp", x.dial+":"+port))(t)
		s := need(ln.Accept())(t)
		if s.LocalAddr().String() != c.RemoteAddr().String() || s.RemoteAddr().String() != c.LocalAddr().String() {
			t.Errorf("%v: addresses %v, %v and %v, %v do not agree", x, s.LocalAddr(), s.RemoteAddr(), c.LocalAddr(), c.RemoteAddr())
		}
		for _, x := range []io.Closer{c, s, ln} {
			must(t, x.Close())
		}
	}
}

func TestUnixSocketFile(t *testing.T) {
	withEpoll(t)
	path := filepath.Join(t.TempDir(), "socket")
	for range 2 {
		ln := need(Listen("unix", path))(t)
		if ln.Addr().String() != path || ln.Addr().Network() != "unix" {
			t.Errorf("address %v %v, want unix %s", ln.Addr().Network(), ln.Addr(), path)
		}
		must(t, ln.Close())
		testenv.ErrorIs(t, testenv.Err(os.Stat(path)), os.ErrNotExist, "the file of a closed listener is still there")
	}
	ln := need(Listen("unix", path))(t)
	ln.SetUnlinkOnClose(false)
	must(t, ln.Close())
	testenv.Check(t, testenv.Err(os.Stat(path)), "the file is gone although SetUnlinkOnClose(false)")
}

func TestAcceptDeadline(t *testing.T) {
	both(t, func(t *testing.T) {
		ln := need(Listen("tcp", "127.0.0.1:0"))(t)
		must(t, ln.SetDeadline(time.Now().Add(10*time.Millisecond)))
		testenv.ErrorIs(t, testenv.Err(ln.Accept()), os.ErrDeadlineExceeded, "Accept")
		must(t, ln.Close())
	})
}

// Connections that are reset while they wait to be accepted do not end Accept.
func TestAcceptAfterReset(t *testing.T) {
	everywhere(t, func(t *testing.T, _ *engine.Runtime) {
		ln := need(Listen("tcp", "127.0.0.1:0"))(t)
		for range 10 {
			c := need(Dial("tcp", ln.Addr().String()))(t)
			must(t, c.(*Conn).SetLinger(0))
			must(t, c.Close())
		}
		for range 10 {
			c := need(ln.Accept())(t)
			testenv.ErrorIs(t, testenv.Err(c.Read(make([]byte, 1))), unix.ECONNRESET, "Read")
			if addr := c.RemoteAddr(); addr == nil || addr.Network() != "tcp" || addr.String() == "" {
				t.Errorf("remote address %v of a connection that was reset", addr)
			}
			must(t, c.Close())
		}
		must(t, ln.Close())
	})
}

func TestAcceptedConnBelongsToCaller(t *testing.T) {
	rt := onOne(t, 3).start(t)
	ln := need(Listen("tcp", "127.0.0.1:0"))(t)
	for i := range 3 {
		engine.GoOn(rt.Loop(i), func() {
			c := need(Dial("tcp", ln.Addr().String()))(t)
			s := need(ln.AcceptConn())(t)
			if s.home() != rt.Loop(i) || c.(*Conn).home() != rt.Loop(i) {
				t.Errorf("connections of a task on loop %d belong to %d and %d", i, s.home().Index(), c.(*Conn).home().Index())
			}
			must(t, c.Close())
			must(t, s.Close())
		}).Join()
	}
	seen := make(map[*engine.Loop]bool)
	for range 3 {
		c := need(Dial("tcp", ln.Addr().String()))(t)
		s := need(ln.AcceptConn())(t)
		seen[s.home()] = true
		must(t, c.Close())
		must(t, s.Close())
	}
	testenv.Equal(t, len(seen), 3, "three connections accepted by a plain goroutine are on N loops")
	must(t, ln.Close())
}

func TestServe(t *testing.T) {
	everywhere(t, func(t *testing.T, rt *engine.Runtime) {
		for _, network := range networks("tcp", "tcp6", "unix") {
			ln := need(Listen(network, testAddress(t, network)))(t)
			var handled [8]atomic.Int32
			var served error
			server := rt.Go(func() {
				served = Serve(ln, func(c *Conn) {
					testenv.Equal(t, c.home(), engine.CurrentLoop(), "handler and connection are on different loops")
					handled[c.home().Index()].Add(1)
					io.Copy(c, c)
					c.Close()
				})
			})
			awaitClones(ln)
			const n = 100
			var clients sync.WaitGroup
			for i := range n {
				clients.Add(1)
				go func() {
					defer clients.Done()
					c := need(net.Dial(network, ln.Addr().String()))(t)
					defer c.Close()
					need(c.Write([]byte{byte(i)}))(t)
					var b [1]byte
					need(io.ReadFull(c, b[:]))(t)
					if b[0] != byte(i) {
						t.Errorf("got %d, want %d", b[0], i)
					}
				}()
			}
			clients.Wait()
			used, sum := 0, int32(0)
			for i := range handled {
				if k := handled[i].Load(); k > 0 {
					used++
					sum += k
				}
			}
			if sum != n || network == "tcp" && used < min(rt.Loops(), 2) {
				t.Errorf("%s: %d connections handled on %d loops, want %d on all %d", network, sum, used, n, rt.Loops())
			}
			must(t, ln.Close())
			must(t, server.Join())
			testenv.ErrorIs(t, served, net.ErrClosed, "Serve")
			testenv.ErrorIs(t, Serve(ln, nil), net.ErrClosed, "Serve after Close")
		}
	})
}

// Connections are taken by the tasks that accept, one on each loop, and on their loop.
func TestServeInline(t *testing.T) {
	everywhere(t, func(t *testing.T, rt *engine.Runtime) {
		ln := need(Listen("tcp", "127.0.0.1:0"))(t)
		var mu sync.Mutex
		takers := map[*engine.Loop]*engine.Task{}
		answer := func(c *Conn) {
			var b [1]byte
			if _, err := io.ReadFull(c, b[:]); err == nil {
				c.Write(b[:])
			}
			c.Close()
		}
		var served error
		server := rt.Go(func() {
			served = ServeInline(ln, func(c *Conn) {
				mu.Lock()
				defer mu.Unlock()
				me := engine.Current()
				if was := takers[c.home()]; c.home() != engine.CurrentLoop() || was != nil && was != me {
					t.Errorf("%v takes a connection of %v, before it did %v", me, c.home(), was)
				}
				takers[c.home()] = me
				must(t, c.OnReadable(func() { answer(c) }))
			})
		})
		for i := range 50 {
			c := need(net.Dial("tcp", ln.Addr().String()))(t)
			need(c.Write([]byte{byte(i)}))(t)
			var b [1]byte
			if _, err := io.ReadFull(c, b[:]); err != nil || b[0] != byte(i) {
				t.Errorf("got %d, %v, want %d", b[0], err, i)
			}
			must(t, c.Close())
		}
		must(t, ln.Close())
		must(t, server.Join())
		if !errors.Is(served, net.ErrClosed) || len(takers) == 0 {
			t.Errorf("ServeInline returned %v after %d takers, want net.ErrClosed", served, len(takers))
		}
	})
}

// An abstract name may begin with NUL, as to package net.
func TestAbstractNamesAsInC(t *testing.T) {
	withEpoll(t)
	name := testAddress(t, "unix")[1:]
	ln := need(Listen("unix", "\x00"+name))(t)
	defer ln.Close()
	if got := ln.Addr().String(); got != "@"+name {
		t.Errorf("listens on %q, want @%s", got, name)
	}
	for what, dial := range map[string]func() (net.Conn, error){
		"package net":          func() (net.Conn, error) { return net.Dial("unix", "@"+name) },
		"package net, NUL":     func() (net.Conn, error) { return net.Dial("unix", "\x00"+name) },
		"this package, by NUL": func() (net.Conn, error) { return Dial("unix", "\x00"+name) },
	} {
		c, err := dial()
		if err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		must(t, c.Close())
	}
}

// awaitClones returns when ln listens on all loops: what comes earlier goes to one.
func awaitClones(ln *Listener) {
	for {
		ln.mu.Lock()
		n := len(ln.clones)
		ln.mu.Unlock()
		if n == ln.d.loop.Runtime().Loops()-1 {
			return
		}
		rest(100 * time.Microsecond)
	}
}

// A listener on a wildcard with IPv6 clones itself with the same protocol versions.
func TestServeWildcard(t *testing.T) {
	withEpoll(t)
	for _, network := range networks("tcp", "tcp4", "tcp6") {
		ln := need(Listen(network, ":0"))(t)
		clone := need(ln.clone(ln.d.loop))(t)
		if clone.local != ln.local || clone.family != ln.family || clone.d.flags.Load()&flagShared != 0 {
			t.Errorf("%s: the clone listens on %v, want %v on a socket of its own", network, clone.Addr(), ln.Addr())
		}
		must(t, clone.Close())
		must(t, ln.Close())
	}
}

// A clone may be dropped before the task that accepts from it hears that it is cancelled.
func TestDroppingACloneLeavesTheListenerOpen(t *testing.T) {
	everywhere(t, func(t *testing.T, rt *engine.Runtime) {
		ln := need(Listen("tcp", "127.0.0.1:0"))(t)
		defer ln.Close()
		clone := need(ln.kept(ln.d.loop))(t)
		accepts := rt.Go(func() { ln.acceptLoop(clone, func(c *Conn) { c.Close() }) })
		awaitWaiter(&clone.d.read)
		ln.dropClones([]*Listener{clone})
		must(t, accepts.Join())
		c := need(Dial("tcp", ln.Addr().String()))(t)
		must(t, c.Close())
	})
}

func TestServeEndsWithContext(t *testing.T) {
	everywhere(t, func(t *testing.T, rt *engine.Runtime) {
		ln := need(ListenConfig{DrainLimit: -1}.Listen(context.Background(), "tcp", "127.0.0.1:0"))(t)
		ctx, cancel := context.WithCancel(context.Background())
		var served error
		server := need(rt.Spawn(engine.Options{Context: ctx}, func() { served = Serve(ln, func(c *Conn) { c.Close() }) }))(t)
		awaitWaiter(&ln.d.read)
		cancel()
		must(t, server.Join())
		testenv.ErrorIs(t, served, context.Canceled, "Serve")
		c, err := Dial("tcp", ln.Addr().String()) // the listener itself is still open
		must(t, err)
		must(t, c.Close())
		must(t, ln.Close())
	})
}

// temporary is what accept4(2) may fail with, once, and work the next time.
var temporary = []syscall.Errno{unix.EIO, unix.EPERM, unix.EACCES, unix.ENOBUFS, unix.ENOMEM, unix.EMFILE,
	unix.ENFILE, unix.ENOSPC, unix.EUCLEAN, unix.ENOSR}

// failing makes accepting fail with each of errs, once.
func failing(ln *Listener, errs ...syscall.Errno) (met *atomic.Int32) {
	met = new(atomic.Int32)
	ln.fault = func() syscall.Errno {
		if n := int(met.Add(1)); n <= len(errs) {
			return errs[n-1]
		}
		return 0
	}
	return met
}

// A server is not ended by an error of accept4 that passes: it logs, waits and goes on.
func TestServersGoOnAfterAcceptErrors(t *testing.T) {
	everywhere(t, func(t *testing.T, rt *engine.Runtime) {
		for name, serve := range map[string]func(*Listener) error{
			"Serve":       func(ln *Listener) error { return Serve(ln, func(c *Conn) { io.WriteString(c, "hi"); c.Close() }) },
			"ServeInline": func(ln *Listener) error { return ServeInline(ln, func(c *Conn) { io.WriteString(c, "hi"); c.Close() }) },
		} {
			var log testenv.Buffer
			ln, err := ListenConfig{Log: slog.New(slog.NewTextHandler(&log, nil))}.Listen(context.Background(), "tcp", "127.0.0.1:0")
			must(t, err)
			met := failing(ln, temporary[:4]...)
			var served error
			server := rt.Go(func() { served = serve(ln) })
			for i := range 10 {
				c := need(net.Dial("tcp", ln.Addr().String()))(t)
				if b, err := io.ReadAll(c); string(b) != "hi" {
					t.Errorf("%s: client %d got %q, %v", name, i, b, err)
				}
				c.Close()
			}
			testenv.AtLeast(t, met.Load(), 4, "%s: accept4 failed N times", name)
			if !strings.Contains(log.String(), "accept fails for now") || !strings.Contains(log.String(), "addr") && !strings.Contains(log.String(), ln.Addr().String()) {
				t.Errorf("%s: the log says %q, want the failure and the listener", name, log.String())
			}
			must(t, ln.Close())
			must(t, server.Join())
			testenv.ErrorIs(t, served, net.ErrClosed, name)
		}
	})
}

// Errors that last end a server and close the listener.
func TestServersEndWithALastingError(t *testing.T) {
	both(t, func(t *testing.T) {
		for _, e := range []syscall.Errno{unix.EBADF, unix.EINVAL, unix.ENOTSOCK, unix.EOPNOTSUPP} {
			ln := need(Listen("tcp", "127.0.0.1:0"))(t)
			failing(ln, e)
			c, err := net.Dial("tcp", ln.Addr().String()) // something to accept
			must(t, err)
			testenv.ErrorIs(t, Serve(ln, nil), e, "Serve after %v", e)
			c.Close()
			testenv.ErrorIs(t, ln.Close(), net.ErrClosed, "Close after %v", e)
		}
	})
}

// Accept's errors tell whether they pass, which is what http.Server goes by.
func TestAcceptErrorsSayIfTheyPass(t *testing.T) {
	both(t, func(t *testing.T) {
		ln := need(Listen("tcp", "127.0.0.1:0"))(t)
		c, err := net.Dial("tcp", ln.Addr().String()) // something to accept
		must(t, err)
		defer c.Close()
		check := func(want error, passes bool) {
			_, err := ln.Accept()
			var oe *net.OpError
			if !errors.Is(err, want) || !errors.As(err, &oe) || oe.Op != "accept" {
				t.Errorf("Accept: %v, want a *net.OpError with %v", err, want)
			} else if oe.Temporary() != passes || oe.Timeout() {
				t.Errorf("%v: temporary %v, want %v; timeout %v", err, oe.Temporary(), passes, oe.Timeout())
			}
			if e, ok := want.(syscall.Errno); ok && !strings.HasSuffix(fmt.Sprint(err), ": accept4: "+e.Error()) {
				t.Errorf("the error of %v is %q", want, err)
			}
		}
		for _, e := range temporary {
			failing(ln, e)
			check(e, true)
		}
		for _, e := range []syscall.Errno{unix.EBADF, unix.EINVAL, unix.ENOTSOCK, unix.EOPNOTSUPP} {
			failing(ln, e)
			check(e, false)
		}
		// Connections that died in the queue are nobody's error.
		met := failing(ln, unix.ECONNABORTED, unix.ECONNRESET, unix.ETIMEDOUT, unix.EPROTO, unix.EHOSTUNREACH, unix.EIO)
		check(unix.EIO, true)
		testenv.Equal(t, met.Load(), 6, "Accept tried N times")
		must(t, ln.Close())
		check(net.ErrClosed, false)
	})
}

// A pause of an accept loop ends with its listener, and with the context of its task.
func TestAPauseEndsWithItsListener(t *testing.T) {
	everywhere(t, func(t *testing.T, rt *engine.Runtime) {
		for _, end := range []error{net.ErrClosed, context.Canceled} {
			ln := need(Listen("tcp", "127.0.0.1:0"))(t)
			ctx, cancel := context.WithCancel(context.Background())
			var err error
			task := need(rt.Spawn(engine.Options{Context: ctx}, func() { err = ln.pause(time.Hour) }))(t)
			if end == net.ErrClosed {
				must(t, ln.Close())
			} else {
				cancel()
			}
			must(t, task.Join())
			testenv.ErrorIs(t, err, end, "the pause")
			ln.Close()
			cancel()
		}
	})
}

// What a listener has to say goes where the runtime's reports go, once for all loops.
func TestAcceptErrorsAreLoggedByTheRuntime(t *testing.T) {
	var log testenv.Buffer
	rt, err := engine.New(engine.Config{Loops: 2, NewPoller: func(int) (engine.Poller, error) { return newEpoll() }, Log: slog.New(slog.NewTextHandler(&log, nil))})
	must(t, err)
	defer rt.Close()
	inTask(t, rt, func() {
		ln := need(Listen("tcp", "127.0.0.1:0"))(t)
		failing(ln, unix.EMFILE, unix.EMFILE, unix.EMFILE, unix.EMFILE)
		server := rt.Go(func() { Serve(ln, func(c *Conn) { c.Close() }) })
		c := need(Dial("tcp", ln.Addr().String()))(t)
		io.ReadAll(c)
		c.Close()
		must(t, ln.Close())
		must(t, server.Join())
	})
	if n := strings.Count(log.String(), "accept fails for now"); n != 1 {
		t.Errorf("of four failures on two loops the log has %d lines, want 1: %q", n, log.String())
	}
}

// What a client has sent while its connection waited to be accepted has waited for as long.
func TestWaitBeforeAccept(t *testing.T) {
	withEpoll(t)
	ln := need(Listen("tcp", "127.0.0.1:0"))(t)
	c := need(Dial("tcp", ln.Addr().String()))(t)
	need(c.Write([]byte("x")))(t)
	s := need(ln.AcceptConn())(t)
	if !s.d.fresh || c.(*Conn).d.fresh {
		t.Error("the accepted connection is not fresh, or the other one is")
	}
	const want = 20 * time.Millisecond
	testenv.Until(t, "the byte has been there for 20 ms", func() bool { return sys.SinceReceived(int(s.d.fd)) >= want })
	testenv.Equal(t, sys.SinceReceived(-1), 0, "of a descriptor that is none")
	must(t, s.Close())
	must(t, c.Close())
	must(t, ln.Close())
}
