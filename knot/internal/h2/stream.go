package h2

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"time"

	"golang.org/x/net/http2"

	"github.com/capriccio-go/capriccio/internal/engine"
)

// A Stream is one request of HTTP/2, to the server a connection of HTTP/1.1 on which
// one request comes. Fields without a word are guarded by mu of its connection.
type Stream struct {
	h  *Conn   // fixed
	of Request // that embeds it; fixed
	id uint32  // fixed

	head     []byte // of the request, what has not been read yet
	headSize int    // fixed
	tooLarge bool   // ... so that it is not worth while to read more; fixed
	headOnly bool   // it is a HEAD; fixed
	chunked  bool   // so is the body, to its reader; fixed
	length   int64  // that of the body as the head says, or -1; fixed

	body       []byte // what has come, from at on not read yet
	at         int
	bodySize   int64  // all that has come
	trailer    []byte // lines behind it
	received   bool   // it has come to its end
	framing    []byte // of chunks, what has not been read yet
	chunk      int    // bytes left of a chunk
	told       bool   // the last chunk has been put into framing
	recvWindow int64
	credit     int64 // bytes read that the client has not been told of
	sendWindow int64
	sent       bool // the response has been sent to its end
	done       bool // the handler has returned
	dropped    bool // reset, or the connection has ended
	parts      responseParts
	hangup     *func() // nil: none was given

	reader, writer  *engine.Waiter // that wait; nil: none
	queued          bool           // among the writers of the connection
	readBy, writeBy time.Time
	timer           *time.Timer // wakes both
	timerAt         time.Time
}

// ErrReset is the error of a write when the client has reset the request, or is gone.
var ErrReset = errors.New("knot: the client has reset the request, or is gone")

// newStream is called by the reader for the head that it has received.
func newStream(h *Conn, text []byte) *Stream {
	d := &h.head
	of := h.Host.NewRequest()
	st := of.Self()
	*st = Stream{
		h: h, of: of, id: h.last, head: text, headSize: len(text), tooLarge: d.over, length: d.length, chunked: !d.ends && d.length < 0,
		headOnly: d.over && d.method == "HEAD" || bytes.HasPrefix(text, []byte("HEAD ")), // d has no method if text is the one before
		received: d.ends, recvWindow: h.Limits.Window, sendWindow: h.newWindow,
	}
	st.parts.st = st
	return st
}

// Self is st, of what embeds it too.
func (st *Stream) Self() *Stream { return st }

// Begin is called once, when the task of the request begins. It returns false if the request has been dropped while that
// waited.
func (st *Stream) Begin() bool {
	st.h.mu.Lock()
	defer st.h.mu.Unlock()
	st.h.starting--
	return !st.dropped
}

// TooLarge reports whether the head was larger than allowed, and Read does not return it; headOnly: the answer has no body.
func (st *Stream) TooLarge() (large, headOnly bool) { return st.tooLarge, st.headOnly }

// Trailer returns the lines behind the body, each with its CR LF, and reports whether all of the request has come.
func (st *Stream) Trailer() (lines []byte, received bool) {
	st.h.mu.Lock()
	defer st.h.unlock()
	return st.trailer, st.received
}

// End is called once, when the handler has returned, or its goroutine ends.
func (st *Stream) End() {
	h := st.h
	h.mu.Lock()
	st.done = true
	if st.timer != nil {
		st.timer.Stop()
	}
	if !st.dropped {
		delete(h.streams, st.id)
		switch {
		case !st.sent: // it can't be completed
			h.cutOff(st.id, http2.ErrCodeInternal)
		case !st.received: // nor is the rest of the request wanted (RFC 9113, 8.1)
			h.cutOff(st.id, http2.ErrCodeNo)
		default:
			h.allowUseless(1)
		}
		h.give(nil, int64(len(st.body)-st.at))
		st.body = nil
	}
	h.heads -= st.headSize
	if h.handlers--; h.handlers == 0 {
		h.idleSince = h.Clock.Now()
		h.Host.Rested(h.idleSince)
	}
	idle := h.handlers == 0
	last := h.ended && idle // kick may leave mu, and the reader may end meanwhile: then it is the last
	h.kick()
	h.unlock()
	if last {
		h.Host.Forget()
	} else if idle {
		h.Host.Changed()
	}
}

