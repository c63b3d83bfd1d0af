package task

import (
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
