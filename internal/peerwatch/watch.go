//go:build linux

// Package peerwatch tells when the other side of a connection has closed it, or its sending side, while nothing is read from
// the connection: the client of a request whose handler is at work. A connection that can tells at once; any other is looked
// at now and then. Bytes that the client has sent are left unread.
package peerwatch

import (
	"net"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/ownconn"
)

// A Watch watches one connection. The zero value is ready for Start. Its methods may be called from anywhere.
type Watch struct {
	told    hangups // nil: it has to look
	gone    func()
	mu      sync.Mutex
	timer   *time.Timer   // guarded by mu
	next    time.Duration // guarded by mu
	stopped bool          // guarded by mu
}

// A Watch looks for the first time after firstLook, and then each time after twice as long, up to lastLook: a long poll costs
// two looks a second.
const (
	firstLook = 8 * time.Millisecond
	lastLook  = 500 * time.Millisecond
)

// hangups is what a *netpoll.Conn has, see ownconn.
type hangups interface{ OnHangup(fn *func()) bool }

// Start begins to watch, and calls gone when the client has closed nc, or its sending side: on any goroutine, but not on the
// caller's. w is new, or Stop has returned true.
func (w *Watch) Start(nc net.Conn, gone func()) {
	if secure, ok := nc.(interface{ NetConn() net.Conn }); ok { // crypto/tls
		nc = secure.NetConn()
	}
	w.told, w.gone = nil, gone
	if told, ok := ownconn.Of(nc).(hangups); ok && told.OnHangup(&w.gone) {
		w.told = told
		return
	}
	closed := look(nc)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer, w.next, w.stopped = nil, firstLook, false
	if closed == nil {
		return
	}
	w.timer = time.AfterFunc(w.next, func() {
		switch gonePeer, err := closed(); {
		case err != nil:
			return
		case gonePeer:
			gone()
			return
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if !w.stopped {
			w.next = min(2*w.next, lastLook)
			w.timer.Reset(w.next)
		}
	})
}

// Stop ends the watch. It reports whether gone has not been called and won't be; if not, a call may still be under way.
func (w *Watch) Stop() bool {
	if w.told != nil {
		return w.told.OnHangup(nil)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
	return w.timer == nil || w.timer.Stop()
}

// look returns a function that tells whether the client has closed the connection, nil if there is none. poll(2) tells of the
// end of the stream though there are bytes before it.
func look(nc net.Conn) func() (closed bool, err error) {
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
		if err == nil {
			err = failed
		}
		return closed, err
	}
}
