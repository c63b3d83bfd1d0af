package engine

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/coro"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

func TestGoInheritsTheLoopOfTheSpawner(t *testing.T) {
	rt := newRuntime(t, 1)
	run(t, rt, func() {
		home := CurrentLoop()
		child := Go(func() {
			testenv.Equal(t, CurrentLoop(), home, "the child runs elsewhere")
		})
		testenv.Check(t, child.Join())
	})
}

func TestGoOnRunsWhereItIsTold(t *testing.T) {
	eachLoops(t, func(t *testing.T, rt *Runtime) {
		for i := range 4 * rt.Loops() {
			l := rt.Loop(i % rt.Loops())
			body := func() {
				for range 3 {
					if CurrentLoop() != l {
						t.Errorf("runs on loop %d, want %d", CurrentLoop().Index(), l.Index())
					}
					Yield()
				}
			}
			testenv.Check(t, GoOn(l, body).Join())
			run(t, rt, func() { GoOn(l, body).Join() })
		}
	})
}

// As a goroutine does.
func TestTaskLetsGoOfWhatItsFunctionNoLongerUses(t *testing.T) {
	rt := newRuntime(t, 1)
	var open WaitGroup
	open.Add(1)
	var gone atomic.Bool
	start := func(captured *[1 << 10]byte) *Task {
		runtime.AddCleanup(captured, func(gone *atomic.Bool) { gone.Store(true) }, &gone)
		return rt.Go(func() {
			captured[0]++
			open.Wait()
		})
	}
	waits := start(new([1 << 10]byte))
	testenv.Until(t, "what the function has captured is collected", func() bool {
		runtime.GC()
		return gone.Load()
	})
	open.Done()
	testenv.Check(t, waits.Join())
}

func TestCurrentByKindOfCaller(t *testing.T) {
	rt := newRuntime(t, 2)
	if Current() != nil || CurrentLoop() != nil || Err() != nil || Context() != context.Background() {
		t.Error("a plain goroutine is taken for a task")
	}
	var self *Task
	body := rt.Go(func() {
		self = Current()
		Yield()
		testenv.Equal(t, Current(), self, "Current changed")
	})
	testenv.Must(t, body.Join())
	testenv.Equal(t, self, body, "Current")
	done := make(chan struct{})
	rt.Loop(1).Post(func() {
		defer close(done)
		if Current() != nil || CurrentLoop() != rt.Loop(1) {
			t.Errorf("on a loop's goroutine: task %v, loop %v", Current(), CurrentLoop())
		}
		mustPanic(t, "Self on a loop's own goroutine", func() { Self() })
	})
	<-done
}

type errand struct{}

func (*errand) run() {}

func TestNamesAndNumbers(t *testing.T) {
	rt := newRuntime(t, 2)
	seen := map[uint64]bool{}
	var fromTask *Task
	run(t, rt, func() { fromTask = Go(func() {}) })
	named := GoWith(Options{Name: "zebra"}, func() {
		if Current().Name() != "zebra" || !strings.HasPrefix(Current().String(), "zebra #") {
			t.Errorf("name %q, string %q", Current().Name(), Current())
		}
	})
	for _, k := range []*Task{fromTask, named, rt.Go(func() {}), GoOn(rt.Loop(1), func() {})} {
		if k.ID() == 0 || seen[k.ID()] {
			t.Errorf("number %d is 0 or not unique", k.ID())
		}
		seen[k.ID()] = true
		k.Join()
	}
	if n := fromTask.Name(); !strings.Contains(n, "TestNamesAndNumbers") {
		t.Errorf("unnamed task is called %q, want the name of its function", n)
	}
	method := rt.Go(new(errand).run)
	method.Join()
	testenv.Equal(t, method.Name(), "engine.(*errand).run", "the task of a method is called")
	var watched string
	run(t, rt, func() {
		var wg WaitGroup
		wg.Go(func() {
			watched, _ = CurrentLoop().taskAt(CurrentLoop().switches)
		})
		wg.Wait()
	})
	testenv.Contains(t, watched, "TestNamesAndNumbers")
}

