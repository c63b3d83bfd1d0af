package admit

import (
	"github.com/capriccio-go/capriccio/internal/testenv"
	"math"
	"sync"
	"testing"
	"time"
)

// newLimit returns a limit for a resource of 100; each task holds 10.
func newLimit(t *testing.T, loops int) (*Ledger, *ConcurrencyLimit, ResourceID, []*Admission) {
	t.Helper()
	l := NewLedger()
	r := mustAdd(t, l, Spec{Name: "memory", Limit: 100})
	g := l.NewLimit("requests")
	g.SetDemand([]Moments{{Mean: 10}})
	g.window = Knee{Start: 1000} // not what is tested here
	var all []*Admission
	for i := range loops {
		a := NewAdmission(i, false, func(int) *ConcurrencyLimit { return g })
		all = append(all, a)
	}
	l.Observe(0, r, 0)
	return l, g, r, all
}

func TestALimitAdmitsWhatIsPromised(t *testing.T) {
	l, g, r, a := newLimit(t, 1)
	admitted := func() (n int) {
		for a[0].Next(0, 1, &QueueState{Waiting: 1}) == Admit {
			n++
		}
		return n
	}
	testenv.Equal(t, admitted(), 10, "tasks were let in")
	a[0].Left(0, 1)
	a[0].Left(0, 1)
	if n := admitted(); n != 2 || g.Inside() != 10 {
		t.Errorf("after two finished %d were let in, %d are inside", n, g.Inside())
	}
	for range 20 {
		a[0].Left(0, 1) // more often than it was let in
	}
	testenv.Equal(t, g.Inside(), 0, "are inside")
	// What others use is not there for tasks.
	l.Observe(9*time.Second, r, 45)
	testenv.Equal(t, admitted(), 5, "with 45 in use by others N were let in")
	// What the tasks themselves take is not counted twice.
	l.Ahead(5, nil)
	l.Observe(9001*time.Millisecond, r, 95)
	a[0].Left(0, 1)
	l.Ahead(4, nil)
	l.Observe(9002*time.Millisecond, r, 85)
	testenv.Equal(t, admitted(), 1, "after one finished N were let in")
}

func TestVariedDemandLeavesRoom(t *testing.T) {
	_, g, _, a := newLimit(t, 1)
	g.SetDemand([]Moments{{Mean: 1, Variance: 1}})
	n := 0
	for a[0].Next(0, 1, &QueueState{Waiting: 1}) == Admit {
		n++
	}
	// The largest n with 2 n + 4 sqrt(n) <= 100: those inside may be the larger ones, see reservation.sum.
	testenv.Equal(t, n, 37, "were let in")
}

// If no task is inside, one is admitted whatever the resources say: otherwise the limit would be closed for ever.
func TestALimitIsNeverQuiteClosed(t *testing.T) {
	l, _, r, a := newLimit(t, 2)
	l.Observe(time.Second, r, 500)
	l.Tick(time.Second)
	now := time.Second
	testenv.Equal(t, a[0].Next(now, 1, &QueueState{Waiting: 1}), Admit, "the first")
	for _, a := range a {
		testenv.Equal(t, a.Next(now, 1, &QueueState{Waiting: 1}), Defer, "another")
	}
	a[0].Left(now, 1)
	testenv.Equal(t, a[1].Next(now, 1, &QueueState{Waiting: 1}), Admit, "when the first has finished")
}

// Ten are inside, which is all there is room for; the others wait.
func TestStalled(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		name      string
		demand    float64       // 0: not known
		promised  float64       // the share of it that is yet to be taken
		to        time.Duration // until when somebody asks
		leaves    time.Duration // when one leaves; 0: nobody does
		grows     time.Duration // when the window grows by one; 0: it does not
		at, until time.Duration // held up; 0: never
		most      int           // inside
	}{
		{name: "all inside wait", demand: 10, to: 1500 * ms, at: 1010 * ms, until: 3500 * ms, most: 11},
		{name: "one more like them is too much", demand: 14, to: 1500 * ms, at: 1010 * ms, until: 3500 * ms, most: 7},
		{name: "nobody asks any more", demand: 10, to: 100 * ms, at: 1010 * ms, until: 2100 * ms, most: 10},
		{name: "one leaves in time", demand: 10, to: 380 * ms, leaves: 150 * ms, at: 1160 * ms, until: 2380 * ms, most: 10},
		{name: "one leaves afterwards", demand: 10, to: 1050 * ms, leaves: 1040 * ms, at: 1010 * ms, until: 1040 * ms, most: 10},
		{name: "one leaves and nobody asks any more", demand: 10, to: 1030 * ms, leaves: 1040 * ms, at: 1010 * ms, until: 1040 * ms, most: 10},
		{name: "the window still grows", to: 1900 * ms, most: 10},
		{name: "the window grows by little", demand: 8, grows: 500 * ms, to: 1500 * ms, at: 1010 * ms, until: 3500 * ms, most: 13},
		{name: "half of it is only promised", demand: 10, promised: 0.5, to: 700 * ms, at: 2010 * ms, until: 2700 * ms, most: 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, g, r, all := newLimit(t, 1)
			a := all[0]
			g.window = Knee{Start: 10, Max: 10}
			g.SetDemand([]Moments{{Mean: c.demand}})
			var at, until time.Duration
			most := 0
			if c.demand == 0 {
				c.demand = 10
			}
			for now := time.Duration(0); now < 4*time.Second; now += ms {
				if c.leaves != 0 && now == c.leaves {
					a.Left(now, 1)
				}
				if c.grows != 0 && now == c.grows {
					g.window = Knee{Start: 11, Max: 11}
				}
				if now < c.to {
					for a.Next(now+1, 1, &QueueState{Waiting: 1}) == Admit {
					}
				}
				most = max(most, g.Inside())
				if now%(10*ms) == 0 {
					all := c.demand * float64(g.Inside())
					l.Ahead(g.Inside(), []float64{c.promised * all})
					l.Observe(now, r, (1-c.promised)*all)
					l.Tick(now)
				}
				switch {
				case l.Stalled() && at == 0:
					at = now
				case !l.Stalled() && at != 0 && until == 0:
					until = now
				}
			}
			if at != c.at || until != c.until || most != c.most {
				t.Errorf("held up from %v until %v, at most %d inside; want from %v until %v, %d", at, until, most, c.at, c.until, c.most)
			}
		})
	}
}

