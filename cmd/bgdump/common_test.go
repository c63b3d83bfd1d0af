package main

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// A fakeClock stands still until somebody sets it forward.
type fakeClock struct {
	mu      sync.Mutex
	changed *sync.Cond
	now     time.Time     // guarded by mu
	timers  []fakeTimer   // guarded by mu
	short   time.Duration // timers up to this do not wait: the clock goes there at once
}

type fakeTimer struct {
	at time.Time
	ch chan time.Time
}

func newFakeClock() *fakeClock {
	c := &fakeClock{now: time.Date(2026, time.March, 14, 3, 12, 45, 0, time.UTC)}
	c.changed = sync.NewCond(&c.mu)
	return c
}

func (c *fakeClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *fakeClock) After(d time.Duration) <-chan time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	timer := fakeTimer{c.now.Add(d), make(chan time.Time, 1)}
	c.timers = append(c.timers, timer)
	c.changed.Broadcast()
	if d <= c.short {
		c.set(timer.at)
	}
	return timer.ch
}

// advance sets the clock forward once somebody waits for a time not later than that.
func (c *fakeClock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	to := c.now.Add(d)
	for !slices.ContainsFunc(c.timers, func(t fakeTimer) bool { return !t.at.After(to) }) {
		c.changed.Wait()
	}
	c.set(to)
}

// until waits until somebody waits for a time that is that far away or farther.
func (c *fakeClock) until(far time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for !slices.ContainsFunc(c.timers, func(t fakeTimer) bool { return !t.at.Before(c.now.Add(far)) }) {
		c.changed.Wait()
	}
}

func (c *fakeClock) set(to time.Time) {
	c.now = to
	c.timers = slices.DeleteFunc(c.timers, func(t fakeTimer) bool {
		if t.at.After(to) {
			return false
		}
		t.ch <- to
		return true
	})
}

// A result is what a command did.
type result struct {
	code        int
	out, errOut string
}

// command runs bgdump with a clock that stands still and an empty standard input.
func command(t *testing.T, args ...string) result {
	t.Helper()
	return commandIn(t, context.Background(), &surroundings{stdin: strings.NewReader(""), clock: newFakeClock()}, args...)
}

func commandIn(t *testing.T, ctx context.Context, sur *surroundings, args ...string) result {
	t.Helper()
	var out, errOut bytes.Buffer
	if sur.stdout == nil {
		sur.stdout = &out
	}
	sur.stderr = &errOut
	code := run(ctx, args, sur)
	return result{code, out.String(), errOut.String()}
}

// ok fails the test if the command did.
func (r result) ok(t *testing.T) string {
	t.Helper()
	if r.code != exitOK || r.errOut != "" {
		t.Fatalf("exit code %d, errors:\n%s\noutput:\n%s", r.code, r.errOut, r.out)
	}
	return r.out
}

// fails fails the test if the command did not, or if it says anything but all of want.
func (r result) fails(t *testing.T, want ...string) {
	t.Helper()
	if r.code != exitFailed || r.out != "" || !strings.HasPrefix(r.errOut, "bgdump: ") {
		t.Errorf("exit code %d, errors:\n%s\noutput:\n%s", r.code, r.errOut, r.out)
	}
	for _, w := range want {
		testenv.Contains(t, r.errOut, w, "the error")
	}
}
