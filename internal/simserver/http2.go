//go:build linux

package simserver

import (
	"bytes"
	"math"
	"slices"
	"strconv"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// HTTP2 is how a client speaks HTTP/2. The zero value is a client that takes all at once.
type HTTP2 struct {
	Window   int           // of each stream, in bytes; 0: 65,535
	Shut     bool          // ... which is 0 until it has been opened by an update
	Lag      time.Duration // mean time until what has come is taken; 0: it is taken at once
	Table    int           // bytes of the table of headers, less 1; 0: 4,096
	Piece    int           // bytes of the content of a frame, at most; 0: 16,384
	Heads    int           // bytes of each frame of a head, at most; 0: as many
	Padded   bool          // so is content, and mixed with empty frames
	Unsized  bool          // requests don't say how long their body is
	Stubborn bool          // the client goes on sending the body of a request that has been answered, instead of resetting the stream
	Share    int           // requests that it sends at a time on one connection; 0: 1
	Reset    float64       // probability that a request is reset before its answer has come
	Fidget   float64       // probability of some other frame with each request
}

const (
	frameMost   = 16 << 10
	firstWindow = 1<<16 - 1
	// frettings is how many frames without use any client may send (docs/http2.md).
	frettings = 1000
	// promptly is within what time a PING and SETTINGS are answered.
	promptly = 25 * time.Second
)

// An http2Wire is HTTP/2 with prior knowledge (RFC 9113).
type http2Wire struct {
	s     *Session
	habit *HTTP2

	in      []byte
	at      bytes.Reader
	out     bytes.Buffer
	frames  *http2.Framer
	enc     *hpack.Encoder
	encoded bytes.Buffer

	streams  []*clientStream // in the order they were begun
	later    []*Request      // more than the server wants at a time
	resets   map[uint32]bool // streams that the client has reset
	next     uint32
	last     uint32 // that the server answers
	fretted  int    // frames sent so far that the server may count as useless
	settings answers
	pings    answers

	// Limits that the server has set.
	settled bool // it has said so
	limit   int  // of streams
	window  int64
	first   int64 // of a stream

	// Limits that the client has set. Of windows only room that the server knows of for sure is taken back.
	mine    int64    // of the connection
	unread  int64    // ... which has come
	target  int64    // for each stream
	changes []func() // by the answers to SETTINGS; nil: nothing
}

// answers counts what has to be answered.
type answers struct{ asked, got int }

// A clientStream is a request under way.
type clientStream struct {
	id       uint32
	r        *Request
	unsent   int
	early    bool // it was begun before the server has said what it allows
	ended    bool // the request has been sent
	answered bool
	length   int // of the answer, as it says; -1: it does not
	window   int64
	mine     int64
	unread   int64
}

func newHTTP2Wire(s *Session, habit *HTTP2) *http2Wire {
	w := &http2Wire{
		s: s, habit: habit, resets: map[uint32]bool{}, next: 1, last: math.MaxInt32,
		limit: 100, window: firstWindow, first: firstWindow, mine: firstWindow,
	}
	w.target = int64(w.usual())
	w.frames = http2.NewFramer(&w.out, &w.at)
	w.frames.ReadMetaHeaders = hpack.NewDecoder(4<<10, nil)
	w.enc = hpack.NewEncoder(&w.encoded)
	w.out.WriteString(http2.ClientPreface)
	settings := []http2.Setting{{ID: http2.SettingEnablePush, Val: 0}, {ID: http2.SettingInitialWindowSize, Val: uint32(w.initial())}}
	if habit.Table > 0 {
		settings = append(settings, http2.Setting{ID: http2.SettingHeaderTableSize, Val: uint32(habit.Table - 1)})
	}
	w.set(nil, settings...)
	w.flush()
	return w
}

// usual is the window of a stream that the client begins with.
func (w *http2Wire) usual() int {
	if w.habit.Window > 0 {
		return w.habit.Window
	}
	return firstWindow
}

// initial is what streams that begin may have sent to them at once.
func (w *http2Wire) initial() int64 {
	if w.habit.Shut {
		return 0
	}
	return w.target
}

// set sends SETTINGS, and calls then when the server has acknowledged them.
func (w *http2Wire) set(then func(), all ...http2.Setting) {
	w.frames.WriteSettings(all...)
	w.fretted++
	w.changes = append(w.changes, then)
	w.expect("SETTINGS", &w.settings)
}

// expect notes if the server does not answer.
func (w *http2Wire) expect(what string, n *answers) {
	n.asked++
	number := n.asked
	w.s.w.After(promptly, func() {
		if !w.s.gone && n.got < number {
			w.fault("%s %d has not been answered after %v", what, number, promptly)
		}
	})
}

// answered counts an answer.
func (w *http2Wire) answered(what string, n *answers) {
	if n.got++; n.got > n.asked {
		w.fault("an answer to no %s", what)
	}
}

func (w *http2Wire) fault(format string, args ...any) {
	w.s.w.fault("HTTP/2, client %d: "+format, append([]any{w.s.link.id}, args...)...)
}

// flush sends what has been gathered.
func (w *http2Wire) flush() {
	if w.out.Len() > 0 {
		w.s.transmit(w.out.Bytes())
		w.out = bytes.Buffer{}
	}
}

func (w *http2Wire) most() int { return max(w.habit.Share, 1) }

func (w *http2Wire) owed() *Request {
	for _, st := range w.streams {
		if !st.answered && (w.settled || !w.s.c.Halted) {
			return st.r
		}
	}
	return nil
}

func (w *http2Wire) send(r *Request) {
	w.later = append(w.later, r)
	w.begin()
	w.flush()
	if w.habit.Reset > 0 && w.s.w.Chance(w.habit.Reset) {
		w.s.w.After(w.s.w.Exp(20*time.Millisecond), func() { w.s.GiveUp(r, "reset", false) })
	}
}

// begin sends the requests that the server wants.
func (w *http2Wire) begin() {
	for len(w.later) > 0 && len(w.streams) < w.limit && !w.s.lastOne {
		r := w.later[0]
		w.later = w.later[1:]
		st := &clientStream{id: w.next, r: r, early: !w.settled, unsent: r.Body, ended: r.Body == 0, length: -1, window: w.first, mine: w.initial()}
		w.next += 2
		w.streams = append(w.streams, st)
		w.head(st)
		w.open(st)
		w.pump()
		if w.s.w.Chance(w.habit.Fidget) {
			w.fidget(st)
		}
	}
	if w.s.lastOne && len(w.later) > 0 {
		w.sentAway("no more requests go on this connection")
	}
}

func (w *http2Wire) head(st *clientStream) {
	w.encoded.Reset()
	field := func(name, value string) { w.enc.WriteField(hpack.HeaderField{Name: name, Value: value}) }
	method := "GET"
	if st.r.Body > 0 {
		method = "POST"
	}
	field(":method", method)
	field(":scheme", "http")
	field(":path", st.r.Path)
	field(":authority", "sim")
	if st.r.Body > 0 && !w.habit.Unsized {
		field("content-length", strconv.Itoa(st.r.Body))
	}
	block := w.encoded.Bytes()
	for first := true; first || len(block) > 0; first = false {
		k := min(len(block), frameMost)
		if w.habit.Heads > 0 {
			k = min(k, max(w.habit.Heads, len(block)/64+1))
		}
		if first {
			w.frames.WriteHeaders(http2.HeadersFrameParam{StreamID: st.id, BlockFragment: block[:k], EndStream: st.ended, EndHeaders: k == len(block)})
		} else {
			w.frames.WriteContinuation(st.id, k == len(block), block[:k])
		}
		block = block[k:]
	}
}

// pump sends what windows have room for.
func (w *http2Wire) pump() {
	piece := frameMost - 8 // padding
	if w.habit.Piece > 0 {
		piece = min(piece, w.habit.Piece)
	}
	for again := true; again; {
		again = false
		for _, st := range w.streams {
			pad := 0
			if w.habit.Padded {
				pad = int(st.id)%7 + 1
			}
			k := int(min(int64(st.unsent), int64(piece), st.window-int64(pad), w.window-int64(pad)))
			if st.ended || k <= 0 {
				continue
			}
			b := pattern[st.r.Body-st.unsent:][:k]
			st.unsent -= k
			st.ended = st.unsent == 0 && !w.habit.Padded
			if pad > 0 {
				w.frames.WriteDataPadded(st.id, false, b, make([]byte, pad-1))
				st.window, w.window = st.window-int64(pad), w.window-int64(pad)
			} else {
				w.frames.WriteData(st.id, st.ended, b)
			}
			if st.unsent == 0 && !st.ended { // an empty frame
				st.ended = true
				w.frames.WriteData(st.id, true, nil)
			}
			if k < 1<<10 { // a small frame is one without use if the server has given the request up
				w.fretted++
			}
			st.window -= int64(k)
			w.window -= int64(k)
			again = true
		}
	}
	w.streams = slices.DeleteFunc(w.streams, func(st *clientStream) bool { return st.answered && st.ended })
}

// fidget sends a random frame that is allowed and not needed for a request.
func (w *http2Wire) fidget(st *clientStream) {
	w.fretted++
	switch w.s.w.IntN(6) {
	case 0:
		w.frames.WritePriority(st.id, http2.PriorityParam{Weight: 3})
	case 1:
		w.frames.WriteRawFrame(0x42, 0xff, st.id, pattern[:w.s.w.IntN(100)])
	case 2:
		w.frames.WriteGoAway(0, http2.ErrCodeNo, []byte("enough"))
		w.s.lastOne = true
	case 3, 4:
		w.ping()
	default:
		w.resize(w.usual()/4 + 1 + w.s.w.IntN(2*w.usual()))
	}
}

func (w *http2Wire) ping() {
	w.frames.WritePing(false, [8]byte{1})
	w.expect("PING", &w.pings)
}

// resize changes the window of all streams.
func (w *http2Wire) resize(size int) {
	if w.habit.Shut || w.settings.got < w.settings.asked {
		return
	}
	more := int64(size) - w.target
	w.target = int64(size)
	all := slices.Clone(w.streams)
	change := func() {
		for _, st := range all {
			st.mine += more
			w.open(st)
		}
	}
	if more > 0 {
		change()
		change = nil
	}
	w.set(change, http2.Setting{ID: http2.SettingInitialWindowSize, Val: uint32(size)})
}

// sentAway ends the requests that will not be sent, or that the server does not answer.
func (w *http2Wire) sentAway(why string) {
	none := w.later
	w.later = nil
	for _, st := range w.streams {
		if st.id > w.last && !st.answered {
			none = append(none, st.r)
		}
	}
	w.streams = slices.DeleteFunc(w.streams, func(st *clientStream) bool { return st.id > w.last })
	for _, r := range none {
		w.s.done(r, 0, why)
	}
}

func (w *http2Wire) cancel(r *Request) bool {
	w.later = slices.DeleteFunc(w.later, func(x *Request) bool { return x == r })
	for _, st := range w.streams {
		if st.r == r && !st.answered {
			w.reset(st)
			w.begin()
			w.flush()
			break
		}
	}
	return true
}

func (w *http2Wire) reset(st *clientStream) {
	w.resets[st.id] = true
	w.fretted++
	w.frames.WriteRSTStream(st.id, http2.ErrCodeCancel)
	w.drop(st)
}

// drop forgets the stream.
func (w *http2Wire) drop(st *clientStream) {
	w.streams = slices.DeleteFunc(w.streams, func(x *clientStream) bool { return x == st })
}
