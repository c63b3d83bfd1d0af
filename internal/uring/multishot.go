//go:build linux

package uring

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ErrNoMultishot means that the kernel is too old for MultishotReceive.
var ErrNoMultishot = errors.New("uring: io_uring without multishot receive; it needs Linux 6.0")

// known keeps the answer of MultishotReceive; a refusal may pass.
var known struct {
	mu      sync.Mutex
	tried   bool // guarded by mu
	limited bool // guarded by mu
}

// MultishotReceive returns an error if there are no multishot receives into Buffers here, and reports whether they take a
// limit. It finds out by trying: the probe of io_uring_register(2) knows operations, not their flags.
func MultishotReceive() (limited bool, err error) {
	known.mu.Lock()
	defer known.mu.Unlock()
	if known.tried {
		return known.limited, nil
	}
	d, err := NewDriver(Config{Entries: 8})
	if err != nil {
		return false, err
	}
	var b Buffers
	limited, err = tryReceive(d, &b)
	err = errors.Join(err, d.Close())
	runtime.KeepAlive(&b) // until the kernel has let go of it
	if err != nil {
		return false, err
	}
	known.tried, known.limited = true, limited
	return limited, nil
}

func tryReceive(d *Driver, b *Buffers) (limited bool, err error) {
	if err := b.Open(d, 2, 16, 1); err != nil {
		return false, err
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false, fmt.Errorf("uring: socketpair: %w", err)
	}
	defer unix.Close(pair[0])
	if _, err := unix.Write(pair[1], []byte("x")); err != nil {
		return false, fmt.Errorf("uring: write: %w", err)
	}
	unix.Close(pair[1]) // ends the multishot
	for _, limit := range []uint32{1 << 10, 0} {
		sqe, err := d.Entry()
		if err != nil {
			return false, fmt.Errorf("uring: %w", err)
		}
		b.PrepareReceive(sqe, pair[0], limit)
		var got trial
		d.Track(sqe, &got)
		for n := 0; !got.ended && n < 100; n++ { // not until a time, as the process may be stopped meanwhile
			if err := d.Wait(10 * time.Millisecond); err != nil && !errors.Is(err, unix.EINTR) {
				return false, fmt.Errorf("uring: %w", err)
			}
		}
		switch {
		case got.bytes == 1:
			return limit > 0, nil
		case got.e != unix.EINVAL:
			return false, fmt.Errorf("uring: trying a multishot receive: got %d bytes, %v", got.bytes, got.e)
		}
	}
	return false, ErrNoMultishot
}

// A trial takes the completions of the attempt.
type trial struct {
	bytes int32
	e     syscall.Errno
	ended bool
}

func (t *trial) Complete(res int32, flags uint32) {
	if res > 0 {
		t.bytes += res
	} else {
		t.e = syscall.Errno(-res)
	}
	t.ended = t.ended || flags&CQEFMore == 0
}
