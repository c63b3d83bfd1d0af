//go:build linux

package netpoll

import (
	"net"
	"testing"
	"time"

	"golang.org/x/net/nettest"

	"github.com/capriccio-go/capriccio/internal/engine"
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
