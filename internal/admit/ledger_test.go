package admit

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

func mustAdd(t *testing.T, l *Ledger, s Spec) ResourceID {
	t.Helper()
	return testenv.Need(l.Add(s))(t)
}

// stateOf is what the Ledger reports of a resource.
func stateOf(l *Ledger, r ResourceID) ResourceReport {
	var report Report
	l.Report(&report)
	return report.Resources[r]
}

func TestStatesHaveHysteresis(t *testing.T) {
	l := NewLedger()
	r := mustAdd(t, l, Spec{Name: "memory", Limit: 1000, Target: 0.9, Margin: 0.1})
	steps := []struct {
		used float64
		want State
	}{
		{0, Low}, {599, Low}, {600, Rising}, {501, Rising}, {499, Low}, {550, Low}, {600, Rising},
		{899, Rising}, {900, AtLimit}, {801, AtLimit}, {899, AtLimit}, {799, Rising}, {899, Rising},
		{1200, AtLimit}, {0, Low},
	}
	now := time.Duration(0)
	for i, s := range steps {
		now += 10 * time.Second // so slowly that there is no trend to speak of
		l.Observe(now, r, s.used)
		testenv.Equal(t, stateOf(l, r).State, s.want, "step %d: %v used", i, s.used)
	}
	if got := stateOf(l, r); got.Utilisation != 0 || got.Limit != 1000 {
		t.Errorf("in the end %+v", got)
	}
}

func TestFastGrowthIsRisingBeforeItIsHigh(t *testing.T) {
	l := NewLedger()
	fast := mustAdd(t, l, Spec{Name: "fast", Limit: 1000})
	slow := mustAdd(t, l, Spec{Name: "slow", Limit: 1000})
	now := time.Duration(0)
	for i := range 30 {
		now += 10 * time.Millisecond
		l.Observe(now, fast, float64(i)*20)
		l.Observe(now, slow, float64(i))
	}
	if got := stateOf(l, fast); got.State != Rising || got.Trend < 1.5 || got.Trend > 2.1 {
		t.Errorf("fast: %+v, want rising, and a trend near 2 per second", got)
	}
	if got := stateOf(l, slow); got.State != Low {
		t.Errorf("slow: %+v, want low", got)
	}
}

func TestGarbageIsNotBelieved(t *testing.T) {
	l := NewLedger()
	r := mustAdd(t, l, Spec{Name: "memory", Limit: 100})
	l.Observe(time.Second, r, 50)
	for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		l.Observe(2*time.Second, r, v)
		l.SetLimit(r, v)
	}
	l.Observe(time.Millisecond, r, 99) // the time before
	l.Observe(3*time.Second, 7, 1)
	l.SetLimit(7, 1)
	l.SetLimit(r, 0)
	l.Tick(2 * time.Second)
	l.Tick(time.Second)
	if got := stateOf(l, r); got.Used != 50 || got.Limit != 100 {
		t.Errorf("%+v, want 50 of 100 used", got)
	}
	l.Observe(3*time.Second, r, -1e-9) // sums of floating-point numbers do that
	if got := stateOf(l, r); got.Used != 0 {
		t.Errorf("%+v, want nothing used", got)
	}
	l.Observe(3*time.Second, r, 50)
	l.SetLimit(r, 51)
	if got := stateOf(l, r); got.State != AtLimit {
		t.Errorf("after the limit was lowered %+v, want at limit", got)
	}
}

func TestOldSignsAreForgotten(t *testing.T) {
	l := NewLedger()
	sign := mustAdd(t, l, Spec{Name: "gc", Limit: 0.25, Kind: Sign})
	l.Observe(time.Second, sign, 0.5)
	l.Tick(1500 * time.Millisecond)
	if got := stateOf(l, sign); got.State != AtLimit || got.Utilisation != 1 {
		t.Errorf("after half a second %+v, want at limit", got)
	}
	l.Tick(2100 * time.Millisecond)
	if got := stateOf(l, sign); got.State == AtLimit || got.Used != 0 {
		t.Errorf("after more than a second %+v, want nothing", got)
	}
}

// What is only watched has a state, but nothing is held back for it.
func TestWatchedResourceDecidesNothing(t *testing.T) {
	l := NewLedger()
	r := mustAdd(t, l, Spec{Name: "processor", Limit: 1, Kind: Shown})
	mustAdd(t, l, Spec{Name: "memory", Limit: 160, Unknown: 16}) // a first window of 10
	g := l.NewLimit("requests")
	a := NewAdmission(0, false, func(int) *ConcurrencyLimit { return g })
	for now := time.Duration(0); now < 60*time.Millisecond; now += 10 * time.Millisecond {
		l.Observe(now, r, 5)
		for a.Next(now, 1, &QueueState{Waiting: 1}) == Admit {
		}
		l.Tick(now)
	}
	var report Report
	l.Report(&report)
	if got := report.Resources[0]; got.State != AtLimit || g.window.Limit() < 80 {
		t.Errorf("the resource is %v, the window %v; want at limit, and a window that grows", got.State, g.window.Limit())
	}
}

