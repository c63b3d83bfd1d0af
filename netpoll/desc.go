//go:build linux

package netpoll

import (
	"net"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/netpoll/internal/sys"
)

// A kind says what a descriptor is, as far as reading and writing it goes.
type kind uint8

const (
	kindTCP      kind = iota
	kindUnix          // a unix stream socket
	kindStream        // another stream socket, or one that is not known: of File, listeners
	kindRecords       // a socket with records and an end (SOCK_SEQPACKET), of File
	kindDatagram      // udp, unixgram
	kindPipe          // a pipe or FIFO in byte mode
	kindFile          // anything else that can be polled
)

// stream means that a read of zero bytes is the end.
func (k kind) stream() bool { return k != kindDatagram }

// drains means that a transfer shorter than asked for leaves nothing to try for. That
// holds for TCP and byte pipes (epoll(7), questions and answers, 9). A unix socket
// stops a read at some messages, see sys.RecvUnix.
func (k kind) drains() bool { return k == kindTCP || k == kindPipe }

// Bits of desc.flags.
const (
	flagClosing      = 1 << iota // Close was called
	flagReadExpired              // the read deadline has passed
	flagWriteExpired             // the write deadline has passed
	flagHangup                   // RDHUP, HUP or ERR was seen: a short read proves nothing
	flagShared                   // the fd may have been duplicated: deregister before closing
	flagExclusive                // a listener that several loops accept from
	flagListens                  // a listener that one loop accepts from
	flagEnters                   // OnReadableAt was called: the ticket may stand for a task
	flagLoose                    // events do not come through the loop, see loose.go; changed with mu held
	flagPlainReads               // a plain goroutine waits to read
	flagPlainWrites              // a plain goroutine waits to write
	flagMeasured                 // the size of its segments was looked at, see spare
	flagUrgent                   // PRI was seen: a short read proves nothing
	flagDraining                 // endReads was called
	flagForTasks                 // the runtime ends: plain goroutines can't wait for d any more, see table.Interrupt
)

// A registrar is what descriptors need of a poller. All methods may be called from any
// goroutine.
type registrar interface {
	// register starts the delivery of events to d; it sets d.token.
	register(d *desc) error
	// deregister ends it. An event already under way is dropped.
	deregister(d *desc)
	// rearm means that a caller off the loop has begun to wait on d; if d has requests,
	// on the loop too.
	rearm(d *desc)
	// leave ends the delivery of events to d, which has just got loose, for a time. An event already under way may
	// still be delivered. It reports false if that is not possible yet.
	leave(d *desc) bool
	// enter begins it again, with what d is ready for already. Own loop only, except
	// after a leave that came to nothing.
	enter(d *desc) error
}

// A desc is a descriptor of the kernel registered with the poller of one loop: its
// lifetime (lifetime.go), readiness (slot.go), what a connection at rest has registered (hook.go), deadlines
// (deadline.go).
type desc struct {
	read, write slot
	life        atomic.Uint64 // see lifetime.go
	flags       atomic.Uint32
	fd          int32 // constant until the last user closes it
	kind        kind
	raw         bool          // the file is a pipe: reading and writing it never block the thread
	fresh       bool          // the connection has been accepted, and no hook has been started
	ended       bool          // the last hook was started for another reason than bytes; loop-private
	client      atomic.Uint32 // hash of the peer's address, or that of SetClient
	loop        *engine.Loop
	poller      registrar
	token       uint64    // constant while registered
	requests    *requests // constant; nil unless poller is a uringPoller
	hook        hook      // of OnReadable, see hook.go

	mu        sync.Mutex // held for a few instructions, never while parked
	queue     lockQueue  // guarded by mu; once closed: the caller of Close that waits for the last user
	deadlines *deadlines // pointer constant once set, guarded by mu

	owner  owner                  // constant; nil in some tests
	onFree func()                 // runs right before close(2); may be nil
	hangup atomic.Pointer[func()] // of Conn.OnHangup; the caller that swaps it out calls it
}

// init makes d ready for use on loop l. Writing counts as worthwhile until a write
// says otherwise, unless a connect is under way; reading waits for the first event,
// which the poller reports at once if there is something.
func (d *desc) init(fd int, k kind, l *engine.Loop, writable bool) error {
	p, ok := l.Poller().(registrar)
	if !ok {
		return errForeignPoller
	}
	d.fd, d.kind, d.loop, d.poller = int32(fd), k, l, p
	d.raw = k == kindPipe
	if writable {
		d.write.p.Store(ready)
	}
	d.looseFromStart()
	if err := p.register(d); err != nil {
		return err
	}
	engine.Acquire(engine.Descriptors, 1)
	return nil
}

