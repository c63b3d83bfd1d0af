package task

import (
	"fmt"

	"github.com/capriccio-go/capriccio/internal/engine"
)

// A WaitGroup waits for a number of tasks or goroutines to be done. The zero value
// counts 0. It must not be copied after first use.
type WaitGroup struct {
	g       engine.Guard
	count   int               // guarded by g
	waiters engine.WaiterList // guarded by g
}

// Add adds n, which may be negative, to the count, and wakes all that wait if it is
// then 0. It panics if the count becomes negative. It never parks.
func (wg *WaitGroup) Add(n int) {
	l := wg.g.Enter()
	wg.count += n
	if wg.count < 0 {
		count := wg.count
		wg.count -= n
		wg.g.Exit(l)
		panic(fmt.Sprintf("task: WaitGroup count is %d; want it never below 0", count))
	}
	var all engine.WakeChain
	if wg.count == 0 {
		all = wg.waiters.TakeAll()
	}
	wg.g.Exit(l)
	all.WakeFrom(l)
}

// Done is Add(-1).
func (wg *WaitGroup) Done() { wg.Add(-1) }

// Wait parks until the count is 0. It does not end when the calling task is cancelled.
func (wg *WaitGroup) Wait() {
	l := wg.g.EnterToWait()
	if wg.count == 0 {
		wg.g.Exit(l)
		return
	}
	w := engine.SelfOn(l)
	wg.waiters.Push(w)
	wg.g.Exit(l)
	w.WaitFully(engine.ReasonWaitGroup, (*waitGroupPoint)(wg))
}

// Go runs fn as a new task that the group waits for, see the function Go. It never parks.
func (wg *WaitGroup) Go(fn func()) {
	wg.Add(1)
	engine.GoWith(engine.Options{Dropped: wg.Done, Inner: fn}, func() {
		defer wg.Done()
		engine.Outside(engine.CallPlain, fn)
	})
}

// A waitGroupPoint is a WaitGroup as something to wait on.
type waitGroupPoint WaitGroup

// DescribeWait reports how many are not done.
func (p *waitGroupPoint) DescribeWait() string {
	wg := (*WaitGroup)(p)
	l := wg.g.Enter()
	defer wg.g.Exit(l)
	return fmt.Sprintf("WaitGroup %p: %d not done", wg, wg.count)
}

// Withdraw implements WaitPoint.
func (p *waitGroupPoint) Withdraw(w *engine.Waiter) bool {
	wg := (*WaitGroup)(p)
	l := wg.g.Enter()
	defer wg.g.Exit(l)
	return wg.waiters.Remove(w)
}
