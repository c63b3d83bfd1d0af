package task_test

import (
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/sim"
	"github.com/capriccio-go/capriccio/internal/sim/programs"
	"github.com/capriccio-go/capriccio/task"
)

func simulated(change ...func(*task.Config)) programs.NewRuntime {
	return func(t testing.TB, loops int, seed uint64) *task.Runtime {
		clock := sim.NewJumpingClock()
		cfg := task.Config{
			Loops:     loops,
			NewPoller: func(i int) (task.Poller, error) { return clock.NewPoller(seed + uint64(i)), nil },
			Clock:     clock,
			OnPanic:   func(*task.PanicError) {},
			HoldLimit: -1,
			Grace:     10 * time.Second,
			Log:       slog.New(slog.NewTextHandler(io.Discard, nil)),
		}
		for _, c := range change {
			c(&cfg)
		}
		rt, err := task.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		return rt
	}
}

func TestRandomPrograms(t *testing.T) {
	programs.Run(t, 400, simulated())
}
