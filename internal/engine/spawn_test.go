package engine

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/capriccio-go/capriccio/internal/coro"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// A task runs where it is told, or on the loop of the one that spawns it.
func TestWhereATaskRuns(t *testing.T) {
	eachLoops(t, func(t *testing.T, rt *Runtime) {
		for i := range 4 * rt.Loops() {
			l := rt.Loop(i % rt.Loops())
			body := func() {
				for range 3 {
					testenv.Equal(t, CurrentLoop(), l, "the loop")
					Yield()
				}
			}
			testenv.Check(t, GoOn(l, body).Join())
			run(t, rt, func() { GoOn(l, body).Join() })
		}
		if rt.Loops() == 1 {
			run(t, rt, func() { Go(func() { testenv.Equal(t, CurrentLoop(), rt.Loop(0), "the child's loop") }).Join() })
		}
	})
}

func TestCurrentByKindOfCaller(t *testing.T) {
	rt := newRuntime(t, 2)
	testenv.Equal(t, Current(), nil, "the task of a plain goroutine")
	testenv.Equal(t, CurrentLoop(), nil, "the loop of a plain goroutine")
	testenv.Check(t, Err(), "on a plain goroutine")
	testenv.Equal(t, Context(), context.Background(), "the context of a plain goroutine")
	var self *Task
	body := rt.Go(func() {
		self = Current()
		Yield()
		testenv.Equal(t, Current(), self, "Current changed")
	})
	testenv.Must(t, body.Join())
	testenv.Equal(t, self, body, "Current")
	onLoop(rt.Loop(1), func(l *Loop) bool {
		testenv.Equal(t, Current(), nil, "the task of a loop's goroutine")
		testenv.Equal(t, CurrentLoop(), l, "the loop of its goroutine")
		testenv.MustPanic(t, "Self on a loop's own goroutine", func() { Self() })
		return true
	})
}

type errand struct{}

func (*errand) run() {}

func TestNamesAndNumbers(t *testing.T) {
	rt := newRuntime(t, 2)
	seen := map[uint64]bool{0: true}
	var fromTask *Task
	run(t, rt, func() { fromTask = Go(func() {}) })
	named := GoWith(Options{Name: "zebra"}, func() {
		testenv.Equal(t, Current().Name(), "zebra")
		testenv.Contains(t, Current().String(), "zebra #")
	})
	method := rt.Go(new(errand).run)
	for _, k := range []*Task{fromTask, named, method, rt.Go(func() {}), GoOn(rt.Loop(1), func() {})} {
		testenv.Equal(t, seen[k.id], false, "number %d is 0 or that of another", k.id)
		seen[k.id] = true
		k.Join()
	}
	testenv.Contains(t, fromTask.Name(), "TestNamesAndNumbers", "the name of its function")
	testenv.Equal(t, method.Name(), "engine.(*errand).run", "the task of a method is called")
	var watched string
	run(t, rt, func() {
		var wg WaitGroup
		wg.Go(func() { watched, _ = CurrentLoop().taskAt(CurrentLoop().switches) })
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
	testenv.EqualSlices(t, order, []int{0, 1, 2, 0, 1, 2, 0, 1, 2}, "order, round robin")
}

func TestIdleLoopsTakeTasksFromABusyOne(t *testing.T) {
	rt := newRuntime(t, 2)
	ran := make(chan int, 16)
	release := occupy(t, rt.Loop(0), Options{}, func() {
		for range 8 {
			Go(func() { ran <- CurrentLoop().Index() })
		}
	})
	for range 7 { // the last one queued alone does not call for help
		testenv.Equal(t, <-ran, 1, "ran on loop N while a task held that")
		if len(ran) == 0 && rt.Loop(0).starts.oldest() == 0 {
			break
		}
	}
	release()
	testenv.Until(t, "the end", func() bool { return rt.Loop(0).Tasks()+rt.Loop(1).Tasks() == 0 })
}

func TestRunEndsWithMain(t *testing.T) {
	fails := errors.New("from main")
	for want, end := range map[error]func(cancel func()) error{
		nil:              func(func()) error { return nil },
		fails:            func(func()) error { return fails },
		context.Canceled: func(cancel func()) error { cancel(); return Sleep(time.Hour) },
	} {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		left := make(chan error, 1)
		err := oneOfMany(t, 2).Run(ctx, func(context.Context) error {
			Go(func() { left <- Sleep(time.Hour) })
			Yield()
			return end(cancel)
		})
		testenv.ErrorIs(t, err, want, "Run")
		if want != context.Canceled {
			testenv.ErrorIs(t, <-left, ErrShutdown, "the task left over")
		}
	}
}

func TestBadConfig(t *testing.T) {
	broken := errors.New("no poller today")
	var made []*testenv.ChanPoller
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
			made = append(made, testenv.NewChanPoller())
			return made[i], nil
		}},
	} {
		err := testenv.Err(New(cfg))
		testenv.Fails(t, err, name)
		if name == "failing poller" {
			testenv.ErrorIs(t, err, broken)
		}
	}
	for i, p := range made {
		testenv.Equal(t, p.Closed(), true, "poller %d is closed after a failure", i)
	}
}

