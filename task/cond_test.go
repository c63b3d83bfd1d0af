package task

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/enginetest"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// forEachLocker runs the test with every kind of lock that a Cond can have.
func forEachLocker(t *testing.T, test func(t *testing.T, rt *engine.Runtime, l sync.Locker)) {
	enginetest.EachLoops(t, func(t *testing.T, rt *engine.Runtime) {
		lockers := map[string]sync.Locker{"Mutex": new(Mutex), "RWMutex": new(RWMutex)}
		if rt.Detaches() { // membarrier(2) can be had: else Cond.Wait may park before it unlocks
			lockers["sync.Mutex"] = new(sync.Mutex)
		}
		for name, l := range lockers {
			t.Run(name, func(t *testing.T) { test(t, rt, l) })
		}
	})
}

func TestSignalWakesOneAtATime(t *testing.T) {
	forEachLocker(t, func(t *testing.T, rt *engine.Runtime, l sync.Locker) {
		const n = 6
		c := NewCond(l)
		waiting, awake := 0, 0 // guarded by l
		var all sync.WaitGroup
		all.Go(func() {
			enginetest.Everyone(t, rt, n, func(int) {
				l.Lock()
				waiting++
				c.Wait()
				awake++
				l.Unlock()
			})
		})
		at := func(v *int) int { l.Lock(); defer l.Unlock(); return *v }
		enginetest.WaitFor(t, "all wait", func() bool { return at(&waiting) == n })
		for i := range n {
			testenv.MustEqual(t, at(&awake), i, "awake after %d signals", i)
			c.Signal()
			enginetest.WaitFor(t, "one more is awake", func() bool { return at(&awake) > i })
		}
		c.Signal()
		all.Wait()
	})
}

func TestBroadcastWakesAll(t *testing.T) {
	forEachLocker(t, func(t *testing.T, rt *engine.Runtime, l sync.Locker) {
		const n = 12
		c := NewCond(l)
		generation, waiting := 0, 0 // guarded by l
		var all sync.WaitGroup
		all.Go(func() {
			enginetest.Everyone(t, rt, n, func(int) {
				l.Lock()
				defer l.Unlock()
				for g := range 5 {
					waiting++
					for generation == g {
						c.Wait()
					}
				}
			})
		})
		for g := range 5 {
			enginetest.WaitFor(t, "all wait", func() bool { l.Lock(); defer l.Unlock(); return waiting == n*(g+1) })
			l.Lock()
			generation++
			c.Broadcast()
			l.Unlock()
		}
		all.Wait()
	})
}

func TestCondWakesInOrder(t *testing.T) {
	rt := enginetest.NewRuntime(t, 2)
	var mu Mutex
	c := NewCond(&mu)
	var order []int // guarded by mu
	var tasks []*engine.Task
	for i := range 10 {
		tasks = append(tasks, engine.GoOn(rt.Loop(i%2), func() {
			mu.Lock()
			defer mu.Unlock()
			c.Wait()
			order = append(order, i)
		}))
		enginetest.WaitParked(t, rt, i+1, engine.ReasonCond)
	}
	for i := range 10 {
		c.Signal()
		enginetest.WaitFor(t, "the next is awake", func() bool { mu.Lock(); defer mu.Unlock(); return len(order) == i+1 })
	}
	for _, k := range tasks {
		k.Join()
	}
	if !slices.Equal(order, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}) {
		t.Errorf("order %v", order)
	}
}

func TestWaitGroupWaitsForAll(t *testing.T) {
	enginetest.EachLoops(t, func(t *testing.T, rt *engine.Runtime) {
		for range 20 {
			var wg WaitGroup
			var done atomic.Int32
			wg.Add(12)
			var waiters sync.WaitGroup
			waiters.Go(func() {
				enginetest.Everyone(t, rt, 6, func(int) {
					wg.Wait()
					testenv.Equal(t, done.Load(), 12, "Wait came back after N of 12")
				})
			})
			enginetest.Everyone(t, rt, 12, func(int) { done.Add(1); wg.Done() })
			waiters.Wait()
		}
	})
}

func TestWaitGroupMisuseAndReuse(t *testing.T) {
	var wg WaitGroup
	wg.Wait()
	enginetest.MustPanic(t, "Done below 0", wg.Done)
	wg.Add(2)
	enginetest.MustPanic(t, "Add below 0", func() { wg.Add(-3) })
	wg.Done()
	wg.Done()
	wg.Wait()
	rt := enginetest.NewRuntime(t, 2, enginetest.PanicsPass)
	enginetest.Run(t, rt, func() {
		for range 3 {
			n := 0
			wg.Go(func() { n++ })
			wg.Go(func() { panic("boom") }) // still counts as done
			wg.Wait()
		}
	})
}