// A loop that comes late gets its part, although the other could always use what its own
// tasks give back.
func TestLoopsShareALimit(t *testing.T) {
	_, g, _, a := newLimit(t, 3)
	now := time.Second
	fill := func(loop int) (n int) {
		for a[loop].Next(now, 1, &QueueState{Waiting: 1}) == Admit {
			n++
		}
		return n
	}
	testenv.MustEqual(t, fill(0), 10, "loop 0 alone gets")
	inside := []int{10, 0, 0}
	for range 100 { // each millisecond one task of each loop finishes, and all want more
		now += time.Millisecond
		for loop := range inside {
			if inside[loop] > 0 {
				a[loop].Left(now, 1)
				inside[loop]--
			}
			inside[loop] += fill(loop)
		}
	}
	for loop, n := range inside {
		if n < 3 || n > 4 {
			t.Errorf("loop %d has %d inside of 10, want a third: %v", loop, n, inside)
		}
	}
	// One that wants no more does not hold up the others.
	for range inside[2] {
		a[2].Left(now, 1)
	}
	now += 2 * waitingFor
	inside[0] += fill(0)
	if g.Inside() != 10 {
		t.Errorf("%d inside, want 10: %v", g.Inside(), inside)
	}
}

func TestWhatIsNoEntranceIsAdmitted(t *testing.T) {
	a := NewAdmission(0, true, func(int) *ConcurrencyLimit { return nil })
	testenv.Equal(t, a.Next(0, 7, &QueueState{Waiting: 1, Oldest: time.Hour}), Admit, "where there is no limit")
	a.Left(0, 7)
	a.Left(0, 99)
	var r Report
	a.Report(&r)
	testenv.Equal(t, r.Admitted, 0, "counted as admitted")
}

func TestLedgerAndLimitsFromManyGoroutines(t *testing.T) {
	l, g, r, all := newLimit(t, 4)
	var wg sync.WaitGroup
	for _, a := range all {
		wg.Go(func() {
			var standings []Standing
			now, version := time.Duration(0), uint64(0)
			for range 3000 {
				now += 100 * time.Microsecond
				standings, version = l.Standings(standings, version)
				l.GiveBack(r, 1, l.Grant(r, 1, 1))
				if a.Next(now, 1, &QueueState{Waiting: 1}) == Admit {
					a.Left(now, 1)
				}
			}
		})
	}
	wg.Go(func() {
		for i := range 1000 {
			l.Observe(time.Duration(i)*time.Millisecond, r, float64(i%50))
			l.Tick(time.Duration(i) * time.Millisecond)
			g.SetDemand([]Moments{{Mean: float64(i%20 + 1)}})
			var report Report
			l.Report(&report)
		}
	})
	wg.Wait()
	testenv.Equal(t, g.Inside(), 0, "are inside in the end")
	l.Tick(time.Hour)
	if got := stateOf(l, r); math.Abs(got.Used-49) > 0.5 {
		t.Errorf("%+v, want what was observed last", got)
	}
}

// No task waits for longer than longestWait, also if none came for an hour after the last in the queue had been refused
// or had given up. A pause of the process does not count.
func TestTimeWithoutAnybodyInLineIsNoPause(t *testing.T) {
	for _, pause := range []time.Duration{0, 12 * time.Second} {
		a := NewAdmission(0, true, nil)
		now := time.Second
		next := func(waited time.Duration) Verdict {
			a.Limit(now, 0, BacklogState{Waiting: 1, Departed: 1, Quickest: time.Millisecond}) // somebody moves
			return a.Next(now, MaxEntrances, &QueueState{Waiting: 1, Full: true, Oldest: waited})
		}
		testenv.MustEqual(t, next(0), Defer, "there is no room, and the verdict")
		now += time.Hour
		came, paused := now, time.Duration(0)
		const step = 100 * time.Millisecond
		for refused := false; !refused; now += step {
			waited := now - came
			if pause > 0 && paused == 0 && waited >= time.Second {
				paused, now = step+pause, now+pause // since the last look
				waited += pause
			}
			refused = next(waited) == Refuse
			if late := waited > longestWait+paused; refused != late {
				t.Errorf("one that has waited %v, and the process stood still for %v of it, is refused: %v, want %v", waited, paused, refused, late)
				break
			}
		}
	}
}

