//go:build linux

package netpoll

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
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
	ln := listen(t, "tcp")
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
	_, _, err := Pipe()
	testenv.ErrorIs(t, err, errNoRuntime, "Pipe")
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
		ln := closing(t, need(Listen(x.network, x.address))(t))
		_, port, _ := net.SplitHostPort(ln.Addr().String())
		c := closing(t, need(Dial("tcp", x.dial+":"+port))(t))
		s := accept(t, ln)
		testenv.Equal(t, s.LocalAddr().String(), c.RemoteAddr().String(), "%v: the server's address", x)
		testenv.Equal(t, s.RemoteAddr().String(), c.LocalAddr().String(), "%v: the client's address", x)
	}
}

func TestUnixSocketFile(t *testing.T) {
	withEpoll(t)
	path := filepath.Join(t.TempDir(), "socket")
	for range 2 {
		ln := need(Listen("unix", path))(t)
		testenv.Equal(t, ln.Addr().Network()+" "+ln.Addr().String(), "unix "+path, "address")
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
		ln := listen(t, "tcp")
		must(t, ln.SetDeadline(time.Now().Add(10*time.Millisecond)))
		testenv.ErrorIs(t, testenv.Err(ln.Accept()), os.ErrDeadlineExceeded, "Accept")
	})
}

// Connections that are reset while they wait to be accepted do not end Accept.
func TestAcceptAfterReset(t *testing.T) {
	everywhere(t, func(t *testing.T, _ *engine.Runtime) {
		ln := listen(t, "tcp")
		for range 10 {
			c := dial(t, ln.Addr())
			must(t, c.SetLinger(0))
			must(t, c.Close())
		}
		for range 10 {
			c := accept(t, ln)
			readFails(t, c, unix.ECONNRESET)
			addr := c.RemoteAddr()
			testenv.True(t, addr != nil && addr.Network() == "tcp" && addr.String() != "", "remote address %v of a connection that was reset", addr)
		}
	})
}

func TestAcceptedConnBelongsToCaller(t *testing.T) {
	rt := onOne(t, 3).start(t)
	ln := listen(t, "tcp")
	for i := range 3 {
		engine.GoOn(rt.Loop(i), func() {
			testenv.Equal(t, dial(t, ln.Addr()).home(), rt.Loop(i), "what a task dials belongs to its loop")
			testenv.Equal(t, accept(t, ln).home(), rt.Loop(i), "what a task accepts belongs to its loop")
		}).Join()
	}
	seen := make(map[*engine.Loop]bool)
	for range 3 {
		dial(t, ln.Addr())
		seen[accept(t, ln).home()] = true
	}
	testenv.Equal(t, len(seen), 3, "three connections accepted by a plain goroutine are on N loops")
}

func TestServe(t *testing.T) {
	everywhere(t, func(t *testing.T, rt *engine.Runtime) {
		for _, network := range networks("tcp", "tcp6", "unix") {
			ln := listen(t, network)
			var handled [8]atomic.Int32
			end := startServing(t, ln, func() error {
				return Serve(ln, func(c *Conn) {
					testenv.Equal(t, c.home(), engine.CurrentLoop(), "handler and connection are on different loops")
					handled[c.home().Index()].Add(1)
					io.Copy(c, c)
					c.Close()
				})
			})
			awaitClones(ln)
			const n = 100
			var clients sync.WaitGroup
			for range n {
				clients.Go(func() { echoes(t, ln.Addr()) })
			}
			clients.Wait()
			used, sum := 0, int32(0)
			for i := range handled {
				if k := handled[i].Load(); k > 0 {
					used++
					sum += k
				}
			}
			testenv.True(t, sum == n && (network != "tcp" || used >= min(rt.Loops(), 2)),
				"%s: %d connections handled on %d loops, want %d on all %d", network, sum, used, n, rt.Loops())
			end()
			testenv.ErrorIs(t, Serve(ln, nil), net.ErrClosed, "Serve after Close")
		}
	})
}

