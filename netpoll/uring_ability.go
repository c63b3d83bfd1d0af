//go:build linux

package netpoll

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/uring"
)

// ability is what this kernel's io_uring can do of what is needed.
type ability struct {
	capped bool // a multishot receive takes a limit (Linux 6.17)
}

var errNoMultishot = errors.New("netpoll: io_uring without multishot receive; it needs Linux 6.0")

// known keeps the answer of uringAbility; a refusal may pass.
var known struct {
	mu  sync.Mutex
	can *ability // guarded by mu
}

// uringAbility finds out by trying: the probe of io_uring_register(2) knows operations,
// not their flags.
func uringAbility() (ability, error) {
	known.mu.Lock()
	defer known.mu.Unlock()
	if known.can != nil {
		return *known.can, nil
	}
	d, err := uring.NewDriver(uring.Config{Entries: 8})
	if err != nil {
		return ability{}, err
	}
	var b bufferRing
	can, err := tryReceive(d, &b)
	err = errors.Join(err, d.Close())
	runtime.KeepAlive(&b) // until the kernel has let go of it
	if err != nil {
		return ability{}, err
	}
	known.can = &can
	return can, nil
}

func tryReceive(d *uring.Driver, b *bufferRing) (ability, error) {
	if err := b.open(d, 2, 16); err != nil {
		return ability{}, err
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return ability{}, fmt.Errorf("netpoll: socketpair: %w", err)
	}
	defer unix.Close(pair[0])
	if _, err := unix.Write(pair[1], []byte("x")); err != nil {
		return ability{}, fmt.Errorf("netpoll: write: %w", err)
	}
	unix.Close(pair[1]) // ends the multishot
	for _, capped := range []bool{true, false} {
		sqe, err := d.Entry()
		if err != nil {
			return ability{}, fmt.Errorf("netpoll: %w", err)
		}
		b.prepareReceive(sqe, pair[0], capped)
		var got trial
		d.Track(sqe, &got)
		for n := 0; !got.ended && n < 100; n++ { // not until a time, as the process may be stopped meanwhile
			if err := d.Wait(10 * time.Millisecond); err != nil && !errors.Is(err, unix.EINTR) {
				return ability{}, fmt.Errorf("netpoll: %w", err)
			}
		}
		switch {
		case got.bytes == 1:
			return ability{capped: capped}, nil
		case got.e != unix.EINVAL:
			return ability{}, fmt.Errorf("netpoll: trying a multishot receive: got %d bytes, %v", got.bytes, got.e)
		}
	}
	return ability{}, errNoMultishot
}

// A trial takes the completions of the attempt.
type trial struct {
	bytes int32
	e     syscall.Errno
	ended bool
}

// Complete implements uring.Completer.
func (t *trial) Complete(res int32, flags uint32) {
	if res > 0 {
		t.bytes += res
	} else {
		t.e = syscall.Errno(-res)
	}
	t.ended = t.ended || flags&uring.CQEFMore == 0
}
