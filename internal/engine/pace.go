package engine

import "github.com/capriccio-go/capriccio/internal/coro"

// How much I/O a task may do in one step, without a wait, before other tasks run. The sizes are
// such that the switch costs less than 1 % of the work done since the last one.
const (
	paceUnit  = 4 << 10          // bytes that an operation counts for in addition to the bytes it moves
	paceFree  = 5 * paceUnit / 2 // from so many bytes on the clock is read: more than a step of one read and one write
	paceLimit = 64 * paceUnit    // after so many bytes, or turnTime after the clock was first read, other tasks run
)

// A pace is what the running step has done that might have waited, and did not. Loop-private.
type pace struct {
	step  uint64 // Loop.switches of that step
	done  uint64 // bytes, and paceUnit for each operation
	since uint64 // cycles at the first look; 0: there was none
}

// Pace is for packages that have tasks wait for descriptors. The running task calls it after each operation that moved
// n bytes, or none, and did not have to wait; it must hold nothing then that keeps other tasks waiting. Now and then it
// yields, so that a task whose peer is always ready does not keep its loop for ever. Own loop only; on the loop's own
// goroutine it never yields.
func (l *Loop) Pace(n int) {
	p := &l.pace
	if p.step != l.switches {
		p.step, p.done, p.since = l.switches, 0, 0
	}
	p.done += uint64(n) + paceUnit
	if p.done > paceFree {
		l.paceSlow()
	}
}

// Pace is Loop.Pace for the loop that the caller runs on. On a plain goroutine, and in a detached task, it does
// nothing.
func Pace(n int) {
	if l := here(); l != nil {
		l.Pace(n)
	}
}

//go:noinline
func (l *Loop) paceSlow() {
	p := &l.pace
	if p.done < paceLimit {
		now := coro.Cycles()
		if p.since == 0 {
			p.since = now
		}
		if int64(now-p.since) < l.stats.turnLimit {
			return
		}
	}
	if l.cur != nil {
		Yield()
	}
}