// Connections are taken by the tasks that accept, one on each loop, and on their loop.
func TestServeInline(t *testing.T) {
	everywhere(t, func(t *testing.T, rt *engine.Runtime) {
		ln := listen(t, "tcp")
		var mu sync.Mutex
		takers := map[*engine.Loop]*engine.Task{}
		end := startServing(t, ln, func() error {
			return ServeInline(ln, func(c *Conn) {
				mu.Lock()
				defer mu.Unlock()
				me := engine.Current()
				was := takers[c.home()]
				testenv.True(t, c.home() == engine.CurrentLoop() && (was == nil || was == me),
					"%v takes a connection of %v, before it did %v", me, c.home(), was)
				takers[c.home()] = me
				must(t, c.OnReadable(func() { io.Copy(c, c); c.Close() }))
			})
		})
		for range 50 {
			echoes(t, ln.Addr())
		}
		end()
		testenv.AtLeast(t, len(takers), 1, "loops that take connections")
	})
}

// An abstract name may begin with NUL, as to package net.
func TestAbstractNamesAsInC(t *testing.T) {
	withEpoll(t)
	name := testAddress(t, "unix")[1:]
	ln := closing(t, need(Listen("unix", "\x00"+name))(t))
	testenv.Equal(t, ln.Addr().String(), "@"+name, "listens on")
	for what, dial := range map[string]func() (net.Conn, error){
		"package net":          func() (net.Conn, error) { return net.Dial("unix", "@"+name) },
		"package net, NUL":     func() (net.Conn, error) { return net.Dial("unix", "\x00"+name) },
		"this package, by NUL": func() (net.Conn, error) { return Dial("unix", "\x00"+name) },
	} {
		c, err := dial()
		testenv.Must(t, err, what)
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
		ln := closing(t, need(Listen(network, ":0"))(t))
		clone := closing(t, need(ln.clone(ln.d.loop))(t))
		testenv.True(t, clone.local == ln.local && clone.family == ln.family && clone.d.flags.Load()&flagShared == 0,
			"%s: the clone listens on %v, want %v on a socket of its own", network, clone.Addr(), ln.Addr())
	}
}

// A clone may be dropped before the task that accepts from it hears that it is cancelled.
func TestDroppingACloneLeavesTheListenerOpen(t *testing.T) {
	everywhere(t, func(t *testing.T, rt *engine.Runtime) {
		ln := listen(t, "tcp")
		clone := need(ln.kept(ln.d.loop))(t)
		accepts := rt.Go(func() { ln.acceptLoop(clone, func(c *Conn) { c.Close() }) })
		awaitWaiter(&clone.d.read)
		ln.dropClones([]*Listener{clone})
		must(t, accepts.Join())
		dial(t, ln.Addr())
	})
}

func TestServeEndsWithContext(t *testing.T) {
	everywhere(t, func(t *testing.T, rt *engine.Runtime) {
		ln := drainingFor(t, "tcp", -1)
		ctx, cancel := context.WithCancel(context.Background())
		var served error
		server := need(rt.Spawn(engine.Options{Context: ctx}, func() { served = Serve(ln, func(c *Conn) { c.Close() }) }))(t)
		awaitWaiter(&ln.d.read)
		cancel()
		must(t, server.Join())
		testenv.ErrorIs(t, served, context.Canceled, "Serve")
		dial(t, ln.Addr()) // the listener itself is still open
	})
}

