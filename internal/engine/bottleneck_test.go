package engine

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/bgraph"
	"github.com/capriccio-go/capriccio/internal/admit"
	"github.com/capriccio-go/capriccio/internal/recorder"
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

// withLimiter runs main on a loop with a graph.
func withLimiter(t *testing.T, a *limiter, main func(l *Loop, look func())) {
	t.Helper()
	rt, _ := newSimRuntime(t, 1, true, func(c *Config) {
		c.NewAdmission = func(*Loop) Admission { return a }
		c.Graph = recorder.New(bgraph.Config{})
	})
	run(t, rt, func() {
		main(rt.Loop(0), func() { Sleep(2 * lookEvery) })
	})
}

// testNewestGoFirst has tasks wait, for the given reason, in what take and give surround, see TestTheNewestGetALockThatLimits.
func testNewestGoFirst(t *testing.T, why Reason, take, give func()) {
	const lateTurns = 64        // admit.Backlog.NewestFirst
	const late, fresh = 20, 160 // all turns of the old ones together are fewer than they are
	var want []int
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
	var order []int
	withLimiter(t, a, func(l *Loop, look func()) {
		var wg WaitGroup
		come := func(from, to int) {
			for i := from; i < to; i++ {
				wg.Go(func() {
					take()
					order = append(order, i)
					give()
				})
			}
			look()
		}
		take()
		come(0, late)
		l.Watch(nodeOf(l, why))
		look()
		testenv.Equal(t, a.waiting[0], 0, "wait that came in time")
		come(late, late+fresh)
		testenv.Equal(t, a.waiting[0], fresh, "wait that came in time")
		give()
		wg.Wait()
	})
	if !slices.Equal(order, want) {
		t.Errorf("the lock was had in the order\n%v, want\n%v", order, want)
	}
}

// One lock of two that are taken at the same place limits the program. Work of the same kind that
// needs the other one is told apart by its detail and not touched, as soon as it is known.
func TestALockOfManyThatLimits(t *testing.T) {
	e := entrance(t, "test")
	a := &limiter{limit: 1}
	withLimiter(t, a, func(l *Loop, look func()) {
		var locks [2]Mutex
		var wg WaitGroup
		got := [2]int{}
		come := func(k int, n int) {
			for range n {
				wg.Go(func() {
					e.Enter()
					defer e.Leave()
					if err := e.As(7, uint32(k+1)); err != nil {
						t.Error(err)
						return
					}
					locks[k].Lock()
					got[k]++
					locks[k].Unlock()
				})
			}
			look()
		}
		locks[0].Lock()
		come(0, 20)
		l.Watch(nodeOf(l, ReasonMutex))
		l.Watch(nodeOf(l, ReasonMutex)) // again; it is watched already
		if len(l.entry.bottlenecks) != 1 || l.entry.bottlenecks[0].backlog.Inside() != 20 {
			t.Fatalf("%d bottlenecks, %d wait at the first; want 1 and 20", len(l.entry.bottlenecks), l.entry.bottlenecks[0].backlog.Inside())
		}
		a.limit = 0 // nothing is known yet
		look()
		come(0, 20)
		come(1, 20)
		a.limit = 1
		look()
		come(0, 20)
		come(1, 20)
		if b := l.entry.bottlenecks[0]; got[1] != 40 || b.backlog.Inside() != 41 || b.queue.Len() != 19 {
			t.Errorf("%d had the other lock, %d wait for the first, %d before it; want 40, 41 and 19", got[1], b.backlog.Inside(), b.queue.Len())
		}
		locks[0].Unlock()
		wg.Wait()
		testenv.Equal(t, got[0], 60, "had the first lock")
	})
}

