//go:build linux

package netpoll

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/engine"
)

func TestListenErrors(t *testing.T) {
	rt := withEpoll(t)
	ln, err := Listen("tcp", "127.0.0.1:0")
	must(t, err)
	for _, x := range []struct {
		network, address string
		want             error
	}{
		{"tcp", ln.Addr().String(), unix.EADDRINUSE},
		{"tcp", "192.0.2.77:0", unix.EADDRNOTAVAIL},
		{"udp", "127.0.0.1:0", net.UnknownNetworkError("udp")},
		{"unixgram", "/x", net.UnknownNetworkError("unixgram")},
		{"tcp6", "127.0.0.1:0", nil},
		{"tcp", "127.0.0.1", nil},
		{"tcp", "127.0.0.1:nonsense", nil},
		{"unix", strings.Repeat("x", 200), unix.EINVAL},
		{"unix", "/does/not/exist", unix.ENOENT},
	} {
		_, err := Listen(x.network, x.address)
		var oe *net.OpError
		if err == nil || x.want != nil && !errors.Is(err, x.want) || !errors.As(err, &oe) || oe.Op != "listen" {
			t.Errorf("Listen(%q, %q): %v, want a *net.OpError with %v", x.network, x.address, err, x.want)
		}
	}
	addr := ln.Addr().String()
	must(t, ln.Close())
	if _, err := ln.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept after Close: %v, want net.ErrClosed", err)
	}
	if err := ln.Close(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("second Close: %v, want net.ErrClosed", err)
	}
	inTask(t, rt, func() { // the address is free as soon as Close has returned
		for range 20 {
			ln, err := Listen("tcp", addr)
			must(t, err)
			acceptor := spawn(func() { ln.Accept() })
			awaitWaiter(&ln.d.read)
			must(t, ln.Close())
			must(t, acceptor())
		}
	})
}

func TestListenWithoutRuntime(t *testing.T) {
	if _, err := Listen("tcp", "127.0.0.1:0"); !errors.Is(err, errNoRuntime) {
		t.Errorf("Listen: %v, want errNoRuntime", err)
	}
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
		if !haveIPv6() && strings.Contains(x.dial, ":") {
			continue
		}
		ln, err := Listen(x.network, x.address)
		must(t, err)
		_, port, _ := net.SplitHostPort(ln.Addr().String())
		c, err := Dial("tcp", x.dial+":"+port)
		must(t, err)
		s, err := ln.Accept()
		must(t, err)
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
		ln, err := Listen("unix", path)
		must(t, err)
		if ln.Addr().String() != path || ln.Addr().Network() != "unix" {
			t.Errorf("address %v %v, want unix %s", ln.Addr().Network(), ln.Addr(), path)
		}
		must(t, ln.Close())
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the file of a closed listener is still there: %v", err)
		}
	}
	ln, err := Listen("unix", path)
	must(t, err)
	ln.SetUnlinkOnClose(false)
	must(t, ln.Close())
	if _, err := os.Stat(path); err != nil {
		t.Errorf("the file is gone although SetUnlinkOnClose(false): %v", err)
	}
}

func TestAcceptDeadline(t *testing.T) {
	both(t, func(t *testing.T) {
		ln, err := Listen("tcp", "127.0.0.1:0")
		must(t, err)
		must(t, ln.SetDeadline(time.Now().Add(10*time.Millisecond)))
		if _, err := ln.Accept(); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("Accept: %v, want os.ErrDeadlineExceeded", err)
		}
		must(t, ln.Close())
	})
}

// Connections that are reset while they wait to be accepted do not end Accept.
func TestAcceptAfterReset(t *testing.T) {
	everywhere(t, func(t *testing.T, _ *engine.Runtime) { acceptAfterReset(t) })
}

func acceptAfterReset(t *testing.T) {
	ln, err := Listen("tcp", "127.0.0.1:0")
	must(t, err)
	for range 10 {
		c, err := Dial("tcp", ln.Addr().String())
		must(t, err)
		must(t, c.(*Conn).SetLinger(0))
		must(t, c.Close())
	}
	for range 10 {
		c, err := ln.Accept()
		must(t, err)
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, unix.ECONNRESET) {
			t.Errorf("Read: %v, want ECONNRESET", err)
		}
		if addr := c.RemoteAddr(); addr == nil || addr.Network() != "tcp" || addr.String() == "" {
			t.Errorf("remote address %v of a connection that was reset", addr)
		}
		must(t, c.Close())
	}
	must(t, ln.Close())
}

