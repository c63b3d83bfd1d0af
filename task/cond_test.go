package task

import (
	"slices"
	"sync"
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

// under is *v, read under the lock.
func under(l sync.Locker, v *int) int {
	l.Lock()
	defer l.Unlock()
	return *v
}

func TestSignalWakesOneAtATime(t *testing.T) {
	forEachLocker(t, func(t *testing.T, rt *engine.Runtime, l sync.Locker) {
		const n = 6
		c := NewCond(l)
		waiting, awake := 0, 0 // guarded by l
		joined := enginetest.StartAll(t, rt, n, func(int) {
			l.Lock()
			waiting++
			c.Wait()
			awake++
			l.Unlock()
		})
		testenv.Until(t, "all wait", func() bool { return under(l, &waiting) == n })
		for i := range n {
			testenv.MustEqual(t, under(l, &awake), i, "awake after %d signals", i)
			c.Signal()
			testenv.Until(t, "one more is awake", func() bool { return under(l, &awake) > i })
		}
		c.Signal()
		joined()
	})
}

func TestBroadcastWakesAll(t *testing.T) {
	forEachLocker(t, func(t *testing.T, rt *engine.Runtime, l sync.Locker) {
		const n = 12
		c := NewCond(l)
		generation, waiting := 0, 0 // guarded by l
		joined := enginetest.StartAll(t, rt, n, func(int) {
			l.Lock()
			defer l.Unlock()
			for g := range 5 {
				waiting++
				for generation == g {
					c.Wait()
				}
			}
		})
		for g := range 5 {
			testenv.Until(t, "all wait", func() bool { return under(l, &waiting) == n*(g+1) })
			l.Lock()
			generation++
			c.Broadcast()
			l.Unlock()
		}
		joined()
	})
}

func TestCondWakesInOrder(t *testing.T) {
	rt := enginetest.NewRuntime(t, 2)
	var mu Mutex
	c := NewCond(&mu)
	var order []int // guarded by mu
	joined := inTurn(t, rt, 10, engine.ReasonCond, func(i int) {
		mu.Lock()
		defer mu.Unlock()
		c.Wait()
		order = append(order, i)
	})
	for i := range 10 {
		c.Signal()
		testenv.Until(t, "the next is awake", func() bool { mu.Lock(); defer mu.Unlock(); return len(order) == i+1 })
	}
	joined()
	testenv.Equal(t, slices.IsSorted(order), true, "in the order of the waits: %v", order)
}