// Work of several kinds waits at the same place for things of its own. What most of it does is watched and
// limited, as soon as it is known of more than half of it what that does, and nothing else; of several kinds, each.
func TestAKindOfWorkThatLimits(t *testing.T) {
	e := entrance(t, "test")
	type work struct{ kind, detail uint32 }
	for name, x := range map[string]struct {
		first, then []work   // what piles up when the node is watched, and after that
		kind        uint32   // what the first bottleneck is
		more        []uint32 // what the others are, when the node is watched again
		out         []work   // those kept out when there is a limit
		in          []work   // those let in
	}{
		"one of two":      {then: []work{{2, 2}, {2, 2}, {1, 1}}, kind: 2, out: []work{{2, 2}}, in: []work{{1, 1}}},
		"a detail":        {then: []work{{7, 2}, {7, 2}, {7, 1}}, kind: 2, out: []work{{7, 2}}, in: []work{{7, 1}}},
		"of many details": {then: []work{{7, 2}, {7, 3}, {7, 4}, {7, 5}, {7, 6}, {1, 1}}, kind: 7, out: []work{{7, 2}, {7, 8}}, in: []work{{1, 1}}},
		"three kinds":     {then: []work{{1, 1}, {2, 2}, {3, 3}, {4, 4}, {2, 2}, {3, 3}, {1, 1}}, kind: 2, more: []uint32{3, 1}, out: []work{{1, 1}, {2, 2}, {3, 3}}},
		"too many kinds":  {then: []work{{1, 1}, {2, 2}, {3, 3}, {4, 4}, {5, 5}}, kind: 0, out: []work{{1, 1}, {2, 2}, {3, 3}}},
	} {
		t.Run(name, func(t *testing.T) {
			a := &limiter{}
			withLimiter(t, a, func(l *Loop, look func()) {
				var wg WaitGroup
				var things []*WaitGroup // that tasks wait for, each for its own
				waits := map[work]int{}
				come := func(n int, all ...work) {
					for range n {
						for _, k := range all {
							wg.Go(func() {
								e.Enter()
								defer e.Leave()
								if err := e.As(k.kind, k.detail); err != nil {
									t.Error(err)
									return
								}
								waits[k]++
								thing := new(WaitGroup)
								thing.Add(1)
								things = append(things, thing)
								thing.Wait()
							})
						}
					}
					look()
				}
				come(9, work{1, 1}) // nothing is known of these
				l.Watch(nodeOf(l, ReasonWaitGroup))
				look()
				if !a.afresh {
					t.Error("not afresh, although nothing is known yet")
				}
				come(10, x.then...)
				b := l.entry.bottlenecks[0].backlog
				testenv.Equal(t, b.Kind(), x.kind, "is the kind that is watched")
				look()
				if a.afresh {
					t.Error("afresh although nothing has changed")
				}
				for i, kind := range x.more {
					l.entry.addedAt = l.now - addEvery
					l.Watch(nodeOf(l, ReasonWaitGroup))
					if n := len(l.entry.bottlenecks); n != i+2 || l.entry.bottlenecks[n-1].backlog.Kind() != kind || l.entry.bottlenecks[n-1].backlog.Inside() != 29 {
						t.Errorf("%d bottlenecks, the last of kind %d with %d tasks; want %d, kind %d, 29", n, l.entry.bottlenecks[n-1].backlog.Kind(), l.entry.bottlenecks[n-1].backlog.Inside(), i+2, kind)
					}
				}
				a.limit = 1
				look()
				before := maps.Clone(waits)
				come(5, append(x.out, x.in...)...)
				for _, k := range x.out {
					testenv.AtMost(t, waits[k]-before[k], 1, "of %v were let in", k)
				}
				for _, k := range x.in {
					testenv.Equal(t, waits[k]-before[k], 5, "of %v were let in", k)
				}
				a.limit = 0
				look()
				for _, thing := range things {
					thing.Done()
				}
				look()
				if b.Inside() != 0 || b.Known() != 0 && b.Kind() == 0 {
					t.Errorf("%d wait and %d are known at the end, want 0", b.Inside(), b.Known())
				}
				wg.Wait()
			})
		})
	}
}

