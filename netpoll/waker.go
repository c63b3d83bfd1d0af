//go:build linux

package netpoll

import (
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/netpoll/internal/sys"
)

// A waker makes a poll return, through an eventfd.
type waker struct {
	fd      int
	pending atomic.Bool // a wake is on its way, further ones are not needed
	mu      sync.Mutex
	closed  bool // guarded by mu, as is the use of fd by wake
}

func (k *waker) open() error {
	fd, err := sys.Eventfd()
	if err != nil {
		return os.NewSyscallError("eventfd", err)
	}
	k.fd = fd
	return nil
}

// wake may be called from any goroutine, after close too.
func (k *waker) wake() error {
	if !k.pending.CompareAndSwap(false, true) {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return nil
	}
	for {
		switch e := sys.WriteEventfd(k.fd); e {
		case 0, unix.EAGAIN: // EAGAIN: the counter is full, so the eventfd is readable
			return nil
		case unix.EINTR:
		default:
			k.pending.Store(false)
			return &pollError{"eventfd write", k.fd, e}
		}
	}
}

// taken ends the wake that the poller has just seen. What the caller looks at next was
// written before any wake that was left out because of it.
func (k *waker) taken() { k.pending.Store(false) }

func (k *waker) close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.closed {
		k.closed = true
		sys.Close(k.fd)
	}
}
