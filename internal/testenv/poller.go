package testenv

import (
	"sync/atomic"
	"time"
)

// A ChanPoller is a poller of package engine without descriptors: it waits for Wake or the timeout.
type ChanPoller struct {
	wake   chan struct{}
	closed atomic.Bool
}

// NewChanPoller makes a ChanPoller.
func NewChanPoller() *ChanPoller { return &ChanPoller{wake: make(chan struct{}, 1)} }

// Poll implements engine.Poller, as the other methods do.
func (p *ChanPoller) Poll(timeout time.Duration) error {
	var over <-chan time.Time // nil: never
	if timeout > 0 {
		timer := time.NewTimer(timeout)
		defer timer.Stop()
		over = timer.C
	}
	if timeout == 0 {
		select {
		case <-p.wake:
		default:
		}
		return nil
	}
	select {
	case <-p.wake:
	case <-over:
	}
	return nil
}

func (p *ChanPoller) Wake() error {
	select {
	case p.wake <- struct{}{}:
	default:
	}
	return nil
}

func (p *ChanPoller) Active() bool { return false }

func (p *ChanPoller) Close() error {
	if p.closed.Swap(true) {
		panic("closed twice")
	}
	return nil
}

// Closed reports whether Close was called.
func (p *ChanPoller) Closed() bool { return p.closed.Load() }
