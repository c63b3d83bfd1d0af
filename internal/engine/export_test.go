package engine

import (
	"sync/atomic"
	"testing"

	"github.com/capriccio-go/capriccio/internal/recorder"
)

// What tests of package engine_test need of this one: they try the primitives of package task, which this package can't
// import, together with what only this package can bring about.

// PlainPolicy is the part of a policy that says nothing.
type PlainPolicy = plainPolicy

var (
	NewRand           = newRand
	TestAwaited       = testAwaited
	TestNewestGoFirst = testNewestGoFirst

	// Ours are the packages of the runtime, as prefixes of the names of their functions.
	Ours = ours
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

// NamedFunctions returns the names of functions that the watchdog looks for in stacks: of this module, without its path, and of Go.
func NamedFunctions() (own, golang []string) {
	for name := range callsOutNames {
		own = append(own, name)
	}
	for name := range nativeWaits {
		golang = append(golang, name)
	}
	return own, append(golang, partsOfWait...)
}

// CallsOut reports whether the watchdog may leave a function with that name, without the module's path, in the middle, and
// whether what has called it must be so, too.
func CallsOut(name string) (may, passes bool) {
	how := callsOut(name)
	return how != callsBack, how == callsAndPasses
}

// NativePlaces is for tests in package engine_test, as what waits in this package is not detached.
type NativePlaces = nativePlaces

// NativePlace is what the log has of a nativePlace.
type NativePlace struct {
	Print uint64
	At    string
	Told  *atomic.Bool
}

func (p *nativePlaces) Look(g uintptr) (NativePlace, bool) {
	at := p.look(g)
	if at == nil {
		return NativePlace{}, false
	}
	return NativePlace{at.print, at.at, at.told}, true
}
