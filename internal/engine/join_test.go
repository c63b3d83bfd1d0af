package engine

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

func TestJoinTellsHowTheTaskEnded(t *testing.T) {
	var handled atomic.Int32
	rt := newRuntime(t, 2, func(c *Config) { c.OnPanic = func(*PanicError) { handled.Add(1) } })
	oops := errors.New("oops")
	ends := map[string]func(){
		"return": func() {},
		"panic":  func() { panic(oops) },
		"goexit": func() { Yield(); runtime.Goexit() },
		"both":   func() { defer func() { panic(oops) }(); runtime.Goexit() },
	}
	check := func(name string, err error) {
		var p *PanicError
		ok := false
		switch name {
		case "return":
			ok = err == nil
		case "panic", "both":
			ok = errors.Is(err, oops) && errors.As(err, &p) && strings.Contains(string(p.Stack), "TestJoinTells") && strings.Contains(p.Error(), "oops")
		case "goexit":
			ok = errors.Is(err, ErrGoexit)
		}
		if !ok {
			t.Errorf("%s: Join returned %v", name, err)
		}
	}
	for name, end := range ends {
		k := rt.Go(end)
		check(name, k.Join())
		check(name, k.Join())
		run(t, rt, func() {
			early := Go(end)
			check(name, early.Join())
			check(name, k.Join())
		})
	}
	testenv.Equal(t, handled.Load(), 4, "OnPanic was called N times")
	run(t, rt, func() {}) // the loops live on
}

func TestManyJoiners(t *testing.T) {
	eachLoops(t, func(t *testing.T, rt *Runtime) {
		var gate WaitGroup
		gate.Add(1)
		var woken atomic.Int32
		k := rt.Go(func() { gate.Wait(); runtime.Goexit() })
		var all sync.WaitGroup
		all.Go(func() {
			everyone(t, rt, 60, func(int) {
				if err := k.Join(); err != ErrGoexit {
					t.Error(err)
				}
				woken.Add(1)
			})
		})
		waitParked(t, rt, 40, ReasonJoin)
		gate.Done()
		all.Wait()
		testenv.Equal(t, woken.Load(), 60, "joiners came back")
	})
}

func TestCancelledJoinLeavesTheTaskAlone(t *testing.T) {
	rt := newRuntime(t, 2)
	var gate WaitGroup
	gate.Add(1)
	k := rt.Go(gate.Wait)
	ctx, cancel := context.WithCancel(context.Background())
	j := GoWith(Options{Context: ctx}, func() {
		testenv.ErrorIs(t, k.Join(), context.Canceled)
	})
	waitParked(t, rt, 1, ReasonJoin)
	cancel()
	testenv.Check(t, j.Join())
	gate.Done()
	testenv.Check(t, k.Join())
}

func TestAwait(t *testing.T) {
	rt := newRuntime(t, 1)
	cause := errors.New("cause")
	body := func() {
		ctx, cancel := context.WithCancelCause(context.Background())
		rt.Go(func() { cancel(cause) })
		if err := Await(ctx); !errors.Is(err, cause) || !errors.Is(err, context.Canceled) {
			t.Errorf("Await returned %v", err)
		}
	}
	body()
	run(t, rt, body)
	own := errors.New("own")
	ctx, cancel := context.WithCancelCause(context.Background())
	k := GoWith(Options{Context: ctx}, func() {
		testenv.ErrorIs(t, Await(context.Background()), own, "Await of a cancelled task")
	})
	waitParked(t, rt, 1, ReasonContext)
	cancel(own)
	k.Join()
}

func TestUnder(t *testing.T) {
	rt := newRuntime(t, 2)
	run(t, rt, func() {
		inner := errors.New("inner")
		ctx, cancel := context.WithCancelCause(context.Background())
		want := errors.New("returned")
		got := Under(ctx, func() error {
			cancel(inner)
			testenv.ErrorIs(t, Sleep(time.Hour), inner, "Sleep under an ended context")
			testenv.ErrorIs(t, Err(), inner, "Err")
			return want
		})
		testenv.Equal(t, got, want, "Under")
		if Err() != nil || Sleep(0) != nil {
			t.Errorf("still cancelled after Under: %v", Err())
		}
		func() {
			defer func() { recover() }()
			Under(ctx, func() error { panic("out of Under") })
		}()
		if Err() != nil {
			t.Error("still cancelled after a panic out of Under")
		}
	})
	if err := Under(cancelled(), func() error { return nil }); err != nil {
		t.Error("on a plain goroutine:", err)
	}
}

func TestNestedUnder(t *testing.T) {
	rt := newRuntime(t, 1)
	run(t, rt, func() {
		a, cancelA := context.WithCancel(context.Background())
		b, cancelB := context.WithCancel(context.Background())
		defer cancelB()
		Under(a, func() error {
			Under(b, func() error {
				Go(cancelA)
				testenv.ErrorIs(t, Sleep(time.Hour), context.Canceled, "the outer context ended: Sleep")
				return nil
			})
			testenv.Fails(t, Err(), "not cancelled by the outer context after the inner Under")
			return nil
		})
		testenv.Check(t, Err(), "cancelled after all")
	})
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
