package stackchunk_test

import (
	"io"
	"log/slog"
	"runtime"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/poller"
	"github.com/capriccio-go/capriccio/internal/testenv"
	_ "github.com/capriccio-go/capriccio/netpoll" // its pollers
	"github.com/capriccio-go/capriccio/stackchunk"
)

// newRuntime makes a runtime that the test closes, and checks that nothing is left.
func newRuntime(t testing.TB, loops int, change ...func(*engine.Config)) *engine.Runtime {
	t.Helper()
	before := runtime.NumGoroutine()
	cfg := engine.Config{Loops: loops, NewPoller: func(int) (engine.Poller, error) { return poller.Epoll() }, Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Grace: time.Minute}
	for _, c := range change {
		c(&cfg)
	}
	rt := testenv.Need(engine.New(cfg))(t)
	t.Cleanup(func() {
		if err := rt.Close(); err != nil && cfg.Grace >= time.Minute { // a short one is over soon on a slow machine
			t.Error(err)
		}
		testenv.WaitGoroutines(t, before)
	})
	return rt
}

func run(t testing.TB, rt *engine.Runtime, f func()) {
	t.Helper()
	testenv.Must(t, rt.Go(f).Join())
}

func TestACallWithoutRoomRunsOnAChunk(t *testing.T) {
	needChunks(t)
	rt := newRuntime(t, 1)
	before := stackchunk.ReadStats()
	run(t, rt, func() {
		var roomOn bool
		stackchunk.Call(100<<10, func() { roomOn = stackchunk.Room(100 << 10) })
		if !roomOn {
			t.Error("no room on the chunk")
		}
		if stackchunk.Room(100 << 10) {
			t.Error("the task's own stack has grown")
		}
	})
	after := stackchunk.ReadStats()
	testenv.Equal(t, after.Links-before.Links, 1, "links")
}
