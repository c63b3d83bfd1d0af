package engine

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/admit"
	"github.com/capriccio-go/capriccio/internal/recorder"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// A withholder lets those run that may, first come, first served.
type withholder struct {
	plainPolicy
	ready []recorder.NodeID
	ticks int
	may   func(n recorder.NodeID, ticks int) bool
}

func (p *withholder) Count(n recorder.NodeID, k int) {
	for ; k > 0; k-- {
		p.ready = append(p.ready, n)
	}
	for ; k < 0; k++ {
		i := slices.Index(p.ready, n)
		p.ready = slices.Delete(p.ready, i, i+1)
	}
}

func (p *withholder) Tick(time.Duration) { p.ticks++ }

func (p *withholder) Choose() (recorder.NodeID, int, uint64) {
	for _, n := range p.ready {
		if p.may(n, p.ticks) {
			return n, 1, ^uint64(0)
		}
	}
	return 0, 0, 0
}

func (p *withholder) Ran(n recorder.NodeID, tasks int, _ uint64, _ Outcome) { p.Count(n, -tasks) }

// withholding has loops run tasks at the Ticks that are good.
func withholding(good func(tick int) bool) func(*Config) {
	return policy(func() Policy {
		return &withholder{may: func(_ recorder.NodeID, ticks int) bool { return good(ticks) }}
	})
}

func TestTasksThatAPolicyHoldsBackRunLater(t *testing.T) {
	rt, _ := newSimRuntime(t, 1, true, withholding(func(tick int) bool { return tick%7 == 0 }))
	ran := 0
	inTasks(rt, 100, func(int) {
		Yield()
		ran++
	})
	testenv.Equal(t, ran, 100, "tasks ran")
	testenv.Check(t, rt.Close())
}

// heldTurns is longer than Shutdown takes to look whether there are tasks.
const heldTurns = 50

// A lateOpener lets nobody in for heldTurns turns.
type lateOpener struct {
	admit.Open
	asked int
}

func (a *lateOpener) Next(time.Duration, int, *admit.QueueState) admit.Verdict {
	if a.asked++; a.asked > heldTurns {
		return admit.Admit
	}
	return admit.Defer
}

// Tasks that have not started, as they are held back, are waited for and run as others are. Close holds nothing back.
func TestAShutdownWaitsForWhatIsHeldBack(t *testing.T) {
	e := entrance(t, "test")
	onLoop := func(l *Loop, fn func()) { GoOn(l, fn) }
	for name, c := range map[string]struct {
		change func(*Config)
		start  func(l *Loop, fn func())
		end    func(*Runtime) error
	}{
		"by a policy": {withholding(func(tick int) bool { return tick > heldTurns }), onLoop,
			func(rt *Runtime) error { return rt.Shutdown(context.Background()) }},
		"at an entrance": {admission(new(lateOpener)), func(l *Loop, fn func()) { l.Post(func() { l.StartAt(e, 0, 0, nil, fn) }) },
			func(rt *Runtime) error { return rt.Shutdown(context.Background()) }},
		"by a policy for ever": {withholding(func(int) bool { return false }), onLoop, (*Runtime).Close},
	} {
		t.Run(name, func(t *testing.T) {
			rt := newRuntime(t, 1, c.change)
			ran := 0
			for range 10 {
				c.start(rt.Loop(0), func() {
					if name != "by a policy for ever" {
						testenv.Check(t, e.Enter())
						testenv.Check(t, Err())
						e.Leave()
					}
					ran++
				})
			}
			testenv.Check(t, c.end(rt))
			testenv.Equal(t, ran, 10, "tasks ran")
		})
	}
}

// Tasks wait natively until the loop is near the limit: newcomers wait, started or not, until some of
// those are back; without an Admission too.
func TestNewcomersWaitWhileManyAreAway(t *testing.T) {
	e := entrance(t, "test")
	const limit = 4
	for name, admission := range map[string]func(*Loop) Admission{"open": nil, "limiter": func(*Loop) Admission { return &limiter{limit: 100} }} {
		t.Run(name, func(t *testing.T) {
			rt, _ := newSimRuntime(t, 1, true, func(c *Config) { c.NewAdmission, c.DetachLimit = admission, limit })
			for away, full := range map[int32]bool{limit - limit/4 - 1: false, limit - limit/4: true} {
				run(t, rt, func() { newcomersWait(t, CurrentLoop(), e, away, full) })
			}
		})
	}
}

func newcomersWait(t *testing.T, l *Loop, e *Entrance, away int32, full bool) {
	in := 0
	enter := func() {
		testenv.Check(t, e.Enter())
		in++
	}
	l.away.now.Add(away)
	tasks := []*Task{Go(enter), Go(enter)}
	l.StartAt(e, 0, 0, nil, enter)
	var left Ticket
	var refused error
	l.StartAt(e, 0, 0, &left, func() { refused = e.Enter() })
	left.GiveUp()
	Sleep(time.Second)
	testenv.Equal(t, errors.Is(refused, ErrRefused), full, "%d tasks are away: one that gave up was refused", away)
	want := 3
	if full {
		want = 0
	}
	testenv.Equal(t, in, want, "%d tasks are away: newcomers let in", away)
	l.away.now.Add(-away)
	Sleep(time.Second)
	testenv.Equal(t, in, 3, "all are back, and N of 3 newcomers were let in")
	joinAll(t, tasks)
}

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
	g := recorder.New(recorder.Config{HeapEvery: -1})
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
