package engine

import "fmt"

// A WaitGroup waits for a number of tasks or goroutines to be done. The zero value
// counts 0. It must not be copied after first use.
type WaitGroup struct {
	g       guard
	count   int        // guarded by g
	waiters waiterList // guarded by g
}

// Add adds n, which may be negative, to the count, and wakes all that wait if it is
// then 0. It panics if the count becomes negative.
func (wg *WaitGroup) Add(n int) {
	l := here()
	wg.g.enter(l)
	wg.count += n
	if wg.count < 0 {
		count := wg.count
		wg.count -= n
		wg.g.exit(l)
		panic(fmt.Sprintf("task: WaitGroup count is %d; want it never below 0", count))
	}
	var all wakeChain
	if wg.count == 0 {
		all = wg.waiters.takeAll()
	}
	wg.g.exit(l)
	all.wakeFrom(l)
}

// Done takes 1 off the count.
func (wg *WaitGroup) Done() { wg.Add(-1) }

// Wait parks until the count is 0. It does not end when the calling task is cancelled.
func (wg *WaitGroup) Wait() {
	l := comeBack()
	wg.g.enter(l)
	if wg.count == 0 {
		wg.g.exit(l)
		return
	}
	w := Self()
	wg.waiters.push(w)
	wg.g.exit(l)
	w.waitFully(ReasonWaitGroup, (*waitGroupPoint)(wg))
}

// Go runs fn as a new task that the group waits for, see the function Go.
func (wg *WaitGroup) Go(fn func()) {
	wg.Add(1)
	goWith(Options{Dropped: wg.Done, inner: fn}, func() {
		defer wg.Done()
		Outside(callPlain, fn)
	})
}

// A waitGroupPoint is a WaitGroup as something to wait on.
type waitGroupPoint WaitGroup

// DescribeWait reports how many are not done.
func (p *waitGroupPoint) DescribeWait() string {
	wg, l := (*WaitGroup)(p), here()
	wg.g.enter(l)
	defer wg.g.exit(l)
	return fmt.Sprintf("WaitGroup %p: %d not done", wg, wg.count)
}

// Withdraw implements WaitPoint.
func (p *waitGroupPoint) Withdraw(w *Waiter) bool {
	wg, l := (*WaitGroup)(p), here()
	wg.g.enter(l)
	defer wg.g.exit(l)
	return wg.waiters.remove(w)
}
