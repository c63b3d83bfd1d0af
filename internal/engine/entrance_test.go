package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/admit"
	"github.com/capriccio-go/capriccio/internal/sim"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// A room lets a number in, of each line the newest if it is told so, and refuses while it is closed.
type room struct {
	admit.Open
	size   int
	inside int
	newest bool
	closed bool
	asked  []admit.QueueState // when somebody was let in
	starts int                // how many may be starting; 0: any number
	calls  int                // of Next

	refusing []int // Queue.Refusing when somebody was refused
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
		var all []*Task
		for i := range n {
			all = append(all, Go(func() { fn(i) }))
		}
		for _, k := range all {
			k.Join()
		}
	}).Join()
}

func entrance(t *testing.T, name string) *Entrance {
	t.Helper()
	return testenv.Need(NewEntrance(name))(t)
}

func withRoom(t *testing.T, r *room) (*Runtime, *sim.Clock) {
	return newSimRuntime(t, 1, true, func(c *Config) { c.NewAdmission = func(*Loop) Admission { return r } })
}

func TestEntranceLetsInWhoFits(t *testing.T) {
	e := entrance(t, "test")
	r := &room{size: 3}
	rt, _ := withRoom(t, r)
	inside, most := 0, 0
	var order []int
	inTasks(rt, 20, func(i int) {
		if err := e.Enter(); err != nil {
			t.Error(err)
			return
		}
		order = append(order, i)
		inside++
		most = max(most, inside)
		Sleep(time.Millisecond)
		inside--
		e.Leave()
	})
	testenv.Equal(t, most, 3, "at most N were inside")
	if len(order) != 20 || !slices.IsSorted(order) {
		t.Errorf("let in in the order %v, want first come, first served", order)
	}
	testenv.Equal(t, r.inside, 0, "are still inside")
	if last := r.asked[len(r.asked)-1].Oldest; last < 5*time.Millisecond {
		t.Errorf("the last has waited for %v, want 6ms", last)
	}
}

// A task that has not started waits without a goroutine, and in the same order.
func TestStartAtAnEntrance(t *testing.T) {
	e := entrance(t, "test")
	r := &room{size: 3}
	rt, _ := withRoom(t, r)
	inside, most := 0, 0
	var order []int
	run(t, rt, func() {
		l := CurrentLoop()
		var wg WaitGroup
		const tasks = 500
		wg.Add(tasks)
		for i := range tasks {
			l.StartAt(e, 0, 0, nil, func() {
				defer wg.Done()
				if i%7 == 0 {
					return // it does not enter after all
				}
				if err := e.Enter(); err != nil {
					t.Error(err)
					return
				}
				order = append(order, i)
				inside++
				most = max(most, inside)
				Sleep(time.Millisecond)
				inside--
				e.Leave()
			})
			if i == 2 {
				Yield() // the first are inside
			}
		}
		if n, waiting := l.Tasks(), l.Unstarted(); n > 5 || waiting < tasks-10 || waiting > tasks {
			t.Errorf("%d tasks have started, want those only that there is room for; %d wait, of %d", n, waiting, tasks)
		}
		wg.Wait()
		testenv.Equal(t, l.Unstarted(), 0, "in the end N wait")
	})
	if most != 3 && most != 2 || !slices.IsSorted(order) {
		t.Errorf("at most %d were inside, in the order %v; want 3, first come, first served", most, order)
	}
	testenv.Equal(t, r.inside, 0, "are still inside")
	rt.Close()
}

// An Admission that lets in a few at a time, until these have begun to run, is asked about once for each.
func TestAnEntranceIsAskedOnceForEach(t *testing.T) {
	e := entrance(t, "test")
	r := &room{size: 1000, starts: 4}
	rt, _ := withRoom(t, r)
	const tasks = 200
	var order []int
	run(t, rt, func() {
		var wg WaitGroup
		wg.Add(tasks)
		for i := range tasks {
			CurrentLoop().StartAt(e, 0, 0, nil, func() {
				defer wg.Done()
				testenv.Check(t, e.Enter())
				order = append(order, i)
				e.Leave()
			})
		}
		wg.Wait()
	})
	if len(order) != tasks || !slices.IsSorted(order) {
		t.Errorf("let in in the order %v, want first come, first served", order)
	}
	testenv.AtMost(t, r.calls, tasks+2*r.starts, "asked N times about %d tasks", tasks)
}

