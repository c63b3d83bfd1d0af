package coro

import "testing"

// One writes without locks, another reads meanwhile, and misses nothing in the end.
func TestCounterIsReadWhileItIsWritten(t *testing.T) {
	var c Counter
	const n = 100_000
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range n {
			c.Add(3)
			c.Add(-1)
		}
	}()
	for last := int64(0); last < 2*n; {
		now := c.Load()
		if now < last-1 || now > 2*n+2 {
			t.Fatalf("read %d after %d", now, last)
		}
		last = now
	}
	<-done
	if c.Own() != 2*n || c.Load() != 2*n {
		t.Errorf("%d and %d, want %d", c.Own(), c.Load(), 2*n)
	}
}
