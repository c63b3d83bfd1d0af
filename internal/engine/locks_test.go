package engine_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/enginetest"
	"github.com/capriccio-go/capriccio/internal/recorder"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/task"
)

// Those that wait when a lock turns out to limit the program are too late. Later ones go first, but for one
// turn in 64; then it is as before.
func TestTheNewestGetALockThatLimits(t *testing.T) {
	var mu task.Mutex
	s := task.NewSemaphore(1)
	t.Run("mutex", func(t *testing.T) { engine.TestNewestGoFirst(t, engine.ReasonMutex, mu.Lock, mu.Unlock) })
	t.Run("semaphore", func(t *testing.T) {
		engine.TestNewestGoFirst(t, engine.ReasonSemaphore, func() { s.Acquire(1) }, func() { s.Release(1) })
	})
}

// A task that has come back from a Cond, and waits for one again without having unlocked its lock or woken
// anybody, was woken for nothing, and the policy is told so. Any other was not.
func TestWokenForNothing(t *testing.T) {
	inCohorts, passed := engine.InCohorts(t, true, 4)
	rt, _ := enginetest.NewSimRuntime(t, 1, true, inCohorts)
	var mu task.Mutex
	var plain sync.Mutex
	var rw task.RWMutex
	var sleeper *engine.Waiter // nil: has been woken
	wake := func() {
		w := sleeper
		sleeper = nil
		w.Wake()
	}
	other := task.NewCond(&mu)
	for name, c := range map[string]struct {
		l       sync.Locker
		between func() // two waits
		want    int    // batches of which the policy hears so
	}{
		"nothing":                   {&mu, func() {}, 1},
		"nothing, other lock":       {&plain, func() {}, 0}, // not known
		"nothing, RWMutex":          {&rw, func() {}, 0},
		"unlocked":                  {&mu, func() { mu.Unlock(); mu.Lock() }, 0},
		"locked another":            {&mu, func() { new(task.Mutex).Lock() }, 0},
		"a signal":                  {&mu, other.Signal, 0},
		"a signal without a waiter": {&mu, task.NewCond(&mu).Signal, 1},
		"another wake":              {&mu, wake, 0},
		"another wait":              {&mu, func() { engine.Sleep(1) }, 0},
		"a yield":                   {&mu, engine.Yield, 0},
	} {
		for wait, fn := range map[string]func(*task.Cond) error{
			"Wait":        func(c *task.Cond) error { c.Wait(); return nil },
			"WaitContext": func(c *task.Cond) error { return c.WaitContext(t.Context()) },
		} {
			t.Run(name+","+wait, func(t *testing.T) {
				enginetest.Run(t, rt, func() {
					cond := task.NewCond(c.l)
					var wg task.WaitGroup
					waits := 0 // also says that the last has begun, as there is one loop
					others := false
					wg.Go(func() {
						mu.Lock()
						others = true
						other.Wait()
						mu.Unlock()
					})
					wg.Go(func() {
						sleeper = engine.Self()
						sleeper.Wait(engine.ReasonRead, enginetest.Anywhere{})
					})
					enginetest.Until(func() bool { return others && sleeper != nil })
					wg.Go(func() {
						c.l.Lock()
						waits++
						testenv.Check(t, fn(cond))
						c.between()
						waits++
						testenv.Check(t, fn(cond))
						c.l.Unlock()
					})
					passed() // forget the earlier ones
					for n := 1; n <= 2; n++ {
						enginetest.Until(func() bool { return waits == n })
						cond.Signal()
					}
					other.Signal()
					if sleeper != nil {
						wake()
					}
					wg.Wait()
					want := slices.Repeat([]recorder.NodeID{recorder.NodeID(engine.ReasonCond)}, c.want)
					testenv.EqualSlices(t, passed(), want, "nodes where a task was woken for nothing")
				})
			})
		}
	}
}

// holdBy returns a function that holds l while fn runs.
func holdBy(l sync.Locker) func(fn func()) {
	return func(fn func()) {
		l.Lock()
		fn()
		l.Unlock()
	}
}

// Tasks that wait for what a task holds do not wait for a policy that holds the task back: whether
// they come before it is ready or after, and wherever they run.
func TestAwaitedTasksAreNotHeldBack(t *testing.T) {
	for name, lock := range map[string]func() (hold func(fn func()), wait func()){
		"Mutex": func() (func(func()), func()) {
			mu := new(task.Mutex)
			return holdBy(mu), func() { testenv.Pass(mu) }
		},
		"RWMutex": func() (func(func()), func()) {
			mu := new(task.RWMutex)
			return holdBy(mu), func() { testenv.Pass(mu.RLocker()) }
		},
		"RWMutex for writing": func() (func(func()), func()) {
			mu := new(task.RWMutex)
			return holdBy(mu), func() { testenv.Pass(mu) }
		},
		"Once": func() (func(func()), func()) {
			o := new(task.Once)
			return o.Do, func() { o.Do(func() {}) }
		},
		"a chain": func() (func(func()), func()) {
			var a, b task.Mutex
			return holdBy(&a), func() {
				between := engine.Go(func() { b.Lock(); testenv.Pass(&a); b.Unlock() })
				engine.Sleep(time.Millisecond)
				testenv.Pass(&b)
				between.Join()
			}
		},
	} {
		for _, from := range []string{"the same loop", "another loop", "a goroutine"} {
			t.Run(name+" from "+from, func(t *testing.T) {
				if from == "a goroutine" && name == "a chain" {
					return // the clock does not wait for goroutines
				}
				engine.TestAwaited(t, lock, from, true)
				if from != "a goroutine" {
					engine.TestAwaited(t, lock, from, false)
				}
			})
		}
	}
}

// The counts come out even, whatever locks, waits, gives up and unlocks.
func TestAwaitedCountsAreEven(t *testing.T) {
	rnd := engine.NewRand(t)
	for range 20 {
		rt, _ := enginetest.NewSimRuntime(t, 2, true)
		var mu [3]task.Mutex
		var rw task.RWMutex
		var once task.Once
		seeds := make([]uint64, 60)
		for i := range seeds {
			seeds[i] = rnd.Uint64()
		}
		var tasks sync.Map
		enginetest.Everyone(t, rt, len(seeds), func(i int) {
			if k := engine.Current(); k != nil {
				tasks.Store(k, nil)
			}
			for s := seeds[i]; s > 0; s >>= 4 {
				m := &mu[s%3]
				switch s % 16 {
				case 0, 1, 2, 3, 4:
					holdBy(m)(func() { engine.Sleep(time.Microsecond) })
				case 5, 6, 7:
					ctx, cancel := context.WithTimeout(context.Background(), time.Nanosecond)
					engine.Under(ctx, func() error {
						if m.LockContext(context.Background()) == nil {
							m.Unlock()
						}
						return nil
					})
					cancel()
				case 8, 9, 10:
					holdBy(&rw)(engine.Yield)
				case 11, 12:
					holdBy(rw.RLocker())(engine.Yield)
				case 13:
					once.Do(func() { engine.Sleep(time.Millisecond) })
				default:
					engine.Yield()
				}
			}
		})
		for k := range tasks.Range {
			testenv.Equal(t, k.(*engine.Task).Awaited(), 0, "a task is awaited for N locks in the end")
		}
		rt.Close()
	}
}