// The first window has room for tasks of which nothing is known beside what is in use already.
func TestFirstWindowLeavesWhatIsInUse(t *testing.T) {
	l := NewLedger()
	heap := mustAdd(t, l, Spec{Name: "heap", Limit: 160, Kind: Collected, Unknown: 16})
	l.Observe(0, heap, 80)
	testenv.Equal(t, l.NewLimit("requests").window.Limit(), 5, "the first window is with half in use")
}

func TestSignOfAResourceThatIsPlentiful(t *testing.T) {
	l := NewLedger()
	memory := mustAdd(t, l, Spec{Name: "memory", Limit: 1000})
	gc := mustAdd(t, l, Spec{Name: "gc", Limit: 0.25, Kind: Sign, Of: "memory"})
	l.Observe(time.Second, gc, 0.5)
	for _, c := range []struct{ used, pressure float64 }{{100, 0.1}, {550, 0.55}, {650, 2}, {990, 2}} {
		l.Observe(time.Second, memory, c.used)
		if got, _ := l.pressure(time.Second); got != c.pressure {
			t.Errorf("with %v of memory in use pressure is %v, want %v", c.used, got, c.pressure)
		}
	}
}

// A heap whose limit is not known yet gets none because descriptors are scarce.
func TestHeapWithoutALimit(t *testing.T) {
	l := NewLedger()
	heap := mustAdd(t, l, Spec{Name: "heap", Find: true, Kind: Collected})
	files := mustAdd(t, l, Spec{Name: "descriptors", Limit: 34, Kind: Kept})
	for i := range 100 {
		l.Observe(time.Duration(i)*step, heap, 20)
		l.Observe(time.Duration(i)*step, files, 36)
		l.Tick(time.Duration(i) * step)
	}
	testenv.Equal(t, stateOf(l, heap).Limit, 0, "a limit of was found")
}

// A resource whose limit nobody knows gets one from the signs of thrashing.
func TestLimitIsFound(t *testing.T) {
	for _, spec := range []Spec{{Name: "queries"}, {Name: "queries", Limit: 500, Find: true}} {
		l := NewLedger()
		r := mustAdd(t, l, spec)
		sign := mustAdd(t, l, Spec{Name: "delay", Limit: 1, Kind: Sign})
		if spec.Limit == 0 && stateOf(l, r).Limit != 0 {
			t.Error("there is a limit before anything was seen")
		}
		used, least, most := 0.0, 1000.0, 0.0
		for i := range 2000 {
			now := time.Duration(i) * step
			standing, _ := l.Standings(nil, 0)
			switch { // use it as a policy does: as long as it is not at its limit
			case standing[r].State == AtLimit:
				used -= 10
			default:
				used += 4
			}
			delay := 0.2
			if used > 300 {
				delay = 3
			}
			l.Observe(now, r, used)
			l.Observe(now, sign, delay)
			l.Tick(now)
			if i > 500 {
				least, most = min(least, used), max(most, used)
			}
		}
		if least < 150 || most > 360 {
			t.Errorf("%+v: thrashing begins at 300; used between %v and %v", spec, least, most)
		}
		got := stateOf(l, r)
		if got.Limit < 180 || got.Limit > 350 {
			t.Errorf("%+v: found the limit %v, want nearly 300", spec, got.Limit)
		}
	}
}

func TestSpecsThatAreWrong(t *testing.T) {
	l := NewLedger()
	mustAdd(t, l, Spec{Name: "twice", Limit: 1})
	for _, c := range []struct {
		spec Spec
		want string
	}{
		{Spec{}, "without name"},
		{Spec{Name: "twice"}, "already"},
		{Spec{Name: "x", Limit: -1}, "limit -1"},
		{Spec{Name: "x", Limit: math.NaN()}, "limit NaN"},
		{Spec{Name: "x", Kind: Sign}, "how much is too much"},
		{Spec{Name: "x", Kind: Sign, Find: true, Limit: 1}, "Find is set"},
		{Spec{Name: "x", Kind: Sign, Limit: 1, Of: "nothing"}, "add that first"},
		{Spec{Name: "x", Kind: Shown}, "give it a limit"},
		{Spec{Name: "x", Kind: Shown, Find: true, Limit: 1}, "give it a limit"},
		{Spec{Name: "x", Kind: Shown + 1}, "no kind"},
		{Spec{Name: "x", Target: 1}, "target 1"},
		{Spec{Name: "x", Target: 0.5}, "target 0.5"},
		{Spec{Name: "x", Margin: 0.7}, "margin 0.7"},
		{Spec{Name: "x", Over: -1}, "over"},
	} {
		if _, err := l.Add(c.spec); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: error %v, want one with %q", c.spec, err, c.want)
		}
	}
}

