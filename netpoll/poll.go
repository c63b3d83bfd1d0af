//go:build linux

package netpoll

import (
	"errors"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/uring"
)

// pollPoller is the fallback on poll(2). It imitates edges: a direction is asked about only
// while its slot is not marked ready, that is from the moment somebody found nothing
// left until the next event. Each Poll costs time proportional to the number of
// descriptors.
type pollPoller struct {
	table
	waker
	ringHost
	fds   []unix.PollFd // loop-private, built anew by each Poll: waker, ring, descriptors
	descs []*desc       // loop-private: the owners of the last of fds
}

// newPoll makes a poller on poll(2), for one loop. It is slower than newEpoll and needs
// nothing but POSIX. Errors are *os.SyscallError from eventfd(2).
func newPoll() (engine.Poller, error) {
	p := &pollPoller{}
	if err := p.waker.open(); err != nil {
		return nil, err
	}
	loose.opened()
	return p, nil
}

// Driver returns the ring that this poller waits for besides, made at the first call. The
// error says why there is none. Own loop only.
func (p *pollPoller) Driver() (*uring.Driver, error) {
	return p.ringHost.lend(func(int) error { return nil })
}

// Poll implements engine.Poller.
func (p *pollPoller) Poll(timeout time.Duration) error {
	timeout, err := p.ringHost.before(timeout)
	ring := int32(-1) // poll(2) passes over it
	if p.ringHost.driver != nil {
		ring = int32(p.ringHost.driver.Fd())
	}
	p.fds = append(p.fds[:0], unix.PollFd{Fd: int32(p.waker.fd), Events: unix.POLLIN},
		unix.PollFd{Fd: ring, Events: unix.POLLIN})
	p.descs = p.descs[:0]
	p.table.each(p.collect)
	n, e := p.wait(timeout)
	p.ringHost.after()
	if e != 0 {
		if e == unix.EINTR {
			return err
		}
		return &pollError{"poll", p.waker.fd, e}
	}
	if n == 0 {
		return err
	}
	if p.fds[0].Revents != 0 {
		p.waker.drain()
	}
	for i, d := range p.descs {
		p.descs[i] = nil
		ev := p.fds[i+2].Revents
		if ev == 0 || p.table.find(d.token) != d {
			continue
		}
		if ev&unix.POLLNVAL != 0 {
			continue // closed since it was collected
		}
		d.deliver(readiness(uint32(uint16(ev))))
	}
	return err
}

// collect adds d to the next poll(2) if a direction of it waits for an event.
func (p *pollPoller) collect(d *desc) {
	if d.flags.Load()&flagLoose != 0 {
		return
	}
	var events int16
	if d.read.p.Load() != ready {
		events = unix.POLLIN | unix.POLLRDHUP
	}
	if d.write.p.Load() != ready {
		events |= unix.POLLOUT
	}
	if events != 0 {
		p.fds = append(p.fds, unix.PollFd{Fd: d.fd, Events: events})
		p.descs = append(p.descs, d)
	}
}

func (p *pollPoller) wait(timeout time.Duration) (int, syscall.Errno) {
	buf := uintptr(unsafe.Pointer(unsafe.SliceData(p.fds)))
	var ts unix.Timespec
	if timeout < 0 {
		n, _, e := syscall.Syscall6(unix.SYS_PPOLL, buf, uintptr(len(p.fds)), 0, 0, 0, 0)
		return int(n), e
	}
	ts = unix.NsecToTimespec(int64(timeout))
	n, _, e := syscall.Syscall6(unix.SYS_PPOLL, buf, uintptr(len(p.fds)), uintptr(unsafe.Pointer(&ts)), 0, 0, 0)
	return int(n), e
}

// Wake implements engine.Poller.
func (p *pollPoller) Wake() error { return p.waker.wake() }

// Active implements engine.Poller.
func (p *pollPoller) Active() bool { return p.active.Load() != 0 || p.ringHost.busy() }

// Close implements engine.Poller: requests in flight are cancelled, descriptors still
// registered are closed, and what waits on them gets net.ErrClosed.
func (p *pollPoller) Close() error {
	err := p.ringHost.close()
	defer loose.closed()
	return errors.Join(err, p.table.close(func() error {
		p.waker.close()
		return nil
	}))
}

func (p *pollPoller) register(d *desc) error {
	return p.table.add(d, p.waker.wake) // a Poll in progress does not know d
}

// deregister ends a Poll in progress, because poll(2) keeps the files that it waits for
// open: the peer of a closed socket would not be told.
func (p *pollPoller) deregister(d *desc) { p.table.remove(d, func() { p.waker.wake() }) }

// leave may leave d in a Poll in progress, whose event then is a false alarm.
func (p *pollPoller) leave(*desc) bool { return true }

func (p *pollPoller) enter(*desc) error { return p.waker.wake() }

// rearm makes a Poll in progress look at the slots again.
func (p *pollPoller) rearm(*desc) { p.waker.wake() }
