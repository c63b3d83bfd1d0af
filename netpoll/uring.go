//go:build linux

package netpoll

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/uring"
)

// uringOptions are the choices of newUring. The zero value is usable.
type uringOptions struct {
	// buffers is how many receive buffers the loop owns; a power of two of at most
	// 32768, 0: 256.
	buffers int
	// bufferSize is the size in bytes of each, at most 65535; 0: 4096.
	bufferSize int
}

const (
	defaultBuffers    = 256
	defaultBufferSize = 4 << 10
	maxBuffers        = 1 << 15
	maxBufferSize     = 1<<16 - 1
)

// A uringPoller is the poller on io_uring(7). What tasks ask for while a turn of the
// loop goes on (uring_requests.go) is handed over with the one io_uring_enter(2) that also
// waits for completions.
//
// TCP connections and listeners work by completion: one multishot request per socket
// brings bytes in buffers of the loop, or accepted descriptors, and Read and Accept take
// them from a queue. Everything else waits for readiness by a poll in the ring, and then
// makes the same system calls as with epoll.
type uringPoller struct {
	table
	waker
	driver   *uring.Driver
	buffers  bufferRing // its mutable fields are loop-private
	capped   bool       // loop-private: a multishot receive can be given a limit
	watching bool       // loop-private: the eventfd is polled for
	closed   bool       // loop-private
	refusal  error      // constant while the loop runs: why Driver refuses

	todo     atomic.Bool // posted or returned is not empty
	mu       sync.Mutex
	posted   []*requests // guarded by mu: what goroutines off the loop ask for
	returned []uint16    // guarded by mu: buffers that they have emptied
	taken    []*requests // loop-private: posted, while it is worked off
}

// newUring makes a poller on io_uring, for one loop. It needs Linux 6.0; the error says
// what the kernel, or what set limits to the process, has refused (EPERM: seccomp or
// kernel.io_uring_disabled; ENOMEM: RLIMIT_MEMLOCK; ENOSYS, EINVAL: too old).
func newUring(o uringOptions) (engine.Poller, error) {
	if o.buffers == 0 {
		o.buffers = defaultBuffers
	}
	if o.bufferSize == 0 {
		o.bufferSize = defaultBufferSize
	}
	if o.buffers < 1 || o.buffers > maxBuffers || o.buffers&(o.buffers-1) != 0 {
		return nil, fmt.Errorf("netpoll: %d receive buffers; want a power of two, at most %d", o.buffers, maxBuffers)
	}
	if o.bufferSize < 1 || o.bufferSize > maxBufferSize {
		return nil, fmt.Errorf("netpoll: receive buffers of %d bytes; want 1 to %d", o.bufferSize, maxBufferSize)
	}
	limited, err := uring.MultishotReceive()
	if err != nil {
		return nil, err
	}
	p := &uringPoller{capped: limited}
	if p.driver, err = uring.NewDriver(uring.Config{Entries: ringEntries, Cooperative: true}); err != nil {
		return nil, err
	}
	if err := p.buffers.open(p.driver, o.buffers, o.bufferSize); err != nil {
		return nil, errors.Join(err, p.driver.Close())
	}
	if err := p.waker.open(); err != nil {
		p.buffers.Close()
		return nil, errors.Join(err, p.driver.Close())
	}
	loose.opened()
	return p, nil
}

// ringEntries is the length of the submission queue; when it is full it is submitted
// before its time.
const ringEntries = 256

// Driver returns the loop's ring, for packages that have other requests than this one.
// Own loop only.
func (p *uringPoller) Driver() (*uring.Driver, error) {
	if p.closed {
		return nil, errPollerClosed
	}
	if p.refusal != nil {
		return nil, p.refusal
	}
	return p.driver, nil
}

// RefuseDriver makes Driver fail with err.
func (p *uringPoller) RefuseDriver(err error) { p.refusal = err }

// Poll implements engine.Poller: one system call, or none if there is nothing to hand over
// and timeout is 0.
func (p *uringPoller) Poll(timeout time.Duration) error {
	if !p.watching {
		if err := p.watch(); err != nil {
			return err
		}
	}
	if p.todo.Load() {
		p.takePosted()
		if p.todo.Load() && (timeout < 0 || timeout > retryPause) {
			timeout = retryPause
		}
	}
	err := p.driver.Wait(timeout)
	if err == nil || errors.Is(err, unix.EINTR) {
		return nil
	}
	return fmt.Errorf("netpoll: %w", err)
}

