package engine

import (
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/recorder"
	"github.com/capriccio-go/capriccio/internal/sim"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// The first part of this file is enginetest.go over again, which imports this package.

var seedFlag = flag.Uint64("seed", 0, "seed of the random schedules; 0 picks one")

func newRand(t testing.TB) *rand.Rand { return testenv.Rand(t, *seedFlag) }

func newChanPoller(int) (Poller, error) { return testenv.NewChanPoller(), nil }

// oneOfMany makes a runtime that the test closes, for tests with several at once: each has goroutines of its own.
func oneOfMany(t testing.TB, loops int, change ...func(*Config)) *Runtime {
	t.Helper()
	cfg := Config{Loops: loops, NewPoller: newChanPoller, Log: testenv.Quiet(), Grace: 5 * time.Minute}
	for _, c := range change {
		c(&cfg)
	}
	rt := testenv.Need(New(cfg))(t)
	t.Cleanup(func() {
		if err := rt.Close(); rt.cfg.Grace >= time.Minute { // a short one is over soon on a slow machine
			testenv.Check(t, err)
		}
	})
	return rt
}

// newRuntime is oneOfMany, and checks that nothing is left of the runtime.
func newRuntime(t testing.TB, loops int, change ...func(*Config)) *Runtime {
	t.Helper()
	before := runtime.NumGoroutine()
	t.Cleanup(func() { testenv.WaitGoroutines(t, before) })
	return oneOfMany(t, loops, change...)
}

// closing makes a runtime that the test itself shuts down. Then check finds out that nothing is left.
func closing(t *testing.T, loops int, change ...func(*Config)) (rt *Runtime, check func()) {
	t.Helper()
	before := runtime.NumGoroutine()
	rt = oneOfMany(t, loops, change...)
	return rt, func() {
		t.Helper()
		testenv.WaitGoroutines(t, before)
		for i := range rt.Loops() {
			if p, ok := rt.Loop(i).Poller().(*testenv.ChanPoller); ok {
				// Goroutines of earlier tests may have ended in place of the loop's.
				testenv.Until(t, fmt.Sprintf("the poller of loop %d is closed", i), p.Closed)
			}
		}
	}
}

// newSimRuntime is newRuntime in a simulated world; with jump its clock moves by itself.
func newSimRuntime(t testing.TB, loops int, jump bool, change ...func(*Config)) (*Runtime, *sim.Clock) {
	clock := sim.NewClock()
	if jump {
		clock = sim.NewJumpingClock()
	}
	set := func(c *Config) {
		c.Clock = clock
		c.NewPoller = func(int) (Poller, error) { return clock.NewPoller(0), nil }
	}
	return newRuntime(t, loops, append([]func(*Config){set}, change...)...), clock
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

// until keeps the calling task asleep until ok, which other tasks bring about: on a machine that stalls one
// short Sleep is over before they have run.
func until(ok func() bool) {
	for !ok() {
		Sleep(1)
	}
}

// parked counts the tasks of rt that wait for the given reason.
func parked(rt *Runtime, why Reason) (n int) {
	for _, i := range rt.Tasks() {
		if i.State == "parked" && i.Reason == why {
			n++
		}
	}
	return n
}

// waitParked waits until n tasks of rt wait for the given reason.
func waitParked(t testing.TB, rt *Runtime, n int, why Reason) {
	t.Helper()
	testenv.Until(t, "tasks parked for "+why.String(), func() bool { return parked(rt, why) == n })
}

// everyone runs fn by n callers at once, numbered from 0: tasks that stay on a given
// loop, tasks that others may steal, and plain goroutines. It returns when all have ended.
func everyone(t testing.TB, rt *Runtime, n int, fn func(i int)) {
	t.Helper()
	startAll(t, rt, n, fn)()
}

// startAll starts the callers of everyone; joined waits for them.
func startAll(t testing.TB, rt *Runtime, n int, fn func(i int)) (joined func()) {
	t.Helper()
	var plain sync.WaitGroup
	var tasks []*Task
	for i := range n {
		switch i % 3 {
		case 0:
			tasks = append(tasks, GoOn(rt.Loop(i%rt.Loops()), func() { fn(i) }))
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

// spread starts n tasks, numbered from 0, each on the next loop; joined waits for them.
func spread(t testing.TB, rt *Runtime, n int, fn func(i int)) (joined func()) {
	tasks := make([]*Task, n)
	for i := range tasks {
		tasks[i] = GoOn(rt.Loop(i%rt.Loops()), func() { fn(i) })
	}
	return func() {
		t.Helper()
		joinAll(t, tasks)
	}
}

func joinAll(t testing.TB, tasks []*Task) {
	t.Helper()
	for _, k := range tasks {
		testenv.Check(t, k.Join())
	}
}

// logTo has the log of the runtime go to r.
func logTo(r testenv.Records) func(*Config) {
	return func(c *Config) { c.Log = slog.New(slog.NewTextHandler(r, nil)) }
}

// panicsPass has the runtime go on after a panic of a task.
func panicsPass(c *Config) { c.OnPanic = func(*PanicError) {} }

// shortGrace has the runtime wait briefly for its tasks when it ends.
func shortGrace(c *Config) { c.Grace = 20 * time.Millisecond }

// anywhere is a WaitPoint that forgets what it is asked to.
type anywhere struct{}

func (anywhere) Withdraw(*Waiter) bool { return true }

func holdLimit(d time.Duration) func(*Config) { return func(c *Config) { c.HoldLimit = d } }

func offloadLimit(n int) func(*Config) { return func(c *Config) { c.OffloadLimit = n } }

func noHandOver(c *Config) { c.NoHandOver = true }

// learn has the runtime record its blocking graph in g.
func learn(g *recorder.Graph) func(*Config) { return func(c *Config) { c.Graph = g } }

func newGraph() *recorder.Graph { return recorder.New(recorder.Config{}) }

// admission has each loop ask a.
func admission(a Admission) func(*Config) {
	return func(c *Config) { c.NewAdmission = func(*Loop) Admission { return a } }
}

// policy has each loop make a policy of its own.
func policy(newPolicy func() Policy) func(*Config) {
	return func(c *Config) { c.NewPolicy = func(*Loop) Policy { return newPolicy() } }
}

// onLoop calls fn on the loop's own goroutine and returns its result.
func onLoop[T any](l *Loop, fn func(l *Loop) T) T {
	got := make(chan T)
	l.Post(func() { got <- fn(l) })
	return <-got
}

// settle waits until l has done what it was sent.
func settle(l *Loop) { onLoop(l, func(*Loop) bool { return true }) }

// occupy has a task keep l busy, without a wait, from when occupy returns until release is called, which waits for its end.
func occupy(t testing.TB, l *Loop, o Options, first func()) (release func()) {
	t.Helper()
	var free atomic.Bool
	o.Loop = l
	started := make(chan struct{})
	k := testenv.Need(l.rt.Spawn(o, func() {
		first()
		close(started)
		spinUntil(free.Load)
	}))(t)
	<-started
	return func() {
		t.Helper()
		free.Store(true)
		testenv.Check(t, k.Join())
	}
}

// spinUntil is what a task does that holds its loop.
//
//go:noinline
func spinUntil(stop func() bool) {
	for !stop() {
	}
}

// parkEach has n tasks of wg, numbered from 0, wait for a reason each and then call fn. It returns when they wait,
// in a world whose clock moves by itself.
func parkEach(wg *WaitGroup, n int, why func(i int) Reason, fn func(i int)) []*Waiter {
	waiters := make([]*Waiter, n)
	for i := range n {
		wg.Go(func() {
			waiters[i] = Self()
			waiters[i].WaitFully(why(i), anywhere{})
			fn(i)
		})
	}
	Sleep(time.Millisecond)
	return waiters
}

func read(int) Reason { return ReasonRead }

func wake(waiters ...*Waiter) {
	for _, w := range waiters {
		w.Wake()
	}
}
