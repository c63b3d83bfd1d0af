package knot

import (
	"net"

	"github.com/capriccio-go/capriccio/knot/internal/h1"
	"github.com/capriccio-go/capriccio/knot/internal/tlsin"
	"github.com/capriccio-go/capriccio/netpoll"
)

// A connection that could not be written to is not written to again: what has been sent may end in the middle of
// anything. Ctx.afterWrite remembers the error, and the functions of this file return it, and gather nothing any more.

// chunkFrame is how many bytes frame a chunk at most: its size in hexadecimal, and two line ends.
const chunkFrame = 16 + 4

// stream adds p to the body of a committed response.
func (x *Ctx) stream(p []byte) error {
	if len(p) == 0 || x.writeErr != nil {
		return x.writeErr
	}
	if x.resp.phase != respChunked {
		return x.emit(p)
	}
	// Templates and encoders write a few bytes at a time, and framing a chunk of them takes six.
	if out, ok := h1.ExtendChunk(x.out, x.resp.chunk, p); ok {
		x.out = out
		x.resp.chunk += len(p)
		return nil
	}
	if len(x.out)+chunkFrame > cap(x.out) { // else writes of a byte or two would make it grow for ever
		if err := x.flush(); err != nil {
			return err
		}
	}
	x.out = h1.AppendChunkHead(x.out, len(p))
	x.resp.chunk = len(p)
	if err := x.emit(p); err != nil {
		return err
	}
	x.out = append(x.out, "\r\n"...)
	return nil
}

// emit gathers p, or sends it behind what is gathered when it is large.
func (x *Ctx) emit(p []byte) error {
	if x.writeErr == nil && len(x.out)+len(p) <= cap(x.out) {
		x.out = append(x.out, p...)
		return nil
	}
	return x.emitLarge(p)
}

// emitParts is emit for size bytes in parts.
func (x *Ctx) emitParts(parts [][]byte, size int64) error {
	if x.writeErr == nil && int64(len(x.out))+size <= int64(cap(x.out)) {
		for _, p := range parts {
			x.out = append(x.out, p...)
		}
		return nil
	}
	return x.emitLarge(parts...)
}

// emitLarge sends what does not fit, and keeps none of parts.
func (x *Ctx) emitLarge(parts ...[]byte) error {
	if x.writeErr != nil {
		return x.writeErr
	}
	size := 0
	for _, p := range parts {
		size += len(p)
	}
	if size < outSize/2 {
		if err := x.flush(); err != nil {
			return err
		}
		x.widenOut()
		for _, p := range parts {
			x.out = append(x.out, p...)
		}
		return nil
	}
	return x.writeWith(parts, size)
}

// armWrite sets the deadline for a write.
func (x *Ctx) armWrite() {
	if e := x.adapted; e != nil {
		e.armWrite(x)
		return
	}
	x.c.armWrite(x.slowOut.Limit(x.srv.settings().write))
}

// armReply is armWrite before a read, which over TLS may have to send something.
func (x *Ctx) armReply() {
	if _, plain := x.c.nc.(*netpoll.Conn); !plain && x.c.stream == nil && tlsin.Of(x.c.nc) != nil {
		x.armWrite()
	}
}

// flush sends all that is gathered.
func (x *Ctx) flush() error {
	x.countAnswered()
	if x.writeErr != nil {
		return x.afterWrite(x.writeErr)
	}
	if len(x.out) == 0 {
		return nil
	}
	return x.sendGathered(false)
}

// afterWrite is called after each write, and returns its error: what was gathered has been sent, or never will be. After an
// error the connection ends with the current request.
func (x *Ctx) afterWrite(err error) error {
	if err != nil {
		x.writeErr, x.closing = err, true
		if e := x.adapted; e != nil {
			e.ctx.End()
		}
	}
	x.out = x.out[:0]
	x.widenOut()
	x.resp.start, x.resp.chunk = -1, 0
	return err
}

// dropGathered drops what is gathered of a response that is not to be completed. If none of the response has been sent, it is
// open again. Otherwise the client must not get more of it: that might be its end.
func (x *Ctx) dropGathered() {
	r := &x.resp
	switch {
	case r.phase == respOpen: // what is gathered is of responses before
	case r.start >= 0:
		x.out = x.out[:r.start]
		r.phase, r.start, r.chunk = respOpen, -1, 0
	default:
		x.out, r.chunk = x.out[:0], 0
	}
}

// sayClose adds Connection: close to the head of the response. Nothing of the response has been sent.
func (x *Ctx) sayClose() { x.out = h1.SayClose(x.out, x.resp.start, x.resp.lasts) }

// vectorWriter is a connection with writev.
type vectorWriter interface {
	WriteBuffers(*net.Buffers) (int64, error)
}

// writeMost is how much is written under one deadline, in bytes: a client that takes a large body slowly is not one that
// takes nothing.
const writeMost = 256 << 10

// writeWith sends what is gathered and then parts of that size, in one system call where it can.
func (x *Ctx) writeWith(parts [][]byte, size int) error {
	if st := x.c.stream; st != nil {
		return x.writeToStream(st, parts...)
	}
	w, ok := x.c.nc.(vectorWriter)
	switch {
	case len(parts) == 1 && (!ok || len(x.out) == 0):
		if err := x.flush(); err != nil {
			return err
		}
		return x.writeAlone(parts[0])
	case !ok: // TLS, for instance, would send a record for each
		return x.writeGathered(parts)
	}
	x.shrinkBuffersFor(int64(size))
	x.vector = append(x.vectors[:0], x.out)
	room := max(writeMost-len(x.out), 0)
	for _, p := range parts {
		for len(p) > room {
			x.vector = append(x.vector, p[:room])
			if err := x.writeVector(w); err != nil {
				return err
			}
			p, room = p[room:], writeMost
			x.shrinkBuffersFor(writeMost)
		}
		x.vector = append(x.vector, p)
		room -= len(p)
	}
	return x.writeVector(w)
}

// writeAlone sends p when nothing is gathered.
func (x *Ctx) writeAlone(p []byte) error {
	for len(p) > 0 {
		n := min(len(p), writeMost)
		x.shrinkBuffersFor(int64(n))
		x.armWrite()
		began := x.beginWrite()
		_, err := x.c.nc.Write(p[:n])
		if err = x.endTimedWrite(n, began, err); err != nil {
			return x.afterWrite(err)
		}
		p = p[n:]
	}
	x.widenOut()
	return nil
}

// writeVector sends the vector, whose first element is what is gathered, if that has not been sent yet.
func (x *Ctx) writeVector(w vectorWriter) error {
	x.armWrite()
	began := x.beginWrite()
	n, err := w.WriteBuffers(&x.vector)
	err = x.endTimedWrite(int(n), began, err)
	x.vector, x.vectors = nil, [len(x.vectors)][]byte{}
	return x.afterWrite(err)
}

// writeGathered sends parts through the output buffer.
func (x *Ctx) writeGathered(parts [][]byte) error {
	for _, p := range parts {
		for len(p) > 0 {
			if len(x.out) == cap(x.out) {
				if err := x.flush(); err != nil {
					return err
				}
			}
			n := copy(x.out[len(x.out):cap(x.out)], p)
			x.out, p = x.out[:len(x.out)+n], p[n:]
		}
	}
	return nil
}
