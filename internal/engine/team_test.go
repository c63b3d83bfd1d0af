package engine

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

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
