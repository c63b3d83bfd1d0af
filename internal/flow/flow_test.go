package flow_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio"
	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/flow"
	"github.com/capriccio-go/capriccio/internal/sim/programs"
	"github.com/capriccio-go/capriccio/internal/testenv"
	graphwords "github.com/capriccio-go/capriccio/internal/words"
	"github.com/capriccio-go/capriccio/task"
)

// simulated runs main as a task, in a time that passes by itself when all tasks wait.
func simulated(t *testing.T, loops int, main func(rt *engine.Runtime)) {
	t.Helper()
	rt := programs.Simulated(t, loops, 1)
	testenv.Check(t, rt.Run(context.Background(), func(context.Context) error { main(rt); return nil }))
}

func start(t *testing.T, g *flow.Graph) {
	t.Helper()
	testenv.Must(t, g.Start())
}

func stop(t *testing.T, g *flow.Graph) {
	t.Helper()
	testenv.Check(t, g.Shutdown(context.Background()))
}

// each is a module that calls a function for each element, and may send on.
type each struct {
	Out flow.Out[int]
	do  func(f *flow.Flow, v int, out *flow.Out[int])
}

func (m *each) Run(c *flow.Call[int]) {
	for v, ok := c.Next(); ok; v, ok = c.Next() {
		m.do(c.Flow(), v, &m.Out)
	}
}

// sink is a module without outputs.
type sink struct{ do func(f *flow.Flow, v int) }

func (m *sink) Run(c *flow.Call[int]) {
	v, _ := c.Next() // one: Run is called again for the rest
	m.do(c.Flow(), v)
}

// recorder checks that what comes of one flow is 0, 1, 2 and so on, one at a time.
type recorder struct {
	State flow.Vars[recorded]
	t     *testing.T
	nap   func()
	count atomic.Int64
}

type recorded struct {
	next   int
	inside atomic.Bool
}

func (r *recorder) Run(c *flow.Call[int]) {
	for v, ok := c.Next(); ok; v, ok = c.Next() {
		s := r.State.Of(c.Flow())
		if !s.inside.CompareAndSwap(false, true) {
			r.t.Errorf("flow %d is worked on by two servlets", c.Flow().ID())
		}
		if s.next != v {
			r.t.Errorf("flow %d: got %d, want %d", c.Flow().ID(), v, s.next)
		}
		r.nap()
		s.next++
		s.inside.Store(false)
		r.count.Add(1)
	}
}

func TestOrderWithinAFlowIsKeptWhileServletsComeAndGo(t *testing.T) {
	flows, each_ := 100, 50
	for _, loops := range []int{1, 3} {
		simulated(t, loops, func(rt *engine.Runtime) {
			g := flow.New("order")
			var mu sync.Mutex
			rnd := rand.New(rand.NewPCG(1, uint64(loops)))
			nap := func() {
				mu.Lock()
				d := time.Duration(rnd.ExpFloat64() * float64(5*time.Millisecond))
				mu.Unlock()
				task.Sleep(d)
			}
			last := &recorder{t: t, nap: nap}
			first := &each{do: func(f *flow.Flow, v int, out *flow.Out[int]) {
				if v%7 == 0 {
					nap()
				}
				out.Send(f, v)
			}}
			in := flow.AddWith(g, "first", flow.ByFlow, flow.Options{High: 1, Queue: 50}, first)
			flow.Connect(&first.Out, flow.AddWith(g, "last", flow.ByFlow, flow.Options{High: 1}, last))
			start(t, g)
			var ended atomic.Int64
			var all task.WaitGroup
			for i := range flows {
				all.Go(func() {
					task.Sleep(time.Duration(i%5) * 300 * time.Millisecond) // bursts, with quiet between
					f := g.NewFlow(nil, func() { ended.Add(1) })
					defer f.Release()
					for v := range each_ {
						testenv.Check(t, in.Put(f, v))
					}
				})
			}
			all.Wait()
			stop(t, g)
			if got := last.count.Load(); got != int64(flows*each_) {
				t.Errorf("%d loops: %d elements, want %d", loops, got, flows*each_)
			}
			if got := ended.Load(); got != int64(flows) {
				t.Errorf("%d loops: %d flows have ended, want %d", loops, got, flows)
			}
			changes := uint64(0)
			for _, s := range g.Stats() {
				changes += s.Spawned + s.Retired
			}
			testenv.AtLeast(t, changes, 20, "%d loops: N servlets came and went; the test says nothing", loops)
		})
	}
}

