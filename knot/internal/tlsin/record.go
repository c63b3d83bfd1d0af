package tlsin

import (
	"net"
	"sync"
	"time"

	"github.com/capriccio-go/capriccio/knot/internal/tasks"
	"github.com/capriccio-go/capriccio/knot/internal/tlsout"
)

// A recordConn is the net.Conn below a tls.Conn. It reads as much as there is, but hands over
// at most one TLS record at a time, so that crypto/tls never has the beginning of the next one:
// what has come and has not been asked for is here, or in the kernel, and can be told. Its
// buffer is borrowed, and given back when it is empty. Data that crypto/tls writes stays in out, at most until more
// is read.
//
// Only the reader touches it, but for out and what net.Conn lets others do.
type recordConn struct {
	net.Conn
	out  tlsout.Out
	buf  *[RecordBuffer]byte // nil when empty
	r, w int                 // buf[r:w] has been read and not handed over
	left int                 // bytes left of the record that is being handed over; 0: a header comes
	away bool                // see leave
}

const (
	recordHeader = 5
	// RecordBuffer holds a whole record of the largest size (RFC 8446, 5.2).
	RecordBuffer = recordHeader + 16<<10 + 256
)

var recordBuffers = sync.Pool{New: func() any { return new([RecordBuffer]byte) }}

// Read implements net.Conn.
func (c *recordConn) Read(p []byte) (int, error) {
	if c.r == c.w {
		if err := c.fill(); err != nil {
			return 0, err
		}
	}
	for c.left == 0 {
		if c.w-c.r >= recordHeader {
			c.left = recordHeader + c.length()
			break
		}
		if err := c.fill(); err != nil {
			// The connection ends inside of a header, or is late: the rest may still come.
			return 0, err
		}
	}
	n := copy(p[:min(len(p), c.left)], c.buf[c.r:c.w])
	c.r += n
	c.left -= n
	if c.r == c.w {
		c.release()
	}
	return n, nil
}

// Write implements net.Conn. It never parks.
func (c *recordConn) Write(p []byte) (int, error) { return c.out.Write(p) }

// SetWriteDeadline does nothing: crypto/tls calls it for the end of the connection, which it does not send.
func (c *recordConn) SetWriteDeadline(time.Time) error { return nil }

// length is the length of the record whose header the buffer begins with.
func (c *recordConn) length() int {
	return int(c.buf[c.r+3])<<8 | int(c.buf[c.r+4])
}

// fill reads more, at least one byte.
func (c *recordConn) fill() error {
	if c.buf == nil {
		c.buf = recordBuffers.Get().(*[RecordBuffer]byte)
		if !c.away {
			tasks.Buffers.Acquire(RecordBuffer)
		}
	}
	if c.r > 0 {
		c.w = copy(c.buf[:], c.buf[c.r:c.w])
		c.r = 0
	}
	c.out.Flush()
	n, err := c.Conn.Read(c.buf[c.w:])
	c.w += n
	if n > 0 {
		return nil
	}
	if c.w == 0 {
		c.release()
	}
	return err
}

func (c *recordConn) release() {
	if c.buf == nil {
		return
	}
	recordBuffers.Put(c.buf)
	if !c.away {
		tasks.Buffers.Release(RecordBuffer)
	}
	c.buf, c.r, c.w = nil, 0, 0
}

// leave is for a connection that a handler has from now on: its buffer does not count any more, as a handler closes with
// something in it, which is never given back.
func (c *recordConn) leave() {
	if c.buf != nil {
		tasks.Buffers.Release(RecordBuffer)
	}
	c.away = true
}

// whole reports whether a whole record, or the rest of one, is in the buffer: reading
// it will not wait.
func (c *recordConn) whole() bool {
	have := c.w - c.r
	switch {
	case c.left > 0:
		return have >= c.left
	case have < recordHeader:
		return false
	}
	return have >= recordHeader+c.length()
}
