package knot

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"strconv"
	"time"

	"github.com/capriccio-go/capriccio/task"
)

// A stream is one request of HTTP/2, to the rest of the package a connection of HTTP/1.1 on which
// one request comes. Only the goroutine of the request touches it.
type stream struct {
	w http.ResponseWriter
	r *http.Request

	head    []byte // of the request, what has not been read yet
	chunked bool   // so is the body
	ended   bool   // the body has been read to its end
	broken  bool   // ... or as far as it came
	rest    []byte // of a chunk

	parts  responseParts
	torn   bool // the response can't be completed
	status int  // of a response that a handler of net/http sent; 0: the response went through parts
}

// serveStream is what net/http calls for a request.
func (s *Server) serveStream(w http.ResponseWriter, r *http.Request) {
	if c, ok := r.Context().Value(framedKey{}).(*framedConn); ok && r.TLS == nil {
		r.TLS = c.tls
	}
	st := &stream{w: w, r: r, chunked: r.ContentLength < 0}
	st.parts.st = st
	st.head = st.requestHead()
	c := &conn{nc: st, srv: s, stream: st}
	x := s.borrow(c)
	returned := false
	defer func() {
		if !returned { // runtime.Goexit: net/http would leave the stream open
			panic(http.ErrAbortHandler)
		}
	}()
	x.run()
	returned = true
	giveBack(x)
	if st.torn || st.status == 0 && !st.parts.complete() {
		panic(http.ErrAbortHandler) // resets the stream
	}
}

// requestHead is the head of the request as HTTP/1.1 has it.
func (st *stream) requestHead() []byte {
	r := st.r
	b := append(make([]byte, 0, 512), r.Method...)
	b = append(append(append(b, ' '), r.RequestURI...), " HTTP/1.1\r\nHost: "...)
	b = append(append(b, r.Host...), "\r\n"...)
	for name, values := range r.Header {
		if name == "Content-Length" || name == "Host" || name == "Transfer-Encoding" {
			continue
		}
		for _, v := range values {
			b = appendField(b, name, v)
		}
	}
	switch {
	case st.chunked:
		b = append(b, "Transfer-Encoding: chunked\r\n"...)
	case r.ContentLength > 0:
		b = append(strconv.AppendInt(append(b, "Content-Length: "...), r.ContentLength, 10), "\r\n"...)
	}
	return append(b, "\r\n"...)
}

// Read implements net.Conn: the head, then the body, framed as the head says.
func (st *stream) Read(p []byte) (int, error) {
	switch {
	case len(st.head) > 0:
		n := copy(p, st.head)
		st.head = st.head[n:]
		return n, nil
	case len(st.rest) > 0:
		n := copy(p, st.rest)
		st.rest = st.rest[n:]
		return n, nil
	case st.ended:
		return 0, io.EOF
	case !st.chunked:
		n, err := st.readBody(p)
		if n > 0 {
			err = nil // it shows again
		}
		return n, err
	}
	const framing = len("ffffffff\r\n\r\n")
	n, err := 0, error(nil)
	if len(p) > 2*framing {
		n, err = st.readBody(p[framing:])
		if n > 0 {
			size := fmt.Sprintf("%x\r\n", n)
			copy(p, size)
			copy(p[len(size):], p[framing:framing+n])
			n += len(size)
			st.rest = append(st.rest[:0], "\r\n"...)
		}
	} else {
		one := make([]byte, 256)
		if n, err = st.readBody(one); n > 0 {
			chunk := append(fmt.Appendf(nil, "%x\r\n", n), one[:n]...)
			st.rest = append(chunk, "\r\n"...)
			n = copy(p, st.rest)
			st.rest = st.rest[n:]
		}
	}
	if err == io.EOF && !st.broken {
		st.ended, err = true, nil
		st.rest = append(st.rest, "0\r\n"...)
		for name, values := range st.r.Trailer {
			for _, v := range values {
				st.rest = appendField(st.rest, name, v)
			}
		}
		st.rest = append(st.rest, "\r\n"...)
		if n == 0 {
			return st.Read(p)
		}
	}
	if n > 0 {
		err = nil // it shows again
	}
	return n, err
}

// readBody reads from the body. One that is cut off, or not as long as it should be, ends, as a
// connection would.
func (st *stream) readBody(p []byte) (int, error) {
	n, err := st.r.Body.Read(p)
	if err != nil && err != io.EOF && !timedOut(err) {
		st.broken = true
		return n, io.EOF
	}
	return n, err
}

