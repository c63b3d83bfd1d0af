package task

import (
	"fmt"
	"sync"
	"time"

	"github.com/capriccio-go/capriccio/internal/engine"
)

// A Ticker sends the time on C, again and again, as that of package time does for goroutines. Make it
// with NewTicker, and Stop it.
type Ticker struct {
	// C has room for one tick: a tick that finds no room is dropped.
	C *Chan[time.Time]

	mu    sync.Mutex
	timer *Timer        // guarded by mu; nil: stopped
	runs  uint64        // guarded by mu: how often it was set or stopped
	every time.Duration // guarded by mu
	next  time.Duration // guarded by mu: loop clock
}

// NewTicker returns a Ticker that ticks on the caller's loop, or, if that is a plain goroutine, on one of the Default
// runtime. It panics if there has been no runtime, and if every is not more than 0. The resolution is about 66 µs. It
// never parks.
func NewTicker(every time.Duration) *Ticker {
	t := &Ticker{C: NewChan[time.Time](1)}
	t.Reset(every)
	return t
}

// Reset makes the next tick come when every has passed from now, and then each after the same
// time; from then on it ticks on the caller's loop, as in NewTicker. A tick that C holds already
// stays there. It panics if every is not more than 0. It never parks.
func (t *Ticker) Reset(every time.Duration) {
	if every <= 0 {
		panic(fmt.Sprintf("task: a Ticker with %v between ticks; want more than 0", every))
	}
	engine.CurrentLoop() // reattaches a detached task: AfterFunc would do it under mu, which other tasks of its loop may want
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stop()
	t.every = every
	run := t.runs
	t.timer = AfterFunc(every, func() { t.tick(run) })
	t.next = engine.After(t.timer.loop.Now(), every)
}

// Stop ends the ticks, except for a tick that another loop is just sending. C is not closed: a task that waits for it
// goes on waiting. It never parks.
func (t *Ticker) Stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stop()
}

// stop ends the present run of ticks: tick does nothing for a run that is over. It needs mu.
func (t *Ticker) stop() {
	t.runs++
	if t.timer != nil {
		t.timer.Stop()
		t.timer = nil
	}
}

// tick runs as a task.
func (t *Ticker) tick(run uint64) {
	t.mu.Lock()
	if run != t.runs {
		t.mu.Unlock()
		return
	}
	now := t.timer.loop.Now()
	// The first may be early, as its time was reckoned after the timer was set.
	t.next = engine.After(t.next, max((now-t.next)/t.every+1, 1)*t.every)
	t.timer = AfterFunc(t.next-now, func() { t.tick(run) })
	t.mu.Unlock()
	t.C.TrySend(time.Now())
}
