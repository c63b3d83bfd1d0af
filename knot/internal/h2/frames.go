package h2

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"time"

	"golang.org/x/net/http2"

	"github.com/capriccio-go/capriccio/knot/internal/h1"
)

// The frames that a client sends. All of this is the reader's.

const (
	// MaxUseless is how many frames without use a client may send: frames that bring no request any further, ask for
	// answers, or take back what was asked for. Content, answers that were wanted to the end, and time
	// give it back. A client that has used it up is sent away (CVE-2019-9511, -9512, -9515, -9518, CVE-2023-44487).
	MaxUseless = 1000
	// forgives is after how long one such frame is forgotten, in nanoseconds.
	forgives = int64(50 * time.Millisecond)
	// refresh is for how many bytes of content a client may send one WINDOW_UPDATE: some have windows of 1 KB.
	refresh = 256
	// settingsMost is how many settings one frame may have: the window of each stream follows each of them.
	settingsMost = 32
	// headFrames is how many frames a head may come in.
	headFrames = 128
)

// countUseless counts a useless frame, and returns an error if the client has sent too many. It needs mu.
func (h *Conn) countUseless() error {
	if h.uselessLeft--; h.uselessLeft < 0 {
		return http2.ConnectionError(http2.ErrCodeEnhanceYourCalm)
	}
	return nil
}

// allowUseless lets the client send n more useless frames, up to MaxUseless. It needs mu.
func (h *Conn) allowUseless(n int) { h.uselessLeft = min(h.uselessLeft+n, MaxUseless) }

func streamError(id uint32, code http2.ErrCode) error {
	return http2.StreamError{StreamID: id, Code: code}
}

// frame reads a frame and deals with it. It returns false when nothing more can be read.
func (h *Conn) frame() bool {
	err := h.greet()
	var fh http2.FrameHeader
	var f http2.Frame
	if err == nil {
		fh, err = h.in.frames.ReadFrameHeader()
	}
	if err == nil && fh.Length > h.Limits.Frame {
		err = http2.ErrFrameTooLarge
	}
	if err == nil {
		f, err = h.in.frames.ReadFrameForHeader(fh)
	}
	if err == nil {
		if !h.settled && fh.Type != http2.FrameSettings {
			err = http2.ConnectionError(http2.ErrCodeProtocol)
		} else {
			h.settled = true
			h.mu.Lock()
			err = h.dispatch(f)
			h.unlock()
			if run := h.begin; run != nil {
				h.begin = nil
				h.start(h.Entrance, run)
			}
		}
	}
	if err == nil || h.discarding {
		return true
	}
	var broken http2.ConnectionError
	var torn http2.StreamError
	switch {
	case errors.As(err, &torn) && (fh.Type == http2.FrameHeaders || fh.Type == http2.FrameContinuation) && f == nil:
		h.fail(torn.Code) // its header block has not been decoded
	case errors.As(err, &torn):
		h.mu.Lock()
		h.Limits.Count("stream_" + torn.Code.String())
		if st := h.streams[torn.StreamID]; st != nil {
			delete(h.streams, torn.StreamID)
			st.drop()
		}
		h.cutOff(torn.StreamID, torn.Code)
		err = h.countUseless()
		h.unlock()
		if err != nil {
			h.fail(http2.ErrCodeEnhanceYourCalm)
		}
	case errors.As(err, &broken):
		h.fail(http2.ErrCode(broken))
	case errors.Is(err, http2.ErrFrameTooLarge):
		h.fail(http2.ErrCodeFrameSize)
	case h.in.err != nil: // of the connection
		return false
	default: // too short for what its flags say
		h.fail(http2.ErrCodeFrameSize)
	}
	return true
}

// greet reads the preface (RFC 9113, 3.4).
func (h *Conn) greet() error {
	if h.greeted {
		return nil
	}
	var got [len(http2.ClientPreface)]byte
	if _, err := io.ReadFull(h.in, got[:]); err != nil {
		return err
	}
	if string(got[:]) != http2.ClientPreface {
		return http2.ConnectionError(http2.ErrCodeProtocol)
	}
	h.greeted = true
	return nil
}

