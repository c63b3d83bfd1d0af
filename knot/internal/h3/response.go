package h3

import (
	"errors"
	"io"
	"net/http"
	"net/textproto"
	"time"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/ownconn"
	"github.com/capriccio-go/capriccio/knot/internal/h1"
)

// Answer sends the response that the task of the request writes, and returns when that has ended. The caller is the handler of
// the request. It panics with http.ErrAbortHandler if the response could not be completed: the server resets the request then.
func (st *Stream) Answer() {
	to := response{w: st.w, method: st.method}
	complete := st.sendAll(&to)
	st.stopReading()
	if !complete {
		panic(http.ErrAbortHandler)
	}
}

// sendAll reports whether all of the response has been sent.
func (st *Stream) sendAll(to *response) bool {
	var err error
	for {
		taken, last := st.take()
		if err == nil {
			if err = to.send(taken); err == nil && !last {
				err = to.flush()
			}
			if err != nil {
				st.lose()
			}
		}
		if taken != nil {
			buffers.Put((*[bufferSize]byte)(taken[:bufferSize]))
		}
		if last {
			return err == nil && to.begun && to.body.Done()
		}
	}
}

// take waits for what is to be sent, and reports whether it is the last.
func (st *Stream) take() (taken []byte, last bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.sending = false
	for !st.ended && (len(st.out) == 0 || !st.push && len(st.out) < bufferSize) {
		st.wait(&st.sender, engine.ReasonWrite, time.Time{})
	}
	taken, st.out, st.push, st.sending = st.out, nil, false, true
	wake(&st.writer)
	return taken, st.ended
}

// lose has every further write fail.
func (st *Stream) lose() {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.outLost = true
	wake(&st.writer)
}

// stopReading ends the reader of the body.
func (st *Stream) stopReading() {
	if st.reading == nil {
		return
	}
	if st.deadlines != nil {
		st.deadlines.SetReadDeadline(ownconn.Past)
	}
	<-st.reading
}

// A response is one of HTTP/1.1 that is sent over HTTP/3.
type response struct {
	w        http.ResponseWriter
	method   string
	parsed   h1.ResponseHead
	body     h1.ResponseBody
	begun    bool
	unparsed []byte // what has come of the head, or of the framing of the body
}

var errBeyond = errors.New("knot: more was written than the response is long")

// send takes the next piece of the response.
func (to *response) send(p []byte) error {
	data := p
	if len(to.unparsed) > 0 {
		to.unparsed = append(to.unparsed, p...)
		data = to.unparsed
	}
	for !to.begun && len(data) > 0 {
		whole, err := to.parsed.Parse(data)
		if err != nil {
			return err
		}
		if !whole {
			to.keep(data)
			return nil
		}
		if err := to.head(data); err != nil {
			return err
		}
		data = data[to.parsed.Size:]
	}
	for to.begun && len(data) > 0 {
		piece, used, err := to.body.Next(data, to.trailer)
		switch {
		case err == io.EOF && used < len(data):
			return errBeyond
		case err != nil && err != io.EOF:
			return err
		case used == 0:
			to.keep(data)
			return nil
		}
		if len(piece) > 0 {
			if _, err := to.w.Write(piece); err != nil {
				return err
			}
		}
		data = data[used:]
	}
	to.unparsed = to.unparsed[:0]
	return nil
}

// keep keeps what is not whole.
func (to *response) keep(data []byte) { to.unparsed = append(to.unparsed[:0], data...) }

// head sends the head in b.
func (to *response) head(b []byte) error {
	header := to.w.Header()
	to.parsed.Each(b, func(name, value []byte) bool {
		if !isOfConnection(name) {
			key := textproto.CanonicalMIMEHeaderKey(string(name))
			header[key] = append(header[key], string(value))
		}
		return true
	})
	status := to.parsed.Status
	if status < 200 {
		to.w.WriteHeader(status)
		clear(header)
		return nil
	}
	for _, own := range [...]string{"Content-Type", "Date"} { // none is to be made up
		if header[own] == nil {
			header[own] = nil
		}
	}
	to.begun, to.body = true, to.parsed.Body(to.method)
	to.w.WriteHeader(status)
	if to.method == http.MethodHead {
		return to.flush() // before a length is made up
	}
	return nil
}

// isOfConnection reports whether a line with that name is about a connection of HTTP/1.1.
func isOfConnection(name []byte) bool {
	return h1.TokenIs(name, "connection") || h1.TokenIs(name, "keep-alive") || h1.TokenIs(name, "transfer-encoding") || h1.TokenIs(name, "upgrade")
}

func (to *response) trailer(name, value []byte) {
	key := http.TrailerPrefix + string(name)
	header := to.w.Header()
	header[key] = append(header[key], string(value))
}

// flush sends what the server has gathered.
func (to *response) flush() error {
	if !to.begun {
		return nil
	}
	switch w := to.w.(type) {
	case interface{ FlushError() error }:
		return w.FlushError()
	case http.Flusher:
		w.Flush()
	}
	return nil
}