// drop ends the stream, which is not among those of the connection any more, before its response was complete.
// It needs mu.
func (st *Stream) drop() {
	h := st.h
	st.dropped = true
	h.give(nil, int64(len(st.body)-st.at))
	st.body, st.at, st.chunk = nil, 0, 0
	st.wake(&st.reader)
	st.wake(&st.writer)
	if st.hangup != nil {
		h.gone = append(h.gone, *st.hangup)
		st.hangup = nil
	}
}

// cutsKept is how many streams are remembered that cutOff has reset: the last ones.
const cutsKept = 128

// cutOff resets a stream that the client may still be sending: what is on its way is to be dropped then, trailers
// too, and is no error (RFC 9113, 5.1). It needs mu.
func (h *Conn) cutOff(id uint32, code http2.ErrCode) {
	h.frames.WriteRSTStream(id, code)
	switch {
	case slices.Contains(h.cut, id):
		return
	case len(h.cut) == cutsKept:
		h.cut = slices.Delete(h.cut, 0, cutsKept/2)
	}
	h.cut = append(h.cut, id)
}

// give counts bytes that have been received and used: the client may send as many more, on st too if that
// is not nil. It needs mu.
func (h *Conn) give(st *Stream, n int64) {
	if h.credit += n; h.credit >= h.Limits.ConnWindow/4 {
		h.frames.WriteWindowUpdate(0, uint32(h.credit))
		h.recvWindow += h.credit
		h.credit = 0
	}
	if st == nil || st.received {
		return
	}
	if st.credit += n; st.credit >= h.Limits.Window/4 {
		h.frames.WriteWindowUpdate(st.id, uint32(st.credit))
		st.recvWindow += st.credit
		st.credit = 0
	}
}

// wake needs mu.
func (st *Stream) wake(slot **engine.Waiter) {
	if w := *slot; w != nil {
		*slot = nil
		w.Wake()
	}
}

// wait waits until the waiter in slot is woken, or by has passed: then it returns an error. It needs mu,
// which it leaves meanwhile.
func (st *Stream) wait(slot **engine.Waiter, why engine.Reason, by time.Time) error {
	if !by.IsZero() {
		left := time.Until(by)
		if left <= 0 {
			return os.ErrDeadlineExceeded
		}
		switch {
		case st.timer == nil:
			st.timer = time.AfterFunc(left, st.expire)
			st.timerAt = by
		case st.timerAt.IsZero() || by.Before(st.timerAt):
			st.timer.Reset(left)
			st.timerAt = by
		}
	}
	w := engine.Self()
	*slot = w
	st.h.unlock()
	w.Wait(why, nil)
	st.h.mu.Lock()
	return nil
}

func (st *Stream) expire() {
	st.h.mu.Lock()
	defer st.h.unlock()
	st.timerAt = time.Time{}
	st.wake(&st.reader)
	st.wake(&st.writer)
}

// Read implements net.Conn: the head, then the body, framed as the head says. One that is cut off
// ends, as a connection would.
func (st *Stream) Read(p []byte) (int, error) {
	h := st.h
	h.mu.Lock()
	defer h.unlock()
	for {
		if n := st.take(p); n > 0 || len(p) == 0 {
			h.kickLater()
			return n, nil
		}
		if st.dropped || st.told || st.received && !st.chunked {
			return 0, io.EOF
		}
		if err := st.wait(&st.reader, engine.ReasonRead, st.readBy); err != nil {
			return 0, err
		}
	}
}

// keep puts data behind what has come and has not been read. That is a window at most, but what has been read
// must make room: a reader that never catches up would have all of the body kept. It needs mu.
func (st *Stream) keep(data []byte) {
	if unread := len(st.body) - st.at; st.at >= unread && len(st.body)+len(data) > cap(st.body) {
		st.body, st.at = append(st.body[:0], st.body[st.at:]...), 0
	}
	st.body = append(st.body, data...)
	st.bodySize += int64(len(data))
}

