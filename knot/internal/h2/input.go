package h2

import (
	"errors"
	"io"
	"os"
	"sync"

	"golang.org/x/net/http2"
)

// inputSize is that of the buffer that frames are read through, in bytes.
const inputSize = 16 << 10

// An input is what a reader needs while it reads.
type input struct {
	h      *Conn
	frames *http2.Framer
	err    error // of the connection
	r, w   int
	buf    [inputSize]byte
}

var inputs = sync.Pool{New: func() any {
	in := new(input)
	in.frames = http2.NewFramer(nil, in)
	in.frames.SetReuseFrames()
	return in
}}

var errNotNow = errors.New("knot: nothing has come in time")

// fill reads once; when nothing has come, but the connection may go on, the buffer is empty.
func (in *input) fill() error {
	in.err = in.read()
	return in.err
}

func (in *input) read() error {
	h := in.h
	n, err := h.NC.Read(in.buf[:])
	if n == 0 && errors.Is(err, os.ErrDeadlineExceeded) {
		if n = h.Host.Late(in.buf[:]); n > 0 {
			h.ReadBy = 0
		} else {
			if in.r, in.w = 0, 0; h.overslept() {
				return nil
			}
			return errNotNow
		}
	}
	in.r, in.w = 0, n
	if n == 0 {
		if err == nil {
			err = io.EOF
		}
		return err
	}
	h.mu.Lock()
	now := h.Clock.Now()
	if past := (now - h.heard) / forgives; past > 0 {
		h.allowUseless(int(min(past, MaxUseless)))
	}
	h.heard, h.pinged = now, 0
	shut := h.shut
	h.mu.Unlock()
	if shut || h.discarding {
		in.w = 0
	}
	return nil
}

// Read implements io.Reader, for the Framer.
func (in *input) Read(p []byte) (int, error) {
	for in.r == in.w {
		if err := in.fill(); err != nil {
			return 0, err
		}
	}
	n := copy(p, in.buf[in.r:in.w])
	in.r += n
	return n, nil
}
