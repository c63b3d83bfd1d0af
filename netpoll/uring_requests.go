//go:build linux

package netpoll

import (
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/uring"
)

// requests is what the io_uring poller keeps for one descriptor: at most one request in
// flight per direction, and what has come of them.
//
//	            a caller waits: attend                   last completion
//	not asked ─────────────────────────▶ asked, in flight ───────────────▶ not asked
//	                                      │        ▲  │ Close, surrender, queue too long
//	                      completion with │        │  ▼
//	                      more to follow  └────────┘ cancelled; a last completion comes
//
// A request in flight is a user of the descriptor (lifetime.go): close(2) comes after
// its last completion, so a completion never meets a descriptor, or a number, that
// belongs to another connection by now.
//
// While streaming, the socket belongs to the kernel: Read and Accept take from the queue
// only. Otherwise they take what the queue still has, then call the socket themselves,
// which is how a reader that has fallen behind catches up.
type requests struct {
	d        *desc
	p        *uringPoller
	accepted *acceptQueue  // constant; not nil for a listener that works by completion
	streams  bool          // constant: reading works by completion
	stopping bool          // loop-private: the request in direction read was cancelled
	read     uring.Token   // loop-private; of the request in flight
	write    uring.Token   // loop-private
	asked    atomic.Uint32 // which directions have a request in flight; written by the loop
	posted   atomic.Bool   // is in uringPoller.posted

	mu        sync.Mutex
	streaming bool          // guarded by mu
	plain     bool          // guarded by mu: never stream again, see surrender
	loose     bool          // guarded by mu: do not stream now, see uringPoller.leave
	ended     bool          // guarded by mu: the stream ended, with errno; not told yet
	errno     syscall.Errno // guarded by mu; 0: the end of the stream
	held      uint16        // guarded by mu: buffers in the queue
	head      uint16        // guarded by mu: the first of them
	tail      uint16        // guarded by mu: the last
}

// Bits of requests.asked.
const (
	askedRead = 1 << iota
	askedWrite
)

func newRequests(p *uringPoller, d *desc) *requests {
	r := &requests{d: d, p: p, loose: d.flags.Load()&flagLoose != 0}
	switch {
	case d.flags.Load()&(flagListens|flagShared) == flagListens:
		r.accepted = &acceptQueue{}
		r.streams = true
	case d.kind == kindTCP:
		r.streams = true
	}
	return r
}

// awaited reports whether a caller waits.
func (s *slot) awaited() bool {
	p := s.p.Load()
	return p == hooked || isWaiter(p)
}

// missing returns the directions that callers wait for and that have no request.
func (r *requests) missing() uint32 {
	if r.d.flags.Load()&flagLoose != 0 {
		return 0
	}
	asked := r.asked.Load()
	var missing uint32
	if asked&askedRead == 0 && r.d.read.awaited() {
		missing = askedRead
	}
	if asked&askedWrite == 0 && r.d.write.awaited() {
		missing |= askedWrite
	}
	return missing
}

// attend brings what is in flight for r in line with what is wanted. Own loop only.
func (p *uringPoller) attend(r *requests) {
	if r.d.flags.Load()&flagClosing != 0 {
		p.stopReading(r)
		if r.asked.Load()&askedWrite != 0 {
			p.cancel(r, r.write)
		}
		return
	}
	if r.surrendered() {
		p.stopReading(r)
	}
	missing := r.missing()
	if missing&askedRead != 0 {
		p.ask(r, askedRead)
	}
	if missing&askedWrite != 0 {
		p.ask(r, askedWrite)
	}
}

// ask submits, with the next Poll, a request in one direction.
func (p *uringPoller) ask(r *requests, which uint32) {
	// In this order: the closer of d looks at asked after that, see deregister.
	r.asked.Or(which)
	if r.d.use() != nil {
		r.asked.And(^which)
		return
	}
	sqe, err := p.driver.Entry()
	if err != nil {
		r.asked.And(^which)
		p.later(r)
		r.d.unuse()
		return
	}
	if which == askedWrite {
		sqe.PreparePollAdd(int(r.d.fd), unix.POLLOUT)
		r.write = p.driver.Track(sqe, (*writable)(r))
		return
	}
	r.stopping = false
	c := p.prepareRead(r, sqe)
	r.read = p.driver.Track(sqe, c)
}

