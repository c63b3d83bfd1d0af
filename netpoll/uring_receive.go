//go:build linux

package netpoll

import (
	"syscall"
	"unsafe"

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
	// receiveGroup is the number of the buffers in the ring.
	receiveGroup = 1
)

// A bufferRing holds the receive buffers of one loop (IORING_REGISTER_PBUF_RING). The
// kernel takes one when bytes have come, so that a connection that waits owns none.
type bufferRing struct {
	ring   *uring.BufAndRing
	memory []byte // constant
	stride int    // constant: from one buffer to the next
	size   int    // constant: of a buffer
	mask   int    // constant
	free   int    // loop-private: buffers in the ring, as far as it is known
	// chain has an entry for each buffer, for its holder: guarded by the mu of those
	// requests.
	chain []held
}

// held is a buffer with bytes in it.
type held struct {
	next       uint16 // the next in the same queue
	start, end uint16 // what has not been read
}

// cacheLine sets buffers off against each other, so that their first bytes do not
// compete for the same lines of the processor's caches.
const cacheLine = 64

func (b *bufferRing) open(d *uring.Driver, n, size int) error {
	ring, err := d.SetupBufRing(uint32(n), receiveGroup)
	if err != nil {
		return err
	}
	b.ring, b.size, b.mask = ring, size, n-1
	b.stride = (size+cacheLine-1)&^(cacheLine-1) + cacheLine
	// Ordinary memory, which does not move: a reader may still be copying from it when
	// the poller has been closed.
	b.memory = make([]byte, n*b.stride)
	b.chain = make([]held, n)
	for i := range n {
		b.add(uint16(i))
	}
	return nil
}

// close takes no buffers any more; the ring itself goes with the driver.
func (b *bufferRing) close() {
	b.free = 0
	b.ring = nil
}

// add gives a buffer to the kernel. Own loop only.
func (b *bufferRing) add(bid uint16) {
	if b.ring == nil {
		return // closed
	}
	at := unsafe.Pointer(&b.memory[int(bid)*b.stride])
	b.ring.BufRingAdd(uintptr(at), uint32(b.size), bid, b.mask, 0)
	b.ring.BufRingAdvance(1)
	b.free++
}

func (b *bufferRing) prepareReceive(sqe *uring.SubmissionQueueEntry, fd int, capped bool) {
	sqe.PrepareRecvMultishot(fd, 0, 0, 0)
	sqe.Flags |= uring.SqeBufferSelect
	sqe.BufIG = receiveGroup
	if capped {
		sqe.SpliceFdIn = receiveCap // optlen, since Linux 6.17
	}
}

// receiving takes the completions of a multishot receive.
type receiving requests

// Complete implements uring.Completer.
func (q *receiving) Complete(res int32, flags uint32) {
	r := (*requests)(q)
	p := r.p
	more := flags&uring.CQEFMore != 0
	r.mu.Lock()
	if flags&uring.CQEFBuffer != 0 {
		bid := uint16(flags >> uring.CQEBufferShift)
		p.buffers.free--
		if res > 0 {
			r.keep(bid, int(res))
		} else {
			p.buffers.add(bid)
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
		if int(last.end)+n <= b.size {
			from := int(bid) * b.stride
			to := int(r.tail)*b.stride + int(last.end)
			copy(b.memory[to:to+n], b.memory[from:from+n])
			last.end += uint16(n)
			b.add(bid)
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
		p.buffers.add(bid)
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
		at := int(r.head) * ring.stride
		k := copy(b[n:], ring.memory[at+int(h.start):at+int(h.end)])
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
	// What a short read may not prove (urgent data, the end), the next that waits has the
	// kernel find out, unless by a poll that is in flight already.
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