// dispatch needs mu.
func (h *Conn) dispatch(f http2.Frame) error {
	if !h.control() { // it asks and does not read the answers
		return http2.ConnectionError(http2.ErrCodeEnhanceYourCalm)
	}
	switch f := f.(type) {
	case *http2.DataFrame:
		return h.dataFrame(f)
	case *http2.HeadersFrame:
		return h.headersFrame(f)
	case *http2.ContinuationFrame:
		return h.fragment(f.HeaderBlockFragment(), f.HeadersEnded())
	case *http2.SettingsFrame:
		return h.settingsFrame(f)
	case *http2.WindowUpdateFrame:
		return h.windowFrame(f)
	case *http2.PingFrame:
		switch {
		case !f.IsAck():
			h.frames.WritePing(true, f.Data)
			return h.countUseless()
		case f.Data == farewellPing && h.leaving:
			h.close()
		default:
			return h.countUseless()
		}
	case *http2.RSTStreamFrame:
		if f.StreamID > h.last {
			return http2.ConnectionError(http2.ErrCodeProtocol)
		}
		if st := h.streams[f.StreamID]; st != nil {
			delete(h.streams, f.StreamID)
			st.drop()
		}
		return h.countUseless()
	case *http2.PushPromiseFrame:
		return http2.ConnectionError(http2.ErrCodeProtocol)
	default: // a GOAWAY too: what it has asked for is answered
		return h.countUseless()
	}
	return nil
}

// of finds the stream that a frame is about; nil: it is closed. It needs mu.
func (h *Conn) of(id uint32) (*Stream, error) {
	if id > h.last || id%2 == 0 {
		return nil, http2.ConnectionError(http2.ErrCodeProtocol)
	}
	return h.streams[id], nil
}

func (h *Conn) settingsFrame(f *http2.SettingsFrame) error {
	if f.IsAck() { // the next head begins with the size of its table (RFC 9113, 4.3.1)
		h.dec.SetAllowedMaxDynamicTableSize(h.Limits.Table)
		h.dec.SetMaxDynamicTableSize(h.Limits.Table)
		h.block = h.block[:0]
		return h.countUseless()
	}
	if f.NumSettings() > settingsMost {
		return http2.ConnectionError(http2.ErrCodeEnhanceYourCalm)
	}
	err := f.ForeachSetting(func(s http2.Setting) error {
		if err := s.Valid(); err != nil {
			return err
		}
		switch s.ID {
		case http2.SettingHeaderTableSize:
			h.enc.SetMaxDynamicTableSize(min(s.Val, h.Limits.EncoderTable))
			h.lastHead = h.lastHead[:0]
		case http2.SettingInitialWindowSize:
			more := int64(s.Val) - h.newWindow
			h.newWindow = int64(s.Val)
			for _, st := range h.streams {
				if st.sendWindow += more; st.sendWindow > largestID {
					return http2.ConnectionError(http2.ErrCodeFlowControl)
				}
			}
			h.wakeWriters()
		}
		return nil
	})
	if err != nil {
		return err
	}
	h.frames.WriteSettingsAck()
	return h.countUseless()
}

func (h *Conn) windowFrame(f *http2.WindowUpdateFrame) error {
	if f.StreamID == 0 {
		was := h.sendWindow
		if h.sendWindow += int64(f.Increment); h.sendWindow > largestID {
			return http2.ConnectionError(http2.ErrCodeFlowControl)
		}
		if was <= 0 {
			h.wakeWriters()
		}
		return h.countUseless()
	}
	st, err := h.of(f.StreamID)
	if err == nil {
		err = h.countUseless()
	}
	if st == nil || err != nil {
		return err
	}
	if st.sendWindow += int64(f.Increment); st.sendWindow > largestID {
		return streamError(f.StreamID, http2.ErrCodeFlowControl)
	}
	st.wake(&st.writer)
	return nil
}

func (h *Conn) dataFrame(f *http2.DataFrame) error {
	st, err := h.of(f.StreamID)
	if err != nil {
		return err
	}
	size, data := int64(f.Length), f.Data()
	if h.recvWindow -= size; h.recvWindow < 0 {
		return http2.ConnectionError(http2.ErrCodeFlowControl)
	}
	if st == nil || st.received {
		h.give(nil, size)
		switch {
		case h.closing && st == nil:
			return h.countUseless()
		case st == nil && size >= inFlight: // it may not know yet that it need not send the rest
			h.frames.WriteRSTStream(f.StreamID, http2.ErrCodeStreamClosed)
			return nil
		}
		return streamError(f.StreamID, http2.ErrCodeStreamClosed)
	}
	if st.recvWindow -= size; st.recvWindow < 0 {
		h.give(nil, size)
		return streamError(f.StreamID, http2.ErrCodeFlowControl)
	}
	h.give(st, size-int64(len(data)))
	st.keep(data)
	switch ends := f.StreamEnded(); {
	case st.length >= 0 && (st.bodySize > st.length || ends && st.bodySize != st.length):
		return streamError(f.StreamID, http2.ErrCodeProtocol)
	case ends:
		st.received = true
	case len(data) == 0:
		return h.countUseless()
	}
	h.allowUseless(1)
	st.wake(&st.reader)
	return nil
}

// inFlight is a size of frames in bytes: a client may send as many frames of that size or larger as it likes for streams
// that are over.
const inFlight = 1 << 10

