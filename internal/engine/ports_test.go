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

// A nil Chan in a Select is never ready, as in a select statement, for which one sets a
// variable to nil.
func TestSelectWithNilChan(t *testing.T) {
	check := func() {
		var none *Chan[int]
		c := NewChan[int](1)
		if i, err := TrySelect(none.RecvCase(nil), none.SendCase(1)); i != -1 || err != nil {
			t.Errorf("TrySelect: %d, %v; want -1 and no error", i, err)
		}
		testenv.Got(Select(none.RecvCase(nil), c.SendCase(7), none.SendCase(1)))(t, 1, "Select")
		back := NewChan[int](0)
		go func() { // on a plain goroutine, so that the caller waits
			testenv.Got(c.Recv())(t, 7, "received")
			back.Send(8)
		}()
		got := 0
		if i, err := Select(none.RecvCase(&got), back.RecvCase(&got)); i != 1 || err != nil || got != 8 {
			t.Errorf("Select: %d, %v and %d; want 1 and 8", i, err, got)
		}
	}
	rt, _ := newSimRuntime(t, 2, false)
	rt.Go(check).Join()
	check()
	ctx, cancel := context.WithCancel(context.Background())
	waiting := rt.Go(func() {
		err := Under(ctx, func() error {
			_, err := Select((*Chan[int])(nil).RecvCase(nil))
			return err
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("Select of nothing but nil: %v, want the end of the context", err)
		}
	})
	cancel()
	waiting.Join()
}

func TestAcquireContextThatHasEnded(t *testing.T) {
	ctx, cancel := context.WithCancelCause(context.Background())
	why := errors.New("why")
	cancel(why)
	check := func() {
		s := NewSemaphore(1)
		if err := s.AcquireContext(ctx, 1); !errors.Is(err, context.Canceled) || !errors.Is(err, why) {
			t.Errorf("AcquireContext: %v, want the context's error and cause", err)
		}
		if !s.TryAcquire(1) {
			t.Error("it took the unit")
		}
	}
	rt, _ := newSimRuntime(t, 1, false)
	rt.Go(check).Join()
	check()
}

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

// selectCases plays the cases that are no communications, in a task or on a plain goroutine.
func selectCases(t *testing.T) {
	c := NewChan[int](1)
	ctx, cancel := context.WithCancelCause(context.Background())
	why := errors.New("why")
	testenv.Got(TrySelect(DoneCase(ctx), AfterCase(0), c.RecvCase(nil)))(t, -1, "nothing is ready")
	testenv.Got(Select(DoneCase(ctx), AfterCase(time.Millisecond), c.RecvCase(nil)))(t, 1, "time")
	stop := AfterCase(time.Hour)
	testenv.Got(Select(c.SendCase(1), stop, DoneCase(ctx)))(t, 0, "room")
	testenv.Got(Select(stop, c.RecvCase(nil), stop, DoneCase(ctx)))(t, 1, "a value")
	AfterFunc(time.Millisecond, func() { cancel(why) })
	for range 2 { // while it waits, and at once
		if i, err := Select((*Chan[int])(nil).SendCase(1), c.RecvCase(nil), DoneCase(ctx)); i != 2 || !errors.Is(err, context.Canceled) || !errors.Is(err, why) {
			t.Errorf("the end of the context: %d, %v", i, err)
		}
	}
}

func TestSelectOnTimeAndContext(t *testing.T) {
	for _, loops := range []int{1, 2} {
		rt, _ := newSimRuntime(t, loops, true)
		rt.Go(func() { selectCases(t) }).Join()
		for _, l := range rt.loops {
			testenv.Equal(t, l.wheel.count, 0, "timers are left on loop %d", l.index)
		}
		selectCases(t)
	}
}

// In a Shield the waits of a cancelled task work, until its own context ends.
func TestShield(t *testing.T) {
	for _, loops := range []int{1, 2} {
		rt, _ := newSimRuntime(t, loops, true)
		ctx, cancel := context.WithCancel(context.Background())
		k := goWith(Options{Context: ctx}, func() {
			_, err := NewChan[int](0).Recv() // not a Sleep: the simulated clock may pass it before cancel is called
			testenv.ErrorIs(t, err, context.Canceled, "Recv")
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
			if err := Shield(short, func() error { _, err := NewChan[int](0).Recv(); return err }); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Sleep in a Shield with a limit: %v", err)
			}
			testenv.ErrorIs(t, Err(), context.Canceled, "after it")
		})
		cancel()
		k.Join()

		// The end comes while the task is in the Shield, and another inside of that counts.
		ctx, cancel = context.WithCancel(context.Background())
		k = goWith(Options{Context: ctx}, func() {
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
			goWith(Options{Context: end}, func() { err = OffloadContext(context.Background(), until) }).Join()
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

func TestPerLoop(t *testing.T) {
	rt, _ := newSimRuntime(t, 2, false)
	p := PerLoop[int]{New: func() int { return 10 }}
	for range 3 {
		for _, l := range rt.loops {
			GoOn(l, func() { *p.Get() += 1 + l.Index() }).Join()
		}
	}
	for _, l := range rt.loops {
		GoOn(l, func() {
			if got, want := *p.Get(), 10+3*(1+l.Index()); got != want {
				t.Errorf("loop %d has %d, want %d", l.Index(), got, want)
			}
		}).Join()
	}
	testenv.Equal(t, *p.Get(), 10, "plain goroutines have")
	testenv.Equal(t, p.Get(), p.Get(), "two values for plain goroutines")
	var zero PerLoop[[4]byte]
	testenv.Equal(t, *zero.Get(), [4]byte{}, "without New it is not the zero value")
}

// outerKey is the key of a value in a context.
type outerKey struct{}
