package h2

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/knot/internal/clock"
)

// defaultHead is how large heads are in these tests, in bytes, unless a test says so.
const defaultHead = 32 << 10

// A silentConn is a connection on which nothing comes, and that does something during each write.
type silentConn struct {
	net.Conn // nil: not used
	hook     func()
}

func (c silentConn) Read([]byte) (int, error) { return 0, io.EOF }

func (c silentConn) Write(p []byte) (int, error) {
	if c.hook != nil {
		c.hook()
	}
	return len(p), nil
}

func (silentConn) Close() error                     { return nil }
func (silentConn) SetReadDeadline(time.Time) error  { return nil }
func (silentConn) SetWriteDeadline(time.Time) error { return nil }

// A fakeHost is a server that answers nothing.
type fakeHost struct {
	asleep    bool
	forgotten int
}

type fakeRequest struct{ Stream }

func (*fakeRequest) Serve() {}

func (*fakeHost) NewRequest() Request { return new(fakeRequest) }
func (f *fakeHost) Awake() bool       { return !f.asleep }
func (*fakeHost) Rested(int64)        {}
func (*fakeHost) Late([]byte) int     { return 0 }
func (*fakeHost) Changed()            {}
func (f *fakeHost) Forget()           { f.forgotten++ }

// silent makes a connection on which nothing comes.
func silent(hook func(), head int) *Conn {
	limits := LimitsOf(nil, 0)
	limits.Head = head
	return NewConn(Setting{NC: silentConn{hook: hook}, Host: new(fakeHost), Limits: &limits, Clock: new(clock.Clock)})
}