// headsMost is how large the heads of a connection's requests may be together, in bytes, but for one that is alone. A client needs
// to send next to nothing for them: it has them repeated from the table of the decoder.
const headsMost = 2 << 20

func (h *Conn) headersFrame(f *http2.HeadersFrame) error {
	id := f.StreamID
	d := &h.head
	d.reset(id, f.StreamEnded(), h.Limits.Head)
	switch st := h.streams[id]; {
	case id%2 == 0:
		return http2.ConnectionError(http2.ErrCodeProtocol)
	case st != nil:
		d.trailer = true
	case id > h.last:
		h.last = id
	case h.closing || slices.Contains(h.cut, id): // the end of a request that the client did not know to be over
		d.trailer = true
	default:
		return http2.ConnectionError(http2.ErrCodeStreamClosed)
	}
	if d.trailer {
		d.most = min(d.most, h1.MaxTrailer)
	}
	if limit := h.Limits.HeadTime; limit > 0 && !f.HeadersEnded() {
		h.headBy = h.Clock.Now() + int64(limit)
		h.arm()
	}
	return h.fragment(f.HeaderBlockFragment(), f.HeadersEnded())
}

// fragment takes a piece of a header block.
func (h *Conn) fragment(b []byte, ends bool) error {
	d := &h.head
	d.frames++
	if len(d.block)+len(b) > 2*d.most+frameSize || d.frames > headFrames {
		return http2.ConnectionError(http2.ErrCodeEnhanceYourCalm)
	}
	whole := ends && d.frames == 1 && !d.trailer
	if whole && d.ends && len(h.block) > 0 && bytes.Equal(b, h.block) {
		return h.request(h.text)
	}
	if d.frames > 1 || !ends {
		d.block = append(d.block, b...)
		b, h.block = d.block, h.block[:0]
	}
	if !ends {
		return nil
	}
	h.headBy, d.block = 0, nil
	if _, err := h.dec.Write(b); err != nil {
		return http2.ConnectionError(http2.ErrCodeCompression)
	}
	if err := h.dec.Close(); err != nil {
		return http2.ConnectionError(http2.ErrCodeCompression)
	}
	if d.trailer {
		h.block = h.block[:0]
		return h.trailer()
	}
	text := d.request()
	if h.block = h.block[:0]; whole && d.ends && text != nil && !d.over && len(text) <= headKept && changesNothing(b) {
		h.block, h.text = append(h.block, b...), text
	}
	return h.request(text)
}

// changesNothing reports whether a header block has only fields that the decoder knows, each in one byte
// (RFC 7541, 6.1): then it means the same as long as no other block comes that has not.
func changesNothing(block []byte) bool {
	for _, b := range block {
		if b <= 0x80 || b == 0xff {
			return false
		}
	}
	return len(block) <= 128
}

// trailer ends a request with the header lines that have come after its body.
func (h *Conn) trailer() error {
	d := &h.head
	id := d.id
	d.id = 0
	st := h.streams[id]
	switch {
	case st == nil: // it has been answered, or refused
		return h.countUseless()
	case st.received:
		return streamError(id, http2.ErrCodeStreamClosed)
	case !d.ends, d.bad, d.pseudo != 0, st.length >= 0 && st.bodySize != st.length:
		return streamError(id, http2.ErrCodeProtocol)
	}
	if !d.over {
		st.trailer = bytes.Clone(d.text)
	}
	st.received = true
	st.wake(&st.reader)
	return nil
}

// request begins to serve the request whose head is text; nil: it is malformed.
func (h *Conn) request(text []byte) error {
	d := &h.head
	id := d.id
	d.id = 0
	switch {
	case h.closing: // the client has been told that it will not be served
		return h.countUseless()
	case text == nil:
		if h.control() { // clients of Go dial, and try again, for as long as all that they get is the error
			h.sendHead(id, 400, append([]byte(h1.StatusLine(400)), h.Clock.Stamp().Date...), true)
		}
		return streamError(id, http2.ErrCodeProtocol)
	case h.handlers >= int(h.Limits.Streams): // requests that were reset count, until their handlers have returned
		return streamError(id, http2.ErrCodeRefusedStream)
	case h.handlers > 0 && h.heads+len(text) > headsMost:
		return streamError(id, http2.ErrCodeRefusedStream)
	}
	if h.handlers == 0 && !h.Host.Awake() { // it is being closed to make room; the GOAWAY of that names this one too
		return streamError(id, http2.ErrCodeRefusedStream)
	}
	st := newStream(h, text)
	h.streams[id] = st
	h.heads += st.headSize
	h.handlers++
	h.starting++
	h.begin = st.of.Serve
	return nil
}
