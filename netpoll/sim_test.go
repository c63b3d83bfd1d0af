//go:build linux

package netpoll

import (
	"log/slog"
	"testing"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/sim/programs"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// The random programs that task runs on a scripted poller and a false clock, on the
// real pollers and the real clock.
func TestRandomPrograms(t *testing.T) {
	for _, x := range pollers {
		if !testenv.Full() && x.name != "epoll" && x.name != "uring" {
			continue
		}
		t.Run(x.name, func(t *testing.T) {
			programs.Run(t, testenv.Rounds(8, 20), func(t testing.TB, loops int, seed uint64) *engine.Runtime {
				rt, err := engine.New(engine.Config{
					Loops:       loops,
					NewPoller:   func(int) (engine.Poller, error) { return x.open() },
					LockThreads: x.name == lockedUring,
					OnPanic:     func(*engine.PanicError) {},
					Log:         slog.New(slog.DiscardHandler),
				})
				skipRefused(t, err)
				testenv.Must(t, err)
				return rt
			})
		})
	}
}
