package engine_test

import (
	"testing"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/task"
)

// Those that wait when a lock turns out to limit the program are too late. Later ones go first, but for one
// turn in 64; then it is as before.
func TestTheNewestGetALockThatLimits(t *testing.T) {
	t.Run("mutex", func(t *testing.T) {
		var mu task.Mutex
		engine.TestNewestGoFirst(t, engine.ReasonMutex, mu.Lock, mu.Unlock)
	})
	t.Run("semaphore", func(t *testing.T) {
		s := task.NewSemaphore(1)
		engine.TestNewestGoFirst(t, engine.ReasonSemaphore, func() { s.Acquire(1) }, func() { s.Release(1) })
	})
}