func TestStartAtAnEntranceThatRefuses(t *testing.T) {
	e := entrance(t, "test")
	r := &room{}
	rt, _ := newSimRuntime(t, 1, true, func(c *Config) { c.NewAdmission = func(*Loop) Admission { return r } })
	refused := 0
	err := rt.Go(func() {
		var wg WaitGroup
		wg.Add(10)
		for range 10 {
			CurrentLoop().StartAt(e, 0, 0, nil, func() {
				if err := e.Enter(); errors.Is(err, ErrRefused) {
					refused++
				}
				wg.Done()
			})
		}
		Sleep(10 * time.Millisecond)
		testenv.Equal(t, refused, 0, "have started")
		r.closed = true
		wg.Wait()
	}).Join()
	if err != nil || refused != 10 {
		t.Errorf("%d were refused, error %v; want 10", refused, err)
	}
}

// Those that are refused are counted until they have learnt it.
func TestRefusalsUnderWay(t *testing.T) {
	e := entrance(t, "test")
	r := &room{closed: true}
	rt, _ := newSimRuntime(t, 1, true, func(c *Config) { c.NewAdmission = func(*Loop) Admission { return r } })
	err := rt.Go(func() {
		for _, n := range []int{5, 1} {
			var wg WaitGroup
			wg.Add(n)
			for range n {
				CurrentLoop().StartAt(e, 0, 0, nil, func() {
					e.Enter()
					wg.Done()
				})
			}
			wg.Wait()
		}
	}).Join()
	if want := []int{0, 1, 2, 3, 4, 0}; err != nil || !slices.Equal(r.refusing, want) {
		t.Errorf("as many were under way to be refused: %v, error %v; want %v", r.refusing, err, want)
	}
}

func TestAShutdownStartsWhoWaitsAtAnEntrance(t *testing.T) {
	e := entrance(t, "test")
	rt, _ := newSimRuntime(t, 2, true, func(c *Config) { c.NewAdmission = func(*Loop) Admission { return &room{} } })
	started := 0
	run(t, rt, func() {
		for range 10 {
			CurrentLoop().StartAt(e, 0, 0, nil, func() { started++ })
		}
	})
	testenv.Check(t, rt.Close())
	if started != 10 {
		t.Errorf("%d tasks were started, want 10: a task that began something has to end it", started)
	}
}

func TestEntranceRefuses(t *testing.T) {
	e := entrance(t, "test")
	r := &room{size: 1, closed: true}
	rt, _ := withRoom(t, r)
	run(t, rt, func() {
		testenv.ErrorIs(t, e.Enter(), ErrRefused, "Enter")
		r.closed = false
		testenv.Check(t, e.Enter(), "Enter when it is open")
		e.Leave()
	})
}

// lineUp has n tasks stand in line while one is inside, sets each up before, and returns in
// which order they were let in.
func lineUp(t *testing.T, r *room, n int, enter func(e *Entrance, i int) error) (order []int) {
	t.Helper()
	e := entrance(t, "test")
	rt, _ := withRoom(t, r)
	run(t, rt, func() {
		e.Enter()
		var wg WaitGroup
		for i := range n {
			wg.Go(func() {
				if err := enter(e, i); err != nil {
					t.Error(err)
					return
				}
				order = append(order, i)
				e.Leave()
			})
		}
		Yield() // now they stand in line
		e.Leave()
		wg.Wait()
	})
	if len(order) != n || r.inside != 0 {
		t.Errorf("%d were let in, %d are inside; want %d and 0", len(order), r.inside, n)
	}
	return order
}

func TestTheMostImportantGoFirst(t *testing.T) {
	priorities := []int{0, 5, -1000, 5, 0, 1000, -32}
	got := lineUp(t, &room{size: 1}, len(priorities), func(e *Entrance, i int) error {
		SetPriority(priorities[i])
		return e.Enter()
	})
	testenv.EqualSlices(t, got, []int{5, 1, 3, 0, 4, 2, 6}, "let in in the order")
}

