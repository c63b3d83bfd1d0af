package feed

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/admit"
	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/probe"
	"github.com/capriccio-go/capriccio/internal/recorder"
	"github.com/capriccio-go/capriccio/internal/sched"
	"github.com/capriccio-go/capriccio/internal/sim/programs"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/ressched"
	"github.com/capriccio-go/capriccio/stackchunk"
)

// fed makes a runtime on a simulated clock.
func fed(t testing.TB, loops int, seed uint64, cfg Config) (*engine.Runtime, *Feed) {
	t.Helper()
	if cfg.Graph == nil {
		cfg.Graph = recorder.New(recorder.Config{Sampling: 1, HeapEvery: 1})
	}
	s := testenv.Need(New(cfg))(t)
	return programs.Simulated(t, loops, seed, func(c *engine.Config) {
		c.Graph = cfg.Graph
		s.Plug(c)
	}), s
}

// heap is a reading of a heap that is nearly empty.
func heap(*engine.Runtime) []probe.Reading {
	return []probe.Reading{{Name: probe.Heap, Value: 1 << 20, Limit: 1 << 30}, {Name: probe.GC, Value: 0.9, Limit: 0.25, Sign: true}}
}

// The programs that every way of running tasks must run right, under both policies.
func TestRandomPrograms(t *testing.T) {
	for _, cfg := range []Config{{Policy: Cohort}, {Policy: Cohort, CohortSize: 3}, {Policy: Resource}, {Policy: Resource, NoRefusals: true}} {
		t.Run(cfg.Policy, func(t *testing.T) {
			programs.Run(t, testenv.Rounds(6, 40), func(t testing.TB, loops int, seed uint64) *engine.Runtime {
				rt, s := fed(t, loops, seed, cfg)
				if s.ledger != nil { // what Run does, at odd moments
					s.tick(rt.Now(), seed, nil)
					rt.Loop(0).Post(func() { s.tick(rt.Now(), seed+1, nil) })
				}
				return rt
			})
		})
	}
}

func TestUnknownPolicies(t *testing.T) {
	if _, err := New(Config{Policy: "best"}); err == nil || !strings.Contains(err.Error(), "cohort") {
		t.Errorf("error %v, want one that names the policies", err)
	}
	if _, err := New(Config{Policy: Resource}); err == nil || !strings.Contains(err.Error(), "graph") {
		t.Errorf("error %v, want one about the graph", err)
	}
}

// An Entrance where every task goes on to allocate 1 MiB, to take 2 tokens, to start 7 others and to use a stack chunk: the
// demand that is predicted there is that. Tasks and stack chunks are counted by the engine, and learnt as what a program
// declares is.
func TestDemandIsLearntFromTheGraph(t *testing.T) {
	e := testenv.Need(engine.NewEntrance("learn"))(t)
	tokens := testenv.Need(admit.NewResource("learn tokens", ""))(t)
	tokens.SetLimit(100)
	engine.Tasks.SetLimit(1000)
	defer engine.Tasks.SetLimit(0)
	rt, s := fed(t, 1, 1, Config{Policy: Resource})
	defer rt.Close()
	before := engine.Tasks.InUse()
	var sink []byte
	testenv.Must(t, rt.Go(func() {
		for range 100 {
			engine.Go(func() {
				if err := e.Enter(); err != nil {
					t.Error(err)
					return
				}
				defer e.Leave()
				sink = make([]byte, 1<<20)
				engine.Acquire(tokens, 2)
				for range 7 {
					engine.Go(func() { engine.Sleep(time.Millisecond) })
				}
				stackchunk.Call(100<<10, func() { engine.Sleep(2 * time.Millisecond) })
				engine.Release(tokens, 2)
				engine.Yield()
			}).Join()
		}
		testenv.Equal(t, engine.Tasks.InUse()-before, 1, "tasks are left: this one")
	}).Join())
	_ = sink
	testenv.Equal(t, engine.Tasks.InUse(), before, "tasks are left")
	s.tick(rt.Now()+learnEvery, 1, heap(rt))
	var p *sched.Prediction
	for id, name := range s.cfg.Graph.Entrances() {
		if name == "learn" {
			p = &s.predicted()[id]
		}
	}
	for _, c := range []struct {
		what        string
		resource    int
		least, most float64
	}{
		{"bytes of the heap", int(s.memory), 1 << 20, 1.3 * (1 << 20)},
		{"tokens", watched(t, s, tokens), 1.9, 2.1},
		{"tasks", watched(t, s, engine.Tasks), 6.5, 7.5},
		{"bytes of stack chunks", watched(t, s, engine.StackSpace), 100 << 10, 512 << 10},
	} {
		if n := p.Peak[c.resource].Mean; n < c.least || n > c.most {
			t.Errorf("a task is expected to hold %.1f %s, want %.1f to %.1f", n, c.what, c.least, c.most)
		}
	}
	testenv.AtMost(t, p.Net[s.memory], 0.2*(1<<20), "bytes that a task is expected to have taken in the end")
	state := func() admit.State {
		var r admit.Report
		s.ledger.Report(&r)
		return r.Resources[watched(t, s, engine.Tasks)].State
	}
	testenv.Equal(t, state(), admit.Low, "tasks")
	const held = 960
	engine.Acquire(engine.Tasks, held) // as of tasks that do not end
	defer engine.Release(engine.Tasks, held)
	s.tick(rt.Now()+2*learnEvery, 2, nil)
	testenv.Equal(t, state(), admit.AtLimit, "with %d tasks of 1000", held)
}

