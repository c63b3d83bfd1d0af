//go:build linux

package simserver

import (
	"encoding/binary"
	"slices"
	"strconv"

	"golang.org/x/net/http2"
)

// A client of HTTP/2 takes the frames that the server sends.

const frameHead = 9 // bytes

// whole reports whether a frame has come, and all others of its head.
func (w *http2Wire) whole() bool {
	for b := w.in; len(b) >= frameHead; {
		size := frameHead + int(binary.BigEndian.Uint32(b)>>8)
		if len(b) < size {
			return false
		}
		kind, flags := http2.FrameType(b[3]), http2.Flags(b[4])
		if kind != http2.FrameHeaders && kind != http2.FrameContinuation || flags.Has(http2.FlagHeadersEndHeaders) {
			return true
		}
		b = b[size:]
	}
	return false
}

func (w *http2Wire) received(b []byte) {
	w.in = joined(w.in, b)
	for !w.s.gone && w.whole() {
		w.at.Reset(w.in)
		f, err := w.frames.ReadFrame()
		if err != nil {
			w.fault("a frame that is none: %v, %v", err, w.frames.ErrorDetail())
			return
		}
		w.in = w.in[len(w.in)-w.at.Len():]
		w.dispatch(f)
	}
	if !w.s.gone {
		w.begin()
		w.pump()
		w.flush()
	}
}

// find finds a stream that has not ended, or nil.
func (w *http2Wire) find(id uint32) *clientStream {
	i := slices.IndexFunc(w.streams, func(st *clientStream) bool { return st.id == id })
	if i < 0 {
		return nil
	}
	return w.streams[i]
}

// stream finds the one that a part of an answer belongs to; nil: the client has reset it.
func (w *http2Wire) stream(f http2.Frame) *clientStream {
	id := f.Header().StreamID
	st := w.find(id)
	if st == nil && !w.resets[id] {
		w.fault("%v of a stream that has ended, or never was", f)
	}
	return st
}

func (w *http2Wire) dispatch(f http2.Frame) {
	if _, is := f.(*http2.SettingsFrame); !is && !w.settled {
		w.fault("%v before SETTINGS", f)
	}
	switch f := f.(type) {
	case *http2.MetaHeadersFrame:
		if st := w.stream(f); st != nil {
			w.answerHead(st, f)
		}
	case *http2.DataFrame:
		w.content(f)
	case *http2.SettingsFrame:
		w.serverSettings(f)
	case *http2.WindowUpdateFrame:
		w.update(f)
	case *http2.PingFrame:
		if f.IsAck() {
			w.answered("PING", &w.pings)
		} else {
			w.frames.WritePing(true, f.Data)
			w.fretted++
		}
	case *http2.RSTStreamFrame:
		if st := w.find(f.StreamID); st != nil { // else it has just ended
			w.wasReset(st, f.ErrCode)
		}
	case *http2.GoAwayFrame:
		if f.ErrCode != http2.ErrCodeNo && (f.ErrCode != http2.ErrCodeEnhanceYourCalm || w.fretted < frettings) {
			w.fault("sent away: %v, after %d frames without use", f.ErrCode, w.fretted)
		}
		if f.LastStreamID > w.last {
			w.fault("requests to %d are answered, %d before", f.LastStreamID, w.last)
		}
		w.last = f.LastStreamID
		if f.ErrCode != http2.ErrCodeNo {
			w.last = 0
		}
		w.s.lastOne = true
		w.sentAway("sent away")
	default:
		w.fault("an unexpected %v", f)
	}
}

func (w *http2Wire) serverSettings(f *http2.SettingsFrame) {
	if f.IsAck() {
		if w.answered("SETTINGS", &w.settings); len(w.changes) > 0 {
			then := w.changes[0]
			w.changes = w.changes[1:]
			if then != nil {
				then()
			}
		}
		return
	}
	w.settled = true
	f.ForeachSetting(func(s http2.Setting) error {
		switch s.ID {
		case http2.SettingHeaderTableSize:
			w.enc.SetMaxDynamicTableSizeLimit(s.Val)
			w.enc.SetMaxDynamicTableSize(s.Val)
		case http2.SettingMaxConcurrentStreams:
			w.limit = int(s.Val)
		case http2.SettingInitialWindowSize:
			for _, st := range w.streams {
				st.window += int64(s.Val) - w.first
			}
			w.first = int64(s.Val)
		}
		return nil
	})
	w.frames.WriteSettingsAck()
	w.fretted++
}

