// Package h3 is a request of HTTP/3, to the server a net.Conn on which one request of HTTP/1.1 comes and its response is
// written: so the rest of the server is the same for all versions. QUIC, frames and QPACK are those of another server, which
// has read the head and calls an http.Handler on a goroutine of the request. That goroutine sends the response (Answer), a
// second one reads the body, if there is one, and the task of the request uses the Stream. Between them are two buffers of
// limited size: a client that does not read, or a handler that does not, keeps the other side waiting.
package h3

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/ownconn"
	"github.com/capriccio-go/capriccio/knot/internal/h1"
)

// bufferSize is that of what waits to be sent, and of what waits to be read, in bytes: at half of it a file of 100 KB takes
// twice as many wake-ups.
const bufferSize = 64 << 10

var buffers = sync.Pool{New: func() any { return new([bufferSize]byte) }}

// ErrReset is the error of a write when the client has reset the request, or is gone.
var ErrReset = errors.New("knot: the client has reset the request, or is gone")

// A Stream is one request of HTTP/3. Fields without a word are guarded by mu, which is held for microseconds.
type Stream struct {
	w             http.ResponseWriter // Answer's
	r             *http.Request       // constant; its Body is the reader's
	method        string              // constant
	remote, local net.Addr            // constant
	client        atomic.Uint32
	deadlines     deadlines     // constant; nil: w has none
	reading       chan struct{} // closed when the reader has ended; constant; nil: there is none

	mu sync.Mutex

	in       []byte // head and body, from at on not read yet
	at       int
	inEnded  bool // no more comes
	noReader bool // nothing is read any more
	trailer  []byte
	received bool // the request has come to its end

	out     []byte // what has been written, and Answer has not taken
	push    bool   // it is to be sent now
	sending bool   // Answer is sending what it has taken
	outLost bool   // nothing can be sent any more
	ended   bool   // End was called

	reader, filler  *engine.Waiter // that wait for in to have something, or room; nil: none
	writer, sender  *engine.Waiter // ... out to have room, or something
	readBy, writeBy time.Time
	timer           *time.Timer // wakes reader and writer
	timerAt         time.Time

	hangup   *func() // nil: none was given
	hungUp   bool
	watching bool // the context of r calls noteGone
}

// deadlines are those of an http.ResponseWriter of HTTP/3.
type deadlines interface {
	SetReadDeadline(time.Time) error
	SetWriteDeadline(time.Time) error
}

// Begin makes st the request r, to be answered by w. A client that has not said whether a body follows has until by to tell.
// If it returns a status, the request can't be served, and has that answer: the Stream is not to be used.
func (st *Stream) Begin(w http.ResponseWriter, r *http.Request, by time.Time) (status int) {
	st.w, st.r, st.method = w, r, r.Method
	st.deadlines, _ = w.(deadlines)
	st.local, _ = r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if peer, err := netip.ParseAddrPort(r.RemoteAddr); err == nil {
		st.remote = net.UDPAddrFromAddrPort(peer)
		st.client.Store(ownconn.ClientOf(peer.Addr()))
	}
	var first []byte
	hasBody := r.ContentLength > 0
	if r.ContentLength < 0 && r.Method != http.MethodConnect { // which is answered without its tunnel
		if hasBody = expectsBody(r.Method); !hasBody {
			var err error
			if first, err = st.firstOfBody(by); err != nil {
				return http.StatusRequestTimeout
			}
			hasBody = len(first) > 0
		}
	}
	chunked := hasBody && r.ContentLength < 0
	if st.in, status = headOf(r, chunked); status != 0 {
		return status
	}
	if !hasBody {
		st.inEnded, st.received = true, true
		return 0
	}
	st.reading = make(chan struct{})
	go st.readBody(first, chunked)
	return 0
}

var errLate = errors.New("the request has not come to its end in time")

