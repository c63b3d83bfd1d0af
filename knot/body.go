package knot

import (
	"errors"
	"fmt"
	"io"
	"os"
)

const (
	// maxChunkLine bounds a chunk size with its extensions, in bytes.
	maxChunkLine = 1024
	// maxChunkDigits keeps a chunk size inside int64.
	maxChunkDigits = 15
	// chunkAllowance is what each chunk may take for its framing, in bytes, besides twice
	// what it carries. maxWaste bounds the sum of what chunks take beyond that, which is
	// extensions that nobody reads. net/http has the same rule.
	chunkAllowance = 16
	maxWaste       = 16 << 10
	// bodyRoom is the least room in the read buffer for body bytes.
	bodyRoom = 4096
)

// bodyPhase is where the reader of a request body stands:
//
//	            Content-Length: data ─────────────────────────┐
//	chunked: size ─→ data ─→ dataEnd ─→ size ... ─→ trailer ─→ done
type bodyPhase uint8

const (
	bodyDone bodyPhase = iota
	bodyData
	bodySize
	bodyDataEnd
	bodyTrailer
)

// body is the state of the current request's body. Every field is loop-private.
type body struct {
	err     error
	left    int64 // bytes left of the body or of the current chunk
	read    int64 // bytes taken so far
	framing int64 // bytes of chunked framing so far
	waste   int64 // those of them that no honest client needs
	trailer int   // bytes of trailer lines so far
	phase   bodyPhase
	chunked bool
	// owed: the client waits for 100 Continue before it sends.
	owed bool
}

func (x *Ctx) beginBody() {
	h := &x.head
	x.body = body{chunked: h.chunked}
	switch {
	case h.chunked:
		x.body.phase = bodySize
	case h.length > 0:
		x.body.phase, x.body.left = bodyData, h.length
	default:
		return
	}
	x.body.owed = h.expect
}

// nextBody returns the next piece of the body, at most most bytes, as a view
// into the read buffer; io.EOF after the last. It may park.
func (x *Ctx) nextBody(most int) ([]byte, error) {
	b := &x.body
	for b.err == nil {
		switch b.phase {
		case bodyDone:
			return nil, io.EOF
		case bodyData:
			if x.r == x.w {
				b.err = x.fillBody()
				continue
			}
			n := int(min(b.left, int64(x.w-x.r), int64(most)))
			piece := x.in[x.r : x.r+n : x.r+n]
			x.r += n
			x.tookBody(n)
			return piece, nil
		default:
			b.err = x.chunkStep()
		}
	}
	return nil, b.err
}

func (x *Ctx) tookBody(n int) { x.body.took(n) }

func (b *body) took(n int) {
	b.left -= int64(n)
	b.read += int64(n)
	if b.left > 0 {
		return
	}
	b.phase = bodyDone
	if b.chunked {
		b.phase = bodyDataEnd
	}
}

// fillBody reads more from the connection behind the head, which stays where
// it is: the handler may still ask for it.
func (x *Ctx) fillBody() error {
	if err := x.beforeRead(); err != nil {
		return err
	}
	x.makeRoom(x.bodyAt)
	if len(x.in)-x.w < 1 || len(x.in)-x.bodyAt < bodyRoom {
		x.growIn(x.bodyAt + bodyRoom)
	}
	_, err := x.readBody(x.in[x.w:])
	return err
}

// beforeRead sends what the client may be waiting for. Of a handler of net/http that is
// only the 100 Continue: others may be writing, and they flush themselves.
func (x *Ctx) beforeRead() error {
	if e := x.adapted; e != nil {
		if !x.body.owed {
			return nil
		}
		e.mu.Lock()
		defer e.mu.Unlock()
	}
	if x.body.owed {
		x.body.owed = false
		if x.resp.phase == respOpen {
			x.out = append(x.out, "HTTP/1.1 100 Continue\r\n\r\n"...)
		}
	}
	return x.flush()
}

// armRead sets the deadline for a read of the body.
func (x *Ctx) armRead() error {
	if e := x.adapted; e != nil {
		return e.armRead(x)
	}
	if x.apart != nil {
		return x.apart.arm(x)
	}
	x.c.armRead(x.srv.limits.body)
	return nil
}

// readBody reads from the connection. If p is the free part of the read
// buffer the bytes become part of it.
func (x *Ctx) readBody(p []byte) (int, error) {
	if err := x.armRead(); err != nil {
		return 0, err
	}
	n, err := x.c.nc.Read(p)
	x.busyReads()
	if n == 0 && timedOut(err) {
		n = x.c.late(p)
	}
	switch {
	case n > 0:
		if x.w < len(x.in) && &p[0] == &x.in[x.w] {
			x.w += n
		}
		return n, nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		return 0, fmt.Errorf("%w: %w", bodyTimeout, err)
	case err == nil || err == io.EOF:
		return 0, fmt.Errorf("%w: %w", bodyTorn, io.ErrUnexpectedEOF)
	}
	return 0, err
}

