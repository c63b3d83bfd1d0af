//go:build linux

package netpoll

import (
	"crypto/tls"
	"net"
	"os"
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
				t.Run(network+"/goroutines", func(t *testing.T) {
					nettest.TestConn(t, pipeMaker(t, network))
				})
				t.Run(network+"/tasks", func(t *testing.T) {
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

func (c *taskConn) Close() (err error) {
	c.run(&err, func() { err = c.c.Close() })
	return
}

func (c *taskConn) SetDeadline(t time.Time) (err error) {
	c.run(&err, func() { err = c.c.SetDeadline(t) })
	return
}

func (c *taskConn) SetReadDeadline(t time.Time) (err error) {
	c.run(&err, func() { err = c.c.SetReadDeadline(t) })
	return
}

func (c *taskConn) SetWriteDeadline(t time.Time) (err error) {
	c.run(&err, func() { err = c.c.SetWriteDeadline(t) })
	return
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
