package capriccio

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/poller"
	"github.com/capriccio-go/capriccio/internal/recorder"
	_ "github.com/capriccio-go/capriccio/netpoll" // its pollers
	"github.com/capriccio-go/capriccio/task"
)

// A Poller is a way for loops to wait for descriptors, by its name in CAPRICCIO_POLLER.
type Poller string

const (
	// Epoll is the default.
	Epoll Poller = "epoll"
	// IOUring is io_uring, which needs Linux 6.0. Where io_uring is forbidden, as in many containers, the loops use Epoll,
	// and the log says so.
	IOUring Poller = "uring"
)

func knownPoller(name string) error {
	return oneOf("poller", name, string(Epoll), string(IOUring))
}

// Values of CAPRICCIO_AIO.
const (
	aioUring   = "uring"
	aioThreads = "threads"
)

func knownAIO(name string) error {
	return oneOf("way to wait for files", name, aioUring, aioThreads)
}

// oneOf returns an error that lists the known names, at least two, if name is not one of them.
func oneOf(what, name string, known ...string) error {
	if slices.Contains(known, name) {
		return nil
	}
	last := len(known) - 1
	return fmt.Errorf("unknown %s %q; want %s or %s", what, name, strings.Join(known[:last], ", "), known[last])
}

// newRuntime makes the runtime and its graph: on io_uring if that was asked for and the kernel does not refuse it,
// else on epoll.
func (o *options) newRuntime() (*task.Runtime, *recorder.Graph, error) {
	var refused error
	if Poller(o.poller) == IOUring {
		rt, graph, err := o.newRuntimeOn(poller.Uring)
		if err == nil {
			return rt, graph, nil
		}
		refused = fmt.Errorf("%s: %w", IOUring, err)
	}
	rt, graph, err := o.newRuntimeOn(poller.Epoll)
	if err != nil {
		return nil, nil, errors.Join(refused, fmt.Errorf("%s: %w", Epoll, err))
	}
	if refused != nil {
		o.log().Warn("capriccio: falling back to another poller", "poller", Epoll, "because", refused)
	}
	return rt, graph, nil
}

// pollWith has the loops poll with what open makes.
func (o *options) pollWith(open func() (engine.Poller, error), cfg *engine.Config) {
	if o.aio == aioThreads {
		open = poller.NoRing(open)
	}
	cfg.NewPoller = func(int) (engine.Poller, error) { return open() }
}
