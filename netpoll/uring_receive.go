//go:build linux

package netpoll

import (
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/kernel"
	"github.com/capriccio-go/capriccio/internal/uring"
	"github.com/capriccio-go/capriccio/netpoll/internal/sys"
)

const (
	// receiveCap is how many bytes a multishot receive brings before it ends, and with
	// that how much of what a slow reader has not read may lie in buffers of the loop.
	receiveCap = 32 << 10
	// maxHeld is how many buffers a connection may fill before its multishot receive is
	// cancelled. More come from what the kernel has received already: it looks up to 32
	// times before the cancellation reaches it.
	maxHeld = 8
	// receiveGroup is the ID of the group of buffers in the ring.
	receiveGroup = 1
)

// A bufferRing holds the receive buffers of one loop. The kernel takes one when bytes have come, so that a connection that
// waits owns none.
type bufferRing struct {
	uring.Buffers
	// chain has an entry for each buffer, for its holder: guarded by the mu of those
	// requests.
	chain []held
}

// held is a buffer with bytes in it.
type held struct {
	next       uint16 // the next in the same queue
	start, end uint16 // what has not been read
}

func (b *bufferRing) open(d *uring.Driver, n, size int) error {
	b.chain = make([]held, n)
	return b.Open(d, n, size, receiveGroup)
}

// receiving takes the completions of a multishot receive.
type receiving requests

func (q *receiving) Complete(res int32, flags uint32) {
	r := (*requests)(q)
	p := r.p
	more := flags&uring.CQEFMore != 0
	r.mu.Lock()
	if flags&uring.CQEFBuffer != 0 {
		bid := uint16(flags >> uring.CQEBufferShift)
		p.buffers.Free--
		if res > 0 {
			r.keep(bid, int(res))
		} else {
			p.buffers.Add(bid)
		}
	}
	tell, over := res > 0, uint32(0)
	again := tell && r.d.read.awaited() // the reader keeps up: go on when the limit is reached
	if !more {
		r.streaming = false
		switch e := syscall.Errno(-res); {
		case res > 0:
		case res == 0:
			r.ended, r.errno, tell, over = true, 0, true, flagHangup
		case e == unix.ECANCELED || e == unix.EINTR || e == unix.EAGAIN:
			tell = r.plain || r.loose
		case e == unix.ENOBUFS:
			tell = true // the reader calls the socket itself, see prepareRead
		case e == unix.EINVAL && p.capped:
			p.capped = false
		default:
			r.ended, r.errno, tell, over = true, e, true, flagHangup
		}
	}
	tooMany := more && !p.capped && r.held >= maxHeld
	r.mu.Unlock()
	if tooMany {
		p.stopReading(r)
	}
	if tell {
		r.d.deliver(true, false, over)
	}
	if !more {
		p.finish(r, askedRead, again)
	}
}

// keep queues n bytes in a buffer; few bytes are moved to the end of the buffer before,
// if they fit in there, so that a connection's bytes lie in few buffers. Caller holds mu,
// on the loop.
func (r *requests) keep(bid uint16, n int) {
	b := &r.p.buffers
	if r.held > 0 {
		last := &b.chain[r.tail]
		if int(last.end)+n <= b.Size() {
			copy(b.Bytes(r.tail)[last.end:], b.Bytes(bid)[:n])
			last.end += uint16(n)
			b.Add(bid)
			return
		}
		last.next = bid
	} else {
		r.head = bid
	}
	r.tail = bid
	r.held++
	b.chain[bid] = held{end: uint16(n)}
}

// pop gives the first buffer of the queue back to the kernel. Caller holds mu.
func (r *requests) pop(own bool) {
	p := r.p
	bid := r.head
	r.head = p.buffers.chain[bid].next
	r.held--
	if own {
		p.buffers.Add(bid)
		return
	}
	p.mu.Lock()
	p.returned = append(p.returned, bid)
	p.todo.Store(true)
	p.mu.Unlock()
}

// take is recv(2) on a socket that works by completion: it copies what the queue has,
// as much as fits, and calls the socket only if the kernel does not stream from it. dry
// means that another attempt is not worthwhile before an event.
func (r *requests) take(b []byte, own bool) (n int, dry bool, e syscall.Errno) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.held == 0 {
		return r.takeEmpty(b)
	}
	kernel.RaceRead(nil)
	ring := &r.p.buffers
	for n < len(b) && r.held > 0 {
		h := &ring.chain[r.head]
		k := copy(b[n:], ring.Bytes(r.head)[h.start:h.end])
		n += k
		h.start += uint16(k)
		if h.start == h.end {
			r.pop(own)
		}
	}
	return n, r.held == 0 && r.streaming, 0
}

// takeEmpty is take with nothing in the queue. Caller holds mu, also while it calls the
// socket: streaming may not begin meanwhile.
func (r *requests) takeEmpty(b []byte) (n int, dry bool, e syscall.Errno) {
	switch {
	case r.ended:
		r.ended = false
		kernel.RaceRead(nil)
		return 0, false, r.errno
	case r.streaming:
		return 0, false, unix.EAGAIN
	}
	n, e = sys.Recv(r.d.fd, b, 0)
	// A short read may hide urgent data or the end: the next wait asks the kernel about them, unless a poll for
	// that is in flight.
	return n, 0 < n && n < len(b) && r.d.flags.Load()&(flagHangup|flagUrgent) == 0, e
}

// peek is desc.peek for take.
func (r *requests) peek() (n int, e syscall.Errno) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.held > 0:
		return 1, 0
	case r.ended:
		return 0, r.errno
	case r.streaming:
		return 0, unix.EAGAIN
	}
	var b [1]byte
	return sys.Recv(r.d.fd, b[:], unix.MSG_PEEK)
}