// What is granted to cohorts counts until the next sample, so that loops together do
// not run more tasks than there is room for.
func TestGrantsAddUp(t *testing.T) {
	l := NewLedger()
	r := mustAdd(t, l, Spec{Name: "memory", Limit: 100, Target: 0.9})
	l.Observe(time.Second, r, 60)
	testenv.Equal(t, l.Grant(r, 4, 5), 5, "granted")
	testenv.Equal(t, l.Grant(r, 4, 5), 2, "granted")
	testenv.Equal(t, l.Grant(r, 4, 5), 0, "granted")
	l.Observe(2*time.Second, r, 60)
	testenv.Equal(t, l.Grant(r, 4, 5), 5, "after a sample granted")
	testenv.Equal(t, l.Grant(9, 4, 5), 5, "of an unknown resource granted")
}

func TestStateNames(t *testing.T) {
	for s, want := range map[State]string{Low: "low", Rising: "rising", AtLimit: "at limit", 7: "state 7"} {
		testenv.Equal(t, s.String(), want)
	}
	for v, want := range map[Verdict]string{Admit: "admit", Defer: "defer", Refuse: "refuse"} {
		testenv.Equal(t, v.String(), want)
	}
}

// A heap that was found full is not full for ever: when those that filled it have gone, and
// nothing new is known, there is room again.
func TestLateObservationsAreOutdated(t *testing.T) {
	l := NewLedger()
	heap := mustAdd(t, l, Spec{Name: "heap", Limit: 100, Kind: Collected})
	g := l.NewLimit("bottleneck")
	g.SetDemand([]Moments{{Mean: 10}})
	now := time.Duration(0)
	for range 100 { // the window opens
		now += 10 * time.Millisecond
		l.Observe(now, heap, float64(10*g.Inside()))
		l.Tick(now)
		g.admit(now, g.share(0))
	}
	if n := g.Inside(); n < 8 || n > 10 {
		t.Fatalf("%d are inside, want 9 or 10", n)
	}
	l.Observe(now, heap, 100)
	for range g.Inside() {
		g.finished(g.share(0))
	}
	for range 10 {
		now += 10 * time.Millisecond
		l.Tick(now)
	}
	l.recount()
	if g.room(g.granted()) == 0 {
		var r Report
		l.Report(&r)
		t.Errorf("there is no room though nobody is inside: %+v", r.Resources)
	}
	testenv.AtMost(t, l.account(heap).util, 0.5, "utilisation")
}

// A collection counts what is allocated while it goes on, sometimes as much as what is
// really in use. Tasks are let in as if that were not there.
func TestWhatCollectionsCountTooMuchKeepsNobodyOut(t *testing.T) {
	l := NewLedger()
	heap := mustAdd(t, l, Spec{Name: "heap", Limit: 1000, Kind: Collected})
	g := l.NewLimit("bottleneck")
	g.SetDemand([]Moments{{Mean: 10}})
	rng := rand.New(rand.NewPCG(*seedFlag, 5))
	now := time.Duration(0)
	fewest := math.MaxInt
	for i := range 300 {
		now += 10 * time.Millisecond
		floating := 0.0
		if i%4 != 0 {
			floating = 400 * rng.Float64()
		}
		l.Observe(now, heap, 100+float64(10*g.Inside())+floating)
		l.Tick(now)
		for g.admit(now, g.share(0)) {
		}
		if i > 100 {
			fewest = min(fewest, g.Inside())
		}
		for range g.Inside() / 4 {
			g.finished(g.share(0))
		}
		for g.admit(now, g.share(0)) {
		}
	}
	if fewest < 85 || g.Inside() > 90 {
		t.Errorf("%d to %d tasks were inside, want nearly 90", fewest, g.Inside())
	}
}