// chunkStep takes one line of chunked framing.
func (x *Ctx) chunkStep() error {
	b := &x.body
	most := maxChunkLine
	if b.phase == bodyTrailer {
		most = x.srv.limits.head.size - b.trailer
	}
	line, err := x.chunkLine(most)
	if err != nil {
		return err
	}
	name, value, f := b.step(line, x.srv.limits.maxBody)
	if f != nil {
		return f
	}
	if name == nil {
		return nil
	}
	if x.adapted != nil {
		x.adapted.noteTrailer(name, value)
	}
	if x.apart != nil {
		x.apart.trailer = appendField(x.apart.trailer, viewString(name), viewString(value))
	}
	return nil
}

// step takes a line of chunked framing; its CR LF still follows it in the buffer. A line of the trailer is returned.
func (b *body) step(line []byte, maxBody int64) (name, value []byte, f *fault) {
	b.framing += int64(len(line)) + 2
	switch b.phase {
	case bodyDataEnd:
		if len(line) != 0 {
			return nil, nil, badChunk
		}
		b.phase = bodySize
	case bodySize:
		size, f := chunkSize(line)
		if f != nil {
			return nil, nil, f
		}
		if size > maxBody-b.read {
			return nil, nil, bodyTooLarge
		}
		b.waste = max(0, b.waste+int64(len(line))+4-chunkAllowance-min(2*size, maxWaste))
		if b.waste > maxWaste {
			return nil, nil, tooMuchFraming
		}
		b.left, b.phase = size, bodyData
		if size == 0 {
			b.phase = bodyTrailer
		}
	case bodyTrailer:
		if len(line) == 0 {
			b.phase = bodyDone
			return nil, nil, nil
		}
		b.trailer += len(line) + 2
		one, _, f := scanField(line[:len(line)+2], 0)
		if f != nil {
			return nil, nil, badTrailer
		}
		return one.name.of(line), one.value.of(line), nil
	}
	return nil, nil, nil
}

// chunkLine returns the next line without its CR LF, which follow it in the
// buffer.
func (x *Ctx) chunkLine(most int) ([]byte, error) {
	seen := 0
	for {
		for i := x.r + seen; i < x.w; i++ {
			if x.in[i] != '\n' {
				continue
			}
			if i == x.r || x.in[i-1] != '\r' {
				return nil, badChunk
			}
			line := x.in[x.r : i-1]
			x.r = i + 1
			return line, nil
		}
		seen = x.w - x.r
		if seen > most {
			return nil, badChunk
		}
		if x.body.phase == bodyDataEnd && seen > 0 && (seen > 1 || x.in[x.r] != '\r') {
			return nil, badChunk
		}
		if err := x.fillBody(); err != nil {
			return nil, err
		}
	}
}

// chunkSize reads the size before any extension (RFC 9112, 7.1).
func chunkSize(line []byte) (int64, *fault) {
	size, i := int64(0), 0
	for ; i < len(line); i++ {
		digit := hexValue(line[i])
		if digit < 0 {
			break
		}
		if i == maxChunkDigits {
			return 0, badChunk
		}
		size = size<<4 | int64(digit)
	}
	if i == 0 {
		return 0, badChunk
	}
	if !chunkExtensions(line[i:]) {
		return 0, badChunk
	}
	return size, nil
}

// drainBody takes what the handler left of the body. It returns false when
// that is too much, or can't be had: the connection must then be closed.
func (x *Ctx) drainBody() bool {
	if x.body.phase == bodyDone {
		return true
	}
	if x.body.owed || x.body.err != nil {
		return false
	}
	b := &x.body
	for before := b.read + b.framing; b.read+b.framing-before <= x.srv.limits.drain; {
		if _, err := x.nextBody(1 << 30); err != nil {
			return err == io.EOF
		}
	}
	return false
}

// Body is the request body. Reads return io.EOF at its end, an error that
// matches Status(413) when it is larger than Server.MaxBody, Status(408) when
// the client is too slow, and Status(400) when it is malformed or cut off;
// hand that error back and the client gets the right answer. A Read may park.
// Valid until the handler returns.
func (x *Ctx) Body() io.Reader { return (*bodyReader)(x) }

type bodyReader Ctx

func (r *bodyReader) Read(p []byte) (int, error) {
	x := (*Ctx)(r)
	if len(p) == 0 {
		return 0, nil
	}
	b := &x.body
	// A large piece of plain body need not pass through the buffer.
	if b.phase == bodyData && b.err == nil && x.r == x.w && !b.owed && len(p) >= bodyRoom {
		if b.err = x.beforeRead(); b.err == nil {
			var n int
			n, b.err = x.readBody(p[:min(int64(len(p)), b.left)])
			x.tookBody(n)
			return n, b.err
		}
	}
	piece, err := x.nextBody(len(p))
	return copy(p, piece), err
}