// take is Read without a wait. It needs mu.
func (st *Stream) take(p []byte) (n int) {
	for n < len(p) {
		switch here := st.body[st.at:]; {
		case len(st.head) > 0:
			m := copy(p[n:], st.head)
			if st.head = st.head[m:]; len(st.head) == 0 {
				st.head = nil
			}
			n += m
		case len(st.framing) > 0:
			m := copy(p[n:], st.framing)
			st.framing = st.framing[m:]
			n += m
		case len(here) > 0 && st.chunked && st.chunk == 0:
			st.chunk = len(here)
			st.framing = fmt.Appendf(nil, "%x\r\n", len(here))
		case len(here) > 0:
			if st.chunked {
				here = here[:st.chunk]
			}
			m := copy(p[n:], here)
			n += m
			if st.at += m; st.at == len(st.body) {
				st.body, st.at = st.body[:0], 0
			}
			if st.chunked {
				if st.chunk -= m; st.chunk == 0 {
					st.framing = append(st.framing, "\r\n"...)
				}
			}
			st.h.give(st, int64(m))
		case st.chunked && st.received && !st.told && !st.dropped:
			st.told = true
			st.framing = append(append(append(st.framing, "0\r\n"...), st.trailer...), "\r\n"...)
		default:
			return n
		}
	}
	return n
}

// Write implements net.Conn: it takes a response of HTTP/1.1 apart.
func (st *Stream) Write(p []byte) (int, error) {
	st.h.mu.Lock()
	defer st.h.unlock()
	n, err := st.put(p)
	st.h.kick()
	return n, err
}

// Gather is Write of a part of a response whose next part follows at once.
func (st *Stream) Gather(p []byte) (int, error) {
	st.h.mu.Lock()
	defer st.h.unlock()
	return st.put(p)
}

