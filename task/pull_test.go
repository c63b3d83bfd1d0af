package task

import (
	"context"
	"errors"
	"iter"
	"sync"
	"testing"

	"github.com/capriccio-go/capriccio/internal/coro"
	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/enginetest"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/stackchunk"
)

// pulls runs the test with one loop and with two.
func pulls(t *testing.T, test func(t *testing.T, rt *engine.Runtime)) {
	if !coro.Exact {
		t.Skip("what pulls is not known without the assembly stubs")
	}
	for _, n := range []int{1, 2} {
		test(t, enginetest.NewRuntime(t, n, enginetest.PanicsPass))
	}
}

// An iterator that waits, pulled by a task, waits as that task and stops no loop.
func TestPullOfAnIteratorThatWaits(t *testing.T) {
	pulls(t, func(t *testing.T, rt *engine.Runtime) {
		c := NewChan[int](0)
		var mu Mutex
		me := rt.Go(func() {
			self := engine.Current()
			next, stop := iter.Pull(func(yield func(int) bool) {
				for v := range c.All() {
					testenv.Equal(t, engine.Current(), self, "the iterator does not run as its task")
					engine.Sleep(1)
					mu.Lock()
					engine.Yield()
					mu.Unlock()
					stackchunk.Call(100<<10, engine.Yield)
					engine.Offload(func() {})
					if !yield(v) {
						return
					}
				}
			})
			defer stop()
			for want := range 50 {
				if v, ok := next(); v != want || !ok {
					t.Errorf("pulled %d, %v, want %d", v, ok, want)
				}
				mu.Lock()
				engine.Yield()
				mu.Unlock()
			}
			if _, ok := next(); ok {
				t.Error("one too many")
			}
		})
		enginetest.Run(t, rt, func() {
			for i := range 50 {
				mu.Lock()
				engine.Yield()
				mu.Unlock()
				c.Send(i)
			}
			c.Close()
		})
		testenv.Check(t, me.Join())
	})
}

func TestShutdownUnwindsPulls(t *testing.T) {
	if !coro.Exact {
		t.Skip("what pulls is not known without the assembly stubs")
	}
	rt, check := enginetest.Closing(t, 2, enginetest.ShortGrace)
	var mu Mutex
	mu.Lock()
	var once sync.WaitGroup
	once.Add(3)
	for range 3 {
		rt.Go(func() {
			defer once.Done()
			next, stop := iter.Pull(func(yield func(int) bool) { mu.Lock(); yield(1) })
			defer stop()
			next()
			t.Error("came back")
		})
	}
	enginetest.WaitParked(t, rt, 3, engine.ReasonMutex)
	rt.Close()
	once.Wait()
	check()
}

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
