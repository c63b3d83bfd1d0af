//go:build linux

package netpoll

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/nettest"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/task"
)

func TestNettest(t *testing.T) {
	for _, s := range settings() {
		if s.loops == 8 {
			continue // slow, and 1 and 2 differ more
		}
		t.Run(s.name, func(t *testing.T) {
			rt := s.start(t)
			for _, network := range []string{"tcp", "unix"} {
				t.Run(network+" goroutines", func(t *testing.T) {
					t.Parallel() // much of it waits for deadlines
					nettest.TestConn(t, pipeMaker(t, network))
				})
				t.Run(network+" tasks", func(t *testing.T) {
					t.Parallel()
					nettest.TestConn(t, inTasks(rt, pipeMaker(t, network)))
				})
			}
		})
	}
}

// pipeMaker makes pairs of connections for nettest.
func pipeMaker(t *testing.T, network string) nettest.MakePipe {
	return func() (c1, c2 net.Conn, stop func(), err error) {
		c, s := connPair(t, network)
		return c, s, func() { c.Close(); s.Close() }, nil
	}
}

// inTasks makes the pair in a task, and has every call done by a task.
func inTasks(rt *engine.Runtime, make nettest.MakePipe) nettest.MakePipe {
	return func() (c1, c2 net.Conn, stop func(), err error) {
		rt.Go(func() { c1, c2, stop, err = make() }).Join()
		return &taskConn{c1, rt}, &taskConn{c2, rt}, stop, err
	}
}

// A taskConn runs each call as a task.
type taskConn struct {
	c  net.Conn
	rt *engine.Runtime
}

// run tells of a call that could not be made because the runtime was closed: nettest
// leaves goroutines behind that still try.
func (c *taskConn) run(err *error, f func()) {
	if e := c.rt.Go(f).Join(); e != nil {
		*err = e
	}
}

func (c *taskConn) Read(b []byte) (n int, err error) {
	c.run(&err, func() { n, err = c.c.Read(b) })
	return
}

func (c *taskConn) Write(b []byte) (n int, err error) {
	c.run(&err, func() { n, err = c.c.Write(b) })
	return
}

// call is run of what only fails.
func (c *taskConn) call(f func() error) (err error) {
	c.run(&err, func() { err = f() })
	return err
}

func (c *taskConn) setDeadline(set func(time.Time) error, at time.Time) error {
	return c.call(func() error { return set(at) })
}

func (c *taskConn) Close() error                       { return c.call(c.c.Close) }
func (c *taskConn) SetDeadline(at time.Time) error     { return c.setDeadline(c.c.SetDeadline, at) }
func (c *taskConn) SetReadDeadline(at time.Time) error { return c.setDeadline(c.c.SetReadDeadline, at) }
func (c *taskConn) SetWriteDeadline(at time.Time) error {
	return c.setDeadline(c.c.SetWriteDeadline, at)
}
func (c *taskConn) LocalAddr() net.Addr  { return c.c.LocalAddr() }
func (c *taskConn) RemoteAddr() net.Addr { return c.c.RemoteAddr() }

// tlsConfigs returns a server's and a client's configuration that fit together.
func tlsConfigs() (server, client *tls.Config) {
	certificate, roots := testenv.SelfSigned()
	return &tls.Config{Certificates: []tls.Certificate{certificate}}, &tls.Config{RootCAs: roots, ServerName: "test"}
}

// tlsSkip names the tests of nettest that no tls.Conn passes, over package net either:
// after a write that timed out a tls.Conn writes no more (tls.Conn.SetDeadline), and
// these go on writing.
const tlsSkip = "^TestTLSNettest$/./(PastTimeout|FutureTimeout|ConcurrentMethods)$"

// TestTLSNettest runs itself again as a process of its own, because nettest cannot be
// told to leave out some of its tests, only package testing can.
func TestTLSNettest(t *testing.T) {
	if os.Getenv(tlsVariable) == "" {
		testenv.Run(t, "", []string{tlsVariable + "=1"}, os.Args[0], "-test.run=^TestTLSNettest$", "-test.skip="+tlsSkip, "-poller="+*pollerFlag)
		return
	}
	rt := withEpoll(t)
	t.Run("goroutines", func(t *testing.T) { nettest.TestConn(t, tlsPipe(t)) })
	t.Run("tasks", func(t *testing.T) {
		make := tlsPipe(t)
		nettest.TestConn(t, inTasks(rt, func() (c1, c2 net.Conn, stop func(), err error) {
			c1, c2, stop, err = make()
			return &oneByOne{Conn: c1}, &oneByOne{Conn: c2}, stop, err
		}))
	})
}

// oneByOne lets one task read and one write. A tls.Conn would make the second one wait
// for a sync.Mutex, and with it the loop that is to run the first.
type oneByOne struct {
	net.Conn
	read, write task.Mutex
}

func (c *oneByOne) Read(b []byte) (int, error) {
	c.read.Lock()
	defer c.read.Unlock()
	return c.Conn.Read(b)
}

func (c *oneByOne) Write(b []byte) (int, error) {
	c.write.Lock()
	defer c.write.Unlock()
	return c.Conn.Write(b)
}

const tlsVariable = "NETPOLL_TEST_TLS"

// tlsPipe makes pairs that have done their handshake, which must not meet a deadline.
func tlsPipe(t *testing.T) nettest.MakePipe {
	server, client := tlsConfigs()
	return func() (c1, c2 net.Conn, stop func(), err error) {
		c, s := connPair(t, "tcp")
		tc, ts := tls.Client(c, client), tls.Server(s, server)
		shook := make(chan error)
		go func() { shook <- tc.Handshake() }()
		must(t, ts.Handshake())
		engine.Offload(func() { err = <-shook })
		return tc, ts, func() { c.Close(); s.Close() }, err
	}
}

