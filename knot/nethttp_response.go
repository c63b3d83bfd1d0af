package knot

import (
	"errors"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// The exchange as an http.ResponseWriter.

// Header implements http.ResponseWriter.
func (e *exchange) Header() http.Header { return e.header }

// WriteHeader implements http.ResponseWriter.
func (e *exchange) WriteHeader(code int) {
	if code < 100 || code > 999 {
		panic("knot: status " + strconv.Itoa(code) + " is not in 100 to 999")
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.x == nil:
	case e.wrote:
		e.x.logRequest("superfluous call of WriteHeader", "status", code)
	case code < 200 && code != http.StatusSwitchingProtocols: // informational, not sent
	default:
		e.writeHead(e.x, code)
	}
}

// writeHead fixes status and header of the response. It needs mu.
func (e *exchange) writeHead(x *Ctx, code int) {
	e.wrote = true
	if code < 200 || code > lastStatus {
		e.fail(x, "status", code)
		return
	}
	x.SetStatus(code)
	names := make([]string, 0, len(e.header))
	for name := range e.header {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		e.setHeader(x, name, e.header[name])
	}
}

// fail makes the response a 500.
func (e *exchange) fail(x *Ctx, what string, value any) {
	x.logRequest("handler failed", "error", errUnfit, what, value)
	e.failure = Status(http.StatusInternalServerError)
}

func (e *exchange) setHeader(x *Ctx, name string, values []string) {
	switch key := http.CanonicalHeaderKey(name); {
	case key == "Content-Type":
		e.typed = true
		if len(values) > 0 {
			x.SetContentType(values[0])
		}
	case key == "Content-Length":
		if n, err := strconv.ParseInt(strings.Join(values, ","), 10, 64); err == nil && n >= 0 {
			x.SetContentLength(n)
		}
	case key == "Connection":
		e.setConnection(x, values)
	case key == "Date", key == "Transfer-Encoding", key == "Trailer", strings.HasPrefix(name, http.TrailerPrefix), !isToken(name):
	default:
		for _, v := range values {
			x.AddHeader(name, v)
		}
	}
}

// setConnection passes on the options of Connection that are not the server's own.
func (e *exchange) setConnection(x *Ctx, values []string) {
	for _, v := range values {
		for option := range strings.SplitSeq(v, ",") {
			switch option = strings.TrimSpace(option); {
			case strings.EqualFold(option, "close"):
				x.CloseAfter()
			case !isToken(option), strings.EqualFold(option, "keep-alive"):
			case strings.EqualFold(option, "upgrade") && e.header.Get("Upgrade") != "": // AddHeader knows
			default:
				x.resp.fields = appendField(x.resp.fields, "Connection", option)
			}
		}
	}
}

func isToken(name string) bool {
	for i := range len(name) {
		if !tokenByte[name[i]] {
			return false
		}
	}
	return name != ""
}

// Write implements http.ResponseWriter. It may wait for the client.
func (e *exchange) Write(p []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	x, err := e.writing()
	switch {
	case err != nil:
		return 0, err
	case bodyless(x.resp.status):
		return 0, http.ErrBodyNotAllowed
	case !e.typed && len(p) > 0:
		e.typed = true
		if e.header.Get("Content-Encoding") == "" {
			x.SetContentType(http.DetectContentType(p))
		}
	}
	n, err := x.Write(p)
	if errors.Is(err, ErrTooLong) {
		err = http.ErrContentLength
	}
	return n, err
}

// WriteString implements io.StringWriter.
func (e *exchange) WriteString(s string) (int, error) { return e.Write(viewBytes(s)) }

// Flush implements http.Flusher.
func (e *exchange) Flush() { e.FlushError() }

// FlushError is what http.ResponseController.Flush calls.
func (e *exchange) FlushError() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	x, err := e.writing()
	if err != nil {
		return err
	}
	e.typed = true // too late to find out
	return x.Flush()
}

// EnableFullDuplex is for http.ResponseController: reading the request after writing
// of the response has begun is possible anyway.
func (e *exchange) EnableFullDuplex() error { return nil }

// writing is the Ctx to write to. It needs mu.
func (e *exchange) writing() (*Ctx, error) {
	if e.x == nil {
		return nil, errReturned
	}
	if !e.wrote {
		e.writeHead(e.x, http.StatusOK)
	}
	if e.failure != nil {
		return nil, e.failure
	}
	return e.x, nil
}

// peerCheck returns a function that tells whether the client has closed the connection,
// nil if there is none. It does not look at what the client has sent: poll(2) tells of
// the end of the stream though there are bytes before it.
func peerCheck(nc net.Conn) func() (closed bool, err error) {
	if secure, ok := nc.(interface{ NetConn() net.Conn }); ok { // crypto/tls
		nc = secure.NetConn()
	}
	sc, ok := nc.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return nil
	}
	return func() (closed bool, err error) {
		failed := raw.Control(func(fd uintptr) {
			fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
			var n int
			if n, err = unix.Poll(fds, 0); err == unix.EINTR {
				err = nil
			}
			closed = n > 0
		})
		return closed, errors.Join(failed, err)
	}
}
