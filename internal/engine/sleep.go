package engine

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/capriccio-go/capriccio/internal/wheel"
)

// Now returns the time on the loop's clock, without a system call. Its zero is
// arbitrary; see Clock.
func (l *Loop) Now() time.Duration { return l.rt.clock.Now() }

// Sleep parks the caller for at least d.
func Sleep(d time.Duration) error {
	l := reattach()
	if l == nil {
		time.Sleep(d)
		return nil
	}
	t := l.current()
	if d <= 0 {
		Yield()
		if t.cancelled {
			return t.cancelError()
		}
		return nil
	}
	s := l.takeSleeper()
	s.t = t
	l.timers.wheel.Add(&s.Timer, After(l.rt.clock.Now(), d))
	err := t.park(ReasonSleep, s, true)
	l.timers.wheel.Remove(&s.Timer)
	l.putSleeper(s)
	return err
}

// After is now + d, or the largest Duration if that overflows.
func After(now, d time.Duration) time.Duration {
	if at := now + d; d <= 0 || at > now {
		return at
	}
	return math.MaxInt64
}

// AddTimer has t expire at the given time of the loop's clock. t must not have been added already. Own loop only.
func (l *Loop) AddTimer(t *wheel.Timer, at time.Duration) { l.timers.wheel.Add(t, at) }

// RemoveTimer takes t out; it does nothing if t has expired or was never added. Own loop only.
func (l *Loop) RemoveTimer(t *wheel.Timer) { l.timers.wheel.Remove(t) }

// timers are those of a loop. Loop-private.
type timers struct {
	wheel    wheel.Wheel
	sleepers *sleeper // to use again
	spares   int
}

// A sleeper is the timer of one Sleep. Loop-private; used again.
type sleeper struct {
	wheel.Timer
	t    *Task
	next *sleeper
}

const maxSpareSleepers = 1024

func (l *Loop) takeSleeper() *sleeper {
	if s := l.timers.sleepers; s != nil {
		l.timers.sleepers = s.next
		l.timers.spares--
		return s
	}
	s := new(sleeper)
	s.Of = s
	return s
}

func (s *sleeper) Expire() { s.t.loop.notify(s.t) }

// Withdraw implements WaitPoint.
func (s *sleeper) Withdraw(*Waiter) bool {
	s.t.loop.timers.wheel.Remove(&s.Timer)
	return !s.t.notified
}

func (l *Loop) putSleeper(s *sleeper) {
	s.t = nil
	if l.timers.spares < maxSpareSleepers {
		s.next = l.timers.sleepers
		l.timers.sleepers = s
		l.timers.spares++
	}
}

// An Alarm calls its Ringer when a deadline has passed. The deadline can be moved often at almost no cost: moving it to
// a later time leaves the timer where it is, and when that fires, too early, it is set anew. The zero value is an Alarm
// that is not set. An Alarm belongs to one loop, that of its first Set, and must not be copied.
type Alarm struct {
	wheel.Timer
	loop     *Loop        // fixed by the first Set
	deadline atomic.Int64 // loop clock; 0: none
	queuedAt atomic.Int64 // loop clock; when the timer fires at the latest; 0: not queued
	ringer   Ringer       // fixed by the first Set
}

// A Ringer is told of the deadline of an Alarm.
type Ringer interface {
	// Ring is called on the loop's own goroutine. It must not park.
	Ring()
}

// A RingFunc is a function as a Ringer.
type RingFunc func()

// Ring implements Ringer.
func (f RingFunc) Ring() { f() }

// Set arranges for r to be called on the own goroutine of l once the clock of l (see
// Loop.Now) has reached at, and replaces an earlier setting. r must not park; it may
// be called once more for a deadline that was just replaced or stopped, so it must
// look for itself whether anything is due. l and r must be the same in every call.
// Set may be called from any goroutine, but not by two at once for one Alarm.
func (a *Alarm) Set(l *Loop, at time.Duration, r Ringer) {
	if a.loop == nil {
		a.loop, a.ringer, a.Of = l, r, a
	}
	a.deadline.Store(max(int64(at), 1))
	if q := a.queuedAt.Load(); q != 0 && q <= int64(at) {
		return
	}
	if here() == l {
		a.queue()
		return
	}
	l.Post(a.queue)
}

// Stop cancels the deadline.
func (a *Alarm) Stop() {
	if a.deadline.Load() != 0 {
		a.deadline.Store(0)
	}
}

// Deadline is the time that was set, 0 if none is.
func (a *Alarm) Deadline() time.Duration { return time.Duration(a.deadline.Load()) }

// queue puts the timer where the deadline is. Own loop only.
func (a *Alarm) queue() {
	for at := a.deadline.Load(); at != 0; {
		at = a.queueFor(at)
	}
}

// queueFor puts the timer where the deadline was when it was read, and returns the one
// that has been set since if the timer is too late for that, else 0. A Set at the same
// time either finds the new queuedAt or its deadline is found here: each side stores
// before it loads.
func (a *Alarm) queueFor(at int64) (earlier int64) {
	a.loop.timers.wheel.Remove(&a.Timer)
	a.loop.timers.wheel.Add(&a.Timer, time.Duration(at))
	a.queuedAt.Store(at)
	if now := a.deadline.Load(); now < at {
		return now
	}
	return 0
}

func (a *Alarm) Expire() {
	a.queuedAt.Store(0)
	at := a.deadline.Load()
	switch {
	case at == 0:
	case time.Duration(at) > a.loop.rt.clock.Now():
		a.queue()
	default:
		a.ringer.Ring()
	}
}

// Drop forgets the Alarm's timer, so that the memory it stands in may be used for
// something else. Own loop only.
func (a *Alarm) Drop() {
	a.Stop()
	if a.loop != nil {
		a.loop.timers.wheel.Remove(&a.Timer)
		a.queuedAt.Store(0)
	}
}
