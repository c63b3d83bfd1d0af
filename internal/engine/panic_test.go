package engine

import (
	"context"
	"errors"
	"iter"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/coro"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// The test binary, run again with this variable set, crashes in the way it names.
const crashVariable = "TASK_TEST_CRASH"

func TestMain(m *testing.M) {
	processDelays = func() delays { return nil } // the tests share their machine
	if how := os.Getenv(crashVariable); how != "" {
		crash(how)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func crash(how string) {
	rt, err := New(Config{Loops: 2, NewPoller: newChanPoller, OnPanic: map[string]func(*PanicError){
		"handler": func(*PanicError) { panic("from the handler") },
	}[how]})
	if err != nil {
		panic(err)
	}
	if how == "barrier" {
		barrier() // panics where the process has not registered for it
		return
	}
	rt.Run(context.Background(), func(context.Context) error {
		return GoWith(Options{Name: "doomed"}, func() {
			if how == "offload" {
				Offload(func() { innermost() })
			}
			innermost()
		}).Join()
	})
}

//go:noinline
func innermost() { panic(errors.New("boom")) }

// crashing runs this program again, so that it crashes in that way.
func crashing(how string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), crashVariable+"="+how, "GOTRACEBACK=all")
	return cmd
}

// Registering for membarrier takes milliseconds, for which the first use of a lock by two loops would hold one.
func TestAProcessIsRegisteredForBarriersWithItsFirstRuntime(t *testing.T) {
	if out, err := crashing("barrier").CombinedOutput(); canBarrier() {
		testenv.Check(t, err, "%s", out)
	}
}

func TestPanicWithoutHandlerEndsTheProcess(t *testing.T) {
	for how, want := range map[string][]string{
		"plain":   {"panic: boom", "doomed #", "innermost", "goroutine 1 ["}, // the last by the Go runtime, for GOTRACEBACK
		"offload": {"boom", "doomed #", "innermost"},
		"handler": {"from the handler"},
	} {
		out, err := crashing(how).CombinedOutput()
		testenv.ErrorSays(t, err, "exit status 2", "%s: the process", how)
		for _, w := range want {
			testenv.Contains(t, string(out), w, "%s: its report", how)
		}
	}
}

// OnPanic may end its task, and may wait.
func TestWhatOnPanicMayDo(t *testing.T) {
	done := make(chan error, 1)
	rt := newRuntime(t, 1, func(c *Config) {
		c.OnPanic = func(p *PanicError) {
			Yield()
			Sleep(1)
			done <- p
			runtime.Goexit()
		}
	})
	for range 3 {
		err := rt.Go(func() { Yield(); panic("boom") }).Join()
		testenv.Equal(t, err, <-done, "Join returned another error than the handler got")
	}
}

// With GODEBUG=panicnil=1, panic(nil) is a panic too, though recover returns nil.
func TestPanicWithNil(t *testing.T) {
	t.Setenv("GODEBUG", "panicnil=1")
	var seen atomic.Int32
	rt := newRuntime(t, 1, func(c *Config) { c.OnPanic = func(*PanicError) { seen.Add(1) } })
	for _, c := range []struct {
		name   string
		fn     func()
		panics bool
	}{
		{"panic", func() { panic(nil) }, true},
		{"offloaded", func() { Offload(func() { panic(nil) }) }, true},
		{"Goexit", runtime.Goexit, false},
		{"Goexit after a panic", func() { defer func() { recover(); runtime.Goexit() }(); panic(1) }, false},
	} {
		before := seen.Load()
		err := rt.Go(c.fn).Join()
		var p *PanicError
		testenv.Equal(t, errors.As(err, &p), c.panics, "%s: Join returned a panic, in %v", c.name, err)
		testenv.Equal(t, err == ErrGoexit, !c.panics, "%s: Join returned ErrGoexit", c.name)
		testenv.Equal(t, seen.Load() > before, c.panics, "%s: the handler ran", c.name)
		if c.name == "panic" {
			testenv.Equal(t, p.Value, nil, "the value")
		}
	}
}

// pulls runs the test with one loop and with two.
func pulls(t *testing.T, test func(t *testing.T, rt *Runtime)) {
	if !coro.Exact {
		t.Skip("what pulls is not known without the assembly stubs")
	}
	for _, n := range []int{1, 2} {
		test(t, newRuntime(t, n, panicsPass))
	}
}

// Iterators in iterators, pulled in turn by tasks of several loops and by plain goroutines.
func TestPullsThatAreNestedAndPassedOn(t *testing.T) {
	pulls(t, func(t *testing.T, rt *Runtime) {
		numbers := func(yield func(int) bool) {
			for i := 0; ; i++ {
				if Yield(); i%8 == 0 {
					Sleep(1)
				}
				if !yield(i) {
					return
				}
			}
		}
		twice := func(yield func(int) bool) {
			next, stop := iter.Pull(numbers)
			defer stop()
			for {
				v, _ := next()
				if Yield(); !yield(2 * v) {
					return
				}
			}
		}
		everyone(t, rt, 9, func(int) {
			next, stop := iter.Pull(twice)
			defer stop()
			for want := range 40 {
				pull := func() {
					v, _ := next()
					testenv.Equal(t, v, 2*want, "pulled")
				}
				switch {
				case Current() == nil && want%3 == 0:
					rt.Go(pull).Join()
				case want%3 == 1:
					Go(pull).Join()
				case want%3 == 2:
					Offload(pull)
				default:
					pull()
				}
			}
		})
	})
}

func TestPullEndsWithItsTask(t *testing.T) {
	pulls(t, func(t *testing.T, rt *Runtime) {
		pullFrom := func(seq iter.Seq[int]) func() {
			return func() {
				next, stop := iter.Pull(seq)
				defer stop()
				next()
				t.Error("the iterator came back")
			}
		}
		err := rt.Go(pullFrom(func(func(int) bool) { Yield(); runtime.Goexit() })).Join()
		testenv.Equal(t, err, ErrGoexit, "Goexit: Join")
		err = rt.Go(pullFrom(func(func(int) bool) { Yield(); panic("oops") })).Join()
		testenv.ErrorSays(t, err, "oops", "panic: Join")
		ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
		defer cancel()
		err = GoWith(Options{Context: ctx}, func() {
			next, stop := iter.Pull(func(yield func(int) bool) {
				testenv.ErrorIs(t, Sleep(time.Hour), context.DeadlineExceeded, "Sleep")
			})
			defer stop()
			next()
		}).Join()
		testenv.Check(t, err, "cancelled: Join")
		run(t, rt, Yield)
		refused := oneOfMany(t, 1, panicsPass, noHandOver)
		testenv.ErrorSays(t, refused.Go(pullFrom(func(func(int) bool) { Yield() })).Join(), "iter.Pull", "without hand-over: Join")
	})
}

// What blocks natively in an iterator is shown by the watchdog.
func TestStacksOfBlockedIterators(t *testing.T) {
	rt := newRuntime(t, 1)
	in, release := make(chan struct{}), make(chan struct{})
	k := rt.Go(func() {
		next, stop := iter.Pull(func(func(int) bool) { blockHere(in, release) })
		defer stop()
		next()
	})
	<-in
	testenv.Until(t, "its stack", func() bool { return strings.Contains(runningStacks(), "blockHere") })
	close(release)
	k.Join()
}

func blockHere(in, release chan struct{}) { close(in); <-release }
