package sched

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/admit"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// world is a policy with one resource of 1000 and four nodes of the same cost: 1 takes
// and gives back later, 2 gives back, 3 does neither, 4 takes for good.
type world struct {
	*Resource
	t      *testing.T
	ledger *admit.Ledger
	memory admit.ResourceID
	now    time.Duration
	learnt []Prediction
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, ledger: admit.NewLedger()}
	w.memory = mustAdd(t, w.ledger, admit.Spec{Name: "memory", Limit: 1000})
	step := func(change, net, left float64) Prediction {
		return Prediction{Steps: 100, CPU: admit.Moments{Mean: 1000}, Changes: []admit.Moments{{Mean: change}}, Net: []float64{net}, Left: left}
	}
	w.learnt = []Prediction{{}, step(10, 0, 4000), step(-10, -10, 4000), step(0, 0, 4000), step(10, 10, 4000)}
	w.Resource = NewResource(ResourceConfig{Ledger: w.ledger, Predictions: func() []Prediction { return w.learnt }, Size: 4})
	for n := range Node(5) {
		w.Count(n, 1)
	}
	order(w, 1)
	return w
}

// at brings the memory in use to a value, and lets the policy see it.
func (w *world) at(used float64) {
	w.now += 10 * time.Second
	w.ledger.Observe(w.now, w.memory, used)
	w.Tick(w.now)
}

// shares runs for a while with tasks always ready at these nodes, and returns what part
// of the time each got.
func (w *world) shares(nodes ...Node) map[Node]float64 {
	for _, n := range nodes {
		for range 10 {
			w.Count(n, 1)
		}
	}
	got := map[Node]float64{}
	const steps = 20_000
	for range steps {
		n, ok := next(w)
		if !ok {
			w.t.Fatal("no node is named, though tasks are ready")
		}
		got[n] += 1. / steps
		w.Ran(n, 1, 1000, 0)
		w.Count(n, 1)
	}
	for _, n := range nodes {
		w.Count(n, -10)
	}
	return got
}

func (w *world) report(n Node) NodeReport {
	var r Report
	w.Report(&r)
	return r.Nodes[slices.IndexFunc(r.Nodes, func(x NodeReport) bool { return x.Node == n })]
}

func TestAtLimitGiversArePromotedAndTakersDemoted(t *testing.T) {
	w := newWorld(t)
	w.at(960)
	got := w.shares(1, 2, 3)
	if got[2] < 5*got[3] || got[3] < 5*got[1] || got[1] == 0 {
		t.Errorf("shares %v: want those that give far before those that do not, and takers last", got)
	}
	if r := w.report(1); !strings.HasPrefix(r.Held, "demoted: takes memory, of which 96 %") || r.Priority >= 0 {
		t.Errorf("the taker: %+v", r)
	}
	if r := w.report(2); r.Held != "" || r.Priority <= 0 {
		t.Errorf("the giver: %+v", r)
	}
}

func TestPlentifulResourcesAreUsed(t *testing.T) {
	w := newWorld(t)
	w.at(10)
	got := w.shares(1, 2, 3)
	if got[1] <= got[3] || got[3] <= got[2] {
		t.Errorf("shares %v: want takers first", got)
	}
	w.at(600) // neither plentiful nor scarce
	got = w.shares(1, 2, 3)
	for n, share := range got {
		if math.Abs(share-1./3) > 0.02 {
			t.Errorf("node %d has a share of %.3f, want a third", n, share)
		}
	}
}

func TestNearerToCompletionIsPreferred(t *testing.T) {
	w := newWorld(t)
	for n, left := range map[Node]float64{1: 8000, 2: 4000, 3: 500} {
		w.learnt[n] = Prediction{Steps: 100, CPU: admit.Moments{Mean: 1000}, Left: left}
	}
	w.at(0)
	got := w.shares(1, 2, 3)
	if got[3] < 1.5*got[2] || got[2] < 1.5*got[1] || got[3] > 5*got[1] {
		t.Errorf("shares %v: want more for those with less left, but not by far", got)
	}
}

// Any order will do while nothing is scarce, nor will soon be.
func TestAnyOrderUnlessSomethingIsScarce(t *testing.T) {
	for name, c := range map[string]struct {
		used     float64 // of a million
		node     Prediction
		claim    *Claim
		anyOrder bool
	}{
		"plentiful":                 {100e3, taking(0.001, 0.001), nil, true},
		"rising":                    {900e3, taking(0, 0), nil, false},
		"at the limit":              {990e3, taking(0, 0), nil, false},
		"taken fast":                {100e3, taking(10, 10), nil, false},
		"taken fast, but not kept":  {100e3, taking(10, 0), nil, true},
		"taken slowly, little left": {599.95e3, taking(0.001, 0.001), nil, false},
		"exclusive":                 {100e3, taking(0, 0), NewClaim(nil), false},
	} {
		ledger := admit.NewLedger()
		memory := mustAdd(t, ledger, admit.Spec{Name: "memory", Limit: 1e6})
		p := NewResource(ResourceConfig{
			Ledger: ledger, Predictions: func() []Prediction { return []Prediction{{}, c.node} },
			Claim: func(n Node) *Claim { return map[Node]*Claim{2: c.claim}[n] },
		})
		p.Count(2, 1) // a loop that has not met node 1 yet
		for now := range time.Duration(20) {
			ledger.Observe(now*time.Second, memory, c.used)
			p.Tick(now * time.Second)
		}
		testenv.Equal(t, p.AnyOrder(), c.anyOrder, "%s: any order will do", name)
	}
}