func TestOnceThatPanics(t *testing.T) {
	rt := enginetest.NewRuntime(t, 1)
	enginetest.Run(t, rt, func() {
		for _, end := range []func(){func() { panic("boom") }, runtime.Goexit} {
			var o Once
			engine.Go(func() { defer func() { recover() }(); o.Do(end) }).Join()
			o.Do(func() { t.Error("ran again") })
		}
	})
}

func TestSemaphoreAdmitsItsUnits(t *testing.T) {
	enginetest.EachLoops(t, func(t *testing.T, rt *engine.Runtime) {
		const size = 10
		s := NewSemaphore(size)
		var in atomic.Int64
		enginetest.Everyone(t, rt, 12, func(i int) {
			for k := range 100 {
				n := int64((i*k)%size) + 1
				if k%4 == 0 {
					if !s.TryAcquire(n) {
						continue
					}
				} else if err := s.Acquire(n); err != nil {
					t.Error(err)
				}
				testenv.AtMost(t, in.Add(n), size, "units taken")
				if k%3 == 0 {
					engine.Yield()
				}
				in.Add(-n)
				s.Release(n)
			}
		})
		if !s.TryAcquire(size) {
			t.Error("units were lost")
		}
	})
}

func TestSemaphoreMisuse(t *testing.T) {
	s := NewSemaphore(2)
	if s.Acquire(3) == nil || s.Acquire(-1) == nil || s.TryAcquire(3) || s.TryAcquire(-1) {
		t.Error("impossible amounts were granted")
	}
	testenv.Check(t, s.Acquire(0))
	enginetest.MustPanic(t, "Release of more than was taken", func() { s.Release(1) })
	enginetest.MustPanic(t, "negative size", func() { NewSemaphore(-1) })
}

// When a large request gives up, those behind it that fit are served.
func TestSemaphoreGivesWayAfterCancellation(t *testing.T) {
	rt := enginetest.NewRuntime(t, 2)
	s := NewSemaphore(4)
	s.Acquire(2)
	ctx, cancel := context.WithCancel(context.Background())
	large := engine.GoWith(engine.Options{Context: ctx}, func() {
		testenv.ErrorIs(t, s.Acquire(4), context.Canceled)
	})
	enginetest.WaitParked(t, rt, 1, engine.ReasonSemaphore)
	behind := rt.Go(func() { s.Acquire(2) })
	enginetest.WaitParked(t, rt, 2, engine.ReasonSemaphore)
	cancel()
	large.Join()
	behind.Join()
	s.Release(4)
}

// What is granted to a caller whose context has ended by the time it goes on is given back, as with
// golang.org/x/sync/semaphore; a signal, which can't be, counts.
func TestAGrantAfterTheEndOfTheContext(t *testing.T) {
	rt := enginetest.NewRuntime(t, 1)
	var mu, free Mutex
	s, cond := NewSemaphore(1), NewCond(&free)
	for _, c := range []struct {
		name  string
		hold  func()
		wait  func(ctx context.Context) error
		grant func()
		free  func() bool
		err   error
	}{
		{"Mutex", mu.Lock, mu.LockContext, mu.Unlock, mu.TryLock, context.Canceled},
		{"Semaphore", func() { s.Acquire(1) }, func(ctx context.Context) error { return s.AcquireContext(ctx, 1) },
			func() { s.Release(1) }, func() bool { return s.TryAcquire(1) }, context.Canceled},
		{"Cond", func() {}, func(ctx context.Context) error { free.Lock(); defer free.Unlock(); return cond.WaitContext(ctx) },
			cond.Signal, free.TryLock, nil},
	} {
		enginetest.Run(t, rt, func() {
			ctx, cancel := context.WithCancel(context.Background())
			c.hold()
			var err error
			waiting := engine.Go(func() { err = c.wait(ctx) })
			engine.Yield()
			c.grant() // it is woken, and goes on after the end
			cancel()
			waiting.Join()
			testenv.Equal(t, err, c.err, "%s", c.name)
			testenv.Equal(t, c.free(), true, "%s: free after that", c.name)
		})
	}
}
