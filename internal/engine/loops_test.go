package engine

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/admit"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// withProcs is a runtime for n processors at first, with two loops to spare.
func withProcs(t testing.TB, n int32, hold time.Duration) (*Runtime, *atomic.Int32) {
	procs := new(atomic.Int32)
	procs.Store(n)
	rt, _ := newSimRuntime(t, 0, false, func(c *Config) {
		c.Spare, c.HoldLimit = 2, hold
		c.Procs = func() int { return int(procs.Load()) }
	})
	return rt, procs
}

// TestLoopsFollowTheProcessors: what comes new goes to as many loops as there are processors.
func TestLoopsFollowTheProcessors(t *testing.T) {
	rt, procs := withProcs(t, 2, -1)
	testenv.MustEqual(t, rt.Loops(), 4, "loops")
	for _, c := range []struct {
		procs int32
		want  int
	}{{2, 2}, {1, 1}, {0, 1}, {4, 4}, {100, 4}, {3, 3}, {-1, 1}} {
		procs.Store(c.procs)
		before, grown := rt.Working(), rt.Grown()
		rt.Follow()
		testenv.Equal(t, rt.Working(), c.want, "%d processors: N loops work", c.procs)
		testenv.Equal(t, grown.Err() != nil, rt.Working() > before, "%d processors, %d loops worked before: that there are more is told", c.procs, before)
		met := make(map[int]bool)
		for range 4 * rt.Loops() {
			met[rt.NextLoop().Index()] = true
		}
		testenv.Equal(t, len(met), c.want, "loops that get work")
		for i := range rt.Loops() {
			testenv.Equal(t, met[i], i < c.want, "%d loops work: loop %d gets work", c.want, i)
			if stands := rt.Loop(i).ForNewWork().Index(); i < c.want {
				testenv.Equal(t, stands, i, "stands for itself")
			} else {
				testenv.AtMost(t, stands, c.want-1, "stands for loop %d, which does not work", i)
			}
		}
	}
}

// TestLoopsThatDoNotWorkStealNothing: tasks that are there stay, but no others come.
func TestLoopsThatDoNotWorkStealNothing(t *testing.T) {
	rt, procs := withProcs(t, 4, -1)
	stays := GoOn(rt.Loop(3), func() { Await(rt.Grown()) })
	waitParked(t, rt, 1, ReasonContext)
	procs.Store(1)
	rt.Follow()
	run(t, rt, func() {
		var all []*Task
		for range 10 {
			all = append(all, Go(func() {
				testenv.Equal(t, here().index, 0, "a task runs on loop N, which does not work")
			}))
		}
		for i := 1; i < 4; i++ {
			testenv.Equal(t, rt.steal(rt.Loop(i)), false, "loop %d, which does not work, has stolen tasks", i)
		}
		joinAll(t, all)
	})
	procs.Store(2)
	rt.Follow()
	testenv.Check(t, stays.Join())
}

// TestWatchdogLooksForProcessors: once a second, while there is work.
func TestWatchdogLooksForProcessors(t *testing.T) {
	rt, procs := withProcs(t, 2, -1) // the test looks in its place
	now := time.Now()
	for _, c := range []struct {
		after time.Duration
		procs int32
		want  int
	}{{0, 3, 3}, {followEvery - 1, 1, 3}, {1, 1, 1}, {followEvery, 4, 4}} {
		now = now.Add(c.after)
		procs.Store(c.procs)
		rt.watch.look(now)
		testenv.Equal(t, rt.Working(), c.want, "%v later: N loops work", c.after)
	}
	run(t, rt, func() {})
	procs.Store(3)
	var steps uint64 // while loops are awake for moments only it does not look at them
	testenv.Equal(t, rt.watch.worked(&steps, now.Add(followEvery)), true, "it looks at work for moments")
	testenv.Equal(t, rt.Working(), 3, "work for moments: N loops work")
	fixed := newRuntime(t, 3)
	fixed.Follow()
	testenv.Equal(t, fixed.Working(), 3, "of three loops that were asked for N work")
	testenv.Check(t, context.Cause(fixed.Grown()), "a number that is fixed has grown")
}

func resource(t *testing.T, name string) *admit.Resource {
	t.Helper()
	return testenv.Need(admit.NewResource(name, ""))(t)
}

// What tasks of several loops and plain goroutines take adds up, while the loops run
// and after they have ended.
func TestResourceTotals(t *testing.T) {
	r := resource(t, "totals")
	taken, given := r.Totals()
	for _, loops := range []int{1, 2, 8} {
		rt, _ := newSimRuntime(t, loops, false)
		joined := spread(t, rt, 40, func(i int) {
			Acquire(r, 5)
			Yield()
			Release(r, int64(i%3))
			Release(r, 1)
		})
		for range 40 {
			Acquire(r, 2)
			Acquire(r, 1)
		}
		joined()
		taken += 40 * (5 + 2 + 1)
		given += 39 + 40
		for _, when := range []string{"open", "closed"} {
			a, b := r.Totals()
			testenv.Equal(t, a, taken, "%d loops, %s: taken", loops, when)
			testenv.Equal(t, b, given, "%d loops, %s: given", loops, when)
			testenv.Equal(t, r.InUse(), int64(taken-given), "%d loops, %s: in use", loops, when)
			rt.Close()
		}
	}
}

func TestResourceCountsAreNotNegative(t *testing.T) {
	r := resource(t, "negative")
	for name, call := range map[string]func(*admit.Resource, int64){"Acquire(-1)": Acquire, "Release(-1)": Release} {
		v := testenv.MustPanic(t, name, func() { call(r, -1) })
		testenv.Contains(t, fmt.Sprint(v), name)
	}
	testenv.Equal(t, r.InUse(), 0, "in use")
}

// A runtime counts what its own tasks take and give, and what plain goroutines do while it is there; what was
// in use before counts as taken. Other runtimes show in it only by what they leave in use, and by what there is
// once in a process.
func TestARuntimeCountsForItself(t *testing.T) {
	r := resource(t, "own")
	want := func(rt *Runtime, taken, given uint64) {
		t.Helper()
		a, b := rt.Books().Totals(r)
		testenv.Equal(t, a, taken, "taken")
		testenv.Equal(t, b, given, "given")
		testenv.Equal(t, rt.Books().InUse(r), int64(taken-given), "in use")
	}
	Acquire(r, 7)
	Release(r, 6)
	one, two := oneOfMany(t, 2), oneOfMany(t, 1)
	want(one, 1, 0)
	run(t, one, func() { Acquire(r, 10); Release(r, 4); Progress(3) })
	want(one, 11, 4)
	want(two, 1, 0)
	testenv.Equal(t, one.Done(), 3, "done by one")
	testenv.Equal(t, two.Done(), 0, "done by two")
	Acquire(r, 2)
	want(one, 13, 4)
	want(two, 3, 0)
	one.Close()
	want(one, 13, 4)
	want(two, 9, 0) // 6 are left
	Release(r, 9)
	want(two, 9, 9)
	testenv.Equal(t, r.InUse(), 0, "in use")
	three := oneOfMany(t, 1)
	want(three, 0, 0)
	testenv.Equal(t, three.Counts(r), false, "three counts it")
	testenv.Equal(t, two.Counts(r), true, "two counts it")
	testenv.Equal(t, three.Counts(Tasks), true, "three counts Tasks")
	before := three.Books().InUse(Descriptors)
	run(t, two, func() { Acquire(Descriptors, 5) })
	testenv.Equal(t, three.Books().InUse(Descriptors), before+5, "descriptors in use")
	Release(Descriptors, 5)
}
