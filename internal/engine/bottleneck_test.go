package engine

import (
	"context"
	"maps"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/admit"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// A limiter admits all tasks and sends the same number to each bottleneck.
type limiter struct {
	limit   int
	waiting []int // by bottleneck, at the last look
	afresh  bool  // likewise, of the first
}

func (*limiter) Next(_ time.Duration, _ int, q *admit.QueueState) admit.Verdict {
	if q.Full {
		return admit.Defer
	}
	return admit.Admit
}

func (*limiter) Left(time.Duration, int) {}

func (a *limiter) Limit(_ time.Duration, bottleneck int, q admit.BacklogState) int {
	for bottleneck >= len(a.waiting) {
		a.waiting = append(a.waiting, 0)
	}
	a.waiting[bottleneck] = q.Waiting
	if bottleneck == 0 {
		a.afresh = q.Afresh
	}
	return a.limit
}

// A crowd are tasks of a loop with a graph and a limiter. They come to an entrance.
type crowd struct {
	t    *testing.T
	l    *Loop
	e    *Entrance
	wg   WaitGroup
	open []*WaitGroup // for which tasks wait, each for its own
}

type work struct{ kind, detail uint32 }

func withCrowd(t *testing.T, a *limiter, main func(c *crowd)) {
	t.Helper()
	c := &crowd{t: t, e: entrance(t, "test")}
	rt, _ := newSimRuntime(t, 1, true, admission(a), learn(newGraph()))
	run(t, rt, func() {
		c.l = rt.Loop(0)
		main(c)
		c.wg.Wait()
	})
}

// start starts n tasks and lets the loop look at its bottlenecks.
func (c *crowd) start(n int, fn func(i int)) {
	for i := range n {
		c.wg.Go(func() { fn(i) })
	}
	c.look()
}

func (c *crowd) look() { Sleep(2 * lookEvery) }

// come has n tasks of each kind of work enter, say what they do, and do it.
func (c *crowd) come(n int, do func(work), all ...work) {
	c.start(n*len(all), func(i int) {
		c.e.Enter()
		defer c.e.Leave()
		w := all[i%len(all)]
		testenv.Check(c.t, c.e.As(w.kind, w.detail))
		do(w)
	})
}

// waitForOwn waits for what no other task waits for, until openAll is called.
func (c *crowd) waitForOwn(work) {
	own := new(WaitGroup)
	own.Add(1)
	c.open = append(c.open, own)
	own.Wait()
}

func (c *crowd) openAll() {
	for _, own := range c.open {
		own.Done()
	}
	c.look()
}

func (c *crowd) watch(why Reason) { c.l.Watch(nodeOf(c.l, why)) }

// has checks how many bottlenecks there are, and how many tasks are at the last one, of one thing or all at the node.
func (c *crowd) has(bottlenecks, inside int, ofOne bool) *admit.Backlog {
	c.t.Helper()
	all := c.l.entry.bottlenecks
	testenv.MustEqual(c.t, len(all), bottlenecks, "bottlenecks")
	b := all[len(all)-1]
	testenv.Equal(c.t, b.backlog.Inside(), inside, "tasks are at the last bottleneck or on the way")
	testenv.Equal(c.t, b.point != nil, ofOne, "it is one thing at the node")
	return b.backlog
}

// testNewestGoFirst has tasks wait, for the given reason, in what take and give surround, see TestTheNewestGetALockThatLimits.
func testNewestGoFirst(t *testing.T, why Reason, take, give func()) {
	const lateTurns = 64        // admit.Backlog.NewestFirst
	const late, fresh = 20, 160 // all turns of the old ones together are fewer than they are
	var want, order []int
	for i, old, young := 0, 0, late+fresh-1; i < late+fresh; i++ {
		if i%lateTurns == 0 {
			want = append(want, old)
			old++
		} else {
			want = append(want, young)
			young--
		}
	}
	a := &limiter{limit: 100}
	withCrowd(t, a, func(c *crowd) {
		started := 0
		pass := func(int) {
			i := started
			started++
			take()
			order = append(order, i)
			give()
		}
		take()
		c.start(late, pass)
		c.watch(why)
		c.look()
		testenv.Equal(t, a.waiting[0], 0, "wait that came in time")
		c.start(fresh, pass)
		testenv.Equal(t, a.waiting[0], fresh, "wait that came in time")
		give()
	})
	testenv.EqualSlices(t, order, want, "the order in which the lock was had")
}

// One lock of two that are taken at the same place limits the program. Work of the same kind that
// needs the other one is told apart by its detail and not touched, as soon as it is known.
func TestALockOfManyThatLimits(t *testing.T) {
	a := &limiter{limit: 1}
	withCrowd(t, a, func(c *crowd) {
		var locks [2]Mutex
		got := [2]int{}
		lock := func(w work) {
			locks[w.detail-1].Lock()
			got[w.detail-1]++
			locks[w.detail-1].Unlock()
		}
		first, second := work{7, 1}, work{7, 2}
		locks[0].Lock()
		c.come(20, lock, first)
		c.watch(ReasonMutex)
		c.watch(ReasonMutex) // again; it is watched already
		c.has(1, 20, true)
		a.limit = 0 // nothing is known yet
		c.look()
		c.come(20, lock, first)
		c.come(20, lock, second)
		a.limit = 1
		c.look()
		c.come(20, lock, first)
		c.come(20, lock, second)
		testenv.Equal(t, got[1], 40, "had the other lock")
		c.has(1, 41, true)
		testenv.Equal(t, c.l.entry.bottlenecks[0].queue.Len(), 19, "wait before the first lock")
		locks[0].Unlock()
		c.wg.Wait()
		testenv.Equal(t, got[0], 60, "had the first lock")
	})
}

// Work of several kinds waits at the same place for things of its own. What most of it does is watched and
// limited, as soon as it is known of more than half of it what that does, and nothing else; of several kinds, each.
func TestAKindOfWorkThatLimits(t *testing.T) {
	for name, x := range map[string]struct {
		then []work   // what piles up after the node is watched
		kind uint32   // what the first bottleneck is
		more []uint32 // what the others are, when the node is watched again
		out  []work   // those kept out when there is a limit
		in   []work   // those let in
	}{
		"one of two":      {then: []work{{2, 2}, {2, 2}, {1, 1}}, kind: 2, out: []work{{2, 2}}, in: []work{{1, 1}}},
		"a detail":        {then: []work{{7, 2}, {7, 2}, {7, 1}}, kind: 2, out: []work{{7, 2}}, in: []work{{7, 1}}},
		"of many details": {then: []work{{7, 2}, {7, 3}, {7, 4}, {7, 5}, {7, 6}, {1, 1}}, kind: 7, out: []work{{7, 2}, {7, 8}}, in: []work{{1, 1}}},
		"three kinds":     {then: []work{{1, 1}, {2, 2}, {3, 3}, {4, 4}, {2, 2}, {3, 3}, {1, 1}}, kind: 2, more: []uint32{3, 1}, out: []work{{1, 1}, {2, 2}, {3, 3}}},
		"too many kinds":  {then: []work{{1, 1}, {2, 2}, {3, 3}, {4, 4}, {5, 5}}, kind: 0, out: []work{{1, 1}, {2, 2}, {3, 3}}},
	} {
		t.Run(name, func(t *testing.T) {
			a := &limiter{}
			withCrowd(t, a, func(c *crowd) {
				waits := map[work]int{}
				wait := func(w work) {
					waits[w]++
					c.waitForOwn(w)
				}
				c.come(9, wait, work{1, 1}) // nothing is known of these
				c.watch(ReasonWaitGroup)
				c.look()
				testenv.Equal(t, a.afresh, true, "afresh, as nothing is known yet")
				c.come(10, wait, x.then...)
				b := c.l.entry.bottlenecks[0].backlog
				testenv.Equal(t, b.Kind(), x.kind, "is the kind that is watched")
				c.look()
				testenv.Equal(t, a.afresh, false, "afresh although nothing has changed")
				for i, kind := range x.more {
					c.l.entry.addedAt = c.l.now - addEvery
					c.watch(ReasonWaitGroup)
					testenv.Equal(t, c.has(i+2, 29, false).Kind(), kind, "is the kind that is watched, too")
				}
				a.limit = 1
				c.look()
				before := maps.Clone(waits)
				c.come(5, wait, append(x.out, x.in...)...)
				for _, k := range x.out {
					testenv.AtMost(t, waits[k]-before[k], 1, "of %v were let in", k)
				}
				for _, k := range x.in {
					testenv.Equal(t, waits[k]-before[k], 5, "of %v were let in", k)
				}
				a.limit = 0
				c.look()
				c.openAll()
				testenv.Equal(t, b.Inside(), 0, "wait at the end")
				if b.Kind() == 0 {
					testenv.Equal(t, b.Known(), 0, "are known at the end")
				}
			})
		})
	}
}

// When one kind of work has become most of what waits at a node that was limited as a whole before, those of all kinds
// that came too late for that limit count no more.
func TestAKindOfWorkIsCountedAfreshAfterALimitOnAll(t *testing.T) {
	a := &limiter{}
	withCrowd(t, a, func(c *crowd) {
		c.come(9, c.waitForOwn, work{1, 0}) // nothing is known of these
		c.watch(ReasonWaitGroup)
		c.look()
		c.come(10, c.waitForOwn, work{1, 0}, work{2, 0}, work{3, 0}, work{4, 0}, work{5, 0})
		b := c.has(1, 59, false)
		testenv.MustEqual(t, b.Kind(), 0, "is the kind that is watched")
		a.limit = 1
		c.look()
		c.look() // without those that have been there
		testenv.Equal(t, a.waiting[0], 0, "wait that came in time")
		a.limit = 0
		c.look()
		c.come(30, c.waitForOwn, work{2, 0})
		testenv.Equal(t, b.Kind(), 2, "is the kind that is watched")
		testenv.Equal(t, a.waiting[0], 49, "wait that came in time")
		c.has(1, 49, false)
		c.openAll()
	})
}

// A task that says twice what it does, as it knows more of it by then, has one place on the way to where there is a limit.
func TestATaskHasOnePlaceOnItsWayToABottleneck(t *testing.T) {
	a := &limiter{}
	withCrowd(t, a, func(c *crowd) {
		var lock Mutex
		wait := func(work) {
			lock.Lock()
			lock.Unlock()
		}
		lock.Lock()
		c.come(20, wait, work{7, 0})
		c.watch(ReasonMutex)
		c.come(20, wait, work{7, 0}) // so it is known where they go
		a.limit = 100
		c.look()
		c.come(5, func(work) {
			testenv.Check(t, c.e.As(7, 8))
			testenv.Equal(t, c.l.cur.extra().work.Heading, 1, "the bottlenecks that it is on the way to, as bits")
			c.has(1, 41, true)
		}, work{7, 0})
		c.has(1, 40, true) // after the others have left
		lock.Unlock()
	})
}

// Of very many tasks only the newest are looked at: then all of the node is watched, once.
func TestWatchingDoesNotLookAtAllTasks(t *testing.T) {
	withCrowd(t, &limiter{limit: 1}, func(c *crowd) {
		var lock Mutex
		var open WaitGroup
		open.Add(1)
		lock.Lock()
		c.start(20, func(int) { lock.Lock(); lock.Unlock() })
		c.start(lookedAt, func(int) { open.Wait() })
		for range 2 {
			c.watch(ReasonMutex)
			c.has(1, 20, false)
		}
		lock.Unlock()
		open.Done()
	})
}

// Tasks that wait for the end of their contexts can be watched, as any others.
func TestWaitsForContextsAreWatched(t *testing.T) {
	withCrowd(t, &limiter{limit: 1}, func(c *crowd) {
		ctx, cancel := context.WithCancel(context.Background())
		c.start(20, func(int) { Await(ctx) })
		c.watch(ReasonContext)
		c.has(1, 20, false)
		cancel()
	})
}
