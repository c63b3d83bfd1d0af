package knot

import (
	"io"
	"net"
	"time"
)

// scriptConn is a connection in memory: it hands out its input in reads of at
// most step bytes, and keeps what is written.
type scriptConn struct {
	input   []byte
	taken   int
	step    int
	first   int // size of the first read
	output  []byte
	reads   int
	writes  int
	discard bool
}

func newScriptConn(first, rest string, step int) *scriptConn {
	return &scriptConn{input: []byte(first + rest), first: len(first), step: step}
}

// script is a connection whose input comes at once.
func script(input string) *scriptConn { return newScriptConn(input, "", 1) }

func (c *scriptConn) Read(p []byte) (int, error) {
	if c.taken == len(c.input) {
		return 0, io.EOF
	}
	step := c.step
	if c.taken == 0 && c.first > 0 {
		step = c.first
	}
	n := copy(p[:min(len(p), step)], c.input[c.taken:])
	c.taken += n
	c.reads++
	return n, nil
}

func (c *scriptConn) Write(p []byte) (int, error) {
	c.writes++
	if !c.discard {
		c.output = append(c.output, p...)
	}
	return len(p), nil
}

func (c *scriptConn) Close() error                     { return nil }
func (c *scriptConn) LocalAddr() net.Addr              { return scriptAddr{} }
func (c *scriptConn) RemoteAddr() net.Addr             { return scriptAddr{} }
func (c *scriptConn) SetDeadline(time.Time) error      { return nil }
func (c *scriptConn) SetReadDeadline(time.Time) error  { return nil }
func (c *scriptConn) SetWriteDeadline(time.Time) error { return nil }

type scriptAddr struct{}

func (scriptAddr) Network() string { return "script" }
func (scriptAddr) String() string  { return "192.0.2.1:4711" }

// serveScript runs one turn and returns the Ctx as it was left.
func serveScript(s *Server, nc net.Conn) *Ctx {
	s.ready()
	defer s.clock.Close()
	c := &conn{nc: nc, srv: s}
	x := newCtx()
	x.c, x.srv = c, s
	x.run()
	return x
}

// answerTo is what s writes for a request, or several.
func answerTo(s *Server, requests string) string {
	nc := script(requests)
	serveScript(s, nc)
	return string(nc.output)
}