// put is Gather for a caller that holds mu.
func (st *Stream) put(p []byte) (int, error) {
	if st.late() {
		return 0, os.ErrDeadlineExceeded
	}
	if err := st.parts.write(p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// late reports whether the deadline for writes has passed: then nothing is sent even if there is room. It needs mu.
func (st *Stream) late() bool {
	k := st.h.Clock
	return !st.writeBy.IsZero() && !st.writeBy.After(k.At(k.Now()))
}

// sendHead sends the head of a response, or the trailer; it waits while much has been gathered that the client
// does not take. It needs mu.
func (st *Stream) sendHead(status int, text []byte, ends bool) error {
	for len(st.h.out) >= outMost && !st.dropped && !st.h.over {
		if err := st.waitToSend(); err != nil {
			return err
		}
	}
	if st.dropped || st.h.over {
		return ErrReset
	}
	st.h.sendHead(st.id, status, text, ends)
	st.sent = ends
	return nil
}

// sendData sends a part of the body; it waits while the client does not want more. It needs mu.
func (st *Stream) sendData(p []byte, ends bool) error {
	for {
		switch {
		case st.dropped || st.h.over:
			return ErrReset
		case len(p) == 0 && !ends:
			return nil
		}
		n := st.sendSome(p, ends)
		if p = p[n:]; len(p) == 0 && (!ends || st.sent) {
			return nil
		}
		if err := st.waitToSend(); err != nil {
			return err
		}
	}
}

// room is how many of n bytes of a body may be sent at once. It needs mu.
func (st *Stream) room(n int64) int64 {
	return st.h.space(min(n, st.sendWindow, st.h.sendWindow))
}

// Room is how many of n bytes of a body may be sent at once. It never parks.
func (st *Stream) Room(n int) int {
	st.h.mu.Lock()
	defer st.h.mu.Unlock()
	return int(max(st.room(int64(n)), 0))
}

// sendSome sends as much of p as there is room for, and returns how much that was. It needs mu.
func (st *Stream) sendSome(p []byte, ends bool) (sent int) {
	h := st.h
	for {
		n := min(st.room(int64(len(p)-sent)), frameSize)
		if n <= 0 && (len(p) > 0 || !ends) {
			return sent
		}
		n = max(n, 0)
		whole := sent+int(n) == len(p)
		st.sent = ends && whole
		h.data(st.id, p[sent:sent+int(n)], st.sent)
		if h.allowUseless(int(n / refresh)); whole { // a client that lets little pass at a time earns nothing
			h.allowUseless(2) // it may widen both windows by what has come
		}
		h.sendWindow -= n
		st.sendWindow -= n
		if sent += int(n); whole {
			return sent
		}
	}
}

// AwaitRoom waits until the client takes more of the body, and returns how many of n bytes there is room for.
func (st *Stream) AwaitRoom(n int64) (int64, error) {
	st.h.mu.Lock()
	defer st.h.unlock()
	for {
		switch room := st.room(n); {
		case st.late():
			return 0, os.ErrDeadlineExceeded
		case st.dropped || st.h.over:
			return 0, ErrReset
		case room > 0:
			return room, nil
		}
		if err := st.waitToSend(); err != nil {
			return 0, err
		}
	}
}

// WriteSome is Write for as much of p as there is room for. All of p belongs to a body, or a chunk of one, whose head has
// been written.
func (st *Stream) WriteSome(p []byte) (int, error) {
	h, r := st.h, &st.parts
	h.mu.Lock()
	defer h.unlock()
	switch {
	case st.late():
		return 0, os.ErrDeadlineExceeded
	case st.dropped || h.over:
		return 0, ErrReset
	case r.phase != partsFixed && r.phase != partsChunk || int64(len(p)) > r.left:
		return 0, errParts
	}
	n := st.sendSome(p, r.phase == partsFixed && int64(len(p)) == r.left)
	r.passed(n)
	h.kick()
	return n, nil
}

// waitToSend sends what has been gathered, or waits until there may be room for more. It needs mu, which it
// leaves meanwhile.
func (st *Stream) waitToSend() error {
	h := st.h
	if !h.writing && len(h.out) > 0 {
		h.flush()
		return nil
	}
	if !st.queued {
		st.queued = true
		h.writers = append(h.writers, st)
	}
	return st.wait(&st.writer, engine.ReasonWrite, st.writeBy)
}

// Close implements net.Conn.
func (st *Stream) Close() error { return nil }

// LocalAddr implements net.Conn.
func (st *Stream) LocalAddr() net.Addr { return st.h.NC.LocalAddr() }

// RemoteAddr implements net.Conn.
func (st *Stream) RemoteAddr() net.Addr { return st.h.NC.RemoteAddr() }

// SetDeadline implements net.Conn.
func (st *Stream) SetDeadline(t time.Time) error {
	st.SetReadDeadline(t)
	return st.SetWriteDeadline(t)
}

// SetReadDeadline implements net.Conn.
func (st *Stream) SetReadDeadline(t time.Time) error {
	return st.setDeadline(&st.readBy, &st.reader, t)
}

// SetWriteDeadline implements net.Conn.
func (st *Stream) SetWriteDeadline(t time.Time) error {
	return st.setDeadline(&st.writeBy, &st.writer, t)
}

// setDeadline wakes the task that waits in slot, which looks at the deadline again.
func (st *Stream) setDeadline(by *time.Time, slot **engine.Waiter, t time.Time) error {
	st.h.mu.Lock()
	defer st.h.unlock()
	*by = t
	st.wake(slot)
	return nil
}

// OnHangup is that of netpoll.Conn: the request is reset, or the connection ends.
func (st *Stream) OnHangup(fn *func()) bool {
	st.h.mu.Lock()
	defer st.h.unlock()
	was := st.hangup != nil
	switch st.hangup = fn; {
	case fn == nil:
		return was
	case st.dropped:
		st.h.gone, st.hangup = append(st.h.gone, *fn), nil
	}
	return true
}