// taking is a step of 1000 cycles that takes so much, of which so much is kept.
func taking(change, net float64) Prediction {
	return Prediction{Steps: 100, CPU: admit.Moments{Mean: 1000}, Changes: []admit.Moments{{Mean: change}}, Net: []float64{net}}
}

func TestNoiseDoesNotCount(t *testing.T) {
	w := newWorld(t)
	w.learnt[1].Changes[0].Variance = 1e6 // ten, give or take a thousand
	w.at(990)
	got := w.shares(1, 3)
	if math.Abs(got[1]-0.5) > 0.02 {
		t.Errorf("shares %v: want halves, as it is not known that node 1 takes", got)
	}
}

func TestSmallTakersAreDemotedLess(t *testing.T) {
	w := newWorld(t)
	w.learnt[3].Changes[0].Mean = 1
	w.at(990)
	got := w.shares(1, 3)
	if got[3] < 4*got[1] {
		t.Errorf("shares %v: want most for the one that takes a tenth", got)
	}
}

// A node that keeps what it takes does not run at all while there is no room, even if
// nothing else is ready; but for one task when a second is over.
func TestKeeperIsHeldAndReleased(t *testing.T) {
	w := newWorld(t)
	w.at(930) // up to 950: room for two
	for range 10 {
		w.Count(4, 1)
	}
	testenv.EqualSlices(t, order(w, 1000), []Node{4, 4}, "with room for two ran")
	if r := w.report(4); !strings.HasPrefix(r.Held, "held: takes memory") || r.Ready != 8 {
		t.Errorf("%+v", r)
	}
	w.Count(3, 1)
	if got := order(w, 1000); !slices.Equal(got, []Node{3}) {
		t.Errorf("beside it %v ran, want node 3", got)
	}
	// Nothing changes for a while.
	ran := 0
	w.at(1000)
	for range 500 {
		w.now += 10 * time.Millisecond
		w.Tick(w.now)
		ran += len(order(w, 1000))
	}
	if ran < 4 || ran > 5 {
		t.Errorf("%d tasks ran in 5 s of being held, want one in a second", ran)
	}
	w.at(500)
	if got := order(w, 1000); len(got) != 8-ran {
		t.Errorf("with enough room %v ran, want all %d", got, 8-ran)
	}
	testenv.Equal(t, w.report(4).Held, "", "when nothing holds it, it")
}

// Room that was granted for the tasks of a cohort is given back for those that did not run in it.
func TestRoomForTasksThatDidNotRunIsGivenBack(t *testing.T) {
	w := newWorld(t)
	w.at(910) // up to 950: room for four
	ready(w, 4, 4, 4, 4)
	if n, steps, _ := w.Choose(); n != 4 || steps != 4 {
		t.Fatalf("%d tasks of node %d are chosen, want 4 of 4", steps, n)
	}
	testenv.Equal(t, w.ledger.Grant(w.memory, 10, 1), 0, "more are granted room")
	w.Ran(4, 1, 1000, 0)
	w.Count(4, -3)
	w.Tick(w.now)
	testenv.Equal(t, w.ledger.Grant(w.memory, 10, 10), 3, "are granted room when one has run")
}

// The nodes are ranked anew as soon as the state of a resource changes.
func TestAStateThatChangesIsSeenAtOnce(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		used    float64
		demoted bool
	}{{10, false}, {1000, true}, {10, false}} {
		w.now += time.Millisecond
		w.ledger.Observe(w.now, w.memory, c.used)
		w.Tick(w.now)
		testenv.Equal(t, w.report(1).Tickets < w.report(2).Tickets, c.demoted, "with %v of 1000 in use the node that takes comes after the one that gives", c.used)
	}
}

// Tasks that have been let in at an entrance are not held, for what holds them up holds up
// what they will give back.
func TestTasksInsideAreNotHeld(t *testing.T) {
	w := newWorld(t)
	w.learnt[4].Inside = true
	w.at(2000)
	ready(w, 4, 4, 4)
	if got := order(w, 1000); len(got) != 3 {
		t.Errorf("%v ran, want all three", got)
	}
	if r := w.report(4); r.Tickets >= DefaultTickets {
		t.Errorf("%+v, want it demoted", r)
	}
}