// firstOfBody returns the first byte of the body, none if there is no body.
func (st *Stream) firstOfBody(by time.Time) ([]byte, error) {
	if st.deadlines != nil && !by.IsZero() {
		st.deadlines.SetReadDeadline(by)
		defer st.deadlines.SetReadDeadline(time.Time{})
	}
	b := make([]byte, 1)
	for {
		switch n, err := st.r.Body.Read(b); {
		case n > 0:
			return b, nil
		case errors.Is(err, os.ErrDeadlineExceeded):
			return nil, errLate
		case err != nil:
			return nil, nil // the end, or what the next write will meet
		}
	}
}

// readBody is the reader: a goroutine that puts the body behind the head.
func (st *Stream) readBody(first []byte, chunked bool) {
	defer close(st.reading)
	buffer := buffers.Get().(*[bufferSize]byte)
	defer buffers.Put(buffer)
	room := buffer[:bufferSize/4]
	n, err := copy(room, first), error(nil)
	var framing []byte
	for {
		if n > 0 {
			if chunked {
				framing = h1.AppendChunkHead(framing[:0], n)
				if !st.keep(framing, room[:n], []byte("\r\n")) {
					return
				}
			} else if !st.keep(room[:n]) {
				return
			}
		}
		if err != nil {
			break
		}
		n, err = st.r.Body.Read(room)
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.received = err == io.EOF; st.received {
		st.trailer = appendTrailer(nil, st.r.Trailer)
		if chunked {
			st.in = append(append(append(st.in, "0\r\n"...), st.trailer...), "\r\n"...)
		}
	}
	st.inEnded = true
	wake(&st.reader)
}

// keep puts parts behind what has come, when there is room. It returns false if nothing is read any more.
func (st *Stream) keep(parts ...[]byte) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	for len(st.in)-st.at >= bufferSize && !st.noReader {
		st.wait(&st.filler, engine.ReasonWrite, time.Time{})
	}
	if st.noReader {
		return false
	}
	if unread := len(st.in) - st.at; st.at >= unread {
		st.in, st.at = append(st.in[:0], st.in[st.at:]...), 0
	}
	for _, p := range parts {
		st.in = append(st.in, p...)
	}
	wake(&st.reader)
	return true
}

// wake needs mu.
func wake(slot **engine.Waiter) {
	if w := *slot; w != nil {
		*slot = nil
		w.Wake()
	}
}

// wait waits until the waiter in slot is woken, or by has passed: then it returns an error. It needs mu, which it leaves
// meanwhile.
func (st *Stream) wait(slot **engine.Waiter, why engine.Reason, by time.Time) error {
	if !by.IsZero() {
		left := time.Until(by)
		switch {
		case left <= 0:
			return os.ErrDeadlineExceeded
		case st.timer == nil:
			st.timer, st.timerAt = time.AfterFunc(left, st.expire), by
		case st.timerAt.IsZero() || by.Before(st.timerAt):
			st.timer.Reset(left)
			st.timerAt = by
		}
	}
	w := engine.Self()
	*slot = w
	st.mu.Unlock()
	w.Wait(why, nil)
	st.mu.Lock()
	return nil
}

func (st *Stream) expire() {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.timerAt = time.Time{}
	wake(&st.reader)
	wake(&st.writer)
}

// Read implements net.Conn: the head, then the body, framed as the head says. One that is cut off ends, as a connection would.
func (st *Stream) Read(p []byte) (int, error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	for {
		if n := copy(p, st.in[st.at:]); n > 0 || len(p) == 0 {
			st.at += n
			wake(&st.filler)
			return n, nil
		}
		if st.inEnded {
			return 0, io.EOF
		}
		if err := st.wait(&st.reader, engine.ReasonRead, st.readBy); err != nil {
			return 0, err
		}
	}
}

// Write implements net.Conn: it takes a response of HTTP/1.1, and has what has come of it sent.
func (st *Stream) Write(p []byte) (int, error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	n, err := st.put(p)
	st.push = true
	wake(&st.sender)
	return n, err
}

// Gather is Write of a part of a response whose next part follows at once.
func (st *Stream) Gather(p []byte) (int, error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.put(p)
}

// put is Gather for a caller that holds mu.
func (st *Stream) put(p []byte) (n int, err error) {
	for {
		if err := st.unfit(); err != nil {
			return n, err
		}
		m := st.add(p[n:])
		if n += m; n == len(p) {
			return n, nil
		}
		if err := st.waitToWrite(); err != nil {
			return n, err
		}
	}
}

