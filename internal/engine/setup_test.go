package engine

import (
	"context"
	"flag"
	"io"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

var seedFlag = flag.Uint64("seed", 0, "seed of the random schedules; 0 picks one")

func newRand(t testing.TB) *rand.Rand { return testenv.Rand(t, *seedFlag) }

// A chanPoller is a poller without descriptors: it waits for Wake or the timeout.
type chanPoller struct {
	wake   chan struct{}
	closed atomic.Bool
}

func newChanPoller(int) (Poller, error) { return &chanPoller{wake: make(chan struct{}, 1)}, nil }

func (p *chanPoller) Poll(timeout time.Duration) error {
	switch {
	case timeout < 0:
		<-p.wake
	case timeout > 0:
		timer := time.NewTimer(timeout)
		defer timer.Stop()
		select {
		case <-p.wake:
		case <-timer.C:
		}
	default:
		select {
		case <-p.wake:
		default:
		}
	}
	return nil
}

func (p *chanPoller) Wake() error {
	select {
	case p.wake <- struct{}{}:
	default:
	}
	return nil
}

func (p *chanPoller) Active() bool { return false }

func (p *chanPoller) Close() error {
	if p.closed.Swap(true) {
		panic("closed twice")
	}
	return nil
}

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// newRuntime makes a runtime that the test closes, and checks that nothing is left.
func newRuntime(t testing.TB, loops int, change ...func(*Config)) *Runtime {
	t.Helper()
	before := runtime.NumGoroutine()
	cfg := Config{Loops: loops, NewPoller: newChanPoller, Log: quiet(), Grace: time.Minute}
	for _, c := range change {
		c(&cfg)
	}
	rt := testenv.Need(New(cfg))(t)
	t.Cleanup(func() {
		if err := rt.Close(); err != nil && rt.cfg.Grace >= time.Minute { // a short one is over soon on a slow machine
			t.Error(err)
		}
		testenv.WaitGoroutines(t, before)
	})
	return rt
}

// oneOfMany is newRuntime for tests with several at once, each of which has goroutines.
func oneOfMany(t testing.TB, loops int) *Runtime {
	t.Helper()
	rt := testenv.Need(New(Config{Loops: loops, NewPoller: newChanPoller, Log: quiet(), Grace: time.Minute}))(t)
	t.Cleanup(func() { testenv.Check(t, rt.Close()) })
	return rt
}

// run runs fn as a task of rt and waits for it.
func run(t testing.TB, rt *Runtime, fn func()) {
	t.Helper()
	testenv.Must(t, rt.Go(fn).Join())
}

// eachLoops runs the test with 1, 2 and 8 loops, and with switches through the loop.
func eachLoops(t *testing.T, test func(t *testing.T, rt *Runtime)) {
	loops := []int{1, 2}
	if testenv.Full() {
		loops = []int{1, 2, 8}
	}
	for _, n := range loops {
		t.Run(string('0'+rune(n))+"loops", func(t *testing.T) { test(t, newRuntime(t, n)) })
	}
	t.Run("2loops,no hand-over", func(t *testing.T) {
		test(t, newRuntime(t, 2, func(c *Config) { c.NoHandOver = true }))
	})
}

func waitCtx(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// PlainPolicy is for tests in package engine_test.
type PlainPolicy = plainPolicy

// NamedFunctions returns the names of functions that the watchdog looks for in stacks: of this module, without its path, and of Go.
func NamedFunctions() (own, golang []string) {
	for name := range callsOutNames {
		own = append(own, name)
	}
	for name := range nativeWaits {
		golang = append(golang, name)
	}
	return own, append(golang, partsOfWait...)
}

// CallsOut reports whether the watchdog may leave a function with that name, without the module's path, in the middle, and
// whether what has called it must be so, too.
func CallsOut(name string) (may, passes bool) {
	how := callsOut(name)
	return how != callsBack, how == callsAndPasses
}

// Ours are the packages of the runtime, as prefixes of the names of their functions.
var Ours = ours

// NativePlaces is for tests in package engine_test, as what waits in this package is not detached.
type NativePlaces = nativePlaces

// NativePlace is what the log has of a nativePlace.
type NativePlace struct {
	Print uint64
	At    string
	Told  *atomic.Bool
}

func (p *nativePlaces) Look(g uintptr) (NativePlace, bool) {
	at := p.look(g)
	if at == nil {
		return NativePlace{}, false
	}
	return NativePlace{at.print, at.at, at.told}, true
}
