package engine

import "github.com/capriccio-go/capriccio/internal/coro"

// What a task may do in one step, without a wait, before others have a turn. The switch costs less than 1 % of
// what was done since the last; what costs far more is that the memory which the next task copies is not in the
// processor's caches, and that whoever receives falls asleep meanwhile. So as long as all that could have a turn
// is others in the middle of the same, a task goes on for paceSteps such steps, with a look for events after each.
const (
	paceUnit  = 4 << 10          // bytes that one operation counts for besides those that it moves
	paceFree  = 5 * paceUnit / 2 // after so much the time is looked at: not in a step of one read and one write
	paceLimit = 64 * paceUnit    // after so much others have a turn, or turnTime after the first look
	paceSteps = 32               // some 2 ms
)

// A pace is what the running step has done that might have waited, and did not. Loop-private.
type pace struct {
	step  uint64 // Loop.switches of that step
	done  uint64 // bytes, and paceUnit for each operation
	since uint64 // cycles at the first look; 0: there was none
	steps int    // that the running task has gone on for
	ready int    // tasks in the run queue that Pace has put there
	look  func() // Loop.lookForEvents
}

// Pace is for packages that have tasks wait for descriptors. The running task calls it after each operation
// that moved n bytes, or none, and did not have to wait; it must hold nothing then that keeps others
// waiting. Now and then it yields, so that a task whose peer is always ready does not keep
// its loop for ever. Own loop only; on the loop's own goroutine it never yields.
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

// Pace is Loop.Pace for the loop that the caller runs on. On a goroutine, and in a task that is away
// from its loop, there is nothing to do.
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
	if l.cur != nil && !l.goOn() {
		p.ready++
		Yield()
		p.ready--
		p.steps = 0
	}
}

// goOn begins another step of the running task if nobody else is to have a turn. It looks for events first.
func (l *Loop) goOn() bool {
	p := &l.pace
	if p.steps++; p.steps >= paceSteps || !l.allPaced() || l.lockSeen || l.cur.worker.onChunk() {
		return false
	}
	if p.look == nil {
		p.look = l.lookForEvents
	}
	l.aside = p.look
	l.runAside()
	if !l.allPaced() {
		return false
	}
	l.switches++
	p.step, p.done, p.since = l.switches, 0, 0
	return true
}

// allPaced reports whether all that is ready has given way only because it never had to wait.
func (l *Loop) allPaced() bool {
	return l.backlog() == l.pace.ready && l.ahead.head == nil && !l.anyInLine() && !l.unwinding
}

// lookForEvents is the first half of a turn, in the middle of a step. It runs on the loop's own goroutine.
func (l *Loop) lookForEvents() {
	t := l.cur
	l.cur = nil
	l.drainInbox()
	l.now = l.rt.clock.Now()
	l.wheel.advance(l.now)
	if l.poller.Active() {
		l.poll(0)
	}
	l.cur = t
}