// A stream is what connections of both packages have.
type stream interface {
	net.Conn
	syscall.Conn
	CloseRead() error
	CloseWrite() error
	SetReadBuffer(bytes int) error
	SetWriteBuffer(bytes int) error
	File() (*os.File, error)
}

// A stream connection does and fails like that of package net, whatever has happened to it.
func TestStreamsAreLikeNets(t *testing.T) {
	everywhere(t, func(t *testing.T, rt *engine.Runtime) {
		check := func() {
			for _, network := range []string{"tcp", "unix"} {
				for name, happens := range map[string]func(c, peer stream){
					"there is something to read": func(_, peer stream) { peer.Write([]byte("x")) },
					"the deadline has passed": func(c, peer stream) {
						peer.Write([]byte("x"))
						c.SetDeadline(unixEpoch)
					},
					"its reading side is closed": func(c, _ stream) { c.CloseRead() },
					"its writing side is closed": func(c, peer stream) { c.CloseWrite(); peer.Write([]byte("x")) },
					"the peer's side is closed":  func(_, peer stream) { peer.CloseWrite() },
					"both are closed":            func(c, peer stream) { c.CloseWrite(); peer.Read(make([]byte, 1)); peer.CloseWrite() },
					"it has been reset": func(c, peer stream) {
						c.Write([]byte("x"))
						peer.Read(make([]byte, 1))
						if tcp, ok := peer.(interface{ SetLinger(int) error }); ok {
							tcp.SetLinger(0)
						}
						peer.Close()
						for {
							if _, err := c.Read(make([]byte, 1)); err != nil {
								return
							}
						}
					},
					"it is closed": func(c, _ stream) { c.Close() },
				} {
					likeNet(t, network+", "+name, func(n library, note func(string, ...any)) {
						ln := need(n.listen(network, testAddress(t, network)))(t)
						defer ln.Close()
						nc := need(n.dial(context.Background(), network, ln.Addr().String()))(t)
						defer nc.Close()
						peer := need(ln.Accept())(t)
						defer peer.Close()
						raw := need(nc.(stream).SyscallConn())(t)
						happens(nc.(stream), peer.(stream))
						useUp(nc.(stream), raw, func(what string, n int64, err error) { note("%s: %d %s", what, n, outline(err)) })
					})
				}
			}
		}
		check()
		inTask(t, rt, check)
	})
}

// outline describes an error but for the addresses.
func outline(err error) string {
	if oe, ok := err.(*net.OpError); ok {
		return fmt.Sprintf("%s %s: %s, timeout %v, temporary %v", oe.Op, oe.Net, outline(oe.Err), oe.Timeout(), oe.Temporary())
	}
	return fmt.Sprintf("%T %v, closed %v, late %v", err, err, errors.Is(err, net.ErrClosed), errors.Is(err, os.ErrDeadlineExceeded))
}

var unixEpoch = time.Unix(0, 0)

// useUp does what can be done with c, and closes it.
func useUp(c stream, raw syscall.RawConn, note func(what string, n int64, err error)) {
	tcp := c.LocalAddr().Network() == "tcp" // those of package net over unix have other methods of these names
	did := func(what string) func(int, error) {
		return func(n int, err error) { note(what, int64(n), err) }
	}
	only := func(what string, err error) { note(what, 0, err) }
	did("read nothing")(c.Read(nil))
	only("set read buffer", c.SetReadBuffer(10000))
	only("set write buffer", c.SetWriteBuffer(10000))
	if options, ok := c.(interface {
		SetNoDelay(bool) error
		SetLinger(int) error
		SetKeepAlive(bool) error
		SetKeepAlivePeriod(time.Duration) error
		SetKeepAliveConfig(net.KeepAliveConfig) error
	}); ok && tcp {
		only("set no delay", options.SetNoDelay(false))
		only("set linger", options.SetLinger(-1))
		only("set keep-alive", options.SetKeepAlive(true))
		only("set keep-alive period", options.SetKeepAlivePeriod(time.Second))
		only("set keep-alive config", options.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true}))
	}
	control := func(when string) {
		only("control"+when, raw.Control(func(uintptr) {}))
		only("raw read"+when, raw.Read(func(uintptr) bool { return true }))
		only("raw write"+when, raw.Write(func(uintptr) bool { return true }))
	}
	control("")
	f, err := c.File()
	only("file", err)
	if err == nil {
		f.Close()
	}
	did("read")(c.Read(make([]byte, 1)))
	if tcp {
		for _, text := range []string{"", "yyy"} {
			n, err := c.(io.ReaderFrom).ReadFrom(strings.NewReader(text))
			note("read from", n, err)
		}
	}
	only("set a read deadline", c.SetReadDeadline(time.Now().Add(-time.Second)))
	if tcp {
		n, err := c.(io.WriterTo).WriteTo(io.Discard)
		note("write to", n, err)
	}
	did("write")(c.Write([]byte("z")))
	only("close read", c.CloseRead())
	only("close write", c.CloseWrite())
	did("write to a closed side")(c.Write([]byte("z")))
	only("set a deadline", c.SetDeadline(time.Time{}))
	only("set a write deadline", c.SetWriteDeadline(time.Time{}))
	did("read the end")(c.Read(make([]byte, 1)))
	only("close", c.Close())
	only("close again", c.Close())
	did("read after close")(c.Read(make([]byte, 1)))
	did("read nothing after close")(c.Read(nil))
	did("write nothing after close")(c.Write(nil))
	control(" after close")
}
