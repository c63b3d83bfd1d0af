package knot

import (
	"context"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A requestContext is the context of a request of net/http, and a part of its exchange. It
// ends when the handler has returned, and, once somebody has asked for its end, with the
// server, with the task, when a write of the response has failed, and when the client is gone. Most handlers never ask.
type requestContext struct {
	e   *exchange       // fixed
	std context.Context // of an http.Server, see FromHTTP; nil: none; fixed

	mu      sync.Mutex // held for a few instructions
	err     error      // why it has ended; guarded by mu
	done    chan struct{}
	hooks   map[*contextHook]struct{}
	watched bool           // somebody has asked; guarded by mu
	alone   bool           // only std and the handler's return end it: the connection is hijacked; guarded by mu
	untie   [2]func() bool // part it from server and task; guarded by mu
	peer    *peerWatch     // guarded by mu; a late call of gone may hold it

	untieStd func() bool // parts it from std; guarded by mu
}

type contextHook struct{ fn func() }

// closedDone is the Done of contexts that had ended when they were asked for it.
var closedDone = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// Deadline implements context.Context.
func (c *requestContext) Deadline() (time.Time, bool) {
	if c.std != nil {
		return c.std.Deadline()
	}
	return time.Time{}, false
}

// Done implements context.Context.
func (c *requestContext) Done() <-chan struct{} {
	c.look()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done == nil {
		if c.err != nil {
			return closedDone
		}
		c.done = make(chan struct{})
		c.watch()
	}
	return c.done
}

// Err implements context.Context.
func (c *requestContext) Err() error {
	c.look()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watch()
	return c.err
}

// Value implements context.Context.
func (c *requestContext) Value(key any) any {
	switch key {
	case http.ServerContextKey:
		return c.e.described.std
	case http.LocalAddrContextKey:
		if addr := c.e.nc.LocalAddr(); addr != nil {
			return addr
		}
	}
	if c.std != nil {
		return c.std.Value(key)
	}
	return nil
}

// AfterFunc lets package context derive contexts without a goroutine for each. fn is called
// once the context has ended, on any goroutine, and must not block.
func (c *requestContext) AfterFunc(fn func()) (stop func() bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		go fn()
		return func() bool { return false }
	}
	h := &contextHook{fn}
	if c.hooks == nil {
		c.hooks = make(map[*contextHook]struct{})
	}
	c.hooks[h] = struct{}{}
	c.watch()
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		_, there := c.hooks[h]
		delete(c.hooks, h)
		return there
	}
}

// watch begins to look for what may end it. It needs mu.
func (c *requestContext) watch() {
	if c.watched || c.err != nil {
		return
	}
	c.watched = true
	if c.std != nil {
		c.untieStd = context.AfterFunc(c.std, c.look)
	}
	if c.alone {
		return
	}
	c.untie = [...]func() bool{context.AfterFunc(c.e.srv.ctx, c.end), context.AfterFunc(c.e.task, c.end)}
	c.watchPeer()
}

// look ends it if std has ended.
func (c *requestContext) look() {
	if c.std == nil {
		return
	}
	if err := c.std.Err(); err != nil {
		c.endBy(err)
	}
}

// watchPeer needs mu.
func (c *requestContext) watchPeer() {
	if c.peer == nil {
		c.peer = &peerWatch{}
		c.peer.start(c.e.nc, c.e.peerGone)
	}
}

// end ends it, from anywhere.
func (c *requestContext) end() { c.endBy(context.Canceled) }

func (c *requestContext) endBy(err error) {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	c.err = err
	if c.done != nil {
		close(c.done)
	}
	hooks := c.hooks
	c.hooks = nil
	c.part()
	if c.untieStd != nil {
		c.untieStd()
	}
	c.mu.Unlock()
	for h := range hooks {
		h.fn()
	}
}

// detach leaves it to the handler, and to std.
func (c *requestContext) detach() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.alone = true
	c.part()
}

// part needs mu.
func (c *requestContext) part() {
	for i, stop := range c.untie {
		if stop != nil {
			stop()
			c.untie[i] = nil
		}
	}
	if c.peer != nil {
		c.peer.stop()
	}
}

// A peerWatch finds out that the other side of a connection has closed it: it is told, by a poller that
// can, or looks now and then.
type peerWatch struct {
	told    hangups // nil: it has to look
	gone    func()
	mu      sync.Mutex
	timer   *time.Timer   // guarded by mu
	next    time.Duration // guarded by mu
	stopped bool          // guarded by mu
}

// A peerWatch looks for the first time after firstLook, and then each time after twice as
// long, up to lastLook: a long poll costs two looks a second.
const (
	firstLook = 8 * time.Millisecond
	lastLook  = 500 * time.Millisecond
)

// hangups is what a *netpoll.Conn has.
type hangups interface{ OnHangup(fn *func()) bool }

// start begins to look, and calls gone when the client has closed nc, or its sending side: on any goroutine,
// but not on the caller's. w is new, or stop has returned true.
func (w *peerWatch) start(nc net.Conn, gone func()) {
	if secure, ok := nc.(interface{ NetConn() net.Conn }); ok { // crypto/tls
		nc = secure.NetConn()
	}
	w.told, w.gone = nil, gone
	if told, ok := nc.(hangups); ok && told.OnHangup(&w.gone) {
		w.told = told
		return
	}
	closed := peerCheck(nc)
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

// stop ends it. It reports whether gone has not been called and won't be; a call may still be under way else.
func (w *peerWatch) stop() bool {
	if w.told != nil {
		return w.told.OnHangup(nil)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
	return w.timer == nil || w.timer.Stop()
}

// peerCheck returns a function that tells whether the client has closed the connection,
// nil if there is none. It does not look at what the client has sent: poll(2) tells of
// the end of the stream though there are bytes before it.
func peerCheck(nc net.Conn) func() (closed bool, err error) {
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