func TestYieldRunsAllOthersFirst(t *testing.T) {
	rt := newRuntime(t, 1)
	var order []int
	run(t, rt, func() {
		var wg WaitGroup
		for i := range 3 {
			wg.Go(func() {
				for range 3 {
					order = append(order, i)
					Yield()
				}
			})
		}
		wg.Wait()
	})
	for i, got := range order {
		if got != i%3 {
			t.Fatalf("order %v, want round robin", order)
		}
	}
}

func TestNewTasksAndReadyTasksShareOneQueue(t *testing.T) {
	rt := newRuntime(t, 1)
	var order []string
	run(t, rt, func() {
		Go(func() { order = append(order, "new") })
		GoOn(CurrentLoop(), func() { order = append(order, "pinned") })
		Go(func() { order = append(order, "new") })
		Yield()
		order = append(order, "spawner")
	})
	testenv.Equal(t, strings.Join(order, " "), "new pinned new spawner", "order")
}

func TestTasksSpawnedByATaskAreCancelledWithIt(t *testing.T) {
	eachLoops(t, func(t *testing.T, rt *Runtime) {
		ctx, cancel := context.WithCancelCause(context.Background())
		cause := errors.New("the cause")
		errs := make(chan error, 3)
		top := GoWith(Options{Context: ctx}, func() {
			child := Go(func() {
				grandchild := GoOn(rt.Loop(rt.Loops()-1), func() { errs <- Sleep(time.Hour) })
				errs <- Sleep(time.Hour)
				Under(context.Background(), func() error { return grandchild.Join() })
			})
			cancel(cause)
			errs <- Sleep(time.Hour)
			for child.Join() != nil { // cancelled: returns at once until the child has ended
				Yield()
			}
		})
		testenv.Check(t, top.Join())
		for range 3 {
			if err := <-errs; !errors.Is(err, cause) || !errors.Is(err, context.Canceled) {
				t.Errorf("%v, want the cause and context.Canceled", err)
			}
		}
	})
}

func TestBackgroundDetaches(t *testing.T) {
	rt := newRuntime(t, 1)
	GoWith(Options{Context: cancelled()}, func() {
		testenv.Fails(t, Err(), "not cancelled under an ended context")
		detached, err := Spawn(Options{Context: context.Background()}, func() {
			testenv.Check(t, Sleep(time.Nanosecond))
		})
		testenv.Check(t, err)
		for detached.Join() != nil {
			Yield()
		}
	}).Join()
	waitFor(t, "the end", func() bool { return len(rt.Tasks()) == 0 })
}

func TestContextFollowsTheScope(t *testing.T) {
	rt := newRuntime(t, 1)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	GoWith(Options{Context: ctx}, func() {
		if Context() != ctx {
			t.Error("Context is not the one given")
		}
		inner, stop := context.WithCancel(ctx)
		defer stop()
		Under(inner, func() error {
			if Context() != inner {
				t.Error("Context is not that of Under")
			}
			return Go(func() {
				if Context() != inner {
					t.Error("a child's Context is not that of Under")
				}
			}).Join()
		})
	}).Join()
	run(t, rt, func() {
		if Context() != rt.Context() {
			t.Error("without a scope, Context is not the runtime's")
		}
	})
}

func TestIdleLoopsTakeTasksFromABusyOne(t *testing.T) {
	rt := newRuntime(t, 2)
	var free atomic.Bool
	ran := make(chan int, 16)
	hog := GoOn(rt.Loop(0), func() {
		for range 8 {
			Go(func() { ran <- CurrentLoop().Index() })
		}
		for !free.Load() {
		}
	})
	for range 7 { // the last one queued alone does not call for help
		testenv.Equal(t, <-ran, 1, "ran on loop N while a task held that")
		if len(ran) == 0 && rt.Loop(0).starts.oldest() == 0 {
			break
		}
	}
	free.Store(true)
	hog.Join()
	waitFor(t, "the end", func() bool { return rt.Loop(0).Tasks()+rt.Loop(1).Tasks() == 0 })
}