// A node that is watched under the number of another one, which is watched no more, is a new one.
func TestABottleneckIsNotTakenForTheLastWithItsNumber(t *testing.T) {
	a := NewAdmission(0, true, nil)
	work := &Work{Kind: 1}
	look := func(b *Backlog, now time.Duration, came, departed int) int {
		for range came {
			b.Arrived(work)
		}
		for range departed {
			b.Departed(now, work, Stamp(now-200*time.Millisecond))
		}
		limit := a.Limit(now, 0, b.Look(0))
		b.SetLimit(now, limit, 0)
		return limit
	}
	now := time.Second
	for _, whole := range []bool{false, true} {
		b := NewBacklog(0, now, whole)
		for range 100 { // few wait, and depart soon
			now += 10 * time.Millisecond
			look(b, now, 5, 5)
		}
		gate := &a.bottlenecks[0]
		gate.detector.enter(Overloaded, now)
		gate.stuck = true
		now += time.Hour
		b = NewBacklog(0, now, false)
		look(b, now, 30, 0)
		testenv.Equal(t, gate.detector.state, Calm, "state of the detector, after a whole node: %v", whole)
		testenv.Equal(t, gate.stuck, false, "newcomers are refused, after a whole node: %v", whole)
		testenv.Equal(t, gate.most, BottleneckLimit{began: now, first: 30, movedAt: now, quickest: gate.most.quickest}, "limit, after a whole node: %v", whole)
	}
}

// While there is no room, a pause of the process is no time in which no task leaves.
func TestAPauseWithoutRoomIsNotStuck(t *testing.T) {
	l, g, r, _ := newLimit(t, 1)
	a := NewAdmission(0, true, func(int) *ConcurrencyLimit { return g })
	l.Observe(time.Second, r, 500)
	now, came := time.Second, time.Second
	testenv.MustEqual(t, a.Next(now, 1, &QueueState{Waiting: 1}), Admit, "the first")
	next := func() Verdict {
		if l.Tick(now); l.Stalled() {
			t.Fatalf("stalled at %v", now)
		}
		return a.Next(now, 1, &QueueState{Waiting: 1, Oldest: now - came})
	}
	for ; now < came+100*time.Millisecond; now += time.Millisecond {
		testenv.MustEqual(t, next(), Defer, "another")
	}
	now += longestTurn + time.Second
	testenv.MustEqual(t, next(), Defer, "after the pause")
	for until := now + 2200*time.Millisecond; now < until; now += time.Millisecond {
		l.Tick(now)
		if a.Next(now, 1, &QueueState{Waiting: 1, Oldest: now - came}) == Refuse {
			return
		}
	}
	t.Error("nothing is refused although no task leaves")
}

// A report is made of what all of them say; each adds its part.
func TestReport(t *testing.T) {
	l := NewLedger()
	memory := mustAdd(t, l, Spec{Name: "memory", Limit: 100, Unknown: 25})
	mustAdd(t, l, Spec{Name: "unknown"})
	l.Observe(time.Second, memory, 150)
	limit := l.NewLimit("requests")
	admission := NewAdmission(0, true, func(int) *ConcurrencyLimit { return limit })
	for range 6 {
		admission.Next(time.Second, 3, &QueueState{Waiting: 1})
	}
	var r Report
	admission.Report(&r)
	l.Report(&r)
	if r.Admitted != leastWindow || r.Deferred != 1 || r.Refused != 0 {
		t.Errorf("%+v", r)
	}
	want := []ResourceReport{
		{Name: "memory", Used: 150, Limit: 100, Utilisation: 1, Trend: r.Resources[0].Trend, State: AtLimit},
		{Name: "unknown"},
		{Name: "requests", Used: leastWindow, Limit: leastWindow, Utilisation: 1, State: AtLimit},
	}
	testenv.EqualSlices(t, r.Resources, want, "resources")
}

// BenchmarkAdmission is what a task costs at an entrance: the decision and the end.
func BenchmarkAdmission(b *testing.B) {
	l := NewLedger()
	r, _ := l.Add(Spec{Name: "memory", Limit: 1e9})
	l.Observe(time.Second, r, 1000)
	limit := l.NewLimit("requests")
	limit.SetDemand([]Moments{{Mean: 100, Variance: 4}})
	a := NewAdmission(0, true, func(int) *ConcurrencyLimit { return limit })
	now := time.Second
	b.ReportAllocs()
	for b.Loop() {
		now += 10 * time.Microsecond
		if a.Next(now, 1, &QueueState{Waiting: 1, Oldest: time.Microsecond}) != Admit {
			b.Fatal("not admitted")
		}
		a.Left(now, 1)
	}
}