func TestServletsFollowTheLoad(t *testing.T) {
	simulated(t, 1, func(rt *engine.Runtime) {
		g := flow.New("load")
		in := flow.AddWith(g, "work", flow.ByElement, flow.Options{High: 2}, &sink{func(*flow.Flow, int) { task.Sleep(20 * time.Millisecond) }})
		start(t, g)
		arrive := func(perSecond int, during time.Duration) {
			for end := rt.Now() + during; rt.Now() < end; {
				in.Put(nil, 0)
				task.Sleep(time.Second / time.Duration(perSecond))
			}
		}
		arrive(1000, 5*time.Second) // 20 servlets are needed
		if s := g.Stats()[0]; s.Servlets < 20 || s.Servlets > 40 || s.Queued > 40 || s.Service < 20*time.Millisecond {
			t.Errorf("under load: %+v", s)
		}
		arrive(20, 10*time.Second)
		if s := g.Stats()[0]; s.Servlets > 15 {
			t.Errorf("under little load: %+v", s)
		}
		task.Sleep(10 * time.Second)
		if s := g.Stats()[0]; s.Servlets != 1 || s.Busy != 0 {
			t.Errorf("without load: %+v", s)
		}
		stop(t, g)
	})
}

func TestNoMoreServletsThatWouldWaitForRoom(t *testing.T) {
	simulated(t, 1, func(rt *engine.Runtime) {
		g := flow.New("held")
		a := &each{do: func(f *flow.Flow, v int, out *flow.Out[int]) { out.Send(f, v) }}
		in := flow.Add(g, "fast", flow.ByElement, a)
		flow.Connect(&a.Out, flow.AddWith(g, "slow", flow.ByTask, flow.Options{Queue: 10}, &sink{func(*flow.Flow, int) { task.Sleep(time.Millisecond) }}))
		start(t, g)
		for v := range 3000 {
			in.Put(nil, v)
		}
		stop(t, g)
		testenv.AtMost(t, g.Stats()[0].Most, 5, "servlets before a module that was too slow")
	})
}

func TestByTaskIsNeverBesideItself(t *testing.T) {
	simulated(t, 3, func(*engine.Runtime) {
		g := flow.New("one")
		inside, next := 0, 0 // unsynchronised: the race detector is the judge
		in := flow.Add(g, "only", flow.ByTask, &sink{func(_ *flow.Flow, v int) {
			if inside++; inside != 1 || v != next {
				t.Errorf("%d inside, element %d; want 1 and %d", inside, v, next)
			}
			next++
			task.Sleep(time.Millisecond)
			inside--
		}})
		start(t, g)
		for v := range 100 {
			in.Put(nil, v)
		}
		stop(t, g)
		testenv.Equal(t, next, 100, "elements")
	})
}

func TestSendersWaitForRoomButNotOnTheWayBack(t *testing.T) {
	simulated(t, 1, func(rt *engine.Runtime) {
		g := flow.New("room")
		m := &each{}
		var in *flow.Instance[int]
		m.do = func(f *flow.Flow, v int, out *flow.Out[int]) {
			task.Sleep(time.Second)
			if v > 0 { // into the queue that we are to empty
				out.Send(f, v-1)
			}
		}
		in = flow.AddWith(g, "loop", flow.ByTask, flow.Options{Queue: 2}, m)
		flow.Back(&m.Out, in)
		start(t, g)
		for i := range 10 {
			testenv.Check(t, in.Put(nil, 3))
			if q := g.Stats()[0].Queued; q > 3+i { // 2, and what has come back
				t.Errorf("%d queued after %d", q, i)
			}
		}
		testenv.AtLeast(t, rt.Now(), 5*time.Second, "10 elements were taken by a queue of 2 within")
		stop(t, g)
		if s := g.Stats()[0]; s.Handled != 40 || s.Queued != 0 {
			t.Errorf("%+v; want 40 handled", s)
		}
	})
}

func TestPutEndsWithItsTask(t *testing.T) {
	simulated(t, 1, func(*engine.Runtime) {
		g := flow.New("full")
		in := flow.AddWith(g, "slow", flow.ByTask, flow.Options{Queue: 1}, &sink{func(*flow.Flow, int) { task.Sleep(time.Hour) }})
		start(t, g)
		ctx, cancel := context.WithTimeoutCause(context.Background(), 0, nil)
		defer cancel()
		err := task.Under(ctx, func() error {
			for {
				if err := in.Put(nil, 0); err != nil {
					return err
				}
			}
		})
		testenv.ErrorIs(t, err, context.DeadlineExceeded, "Put to a full queue under a context that has ended")
		stop(t, g)
		testenv.Equal(t, in.Put(nil, 0), flow.ErrClosed, "Put after Shutdown")
	})
}

