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
	if l.end.closing && l.roster.tasks == nil {
		return
	}
	if l.idleWaits.woke {
		// Plain goroutines are ready, on the processor that l runs on. Let them have it
		// now: if l slept instead, another thread would have to be woken to run them.
		l.idleWaits.woke = false
		runtime.Gosched()
		if l.poller.Active() {
			l.poll(0)
		}
		return
	}
	if l.idleWaits.instant { // the next event is probably there already: no need to get ready for a wait
		if l.poll(0); l.anyReady() {
			return
		}
	}
	began := l.rt.clock.Now()
	hold := l.mayHold(began)
	if hold {
		runtime.Gosched() // other goroutines that are ready need not wait for the end of the raw wait
	}
	if l.idleWaits.rester != nil { // which may have taken its time to look whether it is alone
		began = l.rt.clock.Now()
	}
	// Another thread that sends or spawns something now sees that l is about to sleep.
	l.inbox.sleeping.Store(true)
	l.rt.idleLoops.Add(1)
	if l.inbox.pending.Load() || l.shared && l.rt.steal(l) {
		l.rt.idleLoops.Add(-1)
		l.inbox.sleeping.Store(false)
		l.wokeUp() // the watchdog may have seen it asleep
		if l.poller.Active() {
			l.poll(0)
		}
		return
	}
	timeout := time.Duration(-1)
	if at, ok := l.timers.wheel.Next(); ok {
		timeout = max(at-began, 0)
	}
	if l.holdsBack() && (timeout < 0 || timeout > recheck) {
		timeout = recheck
	}
	l.idleWaits.idleFrom = uint64(began) + 1
	if !l.goesOn() {
		l.idleWaits.from = began
	}
	l.waitForEvents(timeout, hold)
	l.rt.idleLoops.Add(-1)
	l.inbox.sleeping.Store(false)
	l.switches++
	l.now = l.rt.clock.Now()
	waited := max(l.now-began, 0)
	l.idleWaits.ended(l.now, hold, l.anyReady() || l.inbox.pending.Load())
	l.idleWaits.steps = l.switches
	l.idleWaits.idleFrom, l.idleWaits.idled = 0, l.idleWaits.idled+uint64(waited)
	l.wokeUp()
}

// idleWaits is what is known of the times that a loop has waited for events. Loop-private.
type idleWaits struct {
	instant  bool          // the last wait found events at once
	alone    bool          // see Rester.Alone
	long     int           // likelihood, of 256, that a wait is not brief: a moving average
	from     time.Duration // when the last wait began, or the first of several with no step between them
	steps    uint64        // switches at the end of the last wait
	rested   time.Duration // when the loop rested last
	woke     bool          // plain goroutines have been woken here since the loop last let them run
	rester   Rester        // the poller, if it is one and the loop is not locked to its thread, else nil; fixed
	idled    uint64        // nanoseconds in all; others read it with coro.Peek
	idleFrom uint64        // when the present wait began, plus 1; 0: there is none; others read it with coro.Peek
}

// A loop may keep its processor while it waits for events for holdFor, half of what an iteration may take anyway. Where no
// plain goroutine waits for events the limit is aloneHold, and longer waits count as brief: on virtual processors a timer of
// the kernel that ends a wait costs more than the wait.
const (
	holdFor    = 100 * time.Microsecond
	aloneHold  = restEvery
	aloneBrief = 600 * time.Microsecond
)

// limits are how long a brief wait takes, and how long the loop may hold its processor.
func (w *idleWaits) limits() (brief, most time.Duration) {
	if w.alone {
		return aloneBrief, aloneHold
	}
	return holdFor, holdFor
}

// mostlyLong is the value of idleWaits.long from which on a raw wait (Hold) costs more, when it is futile, than it saves.
const mostlyLong = 256 * 6 / 10

// restEvery is how long a loop with brief waits goes on without a rest: in a rest the Go runtime looks for events of
// plain goroutines in its own poller, which it does every 10 ms otherwise.
const restEvery = time.Millisecond

// instantWait is longer than a Poll that finds events, and shorter than one that has to wait for them.
const instantWait = 3 * time.Microsecond

// ended records how a wait ended: with ready tasks, or with none. After a futile Hold the wait goes on, also if
// a signal has ended it.
func (w *idleWaits) ended(now time.Duration, held, ready bool) {
	took := now - w.from
	brief, _ := w.limits()
	w.instant = ready && took < instantWait
	switch {
	case held && !ready:
	case took < brief:
		w.long -= w.long / 8
	default:
		w.long += (256 - w.long) / 8
	}
	if !held {
		w.rested = now
	}
}

// goesOn reports whether the next wait for events continues a wait that brought nothing.
func (l *Loop) goesOn() bool { return l.switches == l.idleWaits.steps }

// mayHold reports whether the next wait for events is better done without leaving the processor to others.
func (l *Loop) mayHold(now time.Duration) bool {
	w := &l.idleWaits
	if w.rester == nil {
		return false
	}
	// Offloaded functions and detached tasks will need a processor when their system calls return.
	w.alone = l.rt.offload.running.Load() == 0 && NoneDetached() && w.rester.Alone(now, l.rt.clock)
	return w.long < mostlyLong && !l.goesOn() && now-w.rested < restEvery && !l.rt.team.crowded() && l.Works()
}

// waitForEvents waits in the way that suits how long it will take, most likely.
func (l *Loop) waitForEvents(timeout time.Duration, hold bool) {
	switch {
	case hold:
		if _, most := l.idleWaits.limits(); timeout < 0 || timeout > most {
			timeout = most
		}
		l.reportPoll(l.idleWaits.rester.Hold(timeout))
	case l.idleWaits.rester != nil:
		l.goesToSleep()
		l.reportPoll(l.idleWaits.rester.Rest(timeout))
	default:
		if l.idleWaits.long >= mostlyLong {
			l.goesToSleep()
		}
		l.poll(timeout)
	}
}

func (l *Loop) poll(timeout time.Duration) { l.reportPoll(l.poller.Poll(timeout)) }

// reportPoll logs an error of the poller, but not a flood of them.
func (l *Loop) reportPoll(err error) {
	if err == nil {
		return
	}
	rt, now := l.rt, int64(l.rt.clock.Now())
	if last := rt.pollErr.Load(); (last == 0 || now-last >= int64(time.Second)) && rt.pollErr.CompareAndSwap(last, now) {
		rt.log.Error("task: the poller failed", "loop", l.index, "error", err)
	}
}