// What admitted tasks are known to hold is not promised to them as well.
func TestWhatIsKnownToBeHeld(t *testing.T) {
	for _, c := range []struct {
		name     string
		inside   int
		seen     int
		held     float64
		observed []float64 // one a second
		room     int
	}{
		{name: "of nobody", inside: 20, observed: []float64{200}, room: 80},
		{name: "of all", inside: 20, seen: 20, held: 500, observed: []float64{500}, room: 50},
		{name: "of half", inside: 20, seen: 10, held: 500, observed: []float64{600}, room: 40},
		{name: "others hold much", inside: 20, seen: 20, held: 300, observed: []float64{600, 600, 600, 600}, room: 40},
		{name: "a collection finds less", inside: 20, seen: 20, held: 800, observed: []float64{100}, room: 20},
		{name: "before a task runs", inside: 21, seen: 20, held: 500, observed: []float64{500}, room: 49},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := NewLedger()
			heap := mustAdd(t, l, Spec{Name: "heap", Limit: 1000, Kind: Collected})
			g := l.NewLimit("requests")
			g.window = Knee{Start: 1000}
			g.SetDemand([]Moments{{Mean: 10}})
			for range c.inside {
				if !g.admit(0, g.share(0)) {
					t.Fatal("there is no room")
				}
			}
			l.Meter(func() (int, float64) { return c.seen, c.held })
			for i, v := range c.observed {
				l.Observe(time.Duration(i+1)*time.Second, heap, v)
				l.Tick(time.Duration(i+1) * time.Second)
			}
			l.mu.Lock()
			room := g.room(g.granted())
			l.mu.Unlock()
			if room < c.room-1 || room > c.room+1 {
				t.Errorf("there is room for %d more, want %d", room, c.room)
			}
		})
	}
}

// What is counted is in use now, whatever it was before; beside it counts what those inside may yet take, and no more.
func TestWhatTasksInsideMayYetTake(t *testing.T) {
	for _, c := range []struct {
		name     string
		ahead    int     // tasks of which it is known where they are, of 30 inside
		yet      float64 // what these may yet take
		observed []float64
		left     int // since then
		came     int
		room     int
	}{
		{name: "nobody knows where they are", observed: []float64{60}, room: 10},
		{name: "all are yet to take it", ahead: 30, yet: 30, observed: []float64{60}, room: 10},
		{name: "no one takes any more", ahead: 30, observed: []float64{60}, room: 40},
		{name: "half of them", ahead: 20, yet: 5, observed: []float64{60}, room: 25},
		{name: "others than those inside", ahead: 40, yet: 10, observed: []float64{60}, room: 30},
		{name: "more was in use before", ahead: 30, observed: []float64{99, 99, 99, 60}, room: 40},
		{name: "less was in use before", ahead: 30, observed: []float64{0, 0, 0, 60}, room: 40},
		{name: "ten have left since", ahead: 30, yet: 30, observed: []float64{60}, left: 10, room: 20},
		{name: "ten have come since", ahead: 30, yet: 15, observed: []float64{60}, came: 10, room: 15},
		{name: "as many have left as have come", ahead: 30, observed: []float64{60}, left: 10, came: 10, room: 40},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := NewLedger()
			files := mustAdd(t, l, Spec{Name: "files", Limit: 100, Kind: Kept})
			g := l.NewLimit("requests")
			g.window = Knee{Start: 1000}
			come := func(n int) {
				for range n {
					if !g.admit(0, g.share(0)) {
						t.Fatal("there is no room")
					}
				}
			}
			come(30)
			g.SetDemand([]Moments{{Mean: 1}})
			for i, v := range c.observed {
				l.Ahead(c.ahead, []float64{c.yet})
				l.Observe(time.Duration(i+1)*step, files, v)
				l.Tick(time.Duration(i+1) * step)
			}
			for range c.left {
				g.finished(g.share(0))
			}
			come(c.came)
			l.mu.Lock()
			l.recount()
			room := g.room(g.granted())
			l.mu.Unlock()
			if room += int(g.share(0).credit()); room != c.room {
				t.Errorf("there is room for %d more, want %d", room, c.room)
			}
		})
	}
}

// If the collector is busy although much of the given limit is free, less load would not
// help: it collects at twice what is reachable, wherever that is.
func TestABusyCollectorDoesNotCloseAnEmptyHeap(t *testing.T) {
	l := NewLedger()
	heap := mustAdd(t, l, Spec{Name: "heap", Limit: 1000, Find: true})
	gc := mustAdd(t, l, Spec{Name: "gc", Limit: 0.25, Kind: Sign, Of: "heap"})
	now := time.Duration(0)
	for range 1000 {
		now += 10 * time.Millisecond
		l.Observe(now, heap, l.account(heap).limit)
		l.Observe(now, gc, 0.5)
		l.Tick(now)
	}
	if limit := l.account(heap).limit; limit < 350 || limit > 700 {
		t.Errorf("the limit has been lowered to %.0f, want about 550", limit)
	}
}
