package knot

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// What a handler of net/http can do with its connection.

// A connControl holds what must not wait for those who read and write: it is how they are
// interrupted. While there is one, it guards the deadlines of the conn.
type connControl struct {
	nc      net.Conn // fixed
	control sync.Mutex
	stopped bool      // no more reading of the request body; guarded by control
	over    bool      // the handler has no say any more; guarded by control
	ownIn   bool      // the handler has set the read deadline; guarded by control
	ownOut  bool      // ... the write deadline; guarded by control
	left    bool      // the client has; guarded by control
	notify  chan bool // of CloseNotify; guarded by control
}

// long is a deadline that has passed for certain.
var long = time.Unix(1, 0)

// stopReading makes sure that nobody reads the body any more, and locks reading.
func (e *exchange) stopReading() {
	if e.reading.TryLock() {
		return
	}
	e.control.Lock()
	if !e.over { // else it is not ours any more
		e.stopped = true
		e.nc.SetReadDeadline(long)
	}
	e.control.Unlock()
	e.reading.Lock()
}

func (e *exchange) stoppedReading() bool {
	e.control.Lock()
	defer e.control.Unlock()
	return e.stopped
}

// armRead is conn.armRead for the reader of the body.
func (e *exchange) armRead(x *Ctx) error {
	e.control.Lock()
	defer e.control.Unlock()
	if e.stopped {
		return errReturned
	}
	if !e.ownIn {
		x.c.armRead(x.srv.limits.body)
	}
	return nil
}

// armWrite is conn.armWrite. It needs mu.
func (e *exchange) armWrite(x *Ctx) {
	e.control.Lock()
	defer e.control.Unlock()
	if !e.ownOut {
		x.c.armWrite(x.srv.limits.write)
	}
}

// SetReadDeadline is for http.ResponseController. BodyTimeout does not apply to the
// request any more.
func (e *exchange) SetReadDeadline(t time.Time) error {
	e.control.Lock()
	defer e.control.Unlock()
	if e.over {
		return errReturned
	}
	e.ownIn = true
	if e.stopped {
		return nil
	}
	return e.nc.SetReadDeadline(t)
}

// SetWriteDeadline is for http.ResponseController. WriteTimeout does not apply to the
// request any more.
func (e *exchange) SetWriteDeadline(t time.Time) error {
	e.control.Lock()
	defer e.control.Unlock()
	if e.over {
		return errReturned
	}
	e.ownOut = true
	return e.nc.SetWriteDeadline(t)
}

// releaseConn takes the connection back, and reports whether the handler has set a
// deadline for writing.
func (e *exchange) releaseConn() bool {
	e.control.Lock()
	defer e.control.Unlock()
	e.over = true
	return e.ownOut
}

// resetDeadlines undoes what the handler has set. It needs reading and mu, after
// releaseConn.
func (e *exchange) resetDeadlines() {
	c := e.x.c
	if e.ownIn || e.stopped {
		c.clearRead()
	}
	if e.ownOut {
		c.writeBy = 0
		c.nc.SetWriteDeadline(time.Time{})
	}
}

// EnableFullDuplex is for http.ResponseController. Reading and writing never wait for each
// other, with or without it. Without it, a response that begins before a large request
// body has been read says that the connection is going to be closed.
func (e *exchange) EnableFullDuplex() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.duplex = true
	return nil
}

// CloseNotify implements http.CloseNotifier.
func (e *exchange) CloseNotify() <-chan bool {
	e.control.Lock()
	defer e.control.Unlock()
	if e.notify == nil {
		e.notify = make(chan bool, 1)
		if e.left {
			e.notify <- true
		}
	}
	return e.notify
}

// peerGone is called when the client has closed the connection.
func (e *exchange) peerGone() {
	e.cancel()
	e.control.Lock()
	defer e.control.Unlock()
	if !e.left && e.notify != nil {
		e.notify <- true
	}
	e.left = true
}

// Hijack implements http.Hijacker: the connection is the caller's from now on, without
// deadlines. The task and its buffers are given back, and Shutdown does not wait for it.
func (e *exchange) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	e.stopReading()
	defer e.reading.Unlock()
	e.mu.Lock()
	defer e.mu.Unlock()
	x := e.x
	switch {
	case e.hijacked:
		return nil, nil, http.ErrHijacked
	case x == nil:
		return nil, nil, errReturned
	}
	if e.wrote && e.failure == nil {
		if err := e.settleType(x); err != nil {
			return nil, nil, err
		}
		if err := x.Flush(); err != nil {
			return nil, nil, err
		}
	}
	if err := x.flush(); err != nil { // responses to requests before this one
		return nil, nil, err
	}
	e.releaseConn()
	if err := e.nc.SetDeadline(time.Time{}); err != nil {
		return nil, nil, err
	}
	e.detach()
	rest := bytes.Clone(x.in[x.r:x.w])
	e.hijacked, e.x, x.adapted = true, nil, nil
	x.gone, x.closing, x.resp.phase = true, true, respDone
	x.resp.status = http.StatusSwitchingProtocols // for the access log
	x.srv.forget(x.c)
	if e.waiter == nil {
		x.c.leave() // the task does so itself
	}
	e.wakeTask()
	in := bufio.NewReaderSize(e.nc, max(4<<10, len(rest)))
	if len(rest) > 0 {
		in.Reset(io.MultiReader(bytes.NewReader(rest), e.nc))
		if _, err := in.Peek(len(rest)); err != nil {
			return nil, nil, err
		}
	}
	return e.nc, bufio.NewReadWriter(in, bufio.NewWriter(e.nc)), nil
}

// A peerWatch looks now and then whether the other side of a connection has closed it.
type peerWatch struct {
	mu      sync.Mutex
	timer   *time.Timer // guarded by mu
	stopped bool        // guarded by mu
}

// peerInterval is how often a peerWatch looks. Most handlers have returned before the
// first time.
const peerInterval = 500 * time.Millisecond

// watchPeer calls gone, on a plain goroutine, when the client has closed nc, or its
// sending side.
func watchPeer(nc net.Conn, gone func()) *peerWatch {
	w := new(peerWatch)
	look := peerCheck(nc)
	if look == nil {
		return w
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer = time.AfterFunc(peerInterval, func() {
		switch closed, err := look(); {
		case err != nil:
			return
		case closed:
			gone()
			return
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if !w.stopped {
			w.timer.Reset(peerInterval)
		}
	})
	return w
}

func (w *peerWatch) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
	if w.timer != nil {
		w.timer.Stop()
	}
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