// When one kind of work has become most of what waits at a node that was limited as a whole before, those of all kinds
// that came too late for that limit count no more.
func TestAKindOfWorkIsCountedAfreshAfterALimitOnAll(t *testing.T) {
	e := entrance(t, "test")
	a := &limiter{}
	withLimiter(t, a, func(l *Loop, look func()) {
		var wg WaitGroup
		var things []*WaitGroup // that tasks wait for, each for its own
		come := func(n int, kinds ...uint32) {
			for range n {
				for _, k := range kinds {
					wg.Go(func() {
						e.Enter()
						defer e.Leave()
						if err := e.As(k, 0); err != nil {
							t.Error(err)
							return
						}
						thing := new(WaitGroup)
						thing.Add(1)
						things = append(things, thing)
						thing.Wait()
					})
				}
			}
			look()
		}
		come(9, 1) // nothing is known of these
		l.Watch(nodeOf(l, ReasonWaitGroup))
		look()
		come(10, 1, 2, 3, 4, 5)
		b := l.entry.bottlenecks[0].backlog
		if b.Kind() != 0 || b.Inside() != 59 {
			t.Fatalf("kind %d is watched, %d wait; want all, 59", b.Kind(), b.Inside())
		}
		a.limit = 1
		look()
		look() // without those that have been there
		testenv.Equal(t, a.waiting[0], 0, "wait that came in time")
		a.limit = 0
		look()
		come(30, 2)
		if b.Kind() != 2 || a.waiting[0] != 49 || b.Inside() != 49 {
			t.Errorf("kind %d is watched, %d wait, %d of them came in time; want kind 2, 49 and 49", b.Kind(), b.Inside(), a.waiting[0])
		}
		for _, thing := range things {
			thing.Done()
		}
		wg.Wait()
	})
}

// A task that says twice what it does, as it knows more of it by then, has one place on the way to where there is a limit.
func TestATaskHasOnePlaceOnItsWayToABottleneck(t *testing.T) {
	e := entrance(t, "test")
	a := &limiter{}
	withLimiter(t, a, func(l *Loop, look func()) {
		var lock Mutex
		var wg WaitGroup
		come := func(n int, do func()) {
			for range n {
				wg.Go(func() {
					e.Enter()
					defer e.Leave()
					do()
				})
			}
			look()
		}
		waits := func() {
			testenv.Check(t, e.As(7, 0))
			lock.Lock()
			lock.Unlock()
		}
		lock.Lock()
		come(20, waits)
		l.Watch(nodeOf(l, ReasonMutex))
		come(20, waits) // so it is known where they go
		a.limit = 100
		look()
		come(5, func() {
			for _, detail := range []uint32{0, 8} {
				testenv.Check(t, e.As(7, detail))
			}
			if w := &l.cur.extra().work; w.Heading != 1 {
				t.Errorf("the bottlenecks that it is on the way to are %b, want the first", w.Heading)
			}
			testenv.Equal(t, l.entry.bottlenecks[0].backlog.Inside(), 41, "tasks are there or on the way")
		})
		testenv.Equal(t, l.entry.bottlenecks[0].backlog.Inside(), 40, "tasks are there or on the way after the others have left")
		lock.Unlock()
		wg.Wait()
	})
}

// Of very many tasks only the newest are looked at: then all of the node is watched, once.
func TestWatchingDoesNotLookAtAllTasks(t *testing.T) {
	withLimiter(t, &limiter{limit: 1}, func(l *Loop, look func()) {
		var lock Mutex
		var open, wg WaitGroup
		open.Add(1)
		lock.Lock()
		start := func(n int, wait func()) {
			for range n {
				wg.Go(wait)
			}
			look()
		}
		start(20, func() { lock.Lock(); lock.Unlock() })
		start(lookedAt, open.Wait)
		for range 2 {
			l.Watch(nodeOf(l, ReasonMutex))
			if len(l.entry.bottlenecks) != 1 || l.entry.bottlenecks[0].backlog.Inside() != 20 || l.entry.bottlenecks[0].point != nil {
				t.Errorf("%d bottlenecks, %d wait at the first, for %v; want 1, 20 and all at that node", len(l.entry.bottlenecks), l.entry.bottlenecks[0].backlog.Inside(), l.entry.bottlenecks[0].point)
			}
		}
		lock.Unlock()
		open.Done()
		wg.Wait()
	})
}

// Tasks that wait for the end of their contexts can be watched, as any others.
func TestWaitsForContextsAreWatched(t *testing.T) {
	withLimiter(t, &limiter{limit: 1}, func(l *Loop, look func()) {
		ctx, cancel := context.WithCancel(context.Background())
		var wg WaitGroup
		for range 20 {
			wg.Go(func() { Await(ctx) })
		}
		look()
		l.Watch(nodeOf(l, ReasonContext))
		if len(l.entry.bottlenecks) != 1 || l.entry.bottlenecks[0].backlog.Inside() != 20 || l.entry.bottlenecks[0].point != nil {
			t.Errorf("%d bottlenecks; want 1 with all 20 of them", len(l.entry.bottlenecks))
		}
		cancel()
		wg.Wait()
	})
}
