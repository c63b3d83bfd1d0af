//go:build linux

package netpoll

import (
	"errors"
	"math"
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/kernel"
	"github.com/capriccio-go/capriccio/internal/uring"
	"github.com/capriccio-go/capriccio/netpoll/internal/sys"
)

// maxEvents is how many events one Poll takes; the kernel keeps the rest for the next.
const maxEvents = 512

// epollInterest is what every descriptor is registered for, once (epoll(7)). PRI tells
// of urgent data, at whose mark a TCP read stops short.
const epollInterest = unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLRDHUP | unix.EPOLLPRI | unix.EPOLLET

// epoll is the poller on epoll(7), edge triggered.
type epoll struct {
	table
	waker
	ringHost
	rest     resting
	fd       int
	noPwait2 bool                       // loop-private: the kernel lacks epoll_pwait2
	events   [maxEvents]unix.EpollEvent // loop-private
	touched  uint32                     // loop-private: keeps the loads of warm alive
}

// newEpoll makes a poller on edge-triggered epoll, for one loop. Errors are
// *os.SyscallError: EMFILE, ENFILE, ENOMEM (epoll_create1(2), eventfd(2)).
func newEpoll() (engine.Poller, error) {
	fd, err := sys.EpollCreate()
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	p := &epoll{fd: fd}
	if err := p.waker.open(); err != nil {
		sys.Close(fd)
		return nil, err
	}
	// Edge triggered, each write is an event of its own, and need not be read.
	ev := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET}
	if err := sys.EpollAdd(fd, p.waker.fd, &ev); err != nil {
		p.waker.close()
		sys.Close(fd)
		return nil, os.NewSyscallError("epoll_ctl", err)
	}
	p.rest.open(p)
	loose.opened()
	return p, nil
}

// ringToken is the token of the ring's descriptor. No descriptor of the table has it,
// whose generations are never 0, so that the event is dropped: its effect is the end of
// the wait.
const ringToken = 1

// Driver returns the ring that this poller also waits for, made at the first call. The error says why there is none.
// Own loop only.
func (p *epoll) Driver() (*uring.Driver, error) { return p.ringHost.lend(p.fd) }

// Poll implements engine.Poller: one system call, at most 512 events. A ring adds another if
// there is something to hand over to it.
func (p *epoll) Poll(timeout time.Duration) error { return p.poll(timeout, blocks) }

// Rest implements engine.Rester.
func (p *epoll) Rest(timeout time.Duration) error { return p.poll(timeout, rests) }

// Hold implements engine.Rester. A stop of the world ends it, by a signal.
func (p *epoll) Hold(timeout time.Duration) error { return p.poll(timeout, holds) }

// A way is how to wait.
type way uint8

const (
	blocks way = iota // in a system call that the Go runtime knows of
	rests             // in the Go runtime's poller
	holds             // in a system call that the Go runtime does not know of
)

func (p *epoll) poll(timeout time.Duration, how way) error {
	timeout, err := p.ringHost.before(timeout)
	var n int
	var e syscall.Errno
	done := false
	if how == rests && timeout != 0 {
		n, e, done = p.rest.wait(p, timeout)
	}
	if !done {
		n, e = p.wait(timeout, how)
	}
	p.ringHost.after()
	if e != 0 {
		if e == unix.EINTR {
			return err
		}
		return &pollError{"epoll_wait", p.fd, e}
	}
	if n > warmEvents && !kernel.Race {
		p.warm(p.events[:n])
	}
	for i := range p.events[:n] {
		ev := &p.events[i]
		token := eventToken(ev)
		if token == 0 {
			p.waker.taken()
			continue
		}
		d := p.table.find(token)
		if d == nil {
			continue
		}
		d.deliver(readiness(ev.Events))
	}
	return err
}

// readiness reports what events of epoll(7) mean for a descriptor. news are flags.
func readiness(events uint32) (in, out bool, news uint32) {
	const (
		end = unix.EPOLLRDHUP | unix.EPOLLHUP | unix.EPOLLERR
		rd  = unix.EPOLLIN | unix.EPOLLPRI | end
		wr  = unix.EPOLLOUT | unix.EPOLLHUP | unix.EPOLLERR
	)
	if events&end != 0 {
		news = flagHangup
	}
	if events&unix.EPOLLPRI != 0 {
		news |= flagUrgent
	}
	return events&rd != 0, events&wr != 0, news
}

// epollEvents is what d is registered for.
func epollEvents(d *desc) uint32 {
	if d.flags.Load()&flagExclusive != 0 {
		return unix.EPOLLIN | unix.EPOLLET | unix.EPOLLEXCLUSIVE
	}
	return epollInterest
}

// warmEvents is the number of events from which on warm pays.
const warmEvents = 8

