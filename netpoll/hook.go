//go:build linux

package netpoll

import (
	"net/netip"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/ownconn"
	"github.com/capriccio-go/capriccio/netpoll/internal/sys"
	"github.com/capriccio-go/capriccio/ressched"
)

// A hook is the function that OnReadable registers, and how its task comes in. The states are those of the slot: fields
// that are not loop-private belong to the caller that has taken the slot out of hooked.
type hook struct {
	fn       func()
	entrance *engine.Entrance // where it comes in, nil: nowhere
	ticket   engine.Ticket    // of its task while that waits at the entrance; loop-private
}

// OnReadable runs fn as a new task on the connection's loop, once, when a Read would
// not block: bytes are there, the end of the stream, an error, the read deadline has
// passed or the connection was closed. It returns at once and never parks; if that is
// the case already, fn is started right away. Until then the connection holds neither
// task nor stack nor buffer.
//
// It returns ErrBusy while another registration is pending or a Read is in progress,
// and net.ErrClosed, without running fn ever, if the connection is closed already.
// Read returns ErrBusy while a registration is pending.
func (c *Conn) OnReadable(fn func()) error { return (*inner)(c).OnReadableAt(nil, fn) }

// OnReadableAt is OnReadable for an fn that calls e.Enter before anything else. fn is not started until e admits or
// refuses it. It is refused at once when the read deadline passes or the connection is closed meanwhile. Clients are
// told apart by their addresses, see engine.Entrance.EnterFrom.
func (c *inner) OnReadableAt(e *ressched.Entrance, fn func()) error {
	if c.d.flags.Load()&flagEnters == 0 {
		c.d.flags.Or(flagEnters)
	}
	return c.d.wrap("read", "", c.d.onReadable((*engine.Entrance)(e), fn, c.d.peek))
}

// StartAt starts fn at once as OnReadableAt would if there was something to read: as a new task on
// the loop that c belongs to, through e if that is not nil. It is for layers above c that have bytes
// left of what they have read. It does nothing and returns false unless it is called on that loop.
func (c *inner) StartAt(e *ressched.Entrance, fn func()) bool {
	switch on := c.d.loop; {
	case !on.Runs():
		return false
	case e == nil:
		on.Start(fn)
	default:
		on.StartAt((*engine.Entrance)(e), c.d.client.Load(), 0, nil, fn)
	}
	return true
}

// Ended reports whether the function given to OnReadableAt was started for another reason than bytes to read: the end
// of the stream, an error, the deadline or Close. It then has not come through the entrance. Only that function may
// call it; bytes may have come since.
func (c *inner) Ended() bool { return c.d.ended }

// Client is a number for the host at the other end of an accepted connection, for
// engine.Entrance.EnterFrom; 0 if it has no address. Two hosts may have the same number.
func (c *inner) Client() uint32 { return c.d.client.Load() }

// SetClient has Client stand for the host with this address: the peer is a proxy that forwards for it.
func (c *inner) SetClient(addr netip.Addr) { c.d.client.Store(ownconn.ClientOf(addr)) }

// peek returns what a read of one byte would, but takes no byte. An error of the socket it takes.
func (d *desc) peek() (n int, e syscall.Errno) {
	if d.kind == kindTCP && d.requests != nil {
		return d.requests.peek()
	}
	var b [1]byte
	return sys.Recv(d.fd, b[:], unix.MSG_PEEK)
}

// onReadable is OnReadableAt. probe is peek, or that of a test.
func (d *desc) onReadable(e *engine.Entrance, fn func(), probe func() (int, syscall.Errno)) error {
	ok, err := d.tryLock(readSide)
	if err != nil {
		return err
	}
	if !ok {
		return ErrBusy
	}
	defer d.unlock(readSide)
	if d.flags.Load()&flagReadExpired != 0 {
		d.startHook(nil, fn)
		return nil
	}
	own := d.own()
	for {
		switch d.read.p.Load() {
		case ready:
			// It may be a false alarm, for which fn is not to be bothered.
			d.read.begin(own)
			n, errno := probe()
			if errno == unix.EAGAIN {
				own = d.exhausted(&d.read, own)
				continue
			}
			d.read.more()
			if n == 0 { // the end, or an error
				e = nil
			}
			d.startHook(e, fn)
			return nil
		case drained:
			d.hook.fn, d.hook.entrance = fn, e
			if !d.read.p.CompareAndSwap(drained, hooked) {
				d.hook.fn, d.hook.entrance = nil, nil
				continue
			}
			// Published: look for a deadline or a Close that was earlier.
			if d.flags.Load()&(flagClosing|flagReadExpired) != 0 {
				d.interrupted(d.read.interrupt())
			} else if !own || d.requests != nil {
				d.rearm()
			}
			return nil
		default:
			return ErrBusy
		}
	}
}

// takeHook returns the hook and its entrance. The caller has taken the slot out of hooked.
func (d *desc) takeHook() (func(), *engine.Entrance) {
	fn, e := d.hook.fn, d.hook.entrance
	d.hook.fn, d.hook.entrance = nil, nil
	d.read.p.Store(ready)
	return fn, e
}

// startHook runs fn as a task of d's loop, which enters at e if that is not nil. It may be called from anywhere.
func (d *desc) startHook(e *engine.Entrance, fn func()) {
	if d.loop.Runs() {
		d.start(e, fn)
		return
	}
	d.loop.Post(func() { d.start(e, fn) })
}

// start runs a hook as a new task of d's loop. Own loop only.
func (d *desc) start(e *engine.Entrance, hook func()) {
	if d.ended = e == nil; !d.ended {
		d.loop.StartAt(e, d.client.Load(), d.waited(e), &d.hook.ticket, hook)
		return
	}
	d.loop.Start(hook)
}

// over reports whether there is nothing to read any more, after a hangup. Another thread may have closed d meanwhile.
func (d *desc) over() bool {
	if d.use() != nil {
		return true
	}
	defer d.unuse()
	n, e := d.peek()
	return n == 0 && e != unix.EAGAIN
}

// giveUp starts the task that waits at an entrance, if there is one, without letting it in:
// its time is over. From anywhere.
func (d *desc) giveUp() {
	switch {
	case d.flags.Load()&flagEnters == 0:
	case d.loop.Runs():
		d.hook.ticket.GiveUp()
	default:
		d.loop.Post(d.hook.ticket.GiveUp)
	}
}

// interrupted wakes what slot.interrupt returned.
func (d *desc) interrupted(w *engine.Waiter) {
	switch w {
	case nil:
	case hooked:
		fn, _ := d.takeHook() // the connection ends: nothing to wait for at an entrance
		d.startHook(nil, fn)
	default:
		w.Wake()
	}
}

// waited is the age of the first bytes on d if other tasks wait at e, else 0: the connection may have waited behind
// many others to be accepted. Later bytes the poller reports at once.
func (d *desc) waited(e *engine.Entrance) time.Duration {
	if !d.fresh {
		return 0
	}
	d.fresh = false
	if d.kind != kindTCP || d.loop.QueuedAt(e) == 0 || d.use() != nil {
		return 0
	}
	defer d.unuse()
	return min(sys.SinceReceived(int(d.fd)), longestBefore)
}

// longestBefore is how much counts at most of the wait to be accepted: enough to be late, but too little for a
// connection to be refused for that alone, as the process may have stood still.
const longestBefore = time.Second