// The newest go first when the Admission says so, unless other clients have had clearly less.
func TestTheNewestGoFirst(t *testing.T) {
	r := &room{size: 1, newest: true}
	got := lineUp(t, r, 5, func(e *Entrance, i int) error { return e.Enter() })
	testenv.EqualSlices(t, got, []int{4, 3, 2, 1, 0}, "let in in the order")
	r = &room{size: 1, newest: true}
	got = lineUp(t, r, 40, func(e *Entrance, i int) error {
		if i%10 == 0 {
			return e.EnterFrom(7)
		}
		return e.EnterFrom(8)
	})
	// When client 8 has clearly had more it is the turn of those of client 7, the oldest first.
	if want := []int{39, 38, 37, 36, 35, 34, 33, 32, 31, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 0, 20, 19, 18, 17, 10}; !slices.Equal(got[:len(want)], want) {
		t.Errorf("let in in the order %v, want %v first", got, want)
	}
}

// What has waited before it came to the line has its place as if it had waited in it.
func TestWhatHasWaitedBefore(t *testing.T) {
	for newest, want := range map[bool][]int{false: {4, 0, 1, 5, 2, 3}, true: {3, 2, 5, 1, 0, 4}} {
		e := entrance(t, "test")
		r := &room{size: 1, newest: newest}
		rt, _ := withRoom(t, r)
		var order []int
		err := rt.Go(func() {
			e.Enter()
			l := CurrentLoop()
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
		}).Join()
		if err != nil || !slices.Equal(order, want) {
			t.Errorf("newest %v: let in in the order %v, error %v; want %v", newest, order, err, want)
		}
		rt.Close()
	}
}

// A task that is cancelled in the line leaves it, at any place in it.
func TestEntranceForgetsTheCancelled(t *testing.T) {
	for _, which := range []int{0, 1, 2} {
		e := entrance(t, "test")
		r := &room{size: 1}
		rt, _ := withRoom(t, r)
		var in []int
		run(t, rt, func() {
			e.Enter()
			var tasks []*Task
			var end func()
			for i := range 3 {
				ctx, cancel := context.WithCancel(context.Background())
				k, err := Spawn(Options{Context: ctx}, func() {
					if err := e.Enter(); err != nil {
						testenv.ErrorIs(t, err, context.Canceled, "Enter")
						return
					}
					in = append(in, i)
					e.Leave()
				})
				testenv.Check(t, err)
				tasks = append(tasks, k)
				defer cancel()
				if i == which {
					end = cancel
				}
			}
			Yield() // now they stand in line
			end()
			tasks[which].Join()
			e.Leave()
			for _, k := range tasks {
				k.Join()
			}
		})
		want := slices.Delete([]int{0, 1, 2}, which, which+1)
		if !slices.Equal(in, want) || r.inside != 0 {
			t.Errorf("%d was cancelled: %v were let in and %d are inside, want %v and 0", which, in, r.inside, want)
		}
		rt.Close()
	}
}

func TestEntranceWhileTheRuntimeEnds(t *testing.T) {
	e := entrance(t, "test")
	rt, _ := newSimRuntime(t, 1, true, func(c *Config) {
		c.NewAdmission = func(*Loop) Admission { return &room{} }
	})
	for range 10 {
		rt.Go(func() { e.Enter() })
	}
	waitParked(t, rt, 10, ReasonEntrance)
	testenv.Check(t, rt.Close())
}

func TestEntranceWithoutAdmission(t *testing.T) {
	e := entrance(t, "test")
	testenv.Check(t, e.Enter(), "on a plain goroutine")
	e.Leave()
	rt, _ := newSimRuntime(t, 1, true)
	inTasks(rt, 3, func(int) {
		testenv.Check(t, e.Enter())
		e.Leave()
	})
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
	if _, err := NewEntrance("one too many"); err == nil {
		t.Errorf("entrance %d is accepted, want at most %d", admit.MaxEntrances+1, admit.MaxEntrances)
	}
	testenv.Fails(t, testenv.Err(NewEntrance("")), "an entrance without a name is accepted")
}
