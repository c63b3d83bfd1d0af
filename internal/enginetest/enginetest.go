// Package enginetest makes runtimes for tests of the packages that are built on the engine, and waits for what
// their tasks do. The tests of the engine itself, which can't import it, have the same.
package enginetest

import (
	"context"
	"io"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/sim"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// A chanPoller is a poller without descriptors: it waits for Wake or the timeout.
type chanPoller struct {
	wake   chan struct{}
	closed atomic.Bool
}

// NewChanPoller makes a poller without descriptors.
func NewChanPoller(int) (engine.Poller, error) { return &chanPoller{wake: make(chan struct{}, 1)}, nil }

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

// Quiet is a log that nothing reads.
func Quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// NewRuntime makes a runtime that the test closes, and checks that nothing is left.
func NewRuntime(t testing.TB, loops int, change ...func(*engine.Config)) *engine.Runtime {
	t.Helper()
	before := runtime.NumGoroutine()
	cfg := engine.Config{Loops: loops, NewPoller: NewChanPoller, Log: Quiet(), Grace: time.Minute}
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

// OneOfMany is NewRuntime for tests with several runtimes at once: each has goroutines of its own.
func OneOfMany(t testing.TB, loops int) *engine.Runtime {
	t.Helper()
	rt := testenv.Need(engine.New(engine.Config{Loops: loops, NewPoller: NewChanPoller, Log: Quiet(), Grace: time.Minute}))(t)
	t.Cleanup(func() { testenv.Check(t, rt.Close()) })
	return rt
}

// Run runs fn as a task of rt and waits for it.
func Run(t testing.TB, rt *engine.Runtime, fn func()) {
	t.Helper()
	testenv.Must(t, rt.Go(fn).Join())
}

// EachLoops runs the test with 1, 2 and 8 loops, and with switches through the loop.
func EachLoops(t *testing.T, test func(t *testing.T, rt *engine.Runtime)) {
	loops := []int{1, 2}
	if testenv.Full() {
		loops = []int{1, 2, 8}
	}
	for _, n := range loops {
		t.Run(string('0'+rune(n))+"loops", func(t *testing.T) { test(t, NewRuntime(t, n)) })
	}
	t.Run("2loops,no hand-over", func(t *testing.T) {
		test(t, NewRuntime(t, 2, func(c *engine.Config) { c.NoHandOver = true }))
	})
}

// WaitCtx returns a context that ends after d.
func WaitCtx(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// NewSimRuntime is NewRuntime in a simulated world; with jump its clock moves by itself.
func NewSimRuntime(t testing.TB, loops int, jump bool, change ...func(*engine.Config)) (*engine.Runtime, *sim.Clock) {
	clock := sim.NewClock()
	if jump {
		clock = sim.NewJumpingClock()
	}
	set := func(c *engine.Config) {
		c.Clock = clock
		c.NewPoller = func(int) (engine.Poller, error) { return clock.NewPoller(0), nil }
	}
	return NewRuntime(t, loops, append([]func(*engine.Config){set}, change...)...), clock
}

// WaitFor gives way to others until ok, and fails the test if that takes for ever.
func WaitFor(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatal("never: " + what)
		}
	}
}

// Until keeps the calling task asleep until ok, which other tasks bring about: on a machine that stalls one
// short Sleep is over before they have run.
func Until(ok func() bool) {
	for !ok() {
		engine.Sleep(1)
	}
}

// Parked counts the tasks of rt that wait for the given reason.
func Parked(rt *engine.Runtime, why engine.Reason) (n int) {
	for _, i := range rt.Tasks() {
		if i.State == "parked" && i.Reason == why {
			n++
		}
	}
	return n
}

// WaitParked waits until n tasks of rt wait for the given reason.
func WaitParked(t testing.TB, rt *engine.Runtime, n int, why engine.Reason) {
	t.Helper()
	WaitFor(t, "tasks Parked for "+why.String(), func() bool { return Parked(rt, why) == n })
}

// Everyone runs fn by n callers at once, numbered from 0: tasks that stay on a given
// loop, tasks that others may steal, and plain goroutines. It returns when all have ended.
func Everyone(t testing.TB, rt *engine.Runtime, n int, fn func(i int)) {
	t.Helper()
	var plain sync.WaitGroup
	var tasks []*engine.Task
	for i := range n {
		switch i % 3 {
		case 0:
			tasks = append(tasks, engine.GoOn(rt.Loop(i%rt.Loops()), func() { fn(i) }))
		case 1:
			tasks = append(tasks, rt.Go(func() { fn(i) }))
		case 2:
			plain.Go(func() { fn(i) })
		}
	}
	for _, k := range tasks {
		testenv.Check(t, k.Join())
	}
	plain.Wait()
}

// Spread starts n tasks, numbered from 0, each on the next loop; joined waits for them.
func Spread(t testing.TB, rt *engine.Runtime, n int, fn func(i int)) (joined func()) {
	var tasks []*engine.Task
	for i := range n {
		tasks = append(tasks, engine.GoOn(rt.Loop(i%rt.Loops()), func() { fn(i) }))
	}
	return func() {
		t.Helper()
		for _, k := range tasks {
			testenv.Check(t, k.Join())
		}
	}
}

// LogTo has the log of the runtime go to r.
func LogTo(r testenv.Records) func(*engine.Config) {
	return func(c *engine.Config) { c.Log = slog.New(slog.NewTextHandler(r, nil)) }
}

// PanicsPass has the runtime go on after a panic of a task.
func PanicsPass(c *engine.Config) { c.OnPanic = func(*engine.PanicError) {} }

// MustPanic calls fn and returns what it panicked with.
func MustPanic(t testing.TB, what string, fn func()) (v any) {
	t.Helper()
	defer func() {
		if v = recover(); v == nil {
			t.Errorf("no panic: %s", what)
		}
	}()
	fn()
	return nil
}

// Cancelled returns a context that has ended.
func Cancelled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// Contains checks that want is in got.
func Contains(t testing.TB, got, want string) {
	t.Helper()
	if !strings.Contains(got, want) {
		t.Errorf("got %q, want it to contain %q", got, want)
	}
}

// Anywhere is a WaitPoint that forgets what it is asked to.
type Anywhere struct{}

// Withdraw implements engine.WaitPoint.
func (Anywhere) Withdraw(*engine.Waiter) bool { return true }

// Pass waits for l and goes on.
func Pass(l sync.Locker) {
	l.Lock()
	defer l.Unlock()
}

// Closing makes a runtime that the test itself shuts down.
func Closing(t *testing.T, loops int, change ...func(*engine.Config)) (rt *engine.Runtime, check func()) {
	t.Helper()
	before := runtime.NumGoroutine()
	cfg := engine.Config{Loops: loops, NewPoller: NewChanPoller, Log: Quiet(), Grace: 5 * time.Minute}
	for _, c := range change {
		c(&cfg)
	}
	rt = testenv.Need(engine.New(cfg))(t)
	return rt, func() {
		t.Helper()
		testenv.WaitGoroutines(t, before)
		for i := range rt.Loops() {
			if p, ok := rt.Loop(i).Poller().(*chanPoller); ok && !p.closed.Load() {
				t.Errorf("the poller of loop %d is open", i)
			}
		}
	}
}

// ShortGrace has the runtime wait briefly for its tasks when it ends.
func ShortGrace(c *engine.Config) { c.Grace = 20 * time.Millisecond }

// HoldLimit sets engine.Config.HoldLimit.
func HoldLimit(d time.Duration) func(*engine.Config) {
	return func(c *engine.Config) { c.HoldLimit = d }
}
