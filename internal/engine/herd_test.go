package engine

import (
	"slices"
	"sync"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// The policy hears of a task that yields again and again at one place, also if that had a grant, but not of one
// that yields elsewhere or waits.
func TestPolicyHearsOfYields(t *testing.T) {
	for _, most := range []int{0, 4} {
		var p *grantPolicy
		rt, _ := newSimRuntime(t, 1, true, inCohorts(t, &p, true, most))
		yields := NodeID(ReasonYield)
		run(t, rt, func() {
			var wg WaitGroup
			for c, does := range map[int]func(int){
				0: func(int) {},
				1: func(int) { Yield() },
				2: func(i int) {
					if i%2 == 0 {
						Yield()
					} else {
						Sleep(1)
					}
				},
			} {
				p.gave = nil
				wg.Go(func() {
					for i := range 10 {
						does(i)
					}
				})
				wg.Wait()
				if c != 1 {
					testenv.EqualSlices(t, p.gave, nil, "case %d, grants of %d: nodes that gave way", c, most)
				} else if len(p.gave) < 2 || p.gave[0] != yields {
					t.Errorf("grants of %d: GaveWay was called for %v, want node %d", most, p.gave, yields)
				}
			}
		})
	}
}

// A task that has come back from a Cond, and waits for one again without having unlocked its lock or woken
// anybody, was woken for nothing, and the policy is told so. Any other was not.
func TestWokenForNothing(t *testing.T) {
	var p *grantPolicy
	rt, _ := newSimRuntime(t, 1, true, inCohorts(t, &p, true, 4))
	var mu Mutex
	var plain sync.Mutex
	var rw RWMutex
	var sleeper *Waiter // nil: has been woken
	wake := func() {
		w := sleeper
		sleeper = nil
		w.Wake()
	}
	other := NewCond(&mu)
	for name, c := range map[string]struct {
		l       sync.Locker
		between func() // two waits
		want    int    // calls of PassOver
	}{
		"nothing":             {&mu, func() {}, 1},
		"nothing, other lock": {&plain, func() {}, 0}, // not known
		"nothing, RWMutex":    {&rw, func() {}, 0},
		"unlocked":            {&mu, func() { mu.Unlock(); mu.Lock() }, 0},
		"locked another":      {&mu, func() { new(Mutex).Lock() }, 0},
		"a signal":            {&mu, other.Signal, 0},
		"a signal to nobody":  {&mu, NewCond(&mu).Signal, 1},
		"another wake":        {&mu, wake, 0},
		"another wait":        {&mu, func() { Sleep(1) }, 0},
		"a yield":             {&mu, Yield, 0},
	} {
		for wait, fn := range map[string]func(*Cond) error{
			"Wait":        func(c *Cond) error { c.Wait(); return nil },
			"WaitContext": func(c *Cond) error { return c.WaitContext(t.Context()) },
		} {
			t.Run(name+","+wait, func(t *testing.T) {
				run(t, rt, func() {
					cond := NewCond(c.l)
					var wg WaitGroup
					waiting := 0
					wg.Go(func() {
						mu.Lock()
						other.Wait()
						mu.Unlock()
					})
					wg.Go(func() {
						sleeper = Self()
						sleeper.Wait(ReasonRead, anywhere{})
					})
					until(func() bool { return other.waiters.head != nil && sleeper != nil })
					wg.Go(func() {
						c.l.Lock()
						for waiting < 2 {
							if waiting++; waiting == 2 {
								c.between()
							}
							testenv.Check(t, fn(cond))
						}
						c.l.Unlock()
					})
					p.passed = nil
					for n := 1; n <= 2; n++ {
						until(func() bool { return waiting == n && cond.waiters.head != nil })
						cond.Signal()
					}
					other.Signal()
					if sleeper != nil {
						wake()
					}
					wg.Wait()
					want := slices.Repeat([]NodeID{NodeID(ReasonCond)}, c.want)
					testenv.EqualSlices(t, p.passed, want, "nodes passed over")
				})
			})
		}
	}
}
