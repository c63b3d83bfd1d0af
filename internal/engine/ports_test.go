package engine

import (
	"bytes"
	"io"
	"log/slog"
	"time"

	"context"
	"errors"
	"os"
	"runtime/pprof"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/capriccio-go/capriccio/internal/coro"
	"github.com/capriccio-go/capriccio/internal/sim"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// What a task sets for the profiler is not what the next task on its goroutine has, nor
// what another has in its Offload.
func TestLabelsEndWithTheirTask(t *testing.T) {
	if !coro.Exact {
		t.Skip("labels are left alone in this build")
	}
	rt, _ := newSimRuntime(t, 1, false)
	mine := pprof.WithLabels(context.Background(), pprof.Labels("task", "first"))
	rt.Go(func() {
		var g uintptr
		first := Go(func() {
			g = coro.G()
			pprof.SetGoroutineLabels(mine)
			Offload(func() {
				if coro.Labels() == nil {
					t.Error("an offloaded function has not the labels of its task")
				}
			})
		})
		first.Join()
		same := false
		for range 10 {
			Go(func() {
				same = same || coro.G() == g
				if coro.Labels() != nil {
					t.Error("a task has the labels of one before it")
				}
			}).Join()
		}
		if !same {
			t.Error("no task had the goroutine of the first: nothing was tested")
		}
	}).Join()
}

// One offload goroutine serves tasks with different labels.
func TestOffloadedHasTheLabelsOfItsTask(t *testing.T) {
	if !coro.Exact {
		t.Skip("labels are left alone in this build")
	}
	rt, _ := newSimRuntime(t, 1, false)
	rt.offload.limit = 1
	rt.Go(func() {
		release := make(chan struct{})
		first := Go(func() {
			pprof.SetGoroutineLabels(pprof.WithLabels(context.Background(), pprof.Labels("a", "b")))
			Offload(func() { <-release })
		})
		Yield()
		second := Go(func() {
			Offload(func() {
				if coro.Labels() != nil {
					t.Error("the labels of another task")
				}
			})
		})
		Yield()
		close(release)
		first.Join()
		second.Join()
	}).Join()
}

const bubbleVariable = "CAPRICCIO_TEST_BUBBLE"

// In a bubble of testing/synctest a runtime is refused, in a process in which nothing has
// measured the processor's counter before.
func TestBubbleIsRefused(t *testing.T) {
	if os.Getenv(bubbleVariable) == "" {
		testenv.Run(t, "", []string{bubbleVariable + "=1"}, os.Args[0], "-test.run=^TestBubbleIsRefused$", "-test.timeout=10m")
		return
	}
	synctest.Test(t, func(t *testing.T) {
		if r := coro.CyclesPerSecond(); r <= 0 {
			t.Errorf("rate %v", r)
		}
		_, err := New(Config{NewPoller: func(int) (Poller, error) {
			t.Error("a poller was made")
			return nil, errors.ErrUnsupported
		}})
		testenv.ErrorSays(t, err, "testing/synctest", "New")
	})
	if coro.ClockStands() {
		t.Error("the clock stands still outside of a bubble")
	}
}

// In a Shield the waits of a cancelled task work, until its own context ends.
func TestShield(t *testing.T) {
	for _, loops := range []int{1, 2} {
		rt, _ := newSimRuntime(t, loops, true)
		ctx, cancel := context.WithCancel(context.Background())
		k := GoWith(Options{Context: ctx}, func() {
			err := Self().Wait(ReasonRead, anywhere{}) // not a Sleep: the simulated clock may pass it before cancel is called
			testenv.ErrorIs(t, err, context.Canceled, "Wait")
			var inner *Task
			err = Shield(context.Background(), func() error {
				inner = Go(func() {
					testenv.Check(t, Sleep(time.Millisecond), "a task spawned in a Shield")
				})
				if Err() != nil || Context().Err() != nil {
					t.Error("cancelled inside of the Shield")
				}
				return Sleep(time.Millisecond)
			})
			testenv.Check(t, err, "Sleep in a Shield")
			inner.Join()
			short, stop := context.WithTimeout(context.Background(), time.Millisecond)
			defer stop()
			if err := Shield(short, func() error { return Self().Wait(ReasonRead, anywhere{}) }); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Sleep in a Shield with a limit: %v", err)
			}
			testenv.ErrorIs(t, Err(), context.Canceled, "after it")
		})
		cancel()
		k.Join()

		// The end comes while the task is in the Shield, and another inside of that counts.
		ctx, cancel = context.WithCancel(context.Background())
		k = GoWith(Options{Context: ctx}, func() {
			err := Shield(context.Background(), func() error {
				cancel()
				Offload(func() { rt.onLoops(nil, func(*Loop) {}) }) // what cancels the task has arrived
				return Sleep(time.Millisecond)
			})
			if err != nil || !errors.Is(Err(), context.Canceled) {
				t.Errorf("%v in the Shield, %v after it", err, Err())
			}
		})
		k.Join()
	}
	testenv.Equal(t, Shield(context.Background(), func() error { return io.EOF }), io.EOF, "on a plain goroutine")
}

