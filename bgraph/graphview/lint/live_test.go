package lint

import (
	"strings"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/bgraph"
	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/poller"
	"github.com/capriccio-go/capriccio/internal/recorder"
	"github.com/capriccio-go/capriccio/internal/testenv"
	_ "github.com/capriccio-go/capriccio/netpoll" // its pollers
	"github.com/capriccio-go/capriccio/task"
)

// lintOf runs a program, one task for each function, and looks at its graph.
func lintOf(t *testing.T, o limits, program ...func()) []Finding {
	t.Helper()
	return findWith(graphOf(t, 1, program...), o)
}

// graphOf runs a program, its functions on the loops in turn.
func graphOf(t *testing.T, loops int, program ...func()) *bgraph.Snapshot {
	t.Helper()
	g := recorder.New(bgraph.Config{Sampling: 1})
	rt, err := engine.New(engine.Config{
		Loops:       loops,
		NewPoller:   func(int) (engine.Poller, error) { return poller.Epoll() },
		NewObserver: g.Observe,
		HoldLimit:   time.Hour,
	})
	testenv.Must(t, err)
	defer rt.Close()
	tasks := make([]*engine.Task, len(program))
	for i, fn := range program {
		tasks[i] = engine.GoOn(rt.Loop(i%loops), fn)
	}
	for _, one := range tasks {
		testenv.Must(t, one.Join())
	}
	return g.Snapshot()
}

func only(t *testing.T, found []Finding, check string) *Finding {
	t.Helper()
	for i := range found {
		if found[i].Check == check {
			return &found[i]
		}
	}
	t.Fatalf("no %s among %+v", check, found)
	return nil
}

func TestLintOfAConvoy(t *testing.T) {
	var mu task.Mutex
	var program []func()
	for range 16 {
		program = append(program, func() {
			for range 10 {
				mu.Lock()
				engine.Sleep(time.Millisecond)
				mu.Unlock()
			}
		})
	}
	f := only(t, lintOf(t, usual, program...), CheckConvoy)
	if !strings.HasPrefix(f.Name, "mutex ") || !strings.Contains(f.Message, "run to sleep ") || !strings.Contains(f.Advice, "held while the task waits") {
		t.Errorf("%+v", f)
	}
}

//go:noinline
func compute(d time.Duration) {
	for began := time.Now(); time.Since(began) < d; {
	}
}

func TestLintOfALongStep(t *testing.T) {
	f := only(t, lintOf(t, usual, func() {
		for range 3 {
			engine.YieldAt("before")
			compute(15 * time.Millisecond)
			engine.YieldAt("after")
		}
	}), CheckLongStep)
	if f.Severity != SeverityError || f.Name != "before → after" || !strings.Contains(f.Stack, "TestLintOfALongStep") {
		t.Errorf("%+v", f)
	}
}

func TestLintOfALeak(t *testing.T) {
	things := testenv.Need(engine.NewResource("things that leak", ""))(t)
	defer things.Release(500) // as they are counted for the whole process
	strict := usual
	strict.leakShare = 0.001
	f := only(t, lintOf(t, strict, func() {
		for i := range 2000 {
			engine.YieldAt("take")
			things.Acquire(1)
			engine.YieldAt("use")
			if i%4 != 0 {
				things.Release(1)
			}
		}
	}), CheckLeak)
	if !strings.Contains(f.Message, `round take → use → take a task keeps 0.25 of "things that leak"`) {
		t.Errorf("%+v", f)
	}
}

func TestLintOfAHealthyProgram(t *testing.T) {
	work := task.NewChan[int](8)
	done := task.NewChan[int](8)
	things := testenv.Need(engine.NewResource("things that come back", ""))(t)
	const jobs = 3000
	program := []func(){
		func() {
			for i := range jobs {
				work.Send(i)
			}
			work.Close()
		},
		func() {
			for range jobs {
				testenv.Check(t, testenv.Err(done.Recv()))
			}
		},
	}
	var mu task.Mutex
	last := -1
	for range 4 {
		program = append(program, func() {
			for {
				i, err := work.Recv()
				if err != nil {
					return
				}
				things.Acquire(1)
				mu.Lock()
				last = i
				mu.Unlock()
				engine.Yield()
				things.Release(1)
				done.Send(i)
			}
		})
	}
	defer func() {
		testenv.AtLeast(t, last, 0, "nothing was done")
	}()
	patient := usual
	patient.step, patient.starve, patient.ready = time.Minute, time.Minute, time.Minute
	for _, f := range lintOf(t, patient, program...) {
		t.Errorf("found %+v", f)
	}
}

// Two tasks hand a value to and fro: on two loops that is found, on one it is not. How fast they are does not
// matter, as the graph is made to say that it took a second, and steps may be long.
func TestLintOfPingPong(t *testing.T) {
	const rounds = 6000 // of some, a task on a busy machine finds the value there and need not wait
	for loops, want := range map[int]int{1: 0, 2: 1} {
		there, back := task.NewChan[int](1), task.NewChan[int](1)
		s := graphOf(t, loops, func() {
			for i := range rounds {
				there.Send(i)
				back.Recv()
			}
			there.Close()
		}, func() {
			for v, err := there.Recv(); err == nil; v, err = there.Recv() {
				back.Send(v)
			}
		})
		s.Span = bgraph.Nanos(time.Second)
		slow := usual
		slow.pingPongStep = time.Hour
		var found []Finding
		for _, f := range findWith(s, slow) {
			if f.Check == CheckPingPong {
				found = append(found, f)
			}
		}
		if len(found) != want || want > 0 && !strings.Contains(found[0].Name, "TestLintOfPingPong.func") {
			t.Errorf("%d loops: found %+v, want %d", loops, found, want)
		}
	}
}
