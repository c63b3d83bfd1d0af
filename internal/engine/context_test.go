package engine

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

func TestTasksSpawnedByATaskAreCancelledWithIt(t *testing.T) {
	eachLoops(t, func(t *testing.T, rt *Runtime) {
		ctx, cancel := context.WithCancelCause(context.Background())
		cause := errors.New("the cause")
		errs := make(chan error, 4)
		top := GoWith(Options{Context: ctx}, func() {
			child := Go(func() {
				grandchild := GoOn(rt.Loop(rt.Loops()-1), func() { errs <- Sleep(time.Hour) })
				errs <- Sleep(time.Hour)
				Under(context.Background(), func() error { return grandchild.Join() })
			})
			Start(func() { errs <- Sleep(time.Hour) })
			cancel(cause)
			errs <- Sleep(time.Hour)
			for child.Join() != nil { // cancelled: returns at once until the child has ended
				Yield()
			}
		})
		testenv.Check(t, top.Join())
		for range 4 {
			err := <-errs
			testenv.ErrorIs(t, err, cause)
			testenv.ErrorIs(t, err, context.Canceled)
		}
	})
}

func TestBackgroundDetaches(t *testing.T) {
	rt := newRuntime(t, 1)
	GoWith(Options{Context: testenv.Cancelled()}, func() {
		testenv.Fails(t, Err(), "not cancelled under an ended context")
		detached := GoWith(Options{Context: context.Background()}, func() {
			testenv.Check(t, Sleep(time.Nanosecond))
		})
		for detached.Join() != nil {
			Yield()
		}
	}).Join()
	testenv.Until(t, "the end", func() bool { return len(rt.Tasks()) == 0 })
}

func TestContextFollowsTheScope(t *testing.T) {
	rt := newRuntime(t, 1)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	GoWith(Options{Context: ctx}, func() {
		testenv.Equal(t, Context(), ctx, "the one given")
		inner, stop := context.WithCancel(ctx)
		defer stop()
		Under(inner, func() error {
			testenv.Equal(t, Context(), inner, "that of Under")
			return Go(func() { testenv.Equal(t, Context(), inner, "that of Under, in a child") }).Join()
		})
	}).Join()
	run(t, rt, func() { testenv.Equal(t, Context(), rt.Context(), "the runtime's, without a scope") })
}

func TestAwait(t *testing.T) {
	rt := newRuntime(t, 1)
	cause := errors.New("cause")
	body := func() {
		ctx, cancel := context.WithCancelCause(context.Background())
		rt.Go(func() { cancel(cause) })
		err := Await(ctx)
		testenv.ErrorIs(t, err, cause)
		testenv.ErrorIs(t, err, context.Canceled)
	}
	body()
	run(t, rt, body)
	ctx, cancel := context.WithCancelCause(context.Background())
	k := GoWith(Options{Context: ctx}, func() {
		testenv.ErrorIs(t, Await(context.Background()), cause, "Await of a cancelled task")
	})
	waitParked(t, rt, 1, ReasonContext)
	cancel(cause)
	k.Join()
}

func TestUnder(t *testing.T) {
	rt := newRuntime(t, 2)
	run(t, rt, func() {
		inner, returned := errors.New("inner"), errors.New("returned")
		ctx, cancel := context.WithCancelCause(context.Background())
		got := Under(ctx, func() error {
			cancel(inner)
			testenv.ErrorIs(t, Sleep(time.Hour), inner, "Sleep under an ended context")
			testenv.ErrorIs(t, Err(), inner, "Err")
			return returned
		})
		testenv.Equal(t, got, returned, "Under")
		testenv.Check(t, Err(), "after Under")
		testenv.Check(t, Sleep(0), "after Under")
		testenv.MustPanic(t, "out of Under", func() {
			Under(ctx, func() error { panic("out of Under") })
		})
		testenv.Check(t, Err(), "after a panic out of Under")

		a, cancelA := context.WithCancel(context.Background())
		Under(a, func() error {
			Under(t.Context(), func() error {
				Go(cancelA)
				testenv.ErrorIs(t, Sleep(time.Hour), context.Canceled, "the outer context ended: Sleep")
				return nil
			})
			testenv.Fails(t, Err(), "not cancelled by the outer context after the inner Under")
			return nil
		})
		testenv.Check(t, Err(), "cancelled after all")
	})
	testenv.Check(t, Under(testenv.Cancelled(), func() error { return nil }), "on a plain goroutine")
}

// A context that ends while Under is being left must not cancel what follows.
func TestUnderLeftWhileItsContextEnds(t *testing.T) {
	rt := newRuntime(t, 2)
	run(t, rt, func() {
		for i := range 300 {
			ctx, cancel := context.WithCancel(context.Background())
			GoOn(rt.Loop(1), cancel)
			Under(ctx, func() error {
				for range i % 5 {
					Yield()
				}
				return nil
			})
			for range 5 {
				testenv.Must(t, Sleep(0), "round %d", i)
			}
		}
	})
}

// In a Shield the waits of a cancelled task work, until its own context ends.
func TestShield(t *testing.T) {
	for _, loops := range []int{1, 2} {
		rt, _ := newSimRuntime(t, loops, true)
		forEver := func() error { return Self().Wait(ReasonRead, anywhere{}) } // not a Sleep: the simulated clock may pass it before cancel is called
		ctx, cancel := context.WithCancel(context.Background())
		k := GoWith(Options{Context: ctx}, func() {
			testenv.ErrorIs(t, forEver(), context.Canceled, "Wait")
			var inner *Task
			testenv.Check(t, Shield(context.Background(), func() error {
				inner = Go(func() { testenv.Check(t, Sleep(time.Millisecond), "a task spawned in a Shield") })
				testenv.Check(t, Err(), "in the Shield")
				testenv.Check(t, Context().Err(), "in the Shield")
				return Sleep(time.Millisecond)
			}), "Sleep in a Shield")
			inner.Join()
			short, stop := context.WithTimeout(context.Background(), time.Millisecond)
			defer stop()
			testenv.ErrorIs(t, Shield(short, forEver), context.DeadlineExceeded, "a wait in a Shield with a limit")
			testenv.ErrorIs(t, Err(), context.Canceled, "after it")
		})
		cancel()
		k.Join()

		// The end comes while the task is in the Shield, and another inside of that counts.
		ctx, cancel = context.WithCancel(context.Background())
		GoWith(Options{Context: ctx}, func() {
			testenv.Check(t, Shield(context.Background(), func() error {
				cancel()
				Offload(func() { rt.onLoops(nil, func(*Loop) {}) }) // what cancels the task has arrived
				return Sleep(time.Millisecond)
			}), "in the Shield")
			testenv.ErrorIs(t, Err(), context.Canceled, "after the Shield")
		}).Join()
	}
	testenv.Equal(t, Shield(context.Background(), func() error { return io.EOF }), io.EOF, "on a plain goroutine")
}
