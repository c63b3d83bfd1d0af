//go:build linux

package netpoll

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/netpoll/internal/sys"
)

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