// A limit that the program takes back holds nobody up any more, be it that none is known or that it is to be found; and
// it may be set again.
func TestALimitMayBeTakenBack(t *testing.T) {
	slots := testenv.Need(admit.NewResource("taken back", ""))(t)
	defer slots.SetLimit(0)
	rt, s := fed(t, 1, 1, Config{Policy: Resource})
	defer rt.Close()
	testenv.Must(t, rt.Go(func() { engine.Acquire(slots, 10) }).Join())
	defer engine.Release(slots, 10)
	for i, c := range []struct {
		set   int64
		limit float64
		state admit.State
	}{
		{10, 10, admit.AtLimit}, {0, 0, admit.Low}, {10, 10, admit.AtLimit}, {-1, 0, admit.Low}, {0, 0, admit.Low},
		{-1, 0, admit.Low}, {40, 40, admit.Low}, {10, 10, admit.AtLimit},
	} {
		slots.SetLimit(c.set)
		for k := range 2 { // it is watched from the first on
			n := 2*i + k + 1
			s.tick(rt.Now()+time.Duration(n)*learnEvery, uint64(n), heap(rt))
		}
		var r admit.Report
		s.ledger.Report(&r)
		if got := r.Resources[watched(t, s, slots)]; got.Limit != c.limit || got.State != c.state || got.Used != 10 {
			t.Errorf("step %d, after SetLimit(%d): %+v; want 10 of %v in use, %v", i, c.set, got, c.limit, c.state)
		}
	}
}

// A resource that has the name of something that is watched already is left out, and nothing else.
func TestANameThatIsTaken(t *testing.T) {
	same := testenv.Need(admit.NewResource(probe.Heap, ""))(t)
	other := testenv.Need(admit.NewResource("after a taken name", ""))(t)
	for _, r := range []*admit.Resource{same, other} {
		r.SetLimit(10)
		defer r.SetLimit(0)
	}
	rt, s := fed(t, 1, 1, Config{Policy: Resource})
	defer rt.Close()
	testenv.Must(t, rt.Go(func() {
		for _, r := range []*admit.Resource{same, other} {
			engine.Acquire(r, 1)
			engine.Release(r, 1)
		}
	}).Join())
	s.tick(rt.Now()+learnEvery, 1, nil)
	watched(t, s, other)
	testenv.Need(s.ledger.Add(admit.Spec{Name: probe.GC, Limit: 1}))(t)
	readings := heap(rt)
	slices.Reverse(readings)
	testenv.Fails(t, s.observe(rt.Now()+2*learnEvery, readings), "no error although a reading has the name of a resource")
	var r admit.Report
	s.ledger.Report(&r)
	testenv.Equal(t, r.Resources[s.memory].Used, 1<<20, "of the heap are in use: it was read after what can't be watched")
}

