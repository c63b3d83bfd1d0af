//go:build linux

package netpoll

import "github.com/capriccio-go/capriccio/internal/engine"

// wait parks until s is worth an attempt, and begins it. The caller holds the lock of
// the direction. After an error the slot is as if the caller had never been there. A
// task that is unwound while it is parked (the runtime is closing) must not stay published,
// and then gives up the lock of held, if that is not 0.
func (d *desc) wait(s *slot, expired uint32, why engine.Reason, own bool, held side) error {
	if !own {
		engine.CurrentLoop() // see ownToWrite
	}
	w := engine.Self()
	if w.Loop() == nil {
		return d.waitPlain(w, s, expired, why)
	}
	if !s.p.CompareAndSwap(drained, w) {
		if p := s.p.Load(); p == hooked || p == unhooking {
			return ErrBusy
		}
		s.begin(own)
		return nil
	}
	// Published: from here on a deadline or a Close finds w; look for earlier ones.
	if d.flags.Load()&(flagClosing|expired) != 0 && s.withdraw(w) {
		return d.failed(expired)
	}
	if !own || d.requests != nil {
		d.rearm()
	}
	if err := w.Wait(why, d.waitOn(held)); err != nil {
		return inContext(err)
	}
	if d.flags.Load()&(flagClosing|expired) != 0 {
		s.more()
		return d.failed(expired)
	}
	return nil
}

// The wait points of wait: d, each with the action for a wait that ends the task. The action
// stands here and not in a deferred function, for which the stack of a parked task has no
// room: 24 bytes too many make it twice as large.
type (
	waitUnlocked desc // the caller unlocks
	waitReading  desc // with the lock of readSide
	waitWriting  desc // with the lock of writeSide
)

// waitOn is the wait point for a caller that holds the lock of held; 0: the caller unlocks by itself.
func (d *desc) waitOn(held side) engine.WaitPoint {
	switch held {
	case readSide:
		return (*waitReading)(d)
	case writeSide:
		return (*waitWriting)(d)
	}
	return (*waitUnlocked)(d)
}

func (d *waitUnlocked) DescribeWait() string { return (*desc)(d).DescribeWait() }
func (d *waitReading) DescribeWait() string  { return (*desc)(d).DescribeWait() }
func (d *waitWriting) DescribeWait() string  { return (*desc)(d).DescribeWait() }

func (d *waitUnlocked) Withdraw(w *engine.Waiter) bool {
	return d.read.withdraw(w) || d.write.withdraw(w)
}

func (d *waitReading) Withdraw(w *engine.Waiter) bool { return d.read.withdraw(w) }

func (d *waitWriting) Withdraw(w *engine.Waiter) bool { return d.write.withdraw(w) }

func (d *waitReading) Unwound(*engine.Waiter) { (*desc)(d).unlock(readSide) }

func (d *waitWriting) Unwound(*engine.Waiter) { (*desc)(d).unlock(writeSide) }
