package engine

import (
	"testing"

	"github.com/capriccio-go/capriccio/internal/recorder"
)

// What tests of package engine_test share with those of this package: they try the primitives of package task, which
// this package can't import, together with what only this package can bring about.

type Anywhere = anywhere

var (
	NewRuntime        = newRuntime
	NewSimRuntime     = newSimRuntime
	NewRand           = newRand
	Run               = run
	Until             = until
	Everyone          = everyone
	WaitFor           = waitFor
	WaitParked        = waitParked
	MustPanic         = mustPanic
	Pass              = pass
	Closing           = closing
	ShortGrace        = shortGrace
	TestAwaited       = testAwaited
	TestNewestGoFirst = testNewestGoFirst
)

// InCohorts is inCohorts; passed returns the reasons of the waits at the nodes where tasks
// were woken for nothing since it was last called.
func InCohorts(t *testing.T, newest bool, most int) (change func(*Config), passed func() []recorder.NodeID) {
	var p *nodePolicy
	return inCohorts(t, &p, newest, most), func() (nodes []recorder.NodeID) {
		for _, n := range p.outcomes[WokenForNothing] {
			nodes = append(nodes, n%sameReason)
		}
		delete(p.outcomes, WokenForNothing)
		return nodes
	}
}

// ForgetLastRuntime has plain goroutines find no runtime.
func ForgetLastRuntime() { defaultRuntimes.last.Store(nil) }

// Awaited is how many locks that t holds others wait for.
func (t *Task) Awaited() int32 { return t.awaited.Load() }

// Ended reports whether t has ended.
func (t *Task) Ended() bool {
	e := t.extra()
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.done
}

// TimerCount is the number of timers that wait.
func (l *Loop) TimerCount() int { return l.timers.wheel.Len() }

// AwaitStop waits until l has ended.
func (l *Loop) AwaitStop() { <-l.end.stopped }

// CancelTask does what a message does that the context of t has ended.
func (l *Loop) CancelTask(t *Task) { l.cancel(t) }

// DrainInbox delivers the messages that have come.
func (l *Loop) DrainInbox() { l.drainInbox() }

// Unwind does to t what Shutdown does to every task in the end.
func (l *Loop) Unwind(t *Task) {
	l.end.unwinding = true
	if t.state == stateParked {
		l.makeReady(t)
	}
}
