package proxy

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/capriccio-go/capriccio/internal/ownconn"
	"github.com/capriccio-go/capriccio/internal/peerwatch"
)

// An interrupter ends the waits of a request for its backend when the client has gone, the body of the request can't be read, a
// hedge has answered, or the response is complete.
type interrupter struct {
	watch peerwatch.Watch    // calls fn
	fn    func()             // clientGone
	ctx   context.Context    // ends with interrupt: that of waits for room and for a connection
	end   context.CancelFunc // of ctx

	mu       sync.Mutex
	u        interruptible // guarded by mu: what is waited for; nil: nothing
	why      error         // guarded by mu: the first cause that interrupt was called with
	answered bool          // a hedge has answered sooner than u; guarded by mu
}

// An interruptible is a wait for a backend: on a connection, or for a hedge.
type interruptible interface{ SetDeadline(time.Time) error }

func newInterrupter() *interrupter {
	i := &interrupter{}
	i.fn = i.clientGone
	i.ctx, i.end = context.WithCancel(context.Background())
	return i
}

// clientGone interrupts the request of a client that has gone. It may be called from any goroutine.
func (i *interrupter) clientGone() { i.interrupt(errGone) }

// interrupt ends ctx and the attached wait, and has attach refuse later ones with the first cause.
func (i *interrupter) interrupt(why error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.why = cmp.Or(i.why, why)
	i.end()
	if i.u != nil {
		i.u.SetDeadline(ownconn.Past)
	}
}

// attach makes u the wait that interrupt ends; nil: none. It returns the cause if interrupt has been called already.
func (i *interrupter) attach(u interruptible) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.u, i.answered = u, false
	return i.why
}

// hedgeAnswered ends the wait for u, as a hedge has answered.
func (i *interrupter) hedgeAnswered() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.answered = true; i.u != nil {
		i.u.SetDeadline(ownconn.Past)
	}
}
