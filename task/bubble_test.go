package task

import (
	"runtime"
	"testing"
	"testing/synctest"
)

// TestWaitsOfGoroutinesStayInTheirBubble: a plain goroutine may wait in a bubble of testing/synctest, and outside of one after that.
func TestWaitsOfGoroutinesStayInTheirBubble(t *testing.T) {
	wait := func() {
		var m Mutex
		m.Lock()
		woken := make(chan bool)
		go func() {
			m.Lock()
			close(woken)
		}()
		for m.state.Load() != mutexAwaited {
			runtime.Gosched()
		}
		m.Unlock()
		<-woken
	}
	for range 100 { // as a pool keeps some of what it gets
		synctest.Test(t, func(*testing.T) { wait() })
		wait()
	}
}
