// Package runner runs a function as the only task of a runtime that has no sockets.
package runner

import (
	"context"
	"time"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/stackchunk"
)

type poller struct{ wake chan struct{} }

func (p poller) Poll(timeout time.Duration) error {
	var timer <-chan time.Time
	if timeout >= 0 {
		timer = time.After(timeout)
	}
	select {
	case <-p.wake:
	case <-timer:
	}
	return nil
}

func (p poller) Wake() error {
	select {
	case p.wake <- struct{}{}:
	default:
	}
	return nil
}

func (p poller) Active() bool { return true }
func (p poller) Close() error { return nil }

// Run runs f as a engine.
func Run(f func()) error {
	rt, err := engine.New(engine.Config{
		Loops:     1,
		HoldLimit: -1,
		NewPoller: func(int) (engine.Poller, error) { return poller{make(chan struct{}, 1)}, nil },
	})
	if err != nil {
		return err
	}
	defer rt.Close()
	return rt.Run(context.Background(), func(context.Context) error { f(); return nil })
}

// Links is how often a chunk was linked.
func Links() uint64 { return stackchunk.ReadStats().Links }

// Yield lets other tasks run. On a goroutine that is no task it does nothing.
func Yield() {
	if engine.Current() != nil {
		engine.Yield()
	}
}