// unfit is why nothing can be written. It needs mu.
func (st *Stream) unfit() error {
	switch {
	case st.outLost:
		return ErrReset
	case !st.writeBy.IsZero() && time.Until(st.writeBy) <= 0:
		return os.ErrDeadlineExceeded
	}
	return nil
}

// add takes as much of p as there is room for. It needs mu.
func (st *Stream) add(p []byte) int {
	if st.out == nil && len(p) > 0 {
		st.out = buffers.Get().(*[bufferSize]byte)[:0]
	}
	n := min(len(p), bufferSize-len(st.out))
	st.out = append(st.out, p[:n]...)
	return n
}

// waitToWrite needs mu, which it leaves meanwhile.
func (st *Stream) waitToWrite() error {
	wake(&st.sender)
	return st.wait(&st.writer, engine.ReasonWrite, st.writeBy)
}

// Room is how many of n bytes of a body may be written at once. It never parks.
func (st *Stream) Room(n int) int {
	st.mu.Lock()
	defer st.mu.Unlock()
	return min(n, bufferSize-len(st.out))
}

// AwaitRoom waits until the client takes more of the body, and returns how many of n bytes there is room for.
func (st *Stream) AwaitRoom(n int64) (int64, error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	for {
		if err := st.unfit(); err != nil {
			return 0, err
		}
		if room := bufferSize - len(st.out); room > 0 {
			return min(n, int64(room)), nil
		}
		if err := st.waitToWrite(); err != nil {
			return 0, err
		}
	}
}

// WriteSome is Write for as much of p, a part of a body, as there is room for.
func (st *Stream) WriteSome(p []byte) (int, error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if err := st.unfit(); err != nil {
		return 0, err
	}
	n := st.add(p)
	st.push = true
	wake(&st.sender)
	return n, nil
}

// Trailer returns the lines behind the body, each with its CR LF, and reports whether all of the request has come.
func (st *Stream) Trailer() (lines []byte, received bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.trailer, st.received
}

// End is called once, when the handler has returned, or its goroutine ends. What is left of the response has until the
// deadline for writes to be sent.
func (st *Stream) End() {
	st.mu.Lock()
	st.ended, st.noReader = true, true
	if st.timer != nil {
		st.timer.Stop()
	}
	if st.deadlines != nil && !st.writeBy.IsZero() && (st.sending || len(st.out) > 0) {
		st.deadlines.SetWriteDeadline(st.writeBy)
	}
	wake(&st.sender)
	wake(&st.filler)
	st.mu.Unlock()
}

// Client is a number that stands for the client.
func (st *Stream) Client() uint32 { return st.client.Load() }

// SetClient has Client stand for the host with this address: the peer is a proxy that forwards for it.
func (st *Stream) SetClient(addr netip.Addr) { st.client.Store(ownconn.ClientOf(addr)) }

// OnHangup is that of netpoll.Conn: the request is reset, or the connection ends.
func (st *Stream) OnHangup(fn *func()) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	was := st.hangup != nil
	st.hangup = fn
	switch {
	case fn == nil:
		return was
	case !st.watching:
		st.watching = true
		context.AfterFunc(st.r.Context(), st.noteGone)
	case st.hungUp:
		st.hangup = nil
		go (*fn)() // not on the caller's goroutine
	}
	return true
}

func (st *Stream) noteGone() {
	st.mu.Lock()
	fn := st.hangup
	st.hangup, st.hungUp = nil, true
	st.mu.Unlock()
	if fn != nil {
		(*fn)()
	}
}

// Close implements net.Conn.
func (st *Stream) Close() error { return nil }

// LocalAddr implements net.Conn.
func (st *Stream) LocalAddr() net.Addr { return st.local }

// RemoteAddr implements net.Conn.
func (st *Stream) RemoteAddr() net.Addr { return st.remote }

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
	st.mu.Lock()
	defer st.mu.Unlock()
	*by = t
	wake(slot)
	return nil
}