// encode makes the head of a request, with more fields, given as name and value in turn.
func encode(more ...string) []byte {
	var block bytes.Buffer
	enc := hpack.NewEncoder(&block)
	fields := append([]string{":method", "GET", ":scheme", "http", ":path", "/", ":authority", "h"}, more...)
	for i := 0; i < len(fields); i += 2 {
		enc.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	return block.Bytes()
}

// TestLargeHeadsAreNotKept: a connection that rests does not hold what a large head took, in however many frames it came.
func TestLargeHeadsAreNotKept(t *testing.T) {
	h := silent(nil, defaultHead)
	block := encode("cookie", string(bytes.Repeat([]byte("c"), 10_000)), "x", string(bytes.Repeat([]byte("x"), 10_000)))
	h.last = 1
	h.head.reset(1, true, h.Limits.Head)
	testenv.Check(t, h.fragment(block[:5000], false))
	testenv.Check(t, h.fragment(block[5000:], true))
	if st := h.streams[1]; st == nil || len(st.head) < 20_000 {
		t.Error("the head has not become a request")
	}
	h.head.rest()
	if d := &h.head; cap(d.text)+cap(d.cookie)+cap(d.block)+cap(h.text) > 0 {
		t.Errorf("%d, %d, %d and %d bytes are kept", cap(d.text), cap(d.cookie), cap(d.block), cap(h.text))
	}
}

// TestHeadsTogether: a client that has one large head repeated, which takes it a byte each, is refused more of them than fit.
func TestHeadsTogether(t *testing.T) {
	h := silent(nil, 1<<20)
	block := encode("x", strings.Repeat("x", headsMost/4))
	ask := func(n uint32) error {
		h.last = n
		h.head.reset(n, false, h.Limits.Head)
		return h.fragment(block, true)
	}
	for n := range uint32(3) {
		testenv.Must(t, ask(2*n+1))
	}
	var torn http2.StreamError
	if err := ask(7); !errors.As(err, &torn) || torn.Code != http2.ErrCodeRefusedStream {
		t.Errorf("%v, want the stream refused", err)
	}
	h.streams[1].End()
	testenv.Check(t, ask(9), "when one has ended")
}

// TestRefusedForRoom: a request that comes on a connection that has just been chosen to make room is refused, so that the
// client knows that it may send it again.
func TestRefusedForRoom(t *testing.T) {
	h := silent(nil, defaultHead)
	h.Host.(*fakeHost).asleep = true
	h.last = 1
	h.head.reset(1, true, h.Limits.Head)
	var torn http2.StreamError
	if err := h.fragment(encode(), true); !errors.As(err, &torn) || torn.StreamID != 1 || torn.Code != http2.ErrCodeRefusedStream {
		t.Errorf("%v, want the stream refused", err)
	}
	if len(h.streams) != 0 || h.handlers != 0 {
		t.Errorf("%d streams, %d handlers", len(h.streams), h.handlers)
	}
}

// TestUnwritten: a response counts as unwritten while another task writes it, though its handler has returned.
func TestUnwritten(t *testing.T) {
	var during func()
	h := silent(func() { during() }, defaultHead)
	h.last = 1
	h.head.reset(1, true, h.Limits.Head)
	testenv.Must(t, h.fragment(encode(), true))
	st := h.streams[1]
	st.Begin()
	during = func() {
		during = func() {}
		st.End()
		testenv.Equal(t, h.Unwritten(), true, "during the write")
	}
	h.mu.Lock()
	h.kick()
	h.mu.Unlock()
	testenv.Equal(t, h.Unwritten(), false, "after the write")
}

// TestReaderAFrameBehind: a reader that is always a frame behind what comes does not have all of the body kept.
func TestReaderAFrameBehind(t *testing.T) {
	h := silent(nil, defaultHead)
	st := &Stream{h: h, id: 1, length: -1, recvWindow: h.Limits.Window}
	h.last, h.streams[1] = 1, st
	var wire bytes.Buffer
	frames := http2.NewFramer(&wire, &wire)
	piece := make([]byte, frameSize)
	const many = 1000
	for i := range many {
		testenv.Must(t, frames.WriteData(1, false, bytes.Repeat([]byte{byte(i)}, frameSize)))
		f, err := frames.ReadFrame()
		testenv.Must(t, err)
		h.mu.Lock()
		err = h.dataFrame(f.(*http2.DataFrame))
		if i > 0 {
			if n := st.take(piece); n != len(piece) || piece[0] != byte(i-1) || piece[n-1] != byte(i-1) {
				t.Errorf("%d bytes of frame %d are read, which begin with %d and end with %d", n, i-1, piece[0], piece[n-1])
			}
		}
		h.mu.Unlock()
		testenv.Must(t, err)
	}
	if unread := len(st.body) - st.at; unread != frameSize || st.bodySize != many*frameSize || cap(st.body) > 16*frameSize {
		t.Errorf("of %d bytes that have come %d have not been read, and %d are kept", st.bodySize, unread, cap(st.body))
	}
}

// TestForgetsOnce: the client leaves while the end of its last request is being written.
func TestForgetsOnce(t *testing.T) {
	var h *Conn
	h = silent(func() { h.end() }, defaultHead)
	st := &Stream{h: h, id: 1}
	h.streams[1], h.handlers = st, 1
	st.End()
	testenv.Equal(t, h.Host.(*fakeHost).forgotten, 1, "the ends of the connection that the server is told of")
}

// TestUselessFramesAreForgivenWithTime: a client that asks now and then whether the server is there may do so for a long time.
func TestUselessFramesAreForgivenWithTime(t *testing.T) {
	near, far := net.Pipe()
	defer near.Close()
	near.SetDeadline(time.Now().Add(time.Minute))
	h := silent(nil, defaultHead)
	h.NC = far
	go h.readClient()
	frames := http2.NewFramer(near, near)
	read := make(chan string, 1)
	go func() {
		for {
			f, err := frames.ReadFrame()
			if err != nil {
				return
			}
			switch f.(type) {
			case *http2.PingFrame, *http2.GoAwayFrame:
				read <- f.Header().Type.String()
			}
		}
	}()
	io.WriteString(near, http2.ClientPreface)
	frames.WriteSettings()
	for range 5 {
		for range MaxUseless * 4 / 5 {
			frames.WritePing(false, [8]byte{})
			testenv.Equal(t, <-read, "PING", "the answer to a PING")
		}
		h.mu.Lock()
		h.heard -= int64(time.Minute)
		h.mu.Unlock()
	}
}
