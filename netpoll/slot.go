//go:build linux

package netpoll

import (
	"sync/atomic"

	"github.com/capriccio-go/capriccio/internal/engine"
)

// A slot is one direction of a descriptor: whether an attempt is worthwhile and, if
// not, what waits until it is. Atomic.
//
//	           event
//	drained ───────────▶ ready
//	   ▲                   │ an attempt leaves nothing
//	   └───────────────────┘
//
//	         publish                     event, deadline, close
//	drained ─────────▶ a *engine.Waiter ────────────────────────▶ drained, and Wake
//
//	         publish            event, deadline, close
//	drained ─────────▶ hooked ────────────────────────▶ unhooking ──▶ ready, and run the hook
//
// The caller that moves a slot out of a waiter or out of hooked has taken it, and must wake the waiter
// or run the hook exactly once. A woken waiter owns the readiness it was woken with: it
// tries the system call, or puts ready back. Ready may be a false alarm (the attempt
// then meets EAGAIN), drained never is.
//
// An attempt on the descriptor's own loop cannot overlap the poller, which runs on the
// same loop: it marks the slot drained after it has seen so. Elsewhere the slot is
// marked drained before the attempt, so that an event in between is not lost.
type slot struct {
	p atomic.Pointer[engine.Waiter]
}

// The values of a slot besides the address of a waiter.
var (
	drained   *engine.Waiter
	ready     = new(engine.Waiter)
	hooked    = new(engine.Waiter)
	unhooking = new(engine.Waiter)
)

// isWaiter reports whether a slot value is the address of a waiter.
func isWaiter(p *engine.Waiter) bool {
	return p != drained && p != ready && p != hooked && p != unhooking
}

// begin prepares an attempt; false means there is nothing to try for and the caller
// must wait.
func (s *slot) begin(own bool) bool {
	if s.p.Load() != ready {
		return false
	}
	if !own {
		s.p.Store(drained)
	}
	return true
}

// exhausted ends an attempt that left nothing: the next one has to wait for an event. See
// desc.exhausted.
func (s *slot) exhausted(own bool) {
	if own && s.p.Load() == ready {
		s.p.Store(drained)
	}
}

// more ends an attempt after which another is worthwhile.
func (s *slot) more() {
	if s.p.Load() == drained {
		s.p.CompareAndSwap(drained, ready)
	}
}

// event marks the slot ready, and takes its waiter or hook if there is one. If it
// returns hooked, desc.takeHook must follow.
func (s *slot) event() *engine.Waiter { return s.take(ready) }

// interrupt takes the waiter or hook, if there is one, without an event. If it returns
// hooked, desc.takeHook must follow.
func (s *slot) interrupt() *engine.Waiter { return s.take(drained) }

// take takes the waiter or hook, if there is one; else a slot that is drained becomes idle.
func (s *slot) take(idle *engine.Waiter) *engine.Waiter {
	for {
		old := s.p.Load()
		next := drained
		switch old {
		case ready, unhooking:
			return nil
		case drained:
			if next = idle; next == drained {
				return nil
			}
		case hooked:
			next = unhooking
		}
		if s.p.CompareAndSwap(old, next) {
			return old
		}
	}
}

// withdraw takes w back; false means that a waker has taken it.
func (s *slot) withdraw(w *engine.Waiter) bool {
	return s.p.CompareAndSwap(w, drained)
}