// retryPause is the pause before a request is tried again that the ring had no room for.
const retryPause = time.Millisecond

// watch has the ring wait for wakes. Each write to the eventfd is a completion of its
// own, and need not be read.
func (p *uringPoller) watch() error {
	sqe, err := p.driver.Entry()
	if err != nil {
		return fmt.Errorf("netpoll: %w", err)
	}
	sqe.PreparePollMultishot(p.waker.fd, unix.POLLIN)
	p.driver.Track(sqe, (*wakes)(p))
	p.watching = true
	return nil
}

// wakes takes the completions of the eventfd's poll.
type wakes uringPoller

func (k *wakes) Complete(res int32, flags uint32) {
	k.waker.taken()
	if flags&uring.CQEFMore == 0 {
		k.watching = false
	}
}

// Wake implements engine.Poller.
func (p *uringPoller) Wake() error { return p.waker.wake() }

// Active implements engine.Poller.
func (p *uringPoller) Active() bool {
	if p.table.active.Load() != 0 || p.todo.Load() || p.driver.Pending() != 0 {
		return true
	}
	n := p.driver.InFlight()
	if p.watching {
		n--
	}
	return n != 0
}

// Close implements engine.Poller: descriptors still registered are closed, and callers that wait on them get
// net.ErrClosed. It returns when the kernel has let go of all of them.
func (p *uringPoller) Close() error {
	defer loose.closed()
	return p.table.close(func() error {
		p.waker.close()
		err := p.driver.Close() // completes, and so frees, what is left
		p.closed = true
		p.buffers.Close()
		return err
	})
}

// register gives d its requests; the kernel learns of d when a caller first waits.
func (p *uringPoller) register(d *desc) error {
	return p.table.add(d, func() error {
		d.requests = newRequests(p, d) // first, as looseSet may deliver at once
		if !d.startLoose() {
			d.requests.setLoose(false)
		}
		return nil
	})
}

// deregister has what is in flight for d cancelled. Each request is a user of d, so that
// close(2) waits for the last completion.
func (p *uringPoller) deregister(d *desc) {
	p.table.remove(d, func() {})
	r := d.requests
	if r.asked.Load() == 0 {
		return // nor will there be: d is closed to users
	}
	if d.loop.Runs() {
		p.attend(r)
	} else {
		p.post(r)
	}
}

// rearm makes sure that a task that has begun to wait on d gets the event: it is called after
// the waiter was published, on the own loop too.
func (p *uringPoller) rearm(d *desc) {
	r := d.requests
	if r.missing() == 0 {
		return
	}
	if d.loop.Runs() {
		if d.flags.Load()&(flagPlainReads|flagPlainWrites) == 0 {
			r.setLoose(false) // a leave may have come to nothing
		}
		p.attend(r)
	} else {
		p.post(r)
	}
}

// leave lets the looseSet serve d. If the socket belongs to the kernel, the loop has to get it back first, for which no
// task may hold it; until then the loop serves d.
func (p *uringPoller) leave(d *desc) bool {
	r := d.requests
	if r.setLoose(true) {
		p.post(r)
		return false
	}
	return true
}

func (p *uringPoller) enter(d *desc) error {
	d.requests.setLoose(false)
	p.rearm(d)
	return nil
}

// setLoose sets r.loose, and reports whether the socket belongs to the kernel.
func (r *requests) setLoose(to bool) (streaming bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.loose = to
	return r.streaming
}

// post has the loop attend to r.
func (p *uringPoller) post(r *requests) {
	p.later(r)
	p.waker.wake()
}

// later has the next Poll attend to r.
func (p *uringPoller) later(r *requests) {
	if !r.posted.CompareAndSwap(false, true) {
		return
	}
	p.mu.Lock()
	p.posted = append(p.posted, r)
	p.todo.Store(true)
	p.mu.Unlock()
}

// takePosted carries out posted requests. A request that the ring has no room for is posted again.
func (p *uringPoller) takePosted() {
	p.mu.Lock()
	p.taken, p.posted = p.posted, p.taken[:0]
	for _, bid := range p.returned {
		p.buffers.Add(bid)
	}
	p.returned = p.returned[:0]
	p.todo.Store(false)
	p.mu.Unlock()
	for i, r := range p.taken {
		p.taken[i] = nil
		r.posted.Store(false)
		p.attend(r)
	}
}