// Of an Accept that failed because the time of its task is over, http.Server would try the next if it said to be temporary.
func TestHTTPServerEndsWithTheDeadlineOfItsTask(t *testing.T) {
	everywhere(t, func(t *testing.T, rt *engine.Runtime) {
		ln := listen(t, "tcp")
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
		defer cancel()
		server := need(rt.Spawn(engine.Options{Context: ctx}, func() {
			_, err := ln.Accept()
			var failed net.Error
			//lint:ignore SA1019 net/http asks so
			if !errors.As(err, &failed) || !failed.Timeout() || failed.Temporary() {
				t.Errorf("Accept: %v; want a timeout that is not temporary", err)
				return
			}
			testenv.ErrorIs(t, new(http.Server).Serve(ln), context.DeadlineExceeded, "Serve")
		}))(t)
		must(t, server.Join())
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
		for name, serve := range map[string]func(*Listener, func(*Conn)) error{"Serve": Serve, "ServeInline": ServeInline} {
			var log testenv.Buffer
			ln := need(ListenConfig{Log: slog.New(slog.NewTextHandler(&log, nil))}.Listen(context.Background(), "tcp", "127.0.0.1:0"))(t)
			met := failing(ln, temporary[:4]...)
			end := startServing(t, ln, func() error { return serve(ln, func(c *Conn) { io.WriteString(c, "hi"); c.Close() }) })
			for range 10 {
				readsAll(t, client(t, ln.Addr()), "hi", name)
			}
			testenv.AtLeast(t, met.Load(), 4, "%s: accept4 failed N times", name)
			testenv.Contains(t, log.String(), "accept fails for now", name)
			testenv.Contains(t, log.String(), ln.Addr().String(), name)
			end()
		}
	})
}

// Errors that last end a server and close the listener.
func TestServersEndWithALastingError(t *testing.T) {
	both(t, func(t *testing.T) {
		for _, e := range []syscall.Errno{unix.EBADF, unix.EINVAL, unix.ENOTSOCK, unix.EOPNOTSUPP} {
			ln := listen(t, "tcp")
			failing(ln, e)
			client(t, ln.Addr()) // something to accept
			testenv.ErrorIs(t, Serve(ln, nil), e, "Serve after %v", e)
			testenv.ErrorIs(t, ln.Close(), net.ErrClosed, "Close after %v", e)
		}
	})
}

// Accept's errors tell whether they pass, which is what http.Server goes by.
func TestAcceptErrorsSayIfTheyPass(t *testing.T) {
	both(t, func(t *testing.T) {
		ln := listen(t, "tcp")
		client(t, ln.Addr()) // something to accept
		check := func(want error, passes bool) {
			_, err := ln.Accept()
			var oe *net.OpError
			testenv.ErrorIs(t, err, want, "Accept")
			if !errors.As(err, &oe) || oe.Op != "accept" || oe.Temporary() != passes || oe.Timeout() {
				t.Errorf("Accept: %v; want a *net.OpError that is no timeout, and temporary: %v", err, passes)
			}
			if e, ok := want.(syscall.Errno); ok {
				testenv.ErrorSays(t, err, ": accept4: "+e.Error())
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
			ln := listen(t, "tcp")
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
			cancel()
		}
	})
}

// What a listener has to say goes where the runtime's reports go, once for all loops.
func TestAcceptErrorsAreLoggedByTheRuntime(t *testing.T) {
	var log testenv.Buffer
	onOneOf("epoll", 2).start(t, func(c *engine.Config) { c.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	ln := listen(t, "tcp")
	failing(ln, unix.EMFILE, unix.EMFILE, unix.EMFILE, unix.EMFILE)
	end := startServing(t, ln, func() error { return Serve(ln, func(c *Conn) { c.Close() }) })
	readsAll(t, client(t, ln.Addr()), "")
	end()
	testenv.Equal(t, strings.Count(log.String(), "accept fails for now"), 1, "lines of four failures on two loops in the log, %q", log.String())
}

// What a client has sent while its connection waited to be accepted has waited for as long.
func TestWaitBeforeAccept(t *testing.T) {
	withEpoll(t)
	ln := listen(t, "tcp")
	c := dial(t, ln.Addr())
	need(c.Write([]byte("x")))(t)
	s := accept(t, ln)
	testenv.Equal(t, s.d.fresh, true, "an accepted connection is fresh")
	testenv.Equal(t, c.d.fresh, false, "a dialled one is")
	testenv.Until(t, "the byte has been there for 20 ms", func() bool { return sys.SinceReceived(int(s.d.fd)) >= 20*time.Millisecond })
	testenv.Equal(t, sys.SinceReceived(-1), 0, "of a descriptor that is none")
}
