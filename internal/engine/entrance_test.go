package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/admit"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// A room is an Admission that admits at most size tasks, of each queue the newest first if newest is set, and refuses
// all while it is closed.
type room struct {
	admit.Open
	size   int
	inside int
	newest bool
	closed bool
	asked  []admit.QueueState // when a task was admitted
	starts int                // how many may be starting; 0: any number
	calls  int                // of Next

	refusing []int // QueueState.Refusing at each refusal
}

func (r *room) Next(_ time.Duration, _ int, q *admit.QueueState) admit.Verdict {
	r.calls++
	switch {
	case q.Abandoned:
		return admit.Refuse
	case r.starts > 0 && q.Starting >= r.starts:
		return admit.Enough
	case r.closed:
		r.refusing = append(r.refusing, q.Refusing)
		return admit.Refuse
	case r.inside >= r.size:
		return admit.Defer
	}
	r.inside++
	r.asked = append(r.asked, *q)
	if r.newest {
		return admit.AdmitNewest
	}
	return admit.Admit
}

func (r *room) Left(time.Duration, int) { r.inside-- }

// inTasks runs fn in n tasks, which start in order, and waits for them.
func inTasks(rt *Runtime, n int, fn func(i int)) {
	rt.Go(func() {
		var wg WaitGroup
		for i := range n {
			wg.Go(func() { fn(i) })
		}
		wg.Wait()
	}).Join()
}

func entrance(t *testing.T, name string) *Entrance {
	t.Helper()
	return testenv.Need(NewEntrance(name))(t)
}

// atEntrance runs main as a task of a runtime with one loop, where r guards the entrance.
func atEntrance(t *testing.T, r *room, main func(l *Loop, e *Entrance)) {
	t.Helper()
	e := entrance(t, "test")
	rt, _ := newSimRuntime(t, 1, true, admission(r))
	run(t, rt, func() { main(CurrentLoop(), e) })
	testenv.Check(t, rt.Close())
	testenv.Equal(t, r.inside, 0, "are still inside")
}

// startAt starts n tasks at the entrance, numbered from 0, and returns what waits for them.
func startAt(l *Loop, e *Entrance, n int, fn func(i int)) (wait func()) {
	var wg WaitGroup
	wg.Add(n)
	for i := range n {
		l.StartAt(e, 0, 0, nil, func() {
			defer wg.Done()
			fn(i)
		})
	}
	return wg.Wait
}

func inOrder(t *testing.T, order []int, n int) {
	t.Helper()
	testenv.Equal(t, len(order), n, "were let in")
	testenv.Equal(t, slices.IsSorted(order), true, "first come, first served, of %v", order)
}

// A task that has not started waits without a goroutine, and in the same order as one that has.
func TestEntranceLetsInWhoFits(t *testing.T) {
	for _, started := range []bool{true, false} {
		r := &room{size: 3}
		var order []int
		inside, most := 0, 0
		const tasks = 500
		atEntrance(t, r, func(l *Loop, e *Entrance) {
			task := func(i int) {
				if i%7 == 0 && !started {
					return // it does not enter after all
				}
				testenv.Check(t, e.Enter())
				order = append(order, i)
				inside++
				most = max(most, inside)
				Sleep(time.Millisecond)
				inside--
				e.Leave()
			}
			if started {
				var wg WaitGroup
				for i := range tasks {
					wg.Go(func() { task(i) })
				}
				wg.Wait()
				return
			}
			wait := startAt(l, e, tasks, task)
			Yield() // the first are inside
			testenv.AtMost(t, l.Tasks(), 5, "tasks have started")
			testenv.AtLeast(t, l.Unstarted(), tasks-10, "tasks wait, of %d", tasks)
			wait()
			testenv.Equal(t, l.Unstarted(), 0, "in the end N wait")
		})
		testenv.Equal(t, most, 3, "at most N were inside")
		if started {
			inOrder(t, order, tasks)
			testenv.AtLeast(t, r.asked[len(r.asked)-1].Oldest, tasks/3*time.Millisecond, "the last has waited for")
		} else {
			inOrder(t, order, tasks-(tasks+6)/7)
		}
	}
}

// An Admission that lets in a few at a time, until these have begun to run, is asked about once for each.
func TestAnEntranceIsAskedOnceForEach(t *testing.T) {
	r := &room{size: 1000, starts: 4}
	const tasks = 200
	var order []int
	atEntrance(t, r, func(l *Loop, e *Entrance) {
		startAt(l, e, tasks, func(i int) {
			testenv.Check(t, e.Enter())
			order = append(order, i)
			e.Leave()
		})()
	})
	inOrder(t, order, tasks)
	testenv.AtMost(t, r.calls, tasks+2*r.starts, "asked N times about %d tasks", tasks)
}

