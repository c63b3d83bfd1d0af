package programs

import (
	"io"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/sim"
)

// Simulated makes a runtime whose time passes by itself when all tasks wait, and whose pollers
// return for no reason now and then, by the seed. Panics pass; change may change its settings.
func Simulated(t testing.TB, loops int, seed uint64, change ...func(*engine.Config)) *engine.Runtime {
	t.Helper()
	clock := sim.NewJumpingClock()
	cfg := engine.Config{
		Loops:     loops,
		NewPoller: func(i int) (engine.Poller, error) { return clock.NewPoller(seed + uint64(i)), nil },
		Clock:     clock,
		Random:    (&seeded{src: *rand.NewPCG(seed, 1)}).Uint64,
		OnPanic:   func(*engine.PanicError) {},
		HoldLimit: -1,
		Grace:     5 * time.Minute,
		Log:       slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
	for _, c := range change {
		c(&cfg)
	}
	rt, err := engine.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return rt
}

// A seeded is a source of randomness for all loops.
type seeded struct {
	mu  sync.Mutex
	src rand.PCG // guarded by mu
}

func (s *seeded) Uint64() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.src.Uint64()
}
