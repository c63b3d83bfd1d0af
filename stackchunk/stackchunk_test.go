package stackchunk_test

import (
	"io"
	"log/slog"
	"runtime"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/stackchunk"
)

// A bellPoller is a poller without descriptors: it waits for Wake or the timeout.
type bellPoller chan struct{}

func newBellPoller(int) (engine.Poller, error) { return make(bellPoller, 1), nil }

func (p bellPoller) Poll(timeout time.Duration) error {
	var late <-chan time.Time
	if timeout >= 0 {
		t := time.NewTimer(timeout)
		defer t.Stop()
		late = t.C
	}
	select {
	case <-p:
	case <-late:
	}
	return nil
}

func (p bellPoller) Wake() error {
	select {
	case p <- struct{}{}:
	default:
	}
	return nil
}

func (p bellPoller) Active() bool { return false }
func (p bellPoller) Close() error { return nil }

// newRuntime makes a runtime that the test closes, and checks that nothing is left.
func newRuntime(t testing.TB, loops int, change ...func(*engine.Config)) *engine.Runtime {
	t.Helper()
	before := runtime.NumGoroutine()
	cfg := engine.Config{Loops: loops, NewPoller: newBellPoller, Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Grace: time.Minute}
	for _, c := range change {
		c(&cfg)
	}
	rt, err := engine.New(cfg)
	testenv.Must(t, err)
	t.Cleanup(func() {
		if err := rt.Close(); err != nil && cfg.Grace >= time.Minute { // a short one is over soon on a slow machine
			t.Error(err)
		}
		for deadline := time.Now().Add(time.Minute); runtime.NumGoroutine() > before; runtime.Gosched() {
			if time.Now().After(deadline) {
				buf := make([]byte, 1<<16)
				t.Fatalf("%d goroutines, want %d\n%s", runtime.NumGoroutine(), before, buf[:runtime.Stack(buf, true)])
			}
		}
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
	if n := after.Links - before.Links; n != 1 {
		t.Errorf("%d links, want 1", n)
	}
}