func TestEntranceRefuses(t *testing.T) {
	r := &room{}
	atEntrance(t, r, func(l *Loop, e *Entrance) {
		refused := 0
		wait := startAt(l, e, 10, func(int) {
			testenv.ErrorIs(t, e.Enter(), ErrRefused, "Enter of a task that had not started")
			refused++
		})
		Sleep(10 * time.Millisecond)
		testenv.Equal(t, refused, 0, "have started")
		r.closed = true
		wait()
		testenv.ErrorIs(t, e.Enter(), ErrRefused, "Enter")
		r.closed, r.size = false, 1
		testenv.Check(t, e.Enter(), "Enter when it is open")
		e.Leave()
	})
}

// Those that are refused are counted until they have learnt it.
func TestRefusalsUnderWay(t *testing.T) {
	r := &room{closed: true}
	atEntrance(t, r, func(l *Loop, e *Entrance) {
		for _, n := range []int{5, 1} {
			startAt(l, e, n, func(int) { e.Enter() })()
		}
	})
	testenv.EqualSlices(t, r.refusing, []int{0, 1, 2, 3, 4, 0}, "as many were under way to be refused")
}

func TestEntranceWhileTheRuntimeEnds(t *testing.T) {
	e := entrance(t, "test")
	rt, _ := newSimRuntime(t, 1, true, admission(&room{}))
	for range 10 {
		rt.Go(func() { e.Enter() })
	}
	waitParked(t, rt, 10, ReasonEntrance)
	started := 0
	run(t, rt, func() { startAt(CurrentLoop(), e, 10, func(int) { started++ }) })
	testenv.Check(t, rt.Close())
	testenv.Equal(t, started, 10, "were started, as a task that began something has to end it")
}

// lineUp has n tasks wait at an Entrance while one is inside, and returns in which order they were admitted.
func lineUp(t *testing.T, r *room, n int, enter func(e *Entrance, i int) error) (order []int) {
	t.Helper()
	atEntrance(t, r, func(l *Loop, e *Entrance) {
		e.Enter()
		var wg WaitGroup
		for i := range n {
			wg.Go(func() {
				testenv.Check(t, enter(e, i))
				order = append(order, i)
				e.Leave()
			})
		}
		Yield() // now they are in the queue
		e.Leave()
		wg.Wait()
	})
	return order
}

// The most important go first, then those that came first; the newest, when the Admission says so, unless other
// clients have had clearly less.
func TestWhoGoesFirst(t *testing.T) {
	priorities := []int{0, 5, -1000, 5, 0, 1000, -32}
	got := lineUp(t, &room{size: 1}, len(priorities), func(e *Entrance, i int) error {
		SetPriority(priorities[i])
		return e.Enter()
	})
	testenv.EqualSlices(t, got, []int{5, 1, 3, 0, 4, 2, 6}, "by priority")
	got = lineUp(t, &room{size: 1, newest: true}, 5, func(e *Entrance, i int) error { return e.Enter() })
	testenv.EqualSlices(t, got, []int{4, 3, 2, 1, 0}, "the newest first")
	got = lineUp(t, &room{size: 1, newest: true}, 40, func(e *Entrance, i int) error {
		if i%10 == 0 {
			return e.EnterFrom(7)
		}
		return e.EnterFrom(8)
	})
	// When client 8 has clearly had more it is the turn of those of client 7, the oldest first.
	want := []int{39, 38, 37, 36, 35, 34, 33, 32, 31, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 0, 20, 19, 18, 17, 10}
	testenv.EqualSlices(t, got[:len(want)], want, "of two clients")
}

// A task that has waited elsewhere before has its place as if it had waited in the queue all that time.
func TestWhatHasWaitedBefore(t *testing.T) {
	for newest, want := range map[bool][]int{false: {4, 0, 1, 5, 2, 3}, true: {3, 2, 5, 1, 0, 4}} {
		var order []int
		atEntrance(t, &room{size: 1, newest: newest}, func(l *Loop, e *Entrance) {
			e.Enter()
			var wg WaitGroup
			for i, waited := range []time.Duration{0, 0, 0, 0, 5 * time.Millisecond, 2 * time.Millisecond} {
				if i == 2 {
					Sleep(3 * time.Millisecond)
				}
				wg.Add(1)
				l.StartAt(e, 0, waited, nil, func() {
					e.Enter()
					order = append(order, i)
					e.Leave()
					wg.Done()
				})
			}
			e.Leave()
			wg.Wait()
		})
		testenv.EqualSlices(t, order, want, "newest %v: order", newest)
	}
}

