package engine

import (
	"context"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/sim"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

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

// waitFor gives way to others until ok, and fails the test if that takes for ever.
func waitFor(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatal("never: " + what)
		}
	}
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

func waitParked(t testing.TB, rt *Runtime, n int, why Reason) {
	t.Helper()
	waitFor(t, "tasks parked for "+why.String(), func() bool { return parked(rt, why) == n })
}

// everyone runs fn by n callers at once, numbered from 0: tasks that stay on a given
// loop, tasks that others may steal, and plain goroutines. It returns when all have ended.
func everyone(t testing.TB, rt *Runtime, n int, fn func(i int)) {
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
	for _, k := range tasks {
		testenv.Check(t, k.Join())
	}
	plain.Wait()
}

// spread starts n tasks, numbered from 0, each on the next loop; joined waits for them.
func spread(t testing.TB, rt *Runtime, n int, fn func(i int)) (joined func()) {
	var tasks []*Task
	for i := range n {
		tasks = append(tasks, GoOn(rt.Loop(i%rt.Loops()), func() { fn(i) }))
	}
	return func() {
		t.Helper()
		for _, k := range tasks {
			testenv.Check(t, k.Join())
		}
	}
}

func logTo(r testenv.Records) func(*Config) {
	return func(c *Config) { c.Log = slog.New(slog.NewTextHandler(r, nil)) }
}

func panicsPass(c *Config) { c.OnPanic = func(*PanicError) {} }

// mustPanic calls fn and returns what it panicked with.
func mustPanic(t testing.TB, what string, fn func()) (v any) {
	t.Helper()
	defer func() {
		if v = recover(); v == nil {
			t.Errorf("no panic: %s", what)
		}
	}()
	fn()
	return nil
}

func cancelled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

func contains(t testing.TB, got, want string) {
	t.Helper()
	if !strings.Contains(got, want) {
		t.Errorf("got %q, want it to contain %q", got, want)
	}
}

// anywhere is a WaitPoint that forgets what it is asked to.
type anywhere struct{}

func (anywhere) Withdraw(*Waiter) bool { return true }

// pass waits for l and goes on.
func pass(l sync.Locker) {
	l.Lock()
	defer l.Unlock()
}
