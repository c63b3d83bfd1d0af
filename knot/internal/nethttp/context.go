package nethttp

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/capriccio-go/capriccio/internal/peerwatch"
	"github.com/capriccio-go/capriccio/internal/urgency"
)

// A Context is the context of a request of net/http. It ends when the handler has returned (End), and, once its end has been
// asked for, with Parents and when the client is gone. Most handlers never ask. Fields are fixed once it is in use.
type Context struct {
	Server  *http.Server       // for http.ServerContextKey
	Conn    net.Conn           // of the client
	Parents [2]context.Context // of the server and of the task
	By      time.Time          // the deadline of the request; zero: it has none
	Urgency int                // that of the request, if it is Urgent
	Urgent  bool
	Std     context.Context // what an http.Server has made for the connection, see Hooks; nil: nothing

	mu      sync.Mutex // held for a few instructions
	err     error      // why it has ended; guarded by mu
	done    chan struct{}
	hooks   map[*contextHook]struct{}
	watched bool             // its end has been asked for; guarded by mu
	alone   bool             // only Std and the handler's return end it: the connection is hijacked; guarded by mu
	untie   [3]func() bool   // part it from Parents and Std; guarded by mu
	peer    *peerwatch.Watch // guarded by mu; a late call of peerGone may hold it
	left    bool             // the client has; guarded by mu
	notify  chan bool        // of CloseNotify; guarded by mu
	timer   *time.Timer      // ends it at By; nil: not yet; guarded by mu
}

type contextHook struct{ fn func() }

// closedDone is the Done of contexts that had ended when they were asked for it.
var closedDone = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// Deadline implements context.Context.
func (c *Context) Deadline() (by time.Time, ok bool) {
	if c.Std != nil {
		by, ok = c.Std.Deadline()
	}
	if own := c.by(); !own.IsZero() && (!ok || own.Before(by)) {
		return own, true
	}
	return by, ok
}

// by is By as long as that counts.
func (c *Context) by() time.Time {
	if c.By.IsZero() {
		return c.By
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.alone {
		return time.Time{}
	}
	return c.By
}

// Done implements context.Context.
func (c *Context) Done() <-chan struct{} {
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
func (c *Context) Err() error {
	c.look()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watch()
	return c.err
}

// Value implements context.Context.
func (c *Context) Value(key any) any {
	switch key {
	case http.ServerContextKey:
		return c.Server
	case http.LocalAddrContextKey:
		if addr := c.Conn.LocalAddr(); addr != nil {
			return addr
		}
	}
	if c.Urgent && urgency.IsKey(key) {
		return c.Urgency
	}
	if c.Std != nil {
		return c.Std.Value(key)
	}
	return nil
}

// AfterFunc lets package context derive contexts without a goroutine for each. fn is called
// once the context has ended, on any goroutine, and must not block.
func (c *Context) AfterFunc(fn func()) (stop func() bool) {
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

// CloseNotify returns a channel that gets true once the client is gone, as http.CloseNotifier has it.
func (c *Context) CloseNotify() <-chan bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil && !c.alone {
		c.watchPeer()
	}
	if c.notify == nil {
		c.notify = make(chan bool, 1)
		if c.left {
			c.notify <- true
		}
	}
	return c.notify
}

// peerGone is called when the client has closed the connection.
func (c *Context) peerGone() {
	c.End()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.left && c.notify != nil {
		c.notify <- true
	}
	c.left = true
}

// watch begins to look for what may end it. It needs mu.
func (c *Context) watch() {
	if c.watched || c.err != nil {
		return
	}
	c.watched = true
	if c.Std != nil {
		c.untie[2] = context.AfterFunc(c.Std, c.look)
	}
	if c.alone {
		return
	}
	for i, parent := range c.Parents {
		c.untie[i] = context.AfterFunc(parent, c.End)
	}
	if !c.By.IsZero() {
		c.timer = time.AfterFunc(time.Until(c.By), func() { c.endBy(context.DeadlineExceeded) })
	}
	c.watchPeer()
}

// look ends it if Std has ended, or its time is over.
func (c *Context) look() {
	if by := c.by(); !by.IsZero() && time.Until(by) <= 0 {
		c.endBy(context.DeadlineExceeded)
	}
	if c.Std == nil {
		return
	}
	if err := c.Std.Err(); err != nil {
		c.endBy(err)
	}
}

// watchPeer needs mu.
func (c *Context) watchPeer() {
	if c.peer == nil {
		c.peer = &peerwatch.Watch{}
		c.peer.Start(c.Conn, c.peerGone)
	}
}

// End ends it, from anywhere.
func (c *Context) End() { c.endBy(context.Canceled) }

func (c *Context) endBy(err error) {
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
	if untie := c.untie[2]; untie != nil {
		untie()
	}
	c.mu.Unlock()
	for h := range hooks {
		h.fn()
	}
}

// Detach leaves it to the handler, and to Std.
func (c *Context) Detach() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.alone = true
	c.part()
}

// part unties c from Parents, By and the client, but not from Std. It needs mu.
func (c *Context) part() {
	for i := range c.Parents {
		if untie := c.untie[i]; untie != nil {
			untie()
			c.untie[i] = nil
		}
	}
	if c.timer != nil {
		c.timer.Stop()
	}
	if c.peer != nil {
		c.peer.Stop()
	}
}
