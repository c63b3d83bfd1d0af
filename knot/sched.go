package knot

import (
	"errors"
	"math/rand/v2"
	"net"
	"net/netip"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/ownconn"
	"github.com/capriccio-go/capriccio/knot/internal/tasks"
	"github.com/capriccio-go/capriccio/ressched"
	"github.com/capriccio-go/capriccio/task"
)

// answered records that n more requests have got their responses: what the server is for.
func answered(n int) {
	if n > 0 {
		ressched.Progress(n)
	}
}

// requests is where requests enter.
var requests = tasks.Entrance("request")

// enter asks for admission, and sets c.inside or c.refused. It may park. If the context of the task ends
// meanwhile, neither is set, and c is served as far as that goes.
func (c *conn) enter() {
	err := c.enterAt(requests)
	c.inside, c.refused = err == nil, refused(err)
}

// enterAt asks to be admitted at e, which may park. Stalled responses are ended before c is refused.
func (c *conn) enterAt(e *ressched.Entrance) error {
	err := (*engine.Entrance)(e).EnterFrom(c.client())
	for refused(err) && c.endStalled() {
		err = (*engine.Entrance)(e).EnterFrom(c.client())
	}
	return err
}

// endStalled ends stalled responses in place of the request of c, which has been refused, and reports whether to ask
// again. It may park.
func (c *conn) endStalled() bool {
	if c.hungUp() {
		return false
	}
	ended, _ := c.srv.endStalled()
	if ended > 0 {
		task.Sleep(stallsEvery) // until what they held is given back
	}
	return ended > 0
}

// client returns the number by which an entrance tells the client of c from others; 0: unknown.
func (c *conn) client() uint32 {
	if own := ownConn(c.nc); own != nil {
		return own.Client()
	}
	return 0
}

// setClient has c count for the client with this address.
func (c *conn) setClient(addr netip.Addr) {
	if own := ownConn(c.nc); own != nil {
		own.SetClient(addr)
	}
}

// parking is a connection that waits as tasks do: a *netpoll.Conn, or a stream of HTTP/2 or HTTP/3.
type parking interface {
	Client() uint32
	SetClient(addr netip.Addr)
}

// ownConn is what nc has inside that waits as tasks do; nil: nothing is known of it.
func ownConn(nc net.Conn) parking {
	for {
		switch inner := ownconn.Of(nc).(type) {
		case parking:
			return inner
		case interface{ NetConn() net.Conn }:
			nc = inner.NetConn()
		default:
			return nil
		}
	}
}

func refused(err error) bool { return errors.Is(err, ressched.ErrRefused) }

// retryAfter is how long a refused client is asked to wait, in seconds: not all of them the
// same time, or they would come back together.
func retryAfter() string { return retryTimes[rand.IntN(len(retryTimes))] }

var retryTimes = [...]string{"1", "2", "3", "4", "5"}

// leave tells admission that the request of c no longer counts as admitted. It does nothing if c is not inside.
func (c *conn) leave() {
	if c.inside {
		c.inside = false
		requests.Leave()
	}
}