func TestShutdownThatMayNotWaitDropsAndReleases(t *testing.T) {
	for _, by := range []flow.Parallelism{flow.ByTask, flow.ByFlow} {
		simulated(t, 1, func(rt *engine.Runtime) {
			g := flow.New("abort")
			handled := 0
			goOn := task.NewChan[int](0)
			in := flow.AddWith(g, "slow", by, flow.Options{Max: 1}, &sink{func(*flow.Flow, int) {
				handled++
				goOn.Recv()
			}})
			start(t, g)
			ended := 0
			for range 3 {
				f := g.NewFlow(nil, func() { ended++ })
				for range 5 {
					in.Put(f, 0)
				}
				f.Release()
			}
			task.Sleep(time.Second)
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			testenv.ErrorIs(t, g.Shutdown(ctx), context.Canceled, "Shutdown")
			goOn.Close()
			task.Sleep(time.Hour)
			if s := g.Stats()[0]; ended != 3 || s.Queued != 0 {
				t.Errorf("by %v: %d flows ended, %d queued, %d handled; want 3, 0", by, ended, s.Queued, handled)
			}
			if handled == 15 {
				t.Errorf("by %v: nothing was dropped", by)
			}
		})
	}
}

func TestAFlowEndsOnceWhenNothingIsLeftOfIt(t *testing.T) {
	simulated(t, 1, func(*engine.Runtime) {
		g := flow.New("end")
		ended := 0
		m := &each{do: func(f *flow.Flow, v int, out *flow.Out[int]) {
			testenv.Equal(t, ended, 0, "ended while it was worked on")
			task.Sleep(time.Second)
			if v > 0 {
				out.Send(f, v-1)
			}
		}}
		in := flow.Add(g, "loop", flow.ByFlow, m)
		flow.Back(&m.Out, in)
		start(t, g)
		f := g.NewFlow("a value", func() { ended++ })
		in.Put(f, 3)
		f.Release()
		if f.Value() != "a value" {
			t.Errorf("Value is %v", f.Value())
		}
		task.Sleep(time.Minute)
		testenv.Equal(t, ended, 1, "ended N times")
		for what, fn := range map[string]func(){"Hold": f.Hold, "Release": f.Release} {
			func() {
				defer func() {
					if recover() == nil {
						t.Errorf("%s of a flow that has ended did not panic", what)
					}
				}()
				fn()
			}()
		}
		stop(t, g)
	})
}

func TestAPanicEndsOneServletOnly(t *testing.T) {
	simulated(t, 2, func(*engine.Runtime) {
		g := flow.New("panic")
		var handled atomic.Int64
		in := flow.AddWith(g, "bad", flow.ByFlow, flow.Options{Max: 1}, &sink{func(_ *flow.Flow, v int) {
			if v%3 == 0 {
				panic("of a test")
			}
			handled.Add(1)
		}})
		start(t, g)
		f := g.NewFlow(nil, nil)
		for v := range 30 {
			in.Put(f, v)
			task.Yield()
			task.Sleep(time.Millisecond)
		}
		f.Release()
		stop(t, g)
		if s := g.Stats()[0]; s.Panicked != 10 || s.Servlets != 1 || handled.Load() != 20 {
			t.Errorf("%+v, %d handled; want 10 panics, 1 servlet, 20 handled", s, handled.Load())
		}
	})
}

type lazy struct{}

func (*lazy) Run(*flow.Call[int]) {}

func TestRunMustTakeSomething(t *testing.T) {
	simulated(t, 1, func(*engine.Runtime) {
		g := flow.New("lazy")
		in := flow.Add(g, "lazy", flow.ByTask, &lazy{})
		start(t, g)
		in.Put(nil, 1)
		stop(t, g)
		if s := g.Stats()[0]; s.Panicked != 1 {
			t.Errorf("%+v; want a panic", s)
		}
	})
}

type hidden struct {
	out flow.Out[int] //lint:ignore U1000 found by reflection, and refused
}

func (*hidden) Run(*flow.Call[int]) {}

