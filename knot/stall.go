package knot

import (
	"bytes"
	"math"
	"net"
	"os"
	"sync"

	"github.com/capriccio-go/capriccio/internal/ownconn"
	"github.com/capriccio-go/capriccio/knot/internal/store"
	"github.com/capriccio-go/capriccio/knot/internal/tasks"
)

// Memory that a request holds while its client takes nothing of the response, and the time that a client may be slow.

// outBuffers are those of Ctx.out that have been given back by shrinkBuffers.
var outBuffers = sync.Pool{New: func() any { return new([outSize]byte) }}

// slimIn is the size of the read buffer that shrinkBuffers leaves, in bytes, if what is in it is not more.
const slimIn = 512

// roomOf is netpoll.Conn.WriteRoom of a connection, math.MaxInt if that can't be told of it.
func roomOf(nc net.Conn) int {
	if own, ok := ownconn.Of(nc).(interface{ WriteRoom() int }); ok {
		return own.WriteRoom()
	}
	return math.MaxInt
}

// roomFor returns how many bytes the client takes without a wait, besides what is gathered: at least, or, if that is less than
// n, about.
func (x *Ctx) roomFor(n int) int {
	if int(x.c.room) < len(x.out)+n {
		x.c.room = int32(min(max(roomOf(x.c.nc), 1), math.MaxInt32))
	}
	return int(x.c.room) - len(x.out)
}

// shrinkBuffersFor is shrinkBuffers before a write of what is gathered and n bytes more, if that would wait. The room for a small write is asked
// for only on a connection where it has been: on others it is not worth the system call.
func (x *Ctx) shrinkBuffersFor(n int64) {
	if (n >= store.WideSize || x.c.room > 0) && n > int64(x.roomFor(int(min(n, writeMost)))) {
		x.shrinkBuffers(0)
	}
}

// spend counts n bytes that were sent.
func (x *Ctx) spend(n int64) {
	if x.c.room > 0 {
		x.c.room = max(x.c.room-int32(min(n, int64(x.c.room))), 1)
	}
}

// shrinkBuffers gives the buffers back, but for what is in them, and leaves room for that many bytes more in the output buffer. The
// handler may have views into the read buffer, which is left to the garbage collector for that.
func (x *Ctx) shrinkBuffers(more int) {
	if x.adapted == nil { // else another goroutine may be reading
		if n := max(x.w, slimIn); n <= inSize/4 && n < len(x.in) {
			in := make([]byte, n)
			copy(in, x.in[:x.w])
			x.in, x.path = in, bytes.Clone(x.path)
			x.fileRequest.Path, x.fileRequest.Text = nil, nil // views of it, of no use any more
		}
	}
	if len(x.out) <= outSize/2 {
		x.shrinkOut(more)
	}
	if len(x.resp.held) == 0 {
		x.resp.held = nil
	}
	x.recount()
}

// shrinkOut gives the output buffer back, but for what is in it, and leaves room for that many bytes more.
func (x *Ctx) shrinkOut(more int) {
	if out := x.out; cap(out) == outSize {
		x.out = append(make([]byte, 0, len(out)+more), out...)
		outBuffers.Put((*[outSize]byte)(out[:outSize]))
	}
}

// returnOut gives the output buffer back, if nothing is in it, for a wait for the client. widenOut comes after it.
func (x *Ctx) returnOut() {
	if len(x.out) == 0 {
		x.shrinkOut(0)
		x.recount()
	}
}

// widenOut undoes shrinkOut.
func (x *Ctx) widenOut() {
	if cap(x.out) >= outSize || x.writeErr != nil {
		return
	}
	x.out = append(outBuffers.Get().(*[outSize]byte)[:0], x.out...)
	x.recount()
}

// recount tells the runtime how large the buffers are.
func (x *Ctx) recount() {
	more := int64(len(x.in)+cap(x.out)+cap(x.narrowOut)) - x.counted
	x.counted += more
	if more < 0 {
		tasks.Buffers.Release(-more)
	} else {
		tasks.Buffers.Acquire(more)
	}
}

// beginWrite is called before each write of the response. It returns the time, for endTimedWrite.
func (x *Ctx) beginWrite() (began int64) {
	began = x.srv.clock.Now()
	if !x.isTunnel() {
		x.c.since.Store(-max(began-x.slowOut.Spent(), 1))
	}
	return began
}

