package engine

import (
	"context"
	"reflect"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/bgraph"
	"github.com/capriccio-go/capriccio/internal/admit"
	"github.com/capriccio-go/capriccio/internal/recorder"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

const (
	heldNode = recorder.NodeID(ReasonRead)
	heldFor  = 5 * time.Second
)

// holdingRuntime has loops that hold back what has waited for ReasonRead for heldFor.
func holdingRuntime(t *testing.T, loops int) *Runtime {
	rt, _ := newSimRuntime(t, loops, true, func(c *Config) {
		byReason(c, func(l *Loop) Policy {
			return &withholder{may: func(n recorder.NodeID, _ int) bool { return n != heldNode || l.rt.clock.Now() >= heldFor }}
		})
	})
	return rt
}

// park waits for ReasonRead, with w in *where meanwhile.
func park(where **Waiter) {
	w := Self()
	*where = w
	w.WaitFully(ReasonRead, anywhere{})
}

// testAwaited has a task be held back while it holds a lock for which another waits, see TestAwaitedTasksAreNotHeldBack.
func testAwaited(t *testing.T, lock func() (hold func(fn func()), wait func()), from string, before bool) {
	rt := holdingRuntime(t, 2)
	hold, wait := lock()
	var parked *Waiter
	holder := GoOn(rt.Loop(0), func() { hold(func() { park(&parked) }) })
	waitParked(t, rt, 1, ReasonRead)
	waited := make(chan time.Duration, 1)
	waiter := func() {
		began := rt.clock.Now()
		wait()
		waited <- rt.clock.Now() - began
	}
	wakeHolder := func() { onLoop(rt.Loop(0), func(*Loop) bool { parked.Wake(); return true }) }
	if !before {
		wakeHolder()
	}
	switch from {
	case "the same loop":
		GoOn(rt.Loop(0), waiter)
	case "another loop":
		GoOn(rt.Loop(1), waiter)
	default:
		go waiter()
	}
	if before {
		testenv.Until(t, "the holder is awaited", func() bool { return holder.awaited.Load() == 1 })
		wakeHolder()
	}
	testenv.AtMost(t, <-waited, 100*time.Millisecond, "waited for")
	testenv.Check(t, holder.Join())
	testenv.Equal(t, holder.awaited.Load(), 0, "awaited for N locks in the end")
}

// A task that nobody waits for any more, or that has given the lock away, is held back again.
func TestAwaitedNoMore(t *testing.T) {
	for _, unlocked := range []bool{false, true} {
		rt := holdingRuntime(t, 1)
		run(t, rt, func() {
			var mu Mutex
			var parked *Waiter
			holder := Go(func() {
				mu.Lock()
				if unlocked {
					Sleep(2 * time.Millisecond)
					mu.Unlock()
				}
				park(&parked)
			})
			Sleep(time.Millisecond)
			ctx, cancel := context.WithCancel(context.Background())
			waiter := GoWith(Options{Context: ctx}, func() { mu.LockContext(context.Background()) })
			Sleep(time.Millisecond)
			cancel()
			waiter.Join()
			Sleep(3 * time.Millisecond)
			parked.Wake()
			holder.Join()
			testenv.AtLeast(t, rt.clock.Now(), heldFor, "unlocked %v: held back until", unlocked)
		})
	}
}

// Awaited tasks that are ready all the time leave the others half of the steps.
func TestAwaitedTasksLeaveHalfOfTheSteps(t *testing.T) {
	for _, most := range []int{0, 100} {
		var p *nodePolicy
		rt := newRuntime(t, 1, inCohorts(t, &p, true, most))
		run(t, rt, func() {
			var mu Mutex
			awaited, stop := 0, false
			var wg WaitGroup
			wg.Go(func() {
				mu.Lock()
				until(func() bool { return rt.Loop(0).cur.awaited.Load() > 0 })
				for ; !stop; awaited++ {
					Yield()
				}
				mu.Unlock()
			})
			wg.Go(func() { testenv.Pass(&mu) })
			until(func() bool { return awaited > 0 })
			before := awaited
			for range 1000 {
				Yield()
			}
			steps := awaited - before
			stop = true
			wg.Wait()
			testenv.AtLeast(t, steps, 1000/(most+1)-1, "batches of %d: steps of the awaited task beside 1000 of another", most)
			testenv.AtMost(t, steps, 1001, "batches of %d: steps of the awaited task beside 1000 of another", most)
		})
	}
}

// A lock that outlives the task that has locked it counts in whatever has the memory then, and
// comes out even too.
func TestALockLeftLocked(t *testing.T) {
	rt := holdingRuntime(t, 1)
	run(t, rt, func() {
		var mu Mutex
		l := CurrentLoop()
		var first, second *Task
		var parked *Waiter
		l.Start(func() { mu.Lock(); first = l.cur })
		Sleep(time.Millisecond)
		l.Start(func() { second = l.cur; park(&parked) })
		Sleep(time.Millisecond)
		waiter := Go(func() { testenv.Pass(&mu) })
		Sleep(time.Millisecond)
		testenv.MustEqual(t, second, first, "the memory that is used again")
		testenv.MustEqual(t, first.awaited.Load(), 1, "awaited for N locks")
		mu.Unlock()
		waiter.Join()
		testenv.Equal(t, first.awaited.Load(), 0, "awaited for N locks in the end")
		parked.Wake()
	})
}

// What a task leaves behind is not seen by the one that gets its memory, but for the count.
func TestResetTask(t *testing.T) {
	var used Task
	v := reflect.ValueOf(&used).Elem()
	used.fixed, used.recycle, used.cancelled, used.notified = true, true, true, true
	used.why, used.state, used.startsAt, used.id = ReasonRead, stateFinished, 1, 9
	used.wait.Tag, used.wait.task = 3, &used
	used.code = 1
	used.extend().work.Kind = 7
	used.awaited.Store(1)
	var note recorder.Note
	g := recorder.New(bgraph.Config{HeapEvery: -1})
	l := g.Observe(recorder.Loop{Account: new(admit.Account)})
	defer l.Close()
	if l.Meet(&used.rec, &note, ReasonRead, 1, "", nil); used.Node() == recorder.NodeStart {
		t.Error("after a wait the task is where it has started")
	}
	used.reset()
	if !reflect.ValueOf(used.extra()).Elem().IsZero() {
		t.Errorf("the extension is %+v", used.extra())
	}
	for i := range v.NumField() {
		if name := v.Type().Field(i).Name; name != "awaited" && name != "ext" && !v.Field(i).IsZero() {
			t.Errorf("%s is %v", name, v.Field(i))
		}
	}
	testenv.Equal(t, used.awaited.Load(), 1, "the count is gone")
}
