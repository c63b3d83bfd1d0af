//go:build linux

package cookbook_test

import (
	"context"
	"errors"
	"testing"

	"github.com/capriccio-go/capriccio"
	"github.com/capriccio-go/capriccio/examples/cookbook"
	"github.com/capriccio-go/capriccio/task"
)

// After the end of its context a recipe does what it has accepted, or returns an error.
func TestRecipesOfACancelledTask(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	inEnded := func() error {
		queue, done := cookbook.NewJobQueue(1, 2, 1, 0), false
		task.Yield() // the worker begins
		if err := queue.Add(func() error { done = true; return nil }); err != nil {
			t.Error(err)
		}
		queue.Close()
		if !done {
			t.Error("Close has returned, but a job that Add let in is not done")
		}
		if got, err := cookbook.Map(1, []int{1, 2, 3}, func(n int) int { return n }); !errors.Is(err, context.Canceled) {
			t.Errorf("Map returned %v and the error %v; want that of the context", got, err)
		}
		return nil
	}
	err := capriccio.Run(t.Context(), func(context.Context) error { return task.Under(ended, inEnded) },
		capriccio.WithoutSignals(), capriccio.WithLoops(1))
	if err != nil {
		t.Error(err)
	}
}