// A task that is cancelled in the queue leaves it, at any place in it.
func TestEntranceForgetsTheCancelled(t *testing.T) {
	for which := range 3 {
		var in []int
		atEntrance(t, &room{size: 1}, func(l *Loop, e *Entrance) {
			e.Enter()
			var tasks [3]*Task
			var cancel [3]func()
			for i := range tasks {
				ctx, end := context.WithCancel(context.Background())
				defer end()
				cancel[i] = end
				tasks[i] = GoWith(Options{Context: ctx}, func() {
					if err := e.Enter(); err != nil {
						testenv.ErrorIs(t, err, context.Canceled, "Enter")
						return
					}
					in = append(in, i)
					e.Leave()
				})
			}
			Yield() // now they are in the queue
			cancel[which]()
			tasks[which].Join()
			e.Leave()
			joinAll(t, tasks[:])
		})
		testenv.EqualSlices(t, in, slices.Delete([]int{0, 1, 2}, which, which+1), "%d was cancelled: let in", which)
	}
}

// One that gives up is started and refused, at any place in the line, and so is one whose client
// has gone for some time.
func TestTickets(t *testing.T) {
	r := &room{}
	atEntrance(t, r, func(l *Loop, e *Entrance) {
		var refused []int
		var wg WaitGroup
		const n = 5
		wg.Add(n)
		tickets := make([]Ticket, n)
		for i := range n {
			l.StartAt(e, 0, 0, &tickets[i], func() {
				if err := e.Enter(); errors.Is(err, ErrRefused) {
					refused = append(refused, i)
				} else {
					e.Leave()
				}
				wg.Done()
			})
		}
		tickets[2].GiveUp()
		tickets[2].GiveUp() // it stands for nothing any more
		tickets[0].Hangup()
		Sleep(10 * time.Millisecond)
		testenv.EqualSlices(t, refused, []int{2}, "were refused")
		Sleep(time.Second) // longer than a client that has hung up may still want its answer
		testenv.EqualSlices(t, refused, []int{2, 0}, "were refused")
		r.size = n
		wg.Wait()
		testenv.EqualSlices(t, refused, []int{2, 0}, "were refused in the end")
	})
}

// A task waits in the entry queue for no longer than its patience; the others keep their places.
func TestEntryPatience(t *testing.T) {
	atEntrance(t, &room{size: 1}, func(l *Loop, e *Entrance) {
		testenv.Check(t, e.Enter())
		var order []string
		var wg WaitGroup
		for _, d := range []time.Duration{0, 5 * time.Millisecond, 20 * time.Millisecond, time.Hour, -1} {
			wg.Go(func() {
				began := l.Now()
				SetEntryPatience(time.Hour)
				SetEntryPatience(d)
				err := e.Enter()
				if errors.Is(err, context.DeadlineExceeded) {
					testenv.AtLeast(t, l.Now()-began, d, "it has waited")
					order = append(order, "late "+d.String())
					return
				}
				testenv.Check(t, err)
				order = append(order, d.String())
				e.Leave()
			})
		}
		Sleep(10 * time.Millisecond)
		e.Leave()
		wg.Wait()
		testenv.EqualSlices(t, order, []string{"late 5ms", "0s", "20ms", "1h0m0s", "-1ns"}, "order")
		testenv.Equal(t, l.QueuedAt(e), 0, "wait")
		SetEntryPatience(time.Nanosecond)
		testenv.Check(t, e.Enter(), "without a wait")
		e.Leave()
		SetEntryPatience(0)
	})
	SetEntryPatience(time.Second) // on a plain goroutine
}

func TestEntranceWithoutAdmission(t *testing.T) {
	e := entrance(t, "test")
	pass := func(int) {
		testenv.Check(t, e.Enter())
		e.Leave()
	}
	pass(0) // on a plain goroutine
	rt, _ := newSimRuntime(t, 1, true)
	inTasks(rt, 3, pass)
}

func TestAsManyEntrancesAsThereMayBe(t *testing.T) {
	entrances.mu.Lock()
	kept := entrances.all
	entrances.mu.Unlock()
	defer func() {
		entrances.mu.Lock()
		entrances.all = kept
		entrances.mu.Unlock()
	}()
	for i := len(kept); i < admit.MaxEntrances; i++ {
		entrance(t, fmt.Sprint("filler ", i))
	}
	testenv.Fails(t, testenv.Err(NewEntrance("one too many")), "entrance %d is accepted", admit.MaxEntrances+1)
	testenv.Fails(t, testenv.Err(NewEntrance("")), "an entrance without a name is accepted")
}
