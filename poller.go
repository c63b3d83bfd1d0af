package capriccio

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/poller"
	"github.com/capriccio-go/capriccio/internal/recorder"
	_ "github.com/capriccio-go/capriccio/netpoll" // its pollers
	"github.com/capriccio-go/capriccio/task"
)

// A pollerKind is one of the pollers to choose from.
type pollerKind struct {
	name string
	open func(threadLocked bool) (engine.Poller, error)
}

// pollerUring is the poller that the kernel may refuse although it is a good one.
const pollerUring = "uring"

// pollerKinds are the pollers, the preferred one first.
var pollerKinds = []pollerKind{
	{"epoll", func(bool) (engine.Poller, error) { return poller.Epoll() }},
	{"poll", func(bool) (engine.Poller, error) { return poller.Poll() }},
	{pollerUring, poller.Uring},
}

func knownPoller(name string) error {
	var known []string
	for _, p := range pollerKinds {
		if p.name == name {
			return nil
		}
		known = append(known, p.name)
	}
	return unknown("poller", name, known)
}

// Values of CAPRICCIO_AIO.
const (
	aioUring   = "uring"
	aioThreads = "threads"
)

func knownAIO(name string) error {
	if name == aioUring || name == aioThreads {
		return nil
	}
	return unknown("way to wait for files", name, []string{aioUring, aioThreads})
}

func unknown(what, name string, known []string) error {
	last := len(known) - 1
	return fmt.Errorf("unknown %s %q; want %s or %s", what, name, strings.Join(known[:last], ", "), known[last])
}

// toTry are the pollers to try, in that order: the one that was asked for, or, if none was or it is a ring, which
// the kernel may refuse, all of them.
func (o *options) toTry() []pollerKind {
	at := slices.IndexFunc(pollerKinds, func(p pollerKind) bool { return p.name == o.poller })
	switch {
	case at < 0:
		return pollerKinds
	case o.poller == pollerUring:
		return slices.Concat(pollerKinds[at:], pollerKinds[:at])
	}
	return pollerKinds[at : at+1]
}

// newRuntime makes the runtime and its graph, on the first poller of toTry that the kernel lets us have.
func (o *options) newRuntime() (*task.Runtime, *recorder.Graph, error) {
	var failed []error
	for _, p := range o.toTry() {
		rt, graph, err := o.newRuntimeOn(p)
		if err == nil {
			if failed != nil {
				o.log().Warn("capriccio: falling back to another poller", "poller", p.name, "because", errors.Join(failed...))
			}
			return rt, graph, nil
		}
		failed = append(failed, fmt.Errorf("%s: %w", p.name, err))
		if p.name != pollerUring && !errors.Is(err, syscall.ENOSYS) && !errors.Is(err, syscall.EPERM) {
			break
		}
	}
	return nil, nil, errors.Join(failed...)
}

// runOn has the loops poll with p.
func (o *options) runOn(p pollerKind, cfg *engine.Config) {
	open := func() (engine.Poller, error) { return p.open(cfg.LockThreads) }
	if o.aio == aioThreads {
		open = poller.NoRing(open)
	}
	cfg.NewPoller = func(int) (engine.Poller, error) { return open() }
}
