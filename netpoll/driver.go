//go:build linux

package netpoll

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/uring"
)

// A ringHost lends the epoll poller, which does not need io_uring(7) itself, a ring for the requests
// of others. Its descriptor is in the epoll set, because it is readable while completions are there.
// Loop-private.
type ringHost struct {
	driver *uring.Driver // nil: not asked for yet, refused, or closed
	err    error         // why there is none, for good
}

// lend returns the driver, made at the first call, whose descriptor is then in the set of epollFD.
func (h *ringHost) lend(epollFD int) (*uring.Driver, error) {
	if h.driver != nil || h.err != nil {
		return h.driver, h.err
	}
	d, err := uring.NewDriver(uring.Config{})
	if err == nil {
		// Level triggered: Reap may leave some.
		ev := unix.EpollEvent{Events: unix.EPOLLIN, Fd: ringToken}
		if err = unix.EpollCtl(epollFD, unix.EPOLL_CTL_ADD, d.Fd(), &ev); err != nil {
			err = errors.Join(os.NewSyscallError("epoll_ctl", err), d.Close())
		}
	}
	if err != nil {
		h.err = fmt.Errorf("netpoll: no ring beside the poller: %w", err)
		return nil, h.err
	}
	h.driver = d
	return d, nil
}

// RefuseDriver makes Driver fail with err.
func (h *ringHost) RefuseDriver(err error) { h.err = err }

// before hands over what was asked for since the last Poll, and returns how long this one may wait. Many requests
// complete at once, such as a read of data in memory. Sockets are served in spite of an error.
func (h *ringHost) before(timeout time.Duration) (time.Duration, error) {
	d := h.driver
	if d == nil {
		return timeout, nil
	}
	if err := d.Flush(); err != nil {
		return 0, fmt.Errorf("netpoll: the ring beside the poller: %w", err)
	}
	if d.Reap() > 0 {
		return 0, nil
	}
	if d.Pending() > 0 && (timeout < 0 || timeout > ringRetry) {
		return ringRetry, nil
	}
	return timeout, nil
}

// ringRetry is the pause before requests are handed over again that the kernel had no memory for.
const ringRetry = time.Millisecond

// after completes what has come in during the wait.
func (h *ringHost) after() {
	if h.driver != nil {
		h.driver.Reap()
	}
}

// busy reports whether completions may come, or requests are to be handed over.
func (h *ringHost) busy() bool {
	return h.driver != nil && h.driver.InFlight()+h.driver.Pending() > 0
}

// close waits until the kernel has let go of the memory of all requests.
func (h *ringHost) close() error {
	d := h.driver
	h.driver, h.err = nil, errPollerClosed
	if d == nil {
		return nil
	}
	return d.Close()
}
