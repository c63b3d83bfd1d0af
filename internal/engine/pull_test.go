package engine

import (
	"context"
	"errors"
	"iter"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/coro"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

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
					if v, _ := next(); v != 2*want {
						t.Errorf("pulled %d, want %d", v, 2*want)
					}
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
		var p *PanicError
		err = rt.Go(pullFrom(func(func(int) bool) { Yield(); panic("oops") })).Join()
		if !errors.As(err, &p) || p.Value != "oops" {
			t.Errorf("panic: Join returned %v", err)
		}
		err = GoWith(Options{Context: waitCtx(t, time.Millisecond)}, func() {
			next, stop := iter.Pull(func(yield func(int) bool) {
				testenv.ErrorIs(t, Sleep(time.Hour), context.DeadlineExceeded, "Sleep")
			})
			defer stop()
			next()
		}).Join()
		testenv.Check(t, err, "cancelled: Join")
		run(t, rt, Yield)
	})
}

func TestPullWithoutHandOverIsRefused(t *testing.T) {
	if !coro.Exact {
		t.Skip("what pulls is not known without the assembly stubs")
	}
	rt := newRuntime(t, 1, panicsPass, func(c *Config) { c.NoHandOver = true })
	err := rt.Go(func() {
		next, stop := iter.Pull(func(yield func(int) bool) { Yield() })
		defer stop()
		next()
	}).Join()
	testenv.ErrorSays(t, err, "iter.Pull", "Join")
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
	waitFor(t, "its stack", func() bool { return strings.Contains(runningStacks(), "blockHere") })
	close(release)
	k.Join()
}

func blockHere(in, release chan struct{}) { close(in); <-release }