func (w *http2Wire) update(f *http2.WindowUpdateFrame) {
	window := &w.window
	if f.StreamID != 0 {
		st := w.find(f.StreamID)
		if st == nil { // it has just ended
			return
		}
		window = &st.window
	}
	if *window += int64(f.Increment); *window > 1<<31-1 {
		w.fault("a window of %d bytes", *window)
	}
}

// answerHead takes the head of an answer, or the lines behind it.
func (w *http2Wire) answerHead(st *clientStream, f *http2.MetaHeadersFrame) {
	r := st.r
	status := f.PseudoValue("status")
	switch {
	case st.answered:
		w.fault("%v after the end of the answer to %s", f, r.Path)
	case (status == "") != (r.Status != 0):
		w.fault("status %q behind status %d", status, r.Status)
	case status == "" && !f.StreamEnded():
		w.fault("lines behind an answer that does not end")
	}
	if n, _ := strconv.Atoi(status); n >= 200 {
		r.Status = n
	}
	for _, field := range f.RegularFields() {
		switch field.Name {
		case "content-length":
			st.length, _ = strconv.Atoi(field.Value)
		case "retry-after":
			r.Later = true
		}
	}
	if f.StreamEnded() {
		w.answer(st)
	}
}

// content takes a part of an answer's body.
func (w *http2Wire) content(f *http2.DataFrame) {
	n := int64(f.Length)
	w.mine -= n
	w.unread += n
	st := w.stream(f)
	if st != nil {
		st.mine -= n
		st.unread += n
		if w.mine < 0 || st.mine < 0 {
			w.fault("%d bytes for %s do not fit into the windows, which have %d and %d more", n, st.r.Path, w.mine+n, st.mine+n)
		}
		if st.answered || st.r.Status == 0 {
			w.fault("content of %s without a head, or behind its end", st.r.Path)
		}
		st.r.takes(w.s.w, f.Data())
	}
	taken := func() {
		w.unread -= n
		if st != nil {
			st.unread -= n
			w.open(st)
		}
		if more := firstWindow - w.mine - w.unread; more >= firstWindow/4 {
			w.mine += more
			w.frames.WriteWindowUpdate(0, uint32(more))
			w.fretted++
		}
	}
	if w.habit.Lag == 0 {
		taken()
	} else {
		w.s.w.After(w.s.w.Exp(w.habit.Lag), func() {
			if !w.s.gone {
				taken()
				w.flush()
			}
		})
	}
	if st != nil && f.StreamEnded() {
		w.answer(st)
	}
}

// open tells the server what it may send on a stream.
func (w *http2Wire) open(st *clientStream) {
	more := w.target - st.mine - st.unread
	if st.answered || w.resets[st.id] || more < max(w.target/4, 1) {
		return
	}
	st.mine += more
	w.frames.WriteWindowUpdate(st.id, uint32(more))
	w.fretted++
}

// answer ends a request that has been answered.
func (w *http2Wire) answer(st *clientStream) {
	st.answered = true
	if st.length >= 0 && st.length != st.r.Got {
		w.fault("an answer to %s of %d bytes, which says %d", st.r.Path, st.r.Got, st.length)
	}
	switch {
	case st.ended:
		w.drop(st)
	case !w.habit.Stubborn:
		w.reset(st)
	}
	w.s.done(st.r, st.r.Status, "")
}

// wasReset ends a request that the server does not answer, or whose rest it does not want.
func (w *http2Wire) wasReset(st *clientStream, code http2.ErrCode) {
	w.fretted++
	w.resets[st.id] = true // what is on its way may be answered by another one
	w.drop(st)
	switch {
	case st.answered:
		return
	case code == http2.ErrCodeRefusedStream && (st.early || len(w.resets) > 1):
	case code == http2.ErrCodeInternal && w.s.c.Dropped:
	default:
		w.fault("request %s was reset: %v", st.r.Path, code)
	}
	w.s.done(st.r, 0, "reset by the server: "+code.String())
}
