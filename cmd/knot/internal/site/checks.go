package site

import (
	"net/netip"
	"runtime"
	"slices"
	"sync"

	"github.com/capriccio-go/capriccio/internal/ownctx"
	"github.com/capriccio-go/capriccio/internal/peerwatch"
	"github.com/capriccio-go/capriccio/knot"
	"github.com/capriccio-go/capriccio/task"
)

// maxChecking is how many requests may wait for a password to be checked. Of the usual cost of 10 one processor checks
// some 15 in a second.
const maxChecking = 256

// checking bounds the processors that check passwords: one is left for the loops.
var checking = newTurns(max(1, runtime.GOMAXPROCS(0)-1), maxChecking)

// A visitor is the request that a password came with.
type visitor interface {
	ClientAddr() netip.Addr
	WhenGone(w *peerwatch.Watch, fn func())
}

// A request is the visitor of a knot.Ctx.
type request struct{ *knot.Ctx }

// WhenGone is that of package knot, see internal/ownctx.
func (r request) WhenGone(w *peerwatch.Watch, fn func()) {
	ownctx.Of(r.Ctx).(interface {
		WhenGone(*peerwatch.Watch, func())
	}).WhenGone(w, fn)
}

// turns lets a number of requests compute at a time. Clients take turns, so that one that sends many passwords does not
// hold up the others; the requests of a client go in order. A request whose client leaves while it waits is dropped, and
// so is the last one of the client with the most if there are too many.
type turns struct {
	most int // requests that may wait; fixed

	mu      sync.Mutex
	free    int                    // requests that may begin to compute; guarded by mu
	waiting int                    // requests; guarded by mu
	queues  map[netip.Addr][]*turn // of the requests that wait, by client, none of them empty; guarded by mu
	clients []netip.Addr           // with a queue, the next one first; guarded by mu
}

// A turn is the wait of one request.
//
//	waiting ──its turn──▶ granted ──end──▶
//	        ──drop, or pushed out──▶ dropped
type turn struct {
	client  netip.Addr
	state   turnState            // guarded by turns.mu
	decided *task.Chan[struct{}] // gets one value when the wait is over; nil: it was granted at once
}

type turnState uint8

const (
	turnWaiting turnState = iota
	turnGranted
	turnDropped
)

func newTurns(free, most int) *turns {
	return &turns{free: free, most: most, queues: make(map[netip.Addr][]*turn)}
}

// take waits for the turn of a request. The error is 503 if too many wait, or the client has left. After nil, end must
// follow. It parks.
func (q *turns) take(v visitor) error {
	t := q.enqueue(ClientNetwork(v.ClientAddr(), 32, 64))
	if t.decided != nil {
		var watch peerwatch.Watch
		v.WhenGone(&watch, func() { q.drop(t) })
		defer watch.Stop()
		if _, err := t.decided.Recv(); err != nil {
			if !q.drop(t) && t.state == turnGranted {
				q.end()
			}
			return err
		}
	}
	if t.state == turnDropped {
		return knot.Status(503)
	}
	return nil
}

// enqueue makes the turn of a request, which may be granted or dropped already.
func (q *turns) enqueue(client netip.Addr) *turn {
	q.mu.Lock()
	defer q.mu.Unlock()
	t := &turn{client: client}
	if q.free > 0 {
		q.free--
		t.state = turnGranted
		return t
	}
	if q.waiting >= q.most {
		longest := client
		for other, queue := range q.queues {
			if len(queue) > len(q.queues[longest])+1 {
				longest = other
			}
		}
		if longest == client {
			t.state = turnDropped
			return t
		}
		queue := q.queues[longest]
		q.decide(queue[len(queue)-1], turnDropped)
	}
	t.decided = task.NewChan[struct{}](1)
	if q.queues[client] == nil {
		q.clients = append(q.clients, client)
	}
	q.queues[client] = append(q.queues[client], t)
	q.waiting++
	return t
}

// drop ends the wait of a client that has left. It reports whether t was still waiting. It neither parks nor blocks.
func (q *turns) drop(t *turn) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if t.state != turnWaiting {
		return false
	}
	q.decide(t, turnDropped)
	return true
}

// decide ends the wait of t. It needs mu.
func (q *turns) decide(t *turn, state turnState) {
	queue := q.queues[t.client]
	i := slices.Index(queue, t)
	if queue = slices.Delete(queue, i, i+1); len(queue) > 0 {
		q.queues[t.client] = queue
	} else {
		delete(q.queues, t.client)
		i := slices.Index(q.clients, t.client)
		q.clients = slices.Delete(q.clients, i, i+1)
	}
	q.waiting--
	t.state = state
	t.decided.TrySend(struct{}{})
}

// end lets the next client's request go on in the place of one that has computed.
func (q *turns) end() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.clients) == 0 {
		q.free++
		return
	}
	client := q.clients[0]
	q.clients = append(q.clients[1:], client)
	q.decide(q.queues[client][0], turnGranted)
}
