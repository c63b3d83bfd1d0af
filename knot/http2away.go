package knot

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"time"
)

// net/http ends a connection with a GOAWAY that names the last request it has seen, and drops those that were on their
// way. RFC 9113, 6.8, wants another one before, that names none, and a round trip in between. Nothing of net/http sends
// it, so it goes in between its frames here.

// A framedConn is a connection of HTTP/2 below net/http, that knows where frames begin.
type framedConn struct {
	net.Conn                      // fixed
	tls      *tls.ConnectionState // fixed; nil without TLS. net/http takes what has a method of that name for HTTP/1
	in       io.Reader            // the reader's: what Conn gives, after what had been read of it
	came     frames               // the reader's
	acked    bool                 // the reader's: the client has answered farewell, what it sent before is being served
	served   chan struct{}
	once     sync.Once // closes served

	mu     sync.Mutex
	sent   frames // guarded by mu
	leaves bool   // farewell is to be sent; guarded by mu
	told   bool   // it has been; guarded by mu
}

// framedKey leads from the context of a request of HTTP/2 to its *framedConn.
type framedKey struct{}

// newFramedConn makes one of nc, of which prefix has been read. Frames of net/http are read in two pieces, so what does
// not come through crypto/tls, which keeps what a record had more, is read through a buffer.
func newFramedConn(nc net.Conn, prefix []byte) *framedConn {
	c := &framedConn{Conn: nc, in: nc, came: frames{rest: len(prefaceAll)}, served: make(chan struct{})}
	if secure, ok := nc.(*tls.Conn); ok {
		state := secure.ConnectionState()
		c.tls = &state
	} else {
		c.in = bufio.NewReader(&prefixConn{nc, prefix})
	}
	return c
}

const prefaceAll = preface + "\r\nSM\r\n\r\n" // RFC 9113, 3.4

// farewell is GOAWAY with the highest number of a stream and no error, and a PING: its answer shows that the client
// knows.
var farewell = []byte("\x00\x00\x08\x07\x00\x00\x00\x00\x00\x7f\xff\xff\xff\x00\x00\x00\x00" +
	"\x00\x00\x08\x06\x00\x00\x00\x00\x00" + farewellPing)

const (
	farewellPing = "farewell"
	pingAck      = "\x00\x00\x08\x06\x01\x00\x00\x00\x00"
	farewellMost = time.Second // see limits.farewell
)

// Read implements net.Conn. It is called when all that it gave before has been dealt with: net/http reads a frame when it is
// done with the one before.
func (c *framedConn) Read(p []byte) (int, error) {
	if c.acked {
		c.acked = false
		c.once.Do(func() { close(c.served) }) // it may answer twice
	}
	n, err := c.in.Read(p)
	if c.came.follow(p[:n]) {
		c.acked = true
	}
	return n, err
}

// Write implements net.Conn.
func (c *framedConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.sayFarewell(); err != nil {
		return 0, err
	}
	n, err := c.Conn.Write(p)
	c.sent.follow(p[:n])
	if err == nil {
		err = c.sayFarewell()
	}
	return n, err
}

// sayFarewell sends it if it is wanted, between two frames, and not before SETTINGS. Caller holds mu.
func (c *framedConn) sayFarewell() error {
	if !c.leaves || c.told || !c.sent.begun || c.sent.inside() {
		return nil
	}
	c.told = true
	_, err := c.Conn.Write(farewell)
	return err
}

// Close implements net.Conn: nobody need wait for the client any more.
func (c *framedConn) Close() error {
	c.once.Do(func() { close(c.served) })
	return c.Conn.Close()
}

// leave tells the client to send no further requests here, and returns when it knows, and those that it sent
// before are being served; or when ctx ends. It blocks.
func (c *framedConn) leave(ctx context.Context) {
	c.mu.Lock()
	c.leaves = true
	c.sayFarewell()
	c.mu.Unlock()
	select {
	case <-c.served:
	case <-ctx.Done():
	}
}

// frames finds the frames of a stream of bytes.
type frames struct {
	begun bool    // there were some
	rest  int     // bytes left of the preface, or of a payload
	have  int     // bytes of head
	head  [9]byte // RFC 9113, 4.1
	text  [8]byte // the payload's beginning
	size  int     // bytes of text
}

// inside reports whether a frame has begun and not ended.
func (f *frames) inside() bool { return f.rest > 0 || f.have > 0 }

// take follows the stream to the end of the head or payload that b begins in, and returns how many bytes of b that are, and
// whether they end the answer to farewell.
func (f *frames) take(b []byte) (n int, answers bool) {
	if f.rest > 0 {
		n = min(f.rest, len(b))
		f.size += copy(f.text[f.size:], b[:n])
		f.rest -= n
	} else {
		n = copy(f.head[f.have:], b)
		if f.have += n; f.have == len(f.head) {
			f.rest, f.size = int(binary.BigEndian.Uint32(f.head[:4])>>8), 0
		}
	}
	f.begun = true
	if f.rest == 0 && f.have == len(f.head) {
		f.have = 0
		answers = string(f.head[:]) == pingAck && string(f.text[:f.size]) == farewellPing
	}
	return n, answers
}

// follow takes all of b.
func (f *frames) follow(b []byte) (answered bool) {
	for len(b) > 0 {
		n, answers := f.take(b)
		b, answered = b[n:], answered || answers
	}
	return answered
}