// prepareRead chooses how to wait for what can be read, and fills in sqe.
func (p *uringPoller) prepareRead(r *requests, sqe *uring.SubmissionQueueEntry) uring.Completer {
	fd := int(r.d.fd)
	const interest = unix.POLLIN | unix.POLLRDHUP | unix.POLLPRI
	if r.streams {
		r.mu.Lock()
		defer r.mu.Unlock()
		switch {
		case r.plain:
		case r.loose:
			sqe.PreparePollAdd(fd, interest)
			return (*readable)(r)
		case r.accepted != nil:
			r.streaming = true
			sqe.PrepareMultishotAccept(fd, 0, 0, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
			return (*accepting)(r)
		case p.buffers.Free > 0:
			r.streaming = true
			p.buffers.PrepareReceive(sqe, fd, receiveCap*uint32(boolInt(p.capped)))
			return (*receiving)(r)
		default:
			// All buffers hold unread bytes. The kernel's buffer is as
			// good: wait until it has something, and let the reader call it.
			sqe.PreparePollAdd(fd, interest)
			return (*readable)(r)
		}
	}
	if r.d.flags.Load()&flagExclusive != 0 {
		sqe.PreparePollMultishot(fd, unix.POLLIN|unix.EPOLLEXCLUSIVE)
	} else {
		sqe.PreparePollMultishot(fd, interest)
	}
	return (*readable)(r)
}

// cancel asks for the end of a request; its last completion still comes.
func (p *uringPoller) cancel(r *requests, t uring.Token) {
	if p.driver.Cancel(t) != nil {
		p.later(r)
	}
}

// stopReading cancels the request in direction read, once.
func (p *uringPoller) stopReading(r *requests) {
	if r.asked.Load()&askedRead == 0 || r.stopping {
		return
	}
	if p.driver.Cancel(r.read) != nil {
		p.later(r)
		return
	}
	r.stopping = true
}

// finish ends a request whose last completion has come. It asks again if it is told to,
// or if a caller still waits: the request ended for a reason that is not the caller's. r.d may
// be freed by it.
func (p *uringPoller) finish(r *requests, which uint32, again bool) {
	r.asked.And(^which)
	if again {
		p.ask(r, which)
	} else if r.missing() != 0 {
		p.attend(r)
	}
	r.d.unuse()
}

// readable and writable take the completions of polls.
type (
	readable requests
	writable requests
)

func (q *readable) Complete(res int32, flags uint32) {
	(*requests)(q).polled(askedRead, res, flags)
}

func (q *writable) Complete(res int32, flags uint32) {
	(*requests)(q).polled(askedWrite, res, flags)
}

func (r *requests) polled(which uint32, res int32, flags uint32) {
	switch {
	case res >= 0:
		r.d.deliver(readiness(uint32(res)))
	case res != -int32(unix.ECANCELED):
		r.d.deliver(which == askedRead, which == askedWrite, 0) // the attempt will tell
	}
	if flags&uring.CQEFMore == 0 {
		r.p.finish(r, which, false)
	}
}

// surrendered means that the kernel is to stop streaming because the descriptor's user
// wants to call it.
func (r *requests) surrendered() bool {
	if !r.streams {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return (r.plain || r.loose) && r.streaming
}

// surrender makes the descriptor one that works by readiness, for good: from now on
// others than this package may read from it. Data that has been received already stays in the
// queue, and is refused to be skipped with errUnread. It parks until the kernel has let
// go.
func (d *desc) surrender() error {
	r := d.requests
	if r == nil || !r.streams {
		return nil
	}
	d.read.more()
	err := d.attempt(readSide, engine.ReasonRead, func() syscall.Errno {
		r.mu.Lock()
		r.plain = true
		streaming, held := r.streaming, r.held
		r.mu.Unlock()
		switch {
		case streaming && d.loop.Runs():
			r.p.stopReading(r)
			return unix.EAGAIN
		case streaming:
			r.p.post(r)
			return unix.EAGAIN
		case held > 0:
			return unix.ENOTEMPTY
		}
		return 0
	})
	if err == error(unix.ENOTEMPTY) {
		return errUnread
	}
	return err
}

// release gives back what the queue holds. Its caller is about to close the descriptor,
// and its only user.
func (r *requests) release() {
	if r.accepted != nil {
		r.accepted.refuse()
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.held > 0 {
		reset(r.d.fd) // as if the bytes were still in the kernel (RFC 2525, 2.17)
	}
	own := r.d.loop.Runs()
	for r.held > 0 {
		r.pop(own)
	}
}