// warm touches what delivering the events will touch, descriptors first, then the waiters on them. Here the cache
// misses overlap; in deliver, whose atomic operations each wait for the loads before them, they would follow one
// another. Another thread may take a waiter and use it again meanwhile; nothing depends on what is read of it.
func (p *epoll) warm(events []unix.EpollEvent) {
	var descs [warmBatch]*desc
	for len(events) > 0 {
		batch := events[:min(len(events), warmBatch)]
		events = events[len(batch):]
		touched := uint32(0)
		for i := range batch {
			descs[i] = p.table.find(eventToken(&batch[i]))
			if d := descs[i]; d != nil {
				touched |= d.flags.Load()
			}
		}
		for _, d := range descs[:len(batch)] {
			if d == nil {
				continue
			}
			if w := d.read.p.Load(); isWaiter(w) && w.Loop() == nil {
				touched |= 1
			}
		}
		p.touched = touched
	}
}

const warmBatch = 64

// eventToken is the token that register gave to the kernel.
func eventToken(ev *unix.EpollEvent) uint64 {
	return uint64(uint32(ev.Pad))<<32 | uint64(uint32(ev.Fd))
}

// wait is epoll_pwait2, or epoll_pwait where the timeout does not need it. A poll that does not wait is done without
// telling the Go scheduler.
func (p *epoll) wait(timeout time.Duration, how way) (int, syscall.Errno) {
	if k := kernel.Net; k != nil {
		n, e := k.EpollWait(p.fd, kernel.Unseen(p.events[:]), timeout)
		return int(n), e
	}
	buf := uintptr(unsafe.Pointer(&p.events[0]))
	if timeout == 0 {
		n, _, e := syscall.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(p.fd), buf, maxEvents, 0, 0, 0)
		return int(n), e
	}
	ms := -1
	if timeout > 0 {
		if !p.noPwait2 {
			ts := unix.NsecToTimespec(int64(timeout))
			var n uintptr
			var e syscall.Errno
			if how == holds {
				n, _, e = syscall.RawSyscall6(unix.SYS_EPOLL_PWAIT2, uintptr(p.fd), buf, maxEvents, uintptr(unsafe.Pointer(&ts)), 0, 0)
			} else {
				n, _, e = syscall.Syscall6(unix.SYS_EPOLL_PWAIT2, uintptr(p.fd), buf, maxEvents, uintptr(unsafe.Pointer(&ts)), 0, 0)
			}
			if e != unix.ENOSYS && e != unix.EPERM {
				return int(n), e
			}
			p.noPwait2 = true // before Linux 5.11, or filtered by a container
		}
		ms = milliseconds(timeout)
	}
	n, _, e := syscall.Syscall6(unix.SYS_EPOLL_PWAIT, uintptr(p.fd), buf, maxEvents, uintptr(ms), 0, 0)
	return int(n), e
}

// milliseconds rounds up, so that a short wait does not become a spin.
func milliseconds(d time.Duration) int {
	ms := d / time.Millisecond
	if d%time.Millisecond != 0 {
		ms++
	}
	return int(min(ms, math.MaxInt32))
}

// Wake implements engine.Poller.
func (p *epoll) Wake() error { return p.waker.wake() }

// Active implements engine.Poller.
func (p *epoll) Active() bool { return p.active.Load() != 0 || p.ringHost.busy() }

// Close implements engine.Poller: requests in flight are cancelled, descriptors still registered are closed, and
// callers that wait on them get net.ErrClosed.
func (p *epoll) Close() error {
	p.rest.close()
	err := p.ringHost.close()
	defer loose.closed()
	return errors.Join(err, p.table.close(func() error {
		p.waker.close()
		return os.NewSyscallError("close", sys.Close(p.fd))
	}))
}

func (p *epoll) register(d *desc) error {
	return p.table.add(d, func() error {
		if d.startLoose() {
			return nil
		}
		return p.enter(d)
	})
}

func (p *epoll) enter(d *desc) error {
	ev := unix.EpollEvent{
		Events: epollEvents(d),
		Fd:     int32(uint32(d.token)),
		Pad:    int32(uint32(d.token >> 32)),
	}
	return os.NewSyscallError("epoll_ctl", sys.EpollAdd(p.fd, int(d.fd), &ev))
}

func (p *epoll) leave(d *desc) bool {
	sys.EpollDelete(p.fd, int(d.fd))
	return true
}

// deregister relies on close(2) to take the descriptor out of the epoll set, which it
// does unless the descriptor was duplicated.
func (p *epoll) deregister(d *desc) {
	p.table.remove(d, func() {
		if d.flags.Load()&flagShared != 0 {
			sys.EpollDelete(p.fd, int(d.fd))
		}
	})
}

// rearm has nothing to do: both directions are always asked for.
func (p *epoll) rearm(*desc) {}
