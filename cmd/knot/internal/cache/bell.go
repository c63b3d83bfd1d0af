package cache

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/capriccio-go/capriccio/task"
)

// A bell wakes the one task that waits for it. The zero value is ready.
type bell struct {
	mu     sync.Mutex
	rung   bool               // since wait returned last; guarded by mu
	cancel context.CancelFunc // wakes the task that waits; guarded by mu
}

// ring never parks, as the channels of package task may: it is called with locks held, and on goroutines of loops.
func (b *bell) ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rung = true
	if b.cancel != nil {
		b.cancel()
	}
}

// wait waits until the bell is rung, or was since the last wait; with a limit above 0 so long at most: then late is true. It
// parks. The error is that the task was cancelled.
func (b *bell) wait(limit time.Duration) (late bool, err error) {
	b.mu.Lock()
	if b.rung {
		b.rung = false
		b.mu.Unlock()
		return false, nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	if limit > 0 {
		cancel()
		ctx, cancel = context.WithTimeout(context.Background(), limit)
	}
	b.cancel = cancel
	b.mu.Unlock()
	err = task.Await(ctx)
	b.mu.Lock()
	defer b.mu.Unlock()
	over := ctx.Err()
	late, b.rung, b.cancel = !b.rung && errors.Is(over, context.DeadlineExceeded), false, nil
	cancel()
	if over != nil {
		err = nil
	}
	return late, err
}