// The longest that a node waits, whatever its tickets: the stated bound, (T/t + n)
// quanta.
func TestNoNodeStarves(t *testing.T) {
	eachSeed(t, 200, func(t *testing.T, rng *rand.Rand) {
		nodes := 2 + rng.IntN(30)
		l := admit.NewLedger()
		for r := range 3 {
			r := mustAdd(t, l, admit.Spec{Name: fmt.Sprint(r), Limit: 1000})
			l.Observe(time.Second, r, 1000*rng.Float64())
		}
		learnt := make([]Prediction, nodes)
		for n := range learnt {
			p := &learnt[n]
			p.Steps, p.Inside = 1, true
			p.CPU.Mean = 1000 * rng.Float64()
			p.Left = 1e6 * rng.Float64()
			for range 3 {
				p.Changes = append(p.Changes, admit.Moments{Mean: 100 * (rng.Float64() - 0.5)})
			}
			if rng.IntN(10) == 0 { // garbage does no harm either
				p.Left, p.CPU.Mean, p.Changes[0].Mean = math.NaN(), math.Inf(1), math.Inf(-1)
			}
		}
		p := NewResource(ResourceConfig{Ledger: l, Predictions: func() []Prediction { return learnt }})
		p.Count(Node(nodes-1), 1)
		order(p, 1)
		for n := range Node(nodes) {
			p.Count(n, 1)
			p.Count(n, 1)
		}
		p.Tick(time.Second)
		const longest = 50_000 // cycles of a step
		quantum := float64(p.quantum + longest)
		total, least := 0.0, math.Inf(1)
		for n := range Node(nodes) {
			tickets := float64(p.stride.Tickets(n))
			if tickets < DefaultTickets>>topPriority || tickets > DefaultTickets<<topPriority {
				t.Fatalf("node %d has %v tickets", n, tickets)
			}
			total += tickets
			least = min(least, tickets)
		}
		bound := uint64((total/least + float64(nodes)) * quantum)
		last := make([]uint64, nodes)
		clock := uint64(0)
		for range 100_000 {
			n, _ := next(p)
			last[n] = clock
			c := uint64(rng.IntN(longest))
			clock += c
			p.Ran(n, 1, c, 0)
			p.Count(n, 1)
			for m := range last {
				if clock-last[m] > bound {
					t.Fatalf("node %d has waited for %d cycles, the bound is %d", m, clock-last[m], bound)
				}
			}
		}
	})
}

// Costly nodes get no more of the processor than cheap ones.
func TestVariableQuantaAreCharged(t *testing.T) {
	p := NewResource(ResourceConfig{Size: 8})
	for range 20 {
		ready(p, 1, 2)
	}
	used := map[Node]int{}
	for range 100_000 {
		n, _ := next(p)
		c := 1000
		if n == 2 {
			c = 37_000
		}
		used[n] += c
		p.Ran(n, 1, uint64(c), 0)
		p.Count(n, 1)
	}
	if x := float64(used[1]) / float64(used[2]); math.Abs(x-1) > 0.01 {
		t.Errorf("cycles used %v, want equal", used)
	}
}

func TestNothingIsAllocatedWhileTasksRun(t *testing.T) {
	w := newWorld(t)
	w.at(990)
	rng := rand.New(rand.NewPCG(1, 1))
	gate := w.ledger.NewLimit("requests")
	gate.SetDemand([]admit.Moments{{Mean: 1}})
	admission := admit.NewAdmission(0, true, func(int) *admit.ConcurrencyLimit { return gate })
	c := NewCohort(CohortConfig{})
	work := func() {
		w.now += 15 * time.Millisecond
		w.ledger.Observe(w.now, w.memory, 990*rng.Float64())
		w.ledger.Tick(w.now)
		for _, p := range []Policy{w, c} {
			p.Tick(w.now)
			for range 20 {
				p.Count(Node(1+rng.IntN(4)), 1)
			}
			for range 20 {
				if n, ok := next(p); ok {
					p.Ran(n, 1, 1000, 0)
				}
			}
		}
		if admission.Next(w.now, 1, &admit.QueueState{Waiting: 1, Oldest: time.Millisecond}) == admit.Admit {
			admission.Left(w.now, 1)
		}
	}
	for range 1000 {
		work()
	}
	testenv.Equal(t, testing.AllocsPerRun(1000, work), 0, "allocations")
}

// BenchmarkRank is what ranking costs, once every 20 ms.
func BenchmarkRank(b *testing.B) {
	for _, nodes := range []int{10, 1000} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			l := admit.NewLedger()
			learnt := make([]Prediction, nodes)
			rng := rand.New(rand.NewPCG(1, 1))
			for r := range 8 {
				id, _ := l.Add(admit.Spec{Name: fmt.Sprint(r), Limit: 1000})
				l.Observe(time.Second, id, 1000*rng.Float64())
			}
			for n := range learnt {
				learnt[n] = Prediction{Steps: 1, CPU: admit.Moments{Mean: 1000}, Left: 1000 * rng.Float64()}
				for range 8 {
					learnt[n].Changes = append(learnt[n].Changes, admit.Moments{Mean: rng.Float64() - 0.5})
				}
			}
			p := NewResource(ResourceConfig{Ledger: l, Predictions: func() []Prediction { return learnt }})
			for n := range Node(nodes) {
				p.Count(n, 1)
			}
			p.Tick(time.Second)
			b.ReportAllocs()
			for b.Loop() {
				p.rank()
			}
		})
	}
}