func TestOffloadContext(t *testing.T) {
	rt, _ := newSimRuntime(t, 2, true)
	until := func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) }
	for name, how := range map[string]func(end context.Context) error{
		"its argument": func(end context.Context) error { return OffloadContext(end, until) },
		"the task's": func(end context.Context) (err error) {
			GoWith(Options{Context: end}, func() { err = OffloadContext(context.Background(), until) }).Join()
			return err
		},
		"an outer one": func(end context.Context) (err error) {
			Under(end, func() error {
				return Under(context.WithValue(context.Background(), outerKey{}, 2), func() error {
					err = OffloadContext(context.Background(), until)
					return nil
				})
			})
			return err
		},
		"on a plain goroutine": func(end context.Context) (err error) {
			Offload(func() { err = OffloadContext(end, until) })
			return err
		},
	} {
		rt.Go(func() {
			end, cancel := context.WithCancel(context.Background())
			go cancel()
			testenv.ErrorIs(t, how(end), context.Canceled, name)
		}).Join()
	}
	rt.Go(func() {
		if err := OffloadContext(context.Background(), func(context.Context) error { return io.EOF }); err != io.EOF {
			t.Errorf("got %v, want the error of the function", err)
		}
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		err := OffloadContext(ended, func(context.Context) error { t.Error("it ran"); return nil })
		testenv.ErrorIs(t, err, context.Canceled)
	}).Join()
}

// What waits for its turn is not run once its context has ended, and the log says that there is a
// limit.
func TestOffloadAtItsLimit(t *testing.T) {
	var log bytes.Buffer
	clock := sim.NewJumpingClock()
	rt := testenv.Need(New(Config{
		Loops: 1, Clock: clock, OffloadLimit: 1, Log: slog.New(slog.NewTextHandler(&log, nil)),
		NewPoller: func(int) (Poller, error) { return clock.NewPoller(0), nil },
	}))(t)
	release := make(chan struct{})
	rt.Go(func() {
		first := Go(func() { Offload(func() { <-release }) })
		Yield()
		ctx, cancel := context.WithCancel(context.Background())
		second := Go(func() {
			err := OffloadContext(ctx, func(context.Context) error { t.Error("it ran"); return nil })
			testenv.ErrorIs(t, err, context.Canceled)
		})
		Yield()
		cancel()
		second.Join()
		close(release)
		first.Join()
		Offload(func() {})
	}).Join()
	rt.Close()
	if got := log.String(); strings.Count(got, "Config.OffloadLimit") != 1 || !strings.Contains(got, "limit=1 waiting=1") {
		t.Errorf("the log says %q", got)
	}
}

// outerKey is the key of a value in a context.
type outerKey struct{}
