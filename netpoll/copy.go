//go:build linux

package netpoll

import (
	"io"
	"net"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/kernel"
	"github.com/capriccio-go/capriccio/netpoll/internal/sys"
)

// copySize is the size in bytes of the buffers that ReadFrom and WriteTo borrow.
const copySize = 64 << 10

var copyBuffers = sync.Pool{New: func() any { return new([copySize]byte) }}

// ReadFrom implements io.ReaderFrom: it writes what r gives until io.EOF, through a
// borrowed buffer or, if r is a *Conn from which much comes at a time, within the kernel (splice(2); not
// from connections of loops with io_uring). It parks.
func (c *Conn) ReadFrom(r io.Reader) (int64, error) {
	n, err := copyBetween(c, r)
	if err != nil {
		err = c.opError("readfrom", "", err) // as package net
	}
	return n, err
}

// WriteTo implements io.WriterTo: it gives w what it reads until the end of the
// stream, as ReadFrom of w does if that is a *Conn. It parks.
func (c *Conn) WriteTo(w io.Writer) (int64, error) {
	n, err := copyBetween(w, c)
	if err != nil {
		err = c.opError("writeto", "", err)
	}
	return n, err
}

// copyBetween gives w what r has, until io.EOF.
func copyBetween(w io.Writer, r io.Reader) (n int64, err error) {
	buf := copyBuffers.Get().(*[copySize]byte)
	defer copyBuffers.Put(buf)
	dst, ok := w.(*Conn)
	if src, both := r.(*Conn); ok && both {
		n, _, err = dst.relay(src, buf[:])
		return n, err
	}
	return engine.Copy(w, r, buf[:])
}

// maxIovecs is how many buffers one system call takes (sendmsg(2), UIO_MAXIOV).
const maxIovecs = 1024

var iovecPool = sync.Pool{New: func() any { s := make([]unix.Iovec, 0, 16); return &s }}

// WriteBuffers writes the contents of bufs, up to 1024 of them in one system call
// (sendmsg(2)), and removes from bufs what has been written. It returns the number of
// bytes. It parks while the socket's buffer is full. (net.Buffers.WriteTo does not
// know this method; it calls Write for each buffer.)
func (c *Conn) WriteBuffers(bufs *net.Buffers) (int64, error) {
	n, err := c.d.sendBuffers(bufs)
	c.d.pace(c.d.ownToWrite(), int(n))
	if err != nil {
		return n, c.opError("writev", "writev", err)
	}
	return n, nil
}

func (d *desc) sendBuffers(bufs *net.Buffers) (int64, error) {
	all := 0
	for _, b := range *bufs {
		all += len(b)
	}
	d.spare(int64(all))
	if err := d.lock(writeSide); err != nil {
		return 0, err
	}
	defer d.unlock(writeSide)
	vecs := iovecPool.Get().(*[]unix.Iovec)
	defer func() {
		clear((*vecs)[:cap(*vecs)])
		iovecPool.Put(vecs)
	}()
	own := d.ownToWrite()
	var total int64
	for {
		var size int
		*vecs, size = gather((*vecs)[:0], *bufs)
		if size == 0 {
			*bufs = nil
			return total, nil
		}
		if err := d.failed(flagWriteExpired); err != nil {
			return total, err
		}
		if !d.write.begin(own) {
			if err := d.wait(&d.write, flagWriteExpired, engine.ReasonWrite, own, 0); err != nil {
				return total, err
			}
		}
		n, e := sys.SendMsg(d.fd, *vecs, size, nil, nil, 0)
		switch e {
		case 0:
			total += int64(n)
			consume(bufs, n)
			if n < size && d.kind.drains() {
				own = d.exhausted(&d.write, own)
			} else {
				d.write.more()
				if len(*bufs) > 0 {
					d.pace(own, n)
				}
			}
		case unix.EAGAIN:
			own = d.exhausted(&d.write, own)
		default:
			d.write.more()
			return total, e
		}
	}
}

// gather appends the non-empty ones of bufs, as many as one call takes and pieceMax bytes
// of them at most, and returns how many bytes that are.
func gather(vecs []unix.Iovec, bufs net.Buffers) ([]unix.Iovec, int) {
	size := 0
	for _, b := range bufs {
		if len(b) == 0 {
			continue
		}
		if len(vecs) == maxIovecs || size == pieceMax {
			break
		}
		b = b[:min(len(b), pieceMax-size)]
		v := unix.Iovec{Base: unsafe.SliceData(b)}
		v.SetLen(len(b))
		vecs = append(vecs, v)
		size += len(b)
		kernel.RaceWrite(b)
	}
	return vecs, size
}

// consume removes the first n bytes.
func consume(bufs *net.Buffers, n int) {
	for len(*bufs) > 0 {
		b := (*bufs)[0]
		if len(b) > n {
			(*bufs)[0] = b[n:]
			return
		}
		n -= len(b)
		(*bufs)[0] = nil
		*bufs = (*bufs)[1:]
	}
}
