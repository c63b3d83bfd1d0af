package knot

import (
	"context"
	"net"
	"sync"
	"sync/atomic"

	"github.com/capriccio-go/capriccio/knot/internal/fdlimit"
)

// A connTable holds the listeners and the connections of a Server, and counts them. Its methods may be called from
// anywhere and never park.
type connTable struct {
	// stopping: answer the requests under way, and one request of every open connection; each answer is
	// the last of its connection. atomic
	stopping atomic.Bool
	// requests are those of HTTP/3 under way, whose connections are not in the table. atomic
	requests atomic.Int64

	mu         sync.Mutex                // guards all that follows
	listeners  map[net.Listener]struct{} // listeners whose Serve has not returned
	newest     *conn                     // the first of all connections, linked by conn.next and conn.prev
	cursor     *conn                     // where visitSome goes on; nil: at newest
	served     int                       // connections in that list
	hijacked   int                       // connections that handlers have taken over
	entered    uint64                    // connections since the start
	turnedAway uint64                    // connections that were told that there are too many
	evicted    uint64                    // connections closed to make room for others
	fullAt     int64                     // clock reading when there was last no room; 0: never
	room       context.Context           // ends when a connection has left; nil: no listener waits for that
	endRoom    context.CancelFunc
	drained    chan struct{} // closed when stopping, and no listener and no connection is left; made by Server.ready
	closed     bool          // no connection may enter
}

// track notes ln for Shutdown and Close. It reports whether ln may be served.
func (t *connTable) track(ln net.Listener) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, known := t.listeners[ln]; known && !t.closed {
		return true
	}
	if t.stopping.Load() {
		return false
	}
	if t.listeners == nil {
		t.listeners = make(map[net.Listener]struct{})
	}
	t.listeners[ln] = struct{}{}
	return true
}

func (t *connTable) untrack(ln net.Listener) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.listeners, ln)
	t.checkDrainedLocked()
}

func (t *connTable) tracked() (all []net.Listener) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for ln := range t.listeners {
		all = append(all, ln)
	}
	return all
}

// enter adds c, if there are not too many connections. Above max, if that is not 0, some enter to be told so; beyond
// those the returned context, a child of parent, ends when it is time to try again.
func (t *connTable) enter(c *conn, max int, parent context.Context) (verdict admission, room context.Context) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return tooLate, nil
	}
	if max > 0 && t.served+t.hijacked >= max+fdlimit.Rejects(max) {
		if t.room == nil {
			t.room, t.endRoom = context.WithCancel(parent)
		}
		return turnedAway, t.room
	}
	t.served++
	t.entered++
	c.next = t.newest
	if t.newest != nil {
		t.newest.prev = c
	}
	t.newest = c
	if max > 0 && t.served+t.hijacked > max {
		return turnedAway, nil
	}
	return admitted, nil
}

// leave removes c, which is closed.
func (t *connTable) leave(c *conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.endRoomLocked()
	t.removeLocked(c)
}

// hijack removes c, which a handler has taken over. It counts until hijackedClosed is called.
func (t *connTable) hijack(c *conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.hijacked++
	t.removeLocked(c)
}

func (t *connTable) hijackedClosed() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.endRoomLocked()
	t.hijacked--
}

func (t *connTable) removeLocked(c *conn) {
	if c.prev != nil {
		c.prev.next = c.next
	} else {
		t.newest = c.next
	}
	if c.next != nil {
		c.next.prev = c.prev
	}
	if t.cursor == c {
		t.cursor = c.next
	}
	c.next, c.prev = nil, nil
	t.served--
	t.checkDrainedLocked()
}

// endRoomLocked has the listeners try again that wait for room.
func (t *connTable) endRoomLocked() {
	if t.room != nil {
		t.endRoom()
		t.room = nil
	}
}

// each calls visit for every connection, with mu held, until visit returns false.
func (t *connTable) each(visit func(c *conn) bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for c := t.newest; c != nil && visit(c); c = c.next {
	}
}

// visitSteps is how many connections one call of visitSome looks at.
const visitSteps = 256

// visitSome is each for the visitSteps connections that follow those of the last call, so that each has its turn.
func (t *connTable) visitSome(visit func(c *conn) bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for range min(t.served, visitSteps) {
		c := t.cursor
		if c == nil {
			c = t.newest
		}
		t.cursor = c.next
		if !visit(c) {
			return
		}
	}
}

// checkDrained closes drained if the server is stopping and nothing is left.
func (t *connTable) checkDrained() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.checkDrainedLocked()
}

func (t *connTable) checkDrainedLocked() {
	if !t.stopping.Load() || t.served > 0 || len(t.listeners) > 0 {
		return
	}
	t.closed = true
	select {
	case <-t.drained:
	default:
		close(t.drained)
	}
}

// close lets no further connection enter and returns those that are there.
func (t *connTable) close() (all []*conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	for c := t.newest; c != nil; c = c.next {
		all = append(all, c)
	}
	return all
}