func TestJoinTellsHowTheTaskEnded(t *testing.T) {
	var handled atomic.Int32
	rt := newRuntime(t, 2, func(c *Config) { c.OnPanic = func(*PanicError) { handled.Add(1) } })
	oops := errors.New("oops")
	for name, x := range map[string]struct {
		end  func()
		want error
	}{
		"return": {func() {}, nil},
		"panic":  {func() { panic(oops) }, oops},
		"goexit": {func() { Yield(); runtime.Goexit() }, ErrGoexit},
		"both":   {func() { defer func() { panic(oops) }(); runtime.Goexit() }, oops},
	} {
		check := func(err error) {
			testenv.ErrorIs(t, err, x.want, "%s: Join", name)
			if x.want == oops {
				var p *PanicError
				testenv.Equal(t, errors.As(err, &p), true, "%s: a PanicError", name)
				testenv.Contains(t, string(p.Stack), "TestJoinTells")
				testenv.Contains(t, p.Error(), "oops")
			}
		}
		k := rt.Go(x.end)
		check(k.Join())
		check(k.Join())
		run(t, rt, func() {
			check(Go(x.end).Join())
			check(k.Join())
		})
	}
	testenv.Equal(t, handled.Load(), 4, "OnPanic was called N times")
	run(t, rt, func() {}) // the loops live on
}

func TestManyJoiners(t *testing.T) {
	eachLoops(t, func(t *testing.T, rt *Runtime) {
		var gate WaitGroup
		gate.Add(1)
		var woken atomic.Int32
		k := rt.Go(func() { gate.Wait(); runtime.Goexit() })
		joined := startAll(t, rt, 60, func(int) {
			testenv.Equal(t, k.Join(), ErrGoexit)
			woken.Add(1)
		})
		waitParked(t, rt, 40, ReasonJoin)
		gate.Done()
		joined()
		testenv.Equal(t, woken.Load(), 60, "joiners came back")
	})
}

func TestCancelledJoinLeavesTheTaskAlone(t *testing.T) {
	rt := newRuntime(t, 2)
	var gate WaitGroup
	gate.Add(1)
	k := rt.Go(gate.Wait)
	ctx, cancel := context.WithCancel(context.Background())
	j := GoWith(Options{Context: ctx}, func() {
		testenv.ErrorIs(t, k.Join(), context.Canceled)
	})
	waitParked(t, rt, 1, ReasonJoin)
	cancel()
	testenv.Check(t, j.Join())
	gate.Done()
	testenv.Check(t, k.Join())
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
						testenv.Contains(t, Current().String(), "#", "the current task")
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

func TestStartAllocatesNothing(t *testing.T) {
	if !coro.Exact {
		t.Skip("finding out which task is calling allocates without the assembly")
	}
	rt := newRuntime(t, 1)
	run(t, rt, func() {
		var wg WaitGroup
		for name, body := range map[string]func(){
			"a task":                        func() { wg.Done() },
			"a task that says what it does": func() { reattach().cur.extend().work.Kind = 1; wg.Done() },
		} {
			n := testing.AllocsPerRun(1000, func() {
				wg.Add(1)
				Start(body)
				wg.Wait()
			})
			testenv.Equal(t, n, 0, "allocations for %s", name)
		}
	})
}

// A million parked tasks are a figure of the project; these two are its part in it.
func TestTasksAreSmall(t *testing.T) {
	testenv.AtMost(t, unsafe.Sizeof(Task{}), 128, "bytes of a Task, 128 being a size class of the allocator")
	testenv.Equal(t, unsafe.Offsetof(Task{}.loop), 64, "bytes of what a step touches of a Task, 64 being one line of the cache")
	testenv.AtMost(t, unsafe.Sizeof(worker{}), 64, "a worker has N bytes")
}