// own reports whether the caller runs on d's loop, where it can't overlap the poller that serves d. A detached task is
// reattached first.
func (d *desc) own() bool {
	return engine.CurrentLoop() == d.loop && d.flags.Load()&flagLoose == 0
}

// ownToWrite is own for operations that mostly need not wait: a detached task stays detached until it has to wait.
// Libraries write a request, and then wait natively for its answer.
func (d *desc) ownToWrite() bool {
	return d.loop.Runs() && d.flags.Load()&flagLoose == 0
}

// exhausted is slot.exhausted for a slot of d. If d has got loose since own was determined, an event may have come
// during the attempt, and the caller does not own d any more. It returns what own is now.
func (d *desc) exhausted(s *slot, own bool) bool {
	s.exhausted(own)
	if own && d.flags.Load()&flagLoose != 0 {
		s.more()
		return false
	}
	return own
}

// deliver takes an event from the poller of d; news are flags that it sets. Own loop only.
func (d *desc) deliver(in, out bool, news uint32) {
	if news != 0 && d.flags.Load()&news != news {
		d.flags.Or(news)
	}
	if news&flagHangup != 0 {
		d.hook.ticket.Hangup()
		d.tellHangup()
	}
	if in {
		if w := d.read.event(); w == hooked {
			fn, e := d.takeHook()
			if e != nil && news&flagHangup != 0 && d.over() {
				e = nil
			}
			d.start(e, fn)
		} else if w != nil {
			w.Wake()
		}
	}
	if out {
		if w := d.write.event(); w != nil {
			w.Wake()
		}
	}
}

// failed returns the error that ends operations in the direction of expired, if any.
func (d *desc) failed(expired uint32) error {
	f := d.flags.Load()
	switch {
	case f&(flagClosing|expired) == 0:
		return nil
	case f&flagClosing != 0:
		return net.ErrClosed
	case f&flagDraining != 0 && expired == flagReadExpired:
		return ErrDraining
	}
	return os.ErrDeadlineExceeded
}

// DescribeWait names the descriptor in dumps of what tasks wait for.
func (d *desc) DescribeWait() string {
	if d.owner == nil {
		return "fd " + strconv.Itoa(int(d.fd))
	}
	return d.owner.describe()
}

// receive reads once: at least one byte, the end of the stream, or an error. It parks
// until there is something. This and send are the hot path: one function each, because
// every return after a switch costs a misprediction.
func (d *desc) receive(b []byte) (n int, err error) {
	if err := d.lock(readSide); err != nil {
		return 0, err
	}
	own := d.own()
	for {
		if len(b) == 0 && d.kind.stream() {
			break
		}
		if err = d.failed(flagReadExpired); err != nil {
			break
		}
		if !d.read.begin(own) {
			if err = d.wait(&d.read, flagReadExpired, engine.ReasonRead, own, readSide); err != nil {
				break
			}
		}
		var e syscall.Errno
		dry := false
		if r := d.requests; r != nil && d.kind == kindTCP {
			n, dry, e = r.take(b, own)
		} else {
			drains := d.kind.drains()
			if d.kind == kindUnix {
				n, drains, e = sys.RecvUnix(d.fd, b)
			} else if d.kind <= kindDatagram {
				n, e = sys.Recv(d.fd, b, 0)
			} else {
				n, e = sys.Read(d.fd, b, d.raw)
			}
			dry = 0 < n && n < len(b) && drains && d.flags.Load()&(flagHangup|flagUrgent) == 0
		}
		if e == unix.EAGAIN {
			own = d.exhausted(&d.read, own)
			continue
		}
		if dry {
			own = d.exhausted(&d.read, own)
		} else {
			d.read.more()
		}
		if e != 0 {
			err = e
		}
		break
	}
	d.unlock(readSide)
	d.pace(own, n)
	return n, err
}

// pace lets other tasks run now and then, see engine.Loop.Pace. own is the result of desc.own.
func (d *desc) pace(own bool, n int) {
	if own {
		d.loop.Pace(n)
	} else {
		engine.Pace(n)
	}
}