// watched is where a resource is in predictions.
func watched(t *testing.T, s *Feed, r *admit.Resource) int {
	t.Helper()
	i := slices.Index(admit.Resources(), r)
	if i >= len(s.resource) || s.resource[i] < 0 {
		t.Fatalf("the resource %q is not watched", r.Name())
	}
	return s.resource[i]
}

// Others on the machine wait for memory; the program has all that it wants, and lets nobody wait for that.
func TestPressureWhereMemoryIsPlentiful(t *testing.T) {
	for _, c := range []struct {
		used, limit float64
		counts      bool
	}{{1 << 30, 10 << 30, false}, {9.6 * (1 << 30), 10 << 30, true}} {
		rt, s := fed(t, 1, 1, Config{Policy: Resource})
		window := func() float64 { // of the limit, which is reported last
			var r admit.Report
			s.ledger.Report(&r)
			return r.Resources[len(r.Resources)-1].Limit
		}
		limit := s.ledger.NewLimit("test")
		a := admit.NewAdmission(0, true, func(int) *admit.ConcurrencyLimit { return limit })
		s.tick(0, 1, heap(rt))
		before := window()
		for a.Next(0, 1, &admit.QueueState{Waiting: 1}) == admit.Admit {
		}
		for i := range 5 {
			s.tick(time.Duration(i+1)*20*time.Millisecond, uint64(i), append(heap(rt),
				probe.Reading{Name: probe.Memory, Value: c.used, Limit: c.limit},
				probe.Reading{Name: probe.Pressure, Value: 0.5, Limit: probe.MuchPressure, Sign: true},
				probe.Reading{Name: probe.Faults, Value: 1000, Limit: probe.MuchFaults, Sign: true}))
		}
		if after := window(); (after < before) != c.counts {
			t.Errorf("%.0f of %.0f bytes in use: the window goes from %v to %v", c.used, c.limit, before, after)
		}
		rt.Close()
	}
}

func TestNoTaskIsExpectedToHoldMoreThanAnyIsLikelyTo(t *testing.T) {
	for _, c := range []struct{ is, want admit.Moments }{
		{admit.Moments{Mean: 10, Variance: 100}, admit.Moments{Mean: 10, Variance: 100}},
		{admit.Moments{Mean: 10, Variance: 1000}, admit.Moments{Mean: 10, Variance: 10 * 90}},
		{admit.Moments{Mean: 1000, Variance: 1}, admit.Moments{Mean: 100}},
		{admit.Moments{}, admit.Moments{}},
	} {
		testenv.Equal(t, atMost(c.is, 100), c.want, "%v, of which no task takes more than 100", c.is)
	}
}

// With a limit on a declared resource, no more tasks are let in than it is enough for,
// once it is known what they take.
func TestNoMoreAreLetInThanThereIsRoomFor(t *testing.T) {
	const limit = 20
	e := testenv.Need(engine.NewEntrance("room"))(t)
	slots := testenv.Need(admit.NewResource("slots", ""))(t)
	slots.SetLimit(limit)
	defer slots.SetLimit(1 << 40)
	rt, s := fed(t, 1, 1, Config{Policy: Resource, NoRefusals: true})
	defer rt.Close()
	inside, most, served := 0, 0, 0
	work := func() {
		if err := e.Enter(); err != nil {
			t.Error(err)
			return
		}
		engine.Acquire(slots, 1)
		inside++
		most = max(most, inside)
		engine.Sleep(5 * time.Millisecond)
		inside--
		served++
		engine.Release(slots, 1)
		e.Leave()
	}
	testenv.Must(t, rt.Run(context.Background(), func(context.Context) error {
		for range 100 { // learns
			engine.Go(work).Join()
		}
		s.tick(rt.Now(), 1, heap(rt))
		most = 0
		var all []*engine.Task
		for range 500 {
			all = append(all, engine.Go(work))
		}
		n := uint64(1)
		stop := false
		engine.Go(func() {
			for !stop {
				engine.Sleep(10 * time.Millisecond)
				n++
				s.tick(rt.Now(), n, nil)
			}
		})
		for _, k := range all {
			k.Join()
		}
		stop = true
		return nil
	}))
	testenv.Equal(t, served, 600, "were served")
	testenv.AtMost(t, most, limit, "were inside at a time, there is room for %d", limit)
	testenv.AtLeast(t, most, limit*7/10, "at most N were inside at a time, though there is room for %d", limit)
}

