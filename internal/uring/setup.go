//go:build linux

package uring

import (
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Config says what NewDriver makes. The zero value is usable.
type Config struct {
	// Entries is the length of the submission queue, at most 32768; 0: 256. It is rounded
	// up to a power of two.
	Entries uint32
	// Completions is the length of the completion queue, at least Entries and at most
	// 65536; 0: sixteen times Entries, at most 65536. What it has no room for the kernel
	// keeps until there is.
	Completions uint32
	// Cooperative says that the thread which has handed a request over need not be interrupted to work for its
	// completion: it does so when it next enters the kernel, is woken if it sleeps, and does it at the next tick at
	// the latest. This is for a loop that seldom changes its thread: Wait keeps it there.
	Cooperative bool
	// CloseTimeout is how long Close waits for what can't be cancelled; 0: 30 s.
	CloseTimeout time.Duration
}

const (
	defaultEntries      = 256
	maxEntries          = 1 << 15
	maxCompletions      = 1 << 16
	defaultCloseTimeout = 30 * time.Second
)

// newRing is NewRing; tests put a ring on another kernel in its place.
type newRing func() *Ring

// NewDriver opens a ring. The error says what was refused and why; it is the errno of
// io_uring_setup(2) in words: ENOSYS (a kernel without io_uring), EPERM (forbidden by a
// seccomp filter or by kernel.io_uring_disabled), ENOMEM, EMFILE, EINVAL (older than
// Linux 5.11).
func NewDriver(cfg Config) (*Driver, error) { return newDriver(cfg, NewRing) }

func newDriver(cfg Config, fresh newRing) (*Driver, error) {
	if cfg.Entries == 0 {
		cfg.Entries = defaultEntries
	}
	if cfg.Entries > maxEntries {
		return nil, fmt.Errorf("uring: Config.Entries is %d; want at most %d", cfg.Entries, maxEntries)
	}
	if cfg.Completions == 0 {
		cfg.Completions = min(16*cfg.Entries, maxCompletions)
	}
	if cfg.Completions < cfg.Entries || cfg.Completions > maxCompletions {
		return nil, fmt.Errorf("uring: Config.Completions is %d; want %d (Entries) to %d", cfg.Completions, cfg.Entries, maxCompletions)
	}
	if cfg.CloseTimeout == 0 {
		cfg.CloseTimeout = defaultCloseTimeout
	}
	ring, err := open(cfg, fresh)
	if err != nil {
		return nil, err
	}
	return &Driver{
		ring:      ring,
		limit:     int(cfg.Completions),
		closeWait: cfg.CloseTimeout,
		keeps:     cfg.Cooperative,
		events:    make([]event, 0, batchSize),
	}, nil
}

// attempts lists the flags to set up a ring with, best first, each with the kernel that
// brought the last of them.
func attempts(cfg Config) []uint32 {
	const (
		always = SetupCQSize | SetupClamp
		coop   = always | SetupSubmitAll | SetupTaskrunFlag
	)
	all := []uint32{
		coop | SetupCoopTaskrun, // 5.19
		always | SetupSubmitAll, // 5.18
		always,                  // 5.6
	}
	if cfg.Cooperative {
		return all
	}
	return all[1:]
}

func open(cfg Config, fresh newRing) (*Ring, error) {
	var err error
	for _, flags := range attempts(cfg) {
		ring := fresh()
		p := newParams(flags, cfg.Completions)
		if err = ring.QueueInitParams(cfg.Entries, p); err == nil {
			const needed = FeatExtArg | FeatNoDrop | FeatSubmitStable | FeatFastPoll
			if features, _ := paramsGot(p); features&needed != needed {
				ring.QueueExit()
				return nil, errors.New("uring: this kernel's io_uring lacks what a loop needs; it must be Linux 5.11 or later")
			}
			return ring, nil
		}
		if !errors.Is(err, unix.EINVAL) {
			break
		}
	}
	return nil, &setupError{err}
}

// setupError says why there is no ring.
type setupError struct{ err error }

func (e *setupError) Unwrap() error { return e.err }

func (e *setupError) Error() string {
	text := "uring: io_uring_setup: " + e.err.Error()
	var errno syscall.Errno
	if !errors.As(e.err, &errno) {
		return text
	}
	switch errno {
	case unix.ENOSYS:
		return text + ": the kernel has no io_uring, or a seccomp filter says so"
	case unix.EPERM, unix.EACCES:
		return text + ": forbidden by a seccomp filter, or by the sysctl kernel.io_uring_disabled"
	case unix.ENOMEM:
		return text + ": no memory, or before Linux 5.12 more locked memory than RLIMIT_MEMLOCK allows (ulimit -l)"
	case unix.EMFILE, unix.ENFILE:
		return text + ": raise the limit (ulimit -n, fs.file-max)"
	case unix.EINVAL:
		return text + ": it must be Linux 5.11 or later"
	}
	return text
}

// abandoned keeps what the kernel may still write to after a Close that gave up waiting.
var abandoned struct {
	mu    sync.Mutex
	slots [][]slot // guarded by mu
}
