//go:build linux

package netpoll

import (
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/capriccio-go/capriccio/internal/engine"
)

// Bounds of the pause of an accept loop that met a temporary error: it ran out of
// descriptors or memory, most likely.
const (
	minPause = 5 * time.Millisecond
	maxPause = time.Second
)

// starved lists the accept loops that pause, at most one per loop and listener. It is of the
// process, as descriptors are: one that is closed anywhere lets any of them go on.
var starved struct {
	n    atomic.Int32 // length of list, so that closing a descriptor costs one load
	mu   sync.Mutex
	list []*pause // guarded by mu
}

// A pause is the waiting of one accept loop. The zero value is ready.
type pause struct {
	next  time.Duration // of the next pause; task-private
	alarm engine.Alarm
	w     *engine.Waiter // what pauses; guarded by starved.mu
}

// reset makes the next pause a short one again.
func (p *pause) reset() { p.next = 0 }

// wait parks the calling task, on loop l, until the pause is over or a descriptor has
// been closed. It returns net.ErrClosed if ln is closed.
func (p *pause) wait(l *engine.Loop, ln *Listener) error {
	p.next = min(max(2*p.next, minPause), maxPause)
	w := engine.Self()
	starved.mu.Lock()
	p.w = w
	starved.list = append(starved.list, p)
	starved.n.Add(1)
	starved.mu.Unlock()
	p.alarm.Set(l, l.Now()+p.next, p)
	defer p.alarm.Drop()
	if ln.d.flags.Load()&flagClosing != 0 {
		p.Ring() // Close may have looked at the list before
	}
	err := w.Wait(engine.ReasonAccept, &pausing{p, ln})
	w.Release()
	if err != nil {
		return &contextError{err}
	}
	if ln.d.flags.Load()&flagClosing != 0 {
		return ln.opError("accept", "", net.ErrClosed)
	}
	return nil
}

// A pausing is a pause of ln as something to wait on.
type pausing struct {
	p  *pause
	ln *Listener
}

// Withdraw implements engine.WaitPoint.
func (x *pausing) Withdraw(*engine.Waiter) bool { return x.p.take() != nil }

// DescribeWait implements engine.WaitDescriber.
func (x *pausing) DescribeWait() string { return x.ln.describe() }

// take takes p off the list; nil means that somebody else has.
func (p *pause) take() *engine.Waiter {
	starved.mu.Lock()
	defer starved.mu.Unlock()
	w := p.w
	if w == nil {
		return nil
	}
	p.w = nil
	for i, x := range starved.list {
		if x == p {
			starved.list = append(starved.list[:i], starved.list[i+1:]...)
			break
		}
	}
	starved.n.Add(-1)
	return w
}

// Ring implements engine.Ringer.
func (p *pause) Ring() {
	if w := p.take(); w != nil {
		w.Wake()
	}
}

// fdFreed tells one starved accept loop that a descriptor has been closed.
func fdFreed() {
	if starved.n.Load() > 0 {
		wakeStarved(false)
	}
}

// wakeStarved ends the longest pause, or all that there are.
func wakeStarved(all bool) {
	starved.mu.Lock()
	n := 1
	if all {
		n = len(starved.list)
	}
	list := append([]*pause(nil), starved.list[:min(n, len(starved.list))]...)
	starved.mu.Unlock()
	for _, p := range list {
		p.Ring()
	}
}
