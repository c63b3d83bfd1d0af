//go:build linux

package netpoll

import (
	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/kernel"
)

// OnHangup has *fn called once, when the peer has closed the connection or ended its side, even if no caller reads and
// bytes before that are unread (EPOLLRDHUP, epoll_ctl(2)); also if that has happened already. fn is called on another
// goroutine than the caller's, maybe that of the loop itself: it must neither park nor block. It returns false, and
// registers nothing, with a poller other than epoll and in a simulation.
//
// A nil fn withdraws the registered function, and reports whether it did: if not, the call has begun, or is over. It
// never parks.
func (c *inner) OnHangup(fn *func()) bool {
	d := &c.d
	if fn == nil {
		return d.hangup.Swap(nil) != nil
	}
	if _, ok := d.poller.(*epoll); !ok || kernel.Net != nil {
		return false
	}
	d.hangup.Store(fn)
	if d.flags.Load()&flagHangup != 0 {
		d.loop.Post(d.tellHangup)
	}
	return true
}

// tellHangup calls what OnHangup has registered.
func (d *desc) tellHangup() {
	if d.hangup.Load() == nil { // mostly
		return
	}
	if fn := d.hangup.Swap(nil); fn != nil {
		(*fn)()
	}
}

// hungUp returns which of conns are closed, or have a peer that has ended its side. It makes one system call
// for all of them, and never parks.
func hungUp(conns []*Conn) (gone map[*Conn]bool) {
	gone = make(map[*Conn]bool)
	held := make([]*Conn, 0, len(conns))
	look := make([]unix.PollFd, 0, len(conns))
	for _, c := range conns {
		switch {
		case c.d.use() != nil:
			gone[c] = true
			continue
		case kernel.Net == nil:
			look = append(look, unix.PollFd{Fd: c.d.fd, Events: unix.POLLRDHUP})
		case (*inner)(c).HungUp():
			gone[c] = true
		}
		held = append(held, c)
	}
	if len(look) > 0 {
		if _, err := unix.Poll(look, 0); err == nil {
			for i, one := range look {
				if one.Revents != 0 {
					gone[held[i]] = true
				}
			}
		}
	}
	for _, c := range held {
		c.d.unuse()
	}
	return gone
}

// Quiet reports whether nothing has come since the last Read took all there was: neither bytes nor the
// end. Only such a connection may be used again. Mostly it costs no system call, and
// then tells what the loop has been told so far. It never parks.
func (c *inner) Quiet() bool {
	d := &c.d
	if d.flags.Load()&flagHangup == 0 && d.requests == nil && d.read.p.Load() == drained {
		return true
	}
	return !c.Unread()
}

// OnClose has fn called once, right before the descriptor is closed, wherever that happens: fn must neither park nor
// block. It returns false, and does nothing, if the connection is closed already. It is for code that hands the
// connection on. It never parks.
func (c *inner) OnClose(fn func()) bool {
	if c.d.use() != nil {
		return false
	}
	c.d.onFree = fn // before unuse, and free comes after that
	c.d.unuse()
	return true
}
