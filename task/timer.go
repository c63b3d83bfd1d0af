package task

import (
	"sync"
	"time"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/wheel"
)

// A Timer is a function that will run as a task of its own. It is made by AfterFunc.
type Timer struct {
	loop  *engine.Loop
	mu    sync.Mutex
	timer wheel.Timer // loop-private
	state uint8       // guarded by mu: waiting, started or stopped
	fn    func()      // fixed
}

const (
	timerWaiting = iota
	timerStarted
	timerStopped
)

// AfterFunc runs fn as a new task once d has passed: on the loop of the caller, or, if that is a plain goroutine, on a
// loop of the Default runtime. It panics if there has been no runtime; once the runtime has been shut down fn is never
// run. With d ≤ 0 fn runs as soon as the loop gets to it. The resolution is about 66 µs. It never parks.
func AfterFunc(d time.Duration, fn func()) *Timer {
	l := engine.CurrentLoop()
	if l == nil {
		rt := engine.DefaultOrLast()
		if rt == nil {
			panic("task: AfterFunc was called, but no runtime runs")
		}
		l = rt.NextLoop()
	}
	a := &Timer{loop: l, fn: fn}
	a.timer.Of = (*expiry)(a)
	at := engine.After(l.Now(), d)
	if l.Runs() {
		l.AddTimer(&a.timer, at)
	} else {
		l.Post(func() {
			a.mu.Lock()
			defer a.mu.Unlock()
			if a.state == timerWaiting {
				l.AddTimer(&a.timer, at)
			}
		})
	}
	return a
}

// Stop prevents the function from being run. It returns false if it has been started
// or stopped before. It never parks.
func (a *Timer) Stop() bool {
	stopped := a.leave(timerStopped)
	if stopped {
		remove := func() { a.loop.RemoveTimer(&a.timer) }
		if a.loop.Runs() {
			remove()
		} else {
			a.loop.Post(remove)
		}
	}
	return stopped
}

// leave sets the state, if a is still waiting, and reports whether it did.
func (a *Timer) leave(state uint8) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.state != timerWaiting {
		return false
	}
	a.state = state
	return true
}

// An expiry is a Timer as something that expires.
type expiry Timer

// Expire implements wheel.Expirer.
func (x *expiry) Expire() {
	if (*Timer)(x).leave(timerStarted) {
		x.loop.Start(x.fn)
	}
}