// Write implements net.Conn: it takes a response of HTTP/1.1 apart.
func (st *stream) Write(p []byte) (int, error) {
	if err := st.parts.write(p); err != nil {
		return 0, err
	}
	if !st.parts.complete() && st.parts.phase != partsHead {
		// More is going to come, and it may take its time.
		if err := http.NewResponseController(st.w).Flush(); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// Close implements net.Conn.
func (st *stream) Close() error { return nil }

func (st *stream) LocalAddr() net.Addr {
	addr, _ := st.r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return addr
}

// RemoteAddr implements net.Conn.
func (st *stream) RemoteAddr() net.Addr { return textAddr(st.r.RemoteAddr) }

// A textAddr is an address of TCP that has been written out.
type textAddr string

func (a textAddr) Network() string { return "tcp" }
func (a textAddr) String() string  { return string(a) }

// ConnectionState is that of the connection.
func (st *stream) ConnectionState() tls.ConnectionState {
	if st.r.TLS == nil {
		return tls.ConnectionState{}
	}
	return *st.r.TLS
}

func (st *stream) SetDeadline(t time.Time) error {
	return errors.Join(st.SetReadDeadline(t), st.SetWriteDeadline(t))
}

func (st *stream) SetReadDeadline(t time.Time) error {
	if st.r.ContentLength == 0 {
		return nil // nothing will be read
	}
	return http.NewResponseController(st.w).SetReadDeadline(t)
}

func (st *stream) SetWriteDeadline(t time.Time) error {
	return http.NewResponseController(st.w).SetWriteDeadline(t)
}

// serveHTTP is AdaptHTTP for a request that net/http has brought: it has all that h wants.
func (st *stream) serveHTTP(x *Ctx, d *describedServer, h http.Handler) error {
	r := st.r.WithContext(context.WithValue(st.r.Context(), http.ServerContextKey, d.std))
	if r.ContentLength < 0 {
		r.Body = http.MaxBytesReader(st.w, r.Body, x.srv.limits.maxBody)
	}
	w := &streamWriter{ResponseWriter: st.w}
	returned := false
	defer func() {
		if v := any(nil); !returned {
			if v = recover(); v == nil {
				st.torn = true
				return // runtime.Goexit
			}
			if st.torn = v == http.ErrAbortHandler || w.status != 0; v != http.ErrAbortHandler {
				x.logRequest("handler panicked", "panic", fmt.Sprint(v), "stack", string(task.PanicStack(v)))
			}
			if !st.torn {
				http.Error(w, http.StatusText(http.StatusInternalServerError), http.StatusInternalServerError)
			}
		}
		if w.status == 0 {
			w.status = http.StatusOK
		}
		st.status = w.status
		x.resp.status, x.resp.written, x.resp.phase = w.status, w.written, respDone
		x.body = body{}
	}()
	h.ServeHTTP(w, r)
	returned = true
	mark(r.Pattern)
	return nil
}

// A streamWriter notes what a handler of net/http answers. It has what that of HTTP/2 in net/http has.
type streamWriter struct {
	http.ResponseWriter
	status  int
	written int64
}

// Unwrap is for http.ResponseController.
func (w *streamWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *streamWriter) WriteHeader(code int) {
	if w.status == 0 && code >= 200 {
		w.status = code
	}
	w.ResponseWriter.WriteHeader(code)
}

func (w *streamWriter) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	n, err := w.ResponseWriter.Write(p)
	w.written += int64(n)
	return n, err
}

func (w *streamWriter) WriteString(s string) (int, error) { return w.Write(viewBytes(s)) }

func (w *streamWriter) Flush() { http.NewResponseController(w.ResponseWriter).Flush() }

// CloseNotify implements http.CloseNotifier.
func (w *streamWriter) CloseNotify() <-chan bool {
	//lint:ignore SA1019 programs use it
	return w.ResponseWriter.(http.CloseNotifier).CloseNotify()
}

// Push implements http.Pusher.
func (w *streamWriter) Push(target string, opts *http.PushOptions) error {
	if p, ok := w.ResponseWriter.(http.Pusher); ok {
		return p.Push(target, opts)
	}
	return http.ErrNotSupported
}

// responseParts takes a response apart that Ctx has written:
//
//	head ─→ fixed | size ─→ chunk ─→ chunkEnd ─→ size ... ─→ trailer | rest ─→ done
//	 ↑────┘ informational
type responseParts struct {
	st    *stream
	phase partsPhase
	line  []byte // of a head, or a line of framing, what has come
	left  int64  // bytes of the body, or the chunk
}

type partsPhase uint8

const (
	partsHead partsPhase = iota
	partsFixed
	partsSize
	partsChunk
	partsChunkEnd
	partsTrailer
	partsRest // until the end
	partsDone
)

func (r *responseParts) complete() bool { return r.phase == partsDone || r.phase == partsRest }

var errParts = errors.New("knot: a response that is none")

func (r *responseParts) write(p []byte) error {
	for len(p) > 0 {
		switch r.phase {
		case partsHead:
			r.line = append(r.line, p...)
			end := bytes.Index(r.line, []byte("\r\n\r\n"))
			if end < 0 {
				return nil
			}
			p = bytes.Clone(r.line[end+4:])
			if err := r.head(r.line[:end+2]); err != nil {
				return err
			}
			r.line = r.line[:0]
		case partsFixed, partsChunk, partsRest:
			n := len(p)
			if r.phase != partsRest {
				n = int(min(int64(n), r.left))
			}
			if _, err := r.st.w.Write(p[:n]); err != nil {
				return err
			}
			p = p[n:]
			if r.left -= int64(n); r.left == 0 && r.phase == partsFixed {
				r.phase = partsDone
			} else if r.left == 0 && r.phase == partsChunk {
				r.phase = partsChunkEnd
			}
		case partsDone:
			return errParts
		default:
			i := bytes.IndexByte(p, '\n')
			if i < 0 {
				r.line = append(r.line, p...)
				return nil
			}
			r.line = append(r.line, p[:i+1]...)
			p = p[i+1:]
			if err := r.framing(bytes.TrimSuffix(r.line, []byte("\r\n"))); err != nil {
				return err
			}
			r.line = r.line[:0]
		}
	}
	return nil
}

// framing takes a line of chunked framing.
func (r *responseParts) framing(line []byte) error {
	switch r.phase {
	case partsChunkEnd:
		r.phase = partsSize
	case partsSize:
		size, f := chunkSize(line)
		if f != nil {
			return f
		}
		r.left, r.phase = size, partsChunk
		if size == 0 {
			r.phase = partsTrailer
		}
	case partsTrailer:
		if len(line) == 0 {
			r.phase = partsDone
			return nil
		}
		if name, value, ok := bytes.Cut(line, []byte(": ")); ok {
			r.st.w.Header().Add(http.TrailerPrefix+string(name), string(value))
		}
	}
	return nil
}

// head takes the head of a response, with a CR LF behind each line.
func (r *responseParts) head(text []byte) error {
	if len(text) < len("HTTP/1.1 200") {
		return errParts
	}
	status, err := strconv.Atoi(string(text[9:12]))
	if err != nil {
		return errParts
	}
	if status == http.StatusContinue { // net/http does that by itself
		return nil
	}
	header := r.st.w.Header()
	length := int64(-1)
	_, text, _ = bytes.Cut(text, []byte("\r\n"))
	r.phase = partsRest
	for len(text) > 0 {
		var line []byte
		line, text, _ = bytes.Cut(text, []byte("\r\n"))
		name, value, _ := bytes.Cut(line, []byte(": "))
		switch key := textproto.CanonicalMIMEHeaderKey(string(name)); key {
		case "Connection", "Upgrade", "Keep-Alive": // are of the connection (RFC 9113, 8.2.2)
		case "Transfer-Encoding":
			r.phase = partsSize
		case "Content-Length":
			if length, err = strconv.ParseInt(string(value), 10, 64); err != nil {
				return errParts
			}
			header[key] = []string{string(value)}
		default:
			header[key] = append(header[key], string(value))
		}
	}
	if header["Content-Type"] == nil {
		header["Content-Type"] = nil // or it would be guessed
	}
	if r.phase != partsSize && length >= 0 {
		r.phase, r.left = partsFixed, length
	}
	if r.phase == partsFixed && length == 0 || bodyless(status) || r.st.r.Method == http.MethodHead {
		r.phase = partsDone
	}
	if status < 200 {
		r.phase = partsHead
	}
	r.st.w.WriteHeader(status)
	return nil
}