func TestMistakesInAGraphAreNamed(t *testing.T) {
	nothing := func() *each { return &each{do: func(*flow.Flow, int, *flow.Out[int]) {}} }
	for want, build := range map[string]func(g *flow.Graph){
		"two modules g/a": func(g *flow.Graph) {
			flow.Add(g, "a", flow.ByTask, &sink{})
			flow.Add(g, "a", flow.ByTask, &sink{})
		},
		`called "x/y"`:                    func(g *flow.Graph) { flow.Add(g, "x/y", flow.ByTask, &sink{}) },
		"output g/a.Out is not connected": func(g *flow.Graph) { flow.Add(g, "a", flow.ByTask, nothing()) },
		"g/a.Out is connected twice": func(g *flow.Graph) {
			m := nothing()
			flow.Add(g, "a", flow.ByTask, m)
			flow.Discard(&m.Out)
			flow.Connect(&m.Out, flow.Add(g, "b", flow.ByTask, &sink{}))
		},
		"cycle g/b → g/c → g/b": func(g *flow.Graph) {
			a, b, c := nothing(), nothing(), nothing()
			flow.Add(g, "a", flow.ByTask, a)
			bi, ci := flow.Add(g, "b", flow.ByTask, b), flow.Add(g, "c", flow.ByTask, c)
			flow.Connect(&a.Out, bi)
			flow.Connect(&b.Out, ci)
			flow.Connect(&c.Out, bi)
		},
		"g/a.Out leads to another graph": func(g *flow.Graph) {
			m := nothing()
			flow.Add(g, "a", flow.ByTask, m)
			other := flow.New("other")
			flow.Connect(&m.Out, flow.Add(other, "b", flow.ByTask, &sink{}))
			if err := other.Start(); err == nil || !strings.Contains(err.Error(), "another graph") {
				panic(fmt.Sprint("the other graph: ", err))
			}
		},
		"ByTask: it has one servlet": func(g *flow.Graph) {
			flow.AddWith(g, "a", flow.ByTask, flow.Options{Max: 2}, &sink{})
		},
		"Min is 3, above Max, 2": func(g *flow.Graph) {
			flow.AddWith(g, "a", flow.ByFlow, flow.Options{Min: 3, Max: 2}, &sink{})
		},
		"negative Options":                         func(g *flow.Graph) { flow.AddWith(g, "a", flow.ByFlow, flow.Options{Queue: -1}, &sink{}) },
		"field out of module g/a must be exported": func(g *flow.Graph) { flow.Add(g, "a", flow.ByTask, &hidden{}) },
		"ByElement, so it can't have variables": func(g *flow.Graph) {
			flow.Add(g, "a", flow.ByElement, &recorder{})
		},
		"can be added once": func(g *flow.Graph) {
			m := nothing()
			flow.Add(g, "a", flow.ByTask, m)
			flow.Add(g, "b", flow.ByTask, m)
		},
		"without a runtime": func(g *flow.Graph) { flow.Add(g, "a", flow.ByTask, &sink{}) },
	} {
		g := flow.New("g")
		build(g)
		testenv.ErrorSays(t, g.Start(), want, "Start")
	}
}

func TestTheBlockingGraphAndTheDrawingNameTheModules(t *testing.T) {
	rt := testenv.Need(capriccio.New(capriccio.WithLoops(1), capriccio.WithoutSignals()))(t)
	defer rt.Close()
	var text strings.Builder
	if err := rt.Go(func() {
		g := flow.New("drawn")
		a := &each{do: func(f *flow.Flow, v int, out *flow.Out[int]) { out.Send(f, v) }}
		ai, bi := flow.Add(g, "a", flow.ByFlow, a), flow.Add(g, "b", flow.ByTask, &sink{func(*flow.Flow, int) {}})
		flow.Connect(&a.Out, bi)
		start(t, g)
		for v := range 5 {
			ai.Put(nil, v)
		}
		stop(t, g)
		testenv.Check(t, g.WriteDOT(&text))
	}).Join(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"drawn/a" -> "drawn/b" [label="Out 5"]`, "by flow, 1 servlets", "by task"} {
		testenv.Contains(t, text.String(), want, "the drawing")
	}
	s := engine.Default().Graph().Snapshot()
	if s == nil {
		t.Skip("the environment forbids the blocking graph")
	}
	var names []string
	for _, name := range graphwords.Names(s) {
		names = append(names, name)
	}
	for _, want := range []string{"drawn/a", "drawn/b"} {
		if !strings.Contains(strings.Join(names, "\n"), want) {
			t.Errorf("the blocking graph has no node %q: %q", want, names)
		}
	}
}
