package engine

import (
	"sync"
	"testing"
	"time"
)

// A pollRecord is a chanPoller that has descriptors, and notes how long Poll may wait.
type pollRecord struct {
	*chanPoller
	mu    sync.Mutex
	asked []time.Duration // guarded by mu
}

func (p *pollRecord) Active() bool { return true }

func (p *pollRecord) Poll(timeout time.Duration) error {
	p.mu.Lock()
	p.asked = append(p.asked, timeout)
	p.mu.Unlock()
	return p.chanPoller.Poll(timeout)
}

// waits reports whether the last Poll may wait for ever.
func (p *pollRecord) waits() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.asked) > 0 && p.asked[len(p.asked)-1] < 0
}

func (p *pollRecord) take() []time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	asked := p.asked
	p.asked = nil
	return asked
}

// TestGoroutinesRunBeforeTheLoopSleeps: a loop that has woken a plain goroutine lets that run,
// and looks for events, before it waits for them: else it would take a thread with it.
func TestGoroutinesRunBeforeTheLoopSleeps(t *testing.T) {
	var poller *pollRecord
	rt := newRuntime(t, 1, holdLimit(-1), func(c *Config) {
		c.NewPoller = func(i int) (Poller, error) {
			inner, err := newChanPoller(i)
			poller = &pollRecord{chanPoller: inner.(*chanPoller)}
			return poller, err
		}
	})
	l := rt.Loop(0)
	for range 10 {
		published, woken := make(chan *Waiter), make(chan bool)
		go func() {
			w := Self()
			published <- w
			w.Wait(ReasonRead, anywhere{})
			woken <- true
		}()
		w := <-published
		waitFor(t, "the loop sleeps", poller.waits)
		poller.take()
		l.Post(w.Wake)
		<-woken
		waitFor(t, "the loop sleeps again", poller.waits)
		if asked := poller.take(); asked[0] != 0 {
			t.Fatalf("Poll was asked to wait for %v; want 0 first", asked)
		}
		l.Post(func() {}) // so that the next round begins with a Poll that it can see
	}
}