// paceHolding is pace for a caller that holds the lock of sd. It unlocks sd if the task is ended while other tasks run.
//
//go:noinline
func (d *desc) paceHolding(own bool, n int, sd side) {
	over := true
	defer func() {
		if over {
			d.unlock(sd)
		}
	}()
	d.pace(own, n)
	over = false
}

// receiveNow is receive that does not wait. It leaves the slot alone: that may say ready
// when nothing is left, which is a false alarm.
func (d *desc) receiveNow(b []byte) (n int, err error) {
	ok, err := d.tryLock(readSide)
	if err != nil {
		return 0, err
	}
	if !ok || d.read.p.Load() == hooked {
		if ok {
			d.unlock(readSide)
		}
		return 0, ErrBusy
	}
	var e syscall.Errno
	if r := d.requests; r != nil && d.kind == kindTCP {
		n, _, e = r.take(b, d.loop.Runs())
	} else {
		n, e = sys.Recv(d.fd, b, 0)
	}
	d.unlock(readSide)
	switch e {
	case 0:
		return n, nil
	case unix.EAGAIN:
		return 0, os.ErrDeadlineExceeded
	}
	return 0, e
}

// send writes all of b, parking whenever the kernel's buffer is full; with now it returns instead of parking. flags are
// those of send(2), for sockets.
func (d *desc) send(b []byte, flags int, now bool) (sent int, err error) {
	d.spare(int64(len(b)))
	if err := d.lock(writeSide); err != nil {
		return 0, err
	}
	own := d.ownToWrite()
	n := 0 // of the last call
	for {
		if err = d.failed(flagWriteExpired); err != nil {
			break
		}
		if len(b) == 0 && d.kind.stream() {
			break
		}
		if !d.write.begin(own) && !now {
			if err = d.wait(&d.write, flagWriteExpired, engine.ReasonWrite, own, writeSide); err != nil {
				break
			}
		}
		var e syscall.Errno
		if d.kind <= kindDatagram {
			n, e = sys.Send(d.fd, d.piece(b[sent:]), flags)
		} else {
			n, e = sys.Write(d.fd, d.piece(b[sent:]), d.raw)
		}
		if e == unix.EAGAIN {
			own = d.exhausted(&d.write, own)
			if now {
				break
			}
			continue
		}
		short := n < len(d.piece(b[sent:]))
		sent += n
		if e == 0 && sent < len(b) {
			if short && d.kind.drains() {
				own = d.exhausted(&d.write, own)
				if now {
					break
				}
			} else {
				d.write.more()
				d.paceHolding(own, n, writeSide)
			}
			continue
		}
		d.write.more()
		if e != 0 {
			err = e
		}
		break
	}
	d.unlock(writeSide)
	d.pace(own, n)
	return sent, err
}

// pieceMax is how many bytes one system call is given: while a peer on another processor makes
// room as fast as the kernel fills it, the call does not come back before all is sent.
const pieceMax = 1 << 20

// piece is how much of b to send at once. A record or a datagram is one piece.
func (d *desc) piece(b []byte) []byte {
	if len(b) > pieceMax && d.kind != kindDatagram && d.kind != kindRecords {
		return b[:pieceMax]
	}
	return b
}

// attempt runs try until it returns something else than EAGAIN, parking in between.
// It is receive and send for everything less frequent. try must not park.
func (d *desc) attempt(sd side, why engine.Reason, try func() syscall.Errno) error {
	own, err := d.attemptLocked(sd, why, try)
	d.pace(own, 0)
	return err
}

// attemptLocked is attempt without the pace at its end. It returns the result of desc.own.
func (d *desc) attemptLocked(sd side, why engine.Reason, try func() syscall.Errno) (own bool, err error) {
	if err := d.lock(sd); err != nil {
		return false, err
	}
	defer d.unlock(sd)
	s, expired := &d.read, uint32(flagReadExpired)
	if sd == writeSide {
		s, expired = &d.write, flagWriteExpired
	}
	if own = d.ownToWrite(); sd == readSide {
		own = d.own()
	}
	for {
		// Before each attempt: an event that came with the end makes one worthwhile.
		if err := d.failed(expired); err != nil {
			return own, err
		}
		if !s.begin(own) {
			if err := d.wait(s, expired, why, own, 0); err != nil {
				return own, err
			}
		}
		switch e := try(); e {
		case 0:
			s.more()
			return own, nil
		case unix.EAGAIN:
			own = d.exhausted(s, own)
		default:
			s.more()
			return own, e
		}
	}
}