func TestRunEndsWithMain(t *testing.T) {
	for _, want := range []error{nil, errors.New("from main")} {
		rt, err := New(Config{Loops: 2, NewPoller: newChanPoller, Log: quiet(), Grace: time.Minute})
		testenv.Must(t, err)
		left := make(chan error, 1)
		err = rt.Run(context.Background(), func(context.Context) error {
			Go(func() { left <- Sleep(time.Hour) })
			Yield()
			return want
		})
		if !errors.Is(err, want) || want == nil && err != nil {
			t.Errorf("Run returned %v, want %v", err, want)
		}
		testenv.ErrorIs(t, <-left, ErrShutdown, "the task left over")
	}
}

func TestRunUnderAContext(t *testing.T) {
	rt, err := New(Config{Loops: 1, NewPoller: newChanPoller, Log: quiet(), Grace: time.Minute})
	testenv.Must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	err = rt.Run(ctx, func(ctx context.Context) error {
		cancel()
		return Sleep(time.Hour)
	})
	testenv.ErrorIs(t, err, context.Canceled, "Run")
}

func TestBadConfig(t *testing.T) {
	broken := errors.New("no poller today")
	closed := 0
	for name, cfg := range map[string]Config{
		"no poller":        {Loops: 1},
		"negative loops":   {Loops: -1, NewPoller: newChanPoller},
		"too many loops":   {Loops: MaxLoops + 1, NewPoller: newChanPoller},
		"negative offload": {Loops: 1, OffloadLimit: -1, NewPoller: newChanPoller},
		"negative grace":   {Loops: 1, Grace: -1, NewPoller: newChanPoller},
		"failing poller": {Loops: 3, NewPoller: func(i int) (Poller, error) {
			if i == 2 {
				return nil, broken
			}
			return closeCounter{&closed}, nil
		}},
	} {
		rt, err := New(cfg)
		if err == nil {
			t.Errorf("%s: no error", name)
			rt.Close()
		}
		if name == "failing poller" && !errors.Is(err, broken) {
			t.Errorf("%s: %v", name, err)
		}
	}
	testenv.Equal(t, closed, 2, "pollers closed after a failure")
}

type closeCounter struct{ n *int }

func (c closeCounter) Poll(time.Duration) error { return nil }
func (c closeCounter) Wake() error              { return nil }
func (c closeCounter) Active() bool             { return false }
func (c closeCounter) Close() error             { *c.n++; return nil }

// A task that Start has made is as good as one of Go: also after its memory was used by
// another, under a context, from a plain goroutine, and if somebody takes hold of it.
func TestStartedTasksAreTasks(t *testing.T) {
	for _, loops := range []int{1, 2, 8} {
		rt := newRuntime(t, loops, panicsPass)
		var ran atomic.Int64
		var wg WaitGroup
		everyone(t, rt, 30, func(i int) {
			for k := range 20 {
				wg.Add(1)
				Start(func() {
					defer wg.Done()
					ran.Add(1)
					switch k % 4 {
					case 0:
						Yield()
					case 1:
						if me := Current(); me == nil || me.String() == "" {
							t.Error("no current task")
						}
					case 2:
						panic("boom")
					case 3:
						runtime.Goexit()
					}
				})
			}
			wg.Wait()
		})
		rt.Close()
		testenv.Equal(t, ran.Load(), 600, "%d loops: N of 600 ran", loops)
	}
}

func TestStartBelongsToTheContext(t *testing.T) {
	rt := newRuntime(t, 1)
	defer rt.Close()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	rt.Spawn(Options{Context: ctx}, func() {
		Start(func() { ended <- Sleep(time.Hour) })
		Yield()
		cancel()
	})
	testenv.ErrorIs(t, <-ended, context.Canceled)
}

func TestStartAllocatesNothing(t *testing.T) {
	if !coro.Exact {
		t.Skip("finding out which task is calling allocates without the assembly")
	}
	rt := newRuntime(t, 1)
	defer rt.Close()
	rt.Go(func() {
		var wg WaitGroup
		for name, body := range map[string]func(){
			"a task":                        func() { wg.Done() },
			"a task that says what it does": func() { comeBack().cur.extend().work.Kind = 1; wg.Done() },
		} {
			if n := testing.AllocsPerRun(1000, func() {
				wg.Add(1)
				Start(body)
				wg.Wait()
			}); n > 0 {
				t.Errorf("%v allocations for %s", n, name)
			}
		}
	}).Join()
}