// endTimedWrite is endWrite, and counts n bytes of the response, sent by a write that began then.
func (x *Ctx) endTimedWrite(n int, began int64, err error) error {
	x.slowOut.Add(x.srv.clock.Now()-began, n, x.srv.settings().rate)
	x.spend(int64(n))
	return x.endWrite(err)
}

// endWrite returns the error of a write: another one if endStalled has ended the response just as the write came to its end.
func (x *Ctx) endWrite(err error) error {
	if x.c.since.Swap(x.srv.clock.Now()) == stallEnded && err == nil {
		return os.ErrDeadlineExceeded
	}
	return err
}

// moved is called when a write that goes on has sent something.
func (c *conn) moved() {
	if since := c.since.Load(); since < 0 && since != stallEnded {
		c.since.CompareAndSwap(since, -c.srv.clock.Now())
	}
}

// writeToStream sends what is gathered and then parts, all of one response, over HTTP/2 or HTTP/3. While the client takes nothing no
// buffer is held.
func (x *Ctx) writeToStream(st *stream, parts ...[]byte) error {
	if x.writeErr != nil {
		return x.writeErr
	}
	if len(x.out) > 0 {
		x.sendGathered(true)
	}
	for _, p := range parts {
		for len(p) > 0 && x.writeErr == nil {
			room := x.awaitRoom(st, int64(len(p)))
			p = p[x.writeSome(st, p[:room]):]
		}
	}
	x.widenOut()
	return x.writeErr
}

// sendGathered sends what is gathered; more: what follows at once is sent with it where that can be.
func (x *Ctx) sendGathered(more bool) (err error) {
	st := x.c.stream
	if st != nil && st.Room(len(x.out)) < len(x.out) {
		x.shrinkBuffers(0)
	}
	x.armWrite()
	began := x.beginWrite()
	var n int
	if st != nil && more {
		n, err = st.Gather(x.out)
	} else {
		n, err = x.writeOut()
	}
	return x.afterWrite(x.endTimedWrite(n, began, err))
}

// writeOut writes what is gathered. While the client takes nothing only the rest of it is held.
func (x *Ctx) writeOut() (int, error) {
	nc, ok := ownconn.Of(x.c.nc).(interface{ WriteNow(b []byte) (int, error) })
	if !ok {
		if x.c.stream == nil {
			x.shrinkBuffersFor(0)
		}
		return x.c.nc.Write(x.out)
	}
	n, err := nc.WriteNow(x.out)
	if n == len(x.out) || err != nil {
		return n, err
	}
	x.out = x.out[:copy(x.out, x.out[n:])]
	x.shrinkBuffers(0)
	more, err := x.c.nc.Write(x.out)
	return n + more, err
}

// awaitRoom waits until the client takes more of the body, and returns how many of n bytes; 0 after an error. The caller has
// sent what was gathered.
func (x *Ctx) awaitRoom(st *stream, n int64) int64 {
	if room := st.Room(int(n)); room > 0 {
		return int64(room)
	}
	x.shrinkBuffers(0)
	x.armWrite()
	began := x.beginWrite()
	room, err := st.AwaitRoom(n)
	if err = x.endTimedWrite(0, began, err); err != nil {
		x.afterWrite(err)
	}
	return room
}

// writeSome writes as much of a part of the body as there is room for, and returns how much.
func (x *Ctx) writeSome(st *stream, p []byte) (n int) {
	if x.writeErr != nil {
		return 0
	}
	n, err := st.WriteSome(p)
	x.slowOut.Add(0, n, x.srv.settings().rate)
	if err != nil {
		x.afterWrite(err)
	}
	return n
}

// sendFromPages is sendCopied over HTTP/2 or HTTP/3. Each piece is read when the client has room for it, and read again if that
// has gone meanwhile: the page cache has it.
func (x *Ctx) sendFromPages(st *stream, e *store.Entry, from, length int64) (sent int64, err error) {
	x.writeToStream(st)
	defer x.widenOut()
	for sent < length && x.writeErr == nil {
		room := x.awaitRoom(st, min(length-sent, store.WideSize))
		if x.writeErr != nil {
			break
		}
		buf := wideBuffers.Get().(*[store.WideSize]byte)
		n, err := e.ReadAt(buf[:room], from+sent)
		if n > 0 {
			sent += int64(x.writeSome(st, buf[:n]))
		}
		wideBuffers.Put(buf)
		if n <= 0 {
			return sent, err
		}
		x.busyReads()
	}
	return sent, x.writeErr
}
