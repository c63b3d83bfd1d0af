package task

import (
	"context"
	"errors"
	"testing"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/enginetest"
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
	rt, _ := enginetest.NewSimRuntime(t, 2, false)
	rt.Go(check).Join()
	check()
	ctx, cancel := context.WithCancel(context.Background())
	waiting := rt.Go(func() {
		err := engine.Under(ctx, func() error {
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
	rt, _ := enginetest.NewSimRuntime(t, 1, false)
	rt.Go(check).Join()
	check()
}

func TestPerLoop(t *testing.T) {
	rt, _ := enginetest.NewSimRuntime(t, 2, false)
	p := PerLoop[int]{New: func() int { return 10 }}
	for range 3 {
		for i := range rt.Loops() {
			l := rt.Loop(i)
			engine.GoOn(l, func() { *p.Get() += 1 + l.Index() }).Join()
		}
	}
	for i := range rt.Loops() {
		l := rt.Loop(i)
		engine.GoOn(l, func() {
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
