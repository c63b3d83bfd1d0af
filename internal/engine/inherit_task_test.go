package engine_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/task"
)

// A lockKind is a kind of lock that a task holds while it does something, and others wait for.
type lockKind struct {
	name string
	lock func() (hold func(fn func()), wait func())
}

var lockKinds = []lockKind{
	{"Mutex", func() (func(func()), func()) {
		mu := new(task.Mutex)
		return func(fn func()) { mu.Lock(); fn(); mu.Unlock() }, func() { engine.Pass(mu) }
	}},
	{"RWMutex", func() (func(func()), func()) {
		mu := new(task.RWMutex)
		return func(fn func()) { mu.Lock(); fn(); mu.Unlock() }, func() { engine.Pass(mu.RLocker()) }
	}},
	{"RWMutex for writing", func() (func(func()), func()) {
		mu := new(task.RWMutex)
		return func(fn func()) { mu.Lock(); fn(); mu.Unlock() }, func() { engine.Pass(mu) }
	}},
	{"Once", func() (func(func()), func()) {
		o := new(task.Once)
		return o.Do, func() { o.Do(func() {}) }
	}},
	{"a chain", func() (func(func()), func()) {
		var a, b task.Mutex
		return func(fn func()) { a.Lock(); fn(); a.Unlock() }, func() {
			between := engine.Go(func() { b.Lock(); engine.Pass(&a); b.Unlock() })
			engine.Sleep(time.Millisecond)
			engine.Pass(&b)
			between.Join()
		}
	}},
}

// Tasks that wait for what a task holds do not wait for a policy that holds the task back: whether
// they come before it is ready or after, and wherever they run.
func TestAwaitedTasksAreNotHeldBack(t *testing.T) {
	for _, kind := range lockKinds {
		for _, from := range []string{"the same loop", "another loop", "a goroutine"} {
			for _, before := range []bool{true, false} {
				name := kind.name + " from " + from
				if !before {
					name += ", when it is ready"
				}
				if from == "a goroutine" && (!before || kind.name == "a chain") {
					continue // the clock does not wait for goroutines
				}
				t.Run(name, func(t *testing.T) { engine.TestAwaited(t, kind.lock, from, before) })
			}
		}
	}
}

// The counts come out even, whatever locks, waits, gives up and unlocks.
func TestAwaitedCountsAreEven(t *testing.T) {
	rnd := engine.NewRand(t)
	for range 20 {
		rt, _ := engine.NewSimRuntime(t, 2, true)
		var mu [3]task.Mutex
		var rw task.RWMutex
		var once task.Once
		seeds := make([]uint64, 60)
		for i := range seeds {
			seeds[i] = rnd.Uint64()
		}
		var tasks sync.Map
		engine.Everyone(t, rt, len(seeds), func(i int) {
			if k := engine.Current(); k != nil {
				tasks.Store(k, nil)
			}
			for s := seeds[i]; s > 0; s >>= 4 {
				m := &mu[s%3]
				switch s % 16 {
				case 0, 1, 2, 3, 4:
					m.Lock()
					engine.Sleep(time.Microsecond)
					m.Unlock()
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
					rw.Lock()
					engine.Yield()
					rw.Unlock()
				case 11, 12:
					rw.RLock()
					engine.Yield()
					rw.RUnlock()
				case 13:
					once.Do(func() { engine.Sleep(time.Millisecond) })
				default:
					engine.Yield()
				}
			}
		})
		tasks.Range(func(k, _ any) bool {
			testenv.Equal(t, k.(*engine.Task).Awaited(), 0, "a task is awaited for N locks in the end")
			return true
		})
		rt.Close()
	}
}