func TestAcceptedConnBelongsToCaller(t *testing.T) {
	rt := onOne(t, 3).start(t)
	ln, err := Listen("tcp", "127.0.0.1:0")
	must(t, err)
	for i := range 3 {
		engine.GoOn(rt.Loop(i), func() {
			c, err := Dial("tcp", ln.Addr().String())
			must(t, err)
			s, err := ln.AcceptConn()
			must(t, err)
			if s.home() != rt.Loop(i) || c.(*Conn).home() != rt.Loop(i) {
				t.Errorf("connections of a task on loop %d belong to %d and %d", i, s.home().Index(), c.(*Conn).home().Index())
			}
			must(t, c.Close())
			must(t, s.Close())
		}).Join()
	}
	seen := make(map[*engine.Loop]bool)
	for range 3 {
		c, err := Dial("tcp", ln.Addr().String())
		must(t, err)
		s, err := ln.AcceptConn()
		must(t, err)
		seen[s.home()] = true
		must(t, c.Close())
		must(t, s.Close())
	}
	if len(seen) != 3 {
		t.Errorf("three connections accepted by a plain goroutine are on %d loops, want 3", len(seen))
	}
	must(t, ln.Close())
}

func TestServe(t *testing.T) {
	everywhere(t, func(t *testing.T, rt *engine.Runtime) {
		for _, network := range networks("tcp", "tcp6", "unix") {
			ln, err := Listen(network, testAddress(t, network))
			must(t, err)
			var handled [8]atomic.Int32
			var served error
			server := rt.Go(func() {
				served = Serve(ln, func(c *Conn) {
					if c.home() != engine.CurrentLoop() {
						t.Error("handler and connection are on different loops")
					}
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
					c, err := net.Dial(network, ln.Addr().String())
					must(t, err)
					defer c.Close()
					_, err = c.Write([]byte{byte(i)})
					must(t, err)
					var b [1]byte
					_, err = io.ReadFull(c, b[:])
					must(t, err)
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
			if !errors.Is(served, net.ErrClosed) {
				t.Errorf("Serve returned %v, want net.ErrClosed", served)
			}
			if err := Serve(ln, nil); !errors.Is(err, net.ErrClosed) {
				t.Errorf("Serve after Close returned %v, want net.ErrClosed", err)
			}
		}
	})
}

// Connections are taken by the tasks that accept, one on each loop, and on their loop.
func TestServeInline(t *testing.T) {
	everywhere(t, func(t *testing.T, rt *engine.Runtime) {
		ln, err := Listen("tcp", "127.0.0.1:0")
		must(t, err)
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
			c, err := net.Dial("tcp", ln.Addr().String())
			must(t, err)
			_, err = c.Write([]byte{byte(i)})
			must(t, err)
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
	ln, err := Listen("unix", "\x00"+name)
	must(t, err)
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
		ln, err := Listen(network, ":0")
		must(t, err)
		clone, err := ln.clone(ln.d.loop)
		must(t, err)
		if clone.local != ln.local || clone.family != ln.family || clone.d.flags.Load()&flagShared != 0 {
			t.Errorf("%s: the clone listens on %v, want %v on a socket of its own", network, clone.Addr(), ln.Addr())
		}
		must(t, clone.Close())
		must(t, ln.Close())
	}
}

func TestServeEndsWithContext(t *testing.T) {
	everywhere(t, serveEndsWithContext)
}

func serveEndsWithContext(t *testing.T, rt *engine.Runtime) {
	ln, err := ListenConfig{DrainLimit: -1}.Listen(context.Background(), "tcp", "127.0.0.1:0")
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	var served error
	server, err := rt.Spawn(engine.Options{Context: ctx}, func() { served = Serve(ln, func(c *Conn) { c.Close() }) })
	must(t, err)
	awaitWaiter(&ln.d.read)
	cancel()
	must(t, server.Join())
	if !errors.Is(served, context.Canceled) {
		t.Errorf("Serve returned %v, want context.Canceled", served)
	}
	c, err := Dial("tcp", ln.Addr().String()) // the listener itself is still open
	must(t, err)
	must(t, c.Close())
	must(t, ln.Close())
}
