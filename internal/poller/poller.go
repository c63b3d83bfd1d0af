// Package poller is where package capriccio, tests and experiments get the pollers of package
// netpoll. They are made of the inside of netpoll, and their type is the engine's, which
// programs do not see; so netpoll, when it is initialised, puts their constructors in here.
// A package that calls one must import netpoll, if only for that.
package poller

import (
	"errors"
	"fmt"

	"github.com/capriccio-go/capriccio/internal/engine"
)

// Constructors of a poller for one loop. They are constant once netpoll is initialised.
var (
	// Epoll makes one on edge-triggered epoll. Errors are *os.SyscallError: EMFILE, ENFILE,
	// ENOMEM (epoll_create1(2), eventfd(2)).
	Epoll func() (engine.Poller, error)
	// Uring makes one on io_uring. It needs Linux 6.0; the error says what the kernel, or what
	// set limits to the process, has refused (EPERM: seccomp or kernel.io_uring_disabled;
	// ENOMEM: RLIMIT_MEMLOCK; ENOSYS, EINVAL: too old).
	Uring func() (engine.Poller, error)
)

var errNoRing = errors.New("netpoll: the poller was made without a ring (NoRing)")

// NoRing makes of a constructor of pollers one whose pollers refuse Driver, so that
// package aio serves files with threads. The poller itself goes on as before.
func NoRing(newPoller func() (engine.Poller, error)) func() (engine.Poller, error) {
	return func() (engine.Poller, error) {
		p, err := newPoller()
		if err != nil {
			return nil, err
		}
		r, ok := p.(interface{ RefuseDriver(error) })
		if !ok {
			return nil, errors.Join(fmt.Errorf("poller: NoRing of a %T; want a poller of package netpoll", p), p.Close())
		}
		r.RefuseDriver(errNoRing)
		return p, nil
	}
}
