//go:build linux

package simserver

import (
	"bytes"
	"fmt"
	"strconv"
)

// An http1Wire is HTTP/1.1: requests are answered in their order.
type http1Wire struct {
	s      *Session
	in     []byte
	left   int  // bytes of the present body to come; -1: chunked
	inBody bool // of the first that waits
}

func (w *http1Wire) send(r *Request) {
	b := make([]byte, 0, 100+len(r.Path)+r.Body)
	if r.Body == 0 {
		b = fmt.Appendf(b, "GET %s HTTP/1.1\r\nHost: sim\r\n\r\n", r.Path)
	} else {
		b = fmt.Appendf(b, "POST %s HTTP/1.1\r\nHost: sim\r\nContent-Length: %d\r\n\r\n", r.Path, r.Body)
	}
	w.s.transmit(append(b, pattern[:r.Body]...))
}

func (w *http1Wire) owed() *Request {
	if len(w.s.waiting) > 0 && !w.inBody && !w.s.lastOne && !w.s.c.Halted {
		return w.s.waiting[0]
	}
	return nil
}

func (w *http1Wire) most() int            { return 1 }
func (w *http1Wire) cancel(*Request) bool { return false }

var headEnd = []byte("\r\n\r\n")

// received parses answers.
func (w *http1Wire) received(b []byte) {
	w.in = joined(w.in, b)
	for len(w.in) > 0 && len(w.s.waiting) > 0 {
		r := w.s.waiting[0]
		if !w.inBody {
			i := bytes.Index(w.in, headEnd)
			if i < 0 {
				return
			}
			w.head(r, w.in[:i+2])
			w.in = w.in[i+4:]
			w.inBody = true
		}
		if !w.body(r) {
			return
		}
		w.inBody = false
		w.s.done(r, r.Status, "")
	}
}

func (w *http1Wire) head(r *Request, head []byte) {
	if len(head) > 12 {
		r.Status, _ = strconv.Atoi(string(head[9:12]))
	}
	w.left = 0
	for line := range bytes.SplitSeq(head, []byte("\r\n")) {
		name, value, _ := bytes.Cut(line, []byte(": "))
		switch {
		case bytes.EqualFold(name, []byte("Content-Length")):
			w.left, _ = strconv.Atoi(string(value))
		case bytes.EqualFold(name, []byte("Transfer-Encoding")):
			w.left = -1
		case bytes.EqualFold(name, []byte("Retry-After")):
			r.Later = true
		case bytes.EqualFold(name, []byte("Connection")) && bytes.EqualFold(value, []byte("close")):
			w.s.lastOne = true
		}
	}
	r.Later = r.Later && !w.s.lastOne // a connection too many is told that, too, and ends
}

// body takes what there is of the body; true: that was the end.
func (w *http1Wire) body(r *Request) bool {
	if w.left >= 0 {
		k := min(w.left, len(w.in))
		r.takes(w.s.w, w.in[:k])
		w.left -= k
		w.in = w.in[k:]
		return w.left == 0
	}
	for {
		i := bytes.Index(w.in, headEnd[:2])
		if i < 0 {
			return false
		}
		n, err := strconv.ParseUint(string(w.in[:i]), 16, 31)
		if err != nil {
			w.s.w.fault("a chunk of %q bytes", w.in[:i])
			return true
		}
		if len(w.in) < i+2+int(n)+2 {
			return false
		}
		w.in = w.in[i+2+int(n)+2:]
		r.Got += int(n)
		if n == 0 {
			return true
		}
	}
}