func TestExplain(t *testing.T) {
	rt, s := fed(t, 2, 1, Config{Policy: Resource})
	defer rt.Close()
	s.patience = time.Hour // on a slow machine a loop that only sleeps answers late, too
	var stop atomic.Bool
	met := make(chan struct{}) // the graph has the node
	busy := rt.Go(func() {     // a node is known to the policy once a task was ready there
		for i := 0; !stop.Load(); i++ {
			if engine.YieldAt("somewhere"); i == 10 {
				close(met)
			}
		}
	})
	defer func() {
		stop.Store(true)
		busy.Join()
	}()
	<-met
	s.tick(rt.Now(), 1, heap(rt))
	got := s.cfg.Graph.Snapshot()
	testenv.Check(t, got.Validate())
	said := got.Sched
	if said == nil || said.Policy != Resource || len(said.Nodes) == 0 || len(said.Resources) < 2 {
		t.Fatalf("the scheduler says %+v; want policy, nodes and resources", said)
	}
	if said.Resources[0].Name != probe.Heap || said.Resources[0].State != admit.Low.String() {
		t.Errorf("first resource %+v, want the heap, low", said.Resources[0])
	}
	for _, n := range said.Nodes {
		if got.Node(n.Key) == nil {
			t.Errorf("node %v is not in the graph", n.Key)
		}
	}
}

// A loop that is stuck does not keep others from explaining themselves, and counters don't fall.
func TestExplainWithALoopThatIsStuck(t *testing.T) {
	rt, s := fed(t, 1, 1, Config{Policy: Resource})
	defer rt.Close()
	limit := testenv.Need(engine.NewEntrance("stuck"))(t)
	const admitted = 5
	for range admitted {
		rt.Go(func() { testenv.Check(t, limit.Enter()); limit.Leave() }).Join()
	}
	stuck, free := make(chan struct{}), make(chan struct{})
	rt.Go(func() { close(stuck); <-free })
	<-stuck
	if got := s.Explain(); got.Policy != Resource || len(got.Nodes) != 0 || got.Admitted != admitted {
		t.Errorf("explained %+v; want the policy and %d admitted", got, admitted)
	}
	close(free)
}

var stageTests int // names of stages are not used twice

// A stage is an exclusive node of the policies of both loops: they share one claim, through
// which all tasks get.
func TestStagesAreExclusiveNodes(t *testing.T) {
	for _, policy := range []string{Cohort, Resource} {
		stageTests++
		name := fmt.Sprint("stage ", stageTests)
		stage := testenv.Need(ressched.NewStage(name))(t)
		rt, s := fed(t, 2, 1, Config{Policy: policy})
		inside, done := 0, 0 // in the stage only
		var all []*engine.Task
		for i := range 40 {
			all = append(all, engine.GoOn(rt.Loop(i%2), func() {
				for range 10 {
					stage.Do(func() {
						if inside++; inside != 1 {
							t.Error("two at a time")
						}
						done++
						inside--
					})
					engine.Yield()
				}
			}))
		}
		for _, k := range all {
			testenv.Must(t, k.Join())
		}
		s.mu.Lock()
		claims := len(s.claims)
		s.mu.Unlock()
		var cohorts, ran uint64
		s.patience = time.Hour // on a slow machine a loop that only sleeps answers late, too
		explained := s.Explain()
		for n := sched.Node(0); s.cfg.Graph.Key(n) != bgraph.KeyOverflow || n < 3; n++ {
			if s.cfg.Graph.Label(n) != name {
				continue
			}
			testenv.Equal(t, s.claim(n) != nil, true, "%s: the node of the stage is exclusive", policy)
			for _, x := range explained.Nodes {
				if x.Key == s.cfg.Graph.Key(n) {
					cohorts, ran = cohorts+x.Cohorts, ran+x.Ran
				}
			}
		}
		rt.Close()
		if cohorts == 0 || ran < cohorts || ran > 400 {
			t.Errorf("%s: %d cohorts of %d steps in all at the stage, which had 400", policy, cohorts, ran)
		}
		if done != 400 || claims != 1 {
			t.Errorf("%s: %d times in the stage, %d claims; want 400 and 1", policy, done, claims)
		}
	}
}
