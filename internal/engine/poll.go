package engine

import (
	"runtime"
	"time"
)

// pollOnce asks the poller, waiting for it if nothing else is to be done.
func (l *Loop) pollOnce() {
	if l.anyReady() {
		if l.poller.Active() {
			l.poll(0)
		}
		return
	}
	if l.closing && l.tasks == nil {
		return
	}
	if l.woke && !l.rt.cfg.LockThreads {
		// Plain goroutines are ready, on the processor that l runs on. Let them have it
		// now: if l slept instead, another thread would have to be woken to run them.
		l.woke = false
		runtime.Gosched()
		if l.poller.Active() {
			l.poll(0)
		}
		return
	}
	if l.instant { // what comes next is probably there already: no need to get ready for a wait
		if l.poll(0); l.anyReady() {
			return
		}
	}
	// Another thread that sends or spawns something now sees that l is about to sleep.
	l.sleeping.Store(true)
	l.rt.idleLoops.Add(1)
	if l.inbox.pending.Load() || l.shared && l.rt.steal(l) {
		l.rt.idleLoops.Add(-1)
		l.sleeping.Store(false)
		l.wokeUp() // the watchdog may have seen it asleep
		if l.poller.Active() {
			l.poll(0)
		}
		return
	}
	timeout := time.Duration(-1)
	if at, ok := l.wheel.next(); ok {
		timeout = max(at-l.rt.clock.Now(), 0)
	}
	if l.holdsBack() && (timeout < 0 || timeout > recheck) {
		timeout = recheck
	}
	began := l.rt.clock.Now()
	l.idleFrom = uint64(began) + 1
	if l.switches != l.waitSteps { // otherwise it goes on with a wait that brought nothing
		l.waitFrom = began
	}
	l.waitForEvents(timeout)
	l.rt.idleLoops.Add(-1)
	l.sleeping.Store(false)
	l.switches++
	l.now = l.rt.clock.Now()
	l.waitSteps = l.switches
	waited := max(l.now-began, 0)
	l.restful, l.instant = l.now-l.waitFrom >= restAfter, waited < instantWait && l.anyReady()
	l.idleFrom, l.idled = 0, l.idled+uint64(waited)
	l.wokeUp()
}

// waitForEvents waits in the way that suits how long it will take, most likely: as long as the last wait. If it
// may rest, it waits for so long only in another way.
func (l *Loop) waitForEvents(timeout time.Duration) {
	if l.restful {
		l.goesToSleep()
		if l.rester != nil {
			l.reportPoll(l.rester.Rest(timeout))
			return
		}
	} else if l.rester != nil && (timeout < 0 || timeout > restAfter) {
		timeout = restAfter
	}
	l.poll(timeout)
}

// instantWait is longer than a Poll that finds events, and shorter than one that has to wait for them.
const instantWait = 3 * time.Microsecond

// restAfter is how long a wait for events must have taken for the next to be expected to take long: the shortest nap
// of the Go runtime's sysmon, which may find the processor of a system call that is longer, and take it away.
const restAfter = 20 * time.Microsecond

func (l *Loop) poll(timeout time.Duration) { l.reportPoll(l.poller.Poll(timeout)) }

func (l *Loop) reportPoll(err error) {
	if err != nil {
		l.rt.reportPollError(l, err)
	}
}
