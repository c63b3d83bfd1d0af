// Package enginetest makes runtimes for tests of the packages that are built on the engine, and waits for what
// their tasks do. The tests of the engine itself, which can't import it, have the same.
package enginetest

import (
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/sim"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// OneOfMany makes a runtime that the test closes, for tests with several at once: each has goroutines of its own.
func OneOfMany(t testing.TB, loops int, change ...func(*engine.Config)) *engine.Runtime {
	t.Helper()
	cfg := engine.Config{Loops: loops, Log: testenv.Quiet(), Grace: 5 * time.Minute}
	cfg.NewPoller = func(int) (engine.Poller, error) { return testenv.NewChanPoller(), nil }
	for _, c := range change {
		c(&cfg)
	}
	rt := testenv.Need(engine.New(cfg))(t)
	t.Cleanup(func() {
		if err := rt.Close(); cfg.Grace >= time.Minute { // a short one is over soon on a slow machine
			testenv.Check(t, err)
		}
	})
	return rt
}

// NewRuntime is OneOfMany, and checks that nothing is left of the runtime.
func NewRuntime(t testing.TB, loops int, change ...func(*engine.Config)) *engine.Runtime {
	t.Helper()
	before := runtime.NumGoroutine()
	t.Cleanup(func() { testenv.WaitGoroutines(t, before) })
	return OneOfMany(t, loops, change...)
}

// Closing makes a runtime that the test itself shuts down. Then check finds out that nothing is left.
func Closing(t *testing.T, loops int, change ...func(*engine.Config)) (rt *engine.Runtime, check func()) {
	t.Helper()
	before := runtime.NumGoroutine()
	rt = OneOfMany(t, loops, change...)
	return rt, func() {
		t.Helper()
		testenv.WaitGoroutines(t, before)
		for i := range rt.Loops() {
			if p, ok := rt.Loop(i).Poller().(*testenv.ChanPoller); ok {
				testenv.Until(t, fmt.Sprintf("the poller of loop %d is closed", i), p.Closed) // after Close, if a task held the loop
			}
		}
	}
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
	testenv.Until(t, "tasks parked for "+why.String(), func() bool { return Parked(rt, why) == n })
}

// Everyone runs fn by n callers at once, numbered from 0: tasks that stay on a given
// loop, tasks that others may steal, and plain goroutines. It returns when all have ended.
func Everyone(t testing.TB, rt *engine.Runtime, n int, fn func(i int)) {
	t.Helper()
	StartAll(t, rt, n, fn)()
}

// StartAll starts the callers of Everyone; joined waits for them.
func StartAll(t testing.TB, rt *engine.Runtime, n int, fn func(i int)) (joined func()) {
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
	return func() {
		t.Helper()
		plain.Wait()
		joinAll(t, tasks)
	}
}

// Spread starts n tasks, numbered from 0, each on the next loop; joined waits for them.
func Spread(t testing.TB, rt *engine.Runtime, n int, fn func(i int)) (joined func()) {
	tasks := make([]*engine.Task, n)
	for i := range tasks {
		tasks[i] = engine.GoOn(rt.Loop(i%rt.Loops()), func() { fn(i) })
	}
	return func() {
		t.Helper()
		joinAll(t, tasks)
	}
}

func joinAll(t testing.TB, tasks []*engine.Task) {
	t.Helper()
	for _, k := range tasks {
		testenv.Check(t, k.Join())
	}
}

// LogTo has the log of the runtime go to r.
func LogTo(r testenv.Records) func(*engine.Config) {
	return func(c *engine.Config) { c.Log = slog.New(slog.NewTextHandler(r, nil)) }
}

// PanicsPass has the runtime go on after a panic of a task.
func PanicsPass(c *engine.Config) { c.OnPanic = func(*engine.PanicError) {} }

// ShortGrace has the runtime wait briefly for its tasks when it ends.
func ShortGrace(c *engine.Config) { c.Grace = 20 * time.Millisecond }

// Anywhere is a WaitPoint that forgets what it is asked to.
type Anywhere struct{}

// Withdraw implements engine.WaitPoint.
func (Anywhere) Withdraw(*engine.Waiter) bool { return true }
