package task

import (
	"errors"
	"flag"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/capriccio-go/capriccio/internal/coro"
	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/enginetest"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// Many ends of all kinds, among tasks that go on, leave the loop as it was.
func TestLoopSurvivesPanicsAndGoexits(t *testing.T) {
	var panics atomic.Int32
	rt := enginetest.NewRuntime(t, 2, func(c *engine.Config) { c.OnPanic = func(*engine.PanicError) { panics.Add(1) } })
	rnd := newRand(t)
	seeds := make([]int, 600)
	for i := range seeds {
		seeds[i] = rnd.IntN(6)
	}
	want := int32(0)
	var mu Mutex
	count := 0 // guarded by mu
	var tasks []*engine.Task
	for _, how := range seeds {
		if how < 2 {
			want++
		}
		tasks = append(tasks, rt.Go(func() {
			if how%2 == 1 {
				engine.Yield()
			}
			mu.Lock()
			engine.Yield()
			count++
			mu.Unlock()
			defer func() {
				mu.Lock() // may park while it panics
				count++
				engine.Yield()
				mu.Unlock()
			}()
			switch how {
			case 0, 1:
				panic(how)
			case 2, 3:
				runtime.Goexit()
			}
		}))
	}
	for i, k := range tasks {
		err := k.Join()
		var p *engine.PanicError
		switch how := seeds[i]; {
		case how < 2 && !errors.As(err, &p), how >= 2 && how < 4 && err != engine.ErrGoexit, how >= 4 && err != nil:
			t.Errorf("end %d: Join returned %v", how, err)
		}
	}
	if count != 2*len(seeds) || panics.Load() != want {
		t.Errorf("count %d, want %d; %d panics, want %d", count, 2*len(seeds), panics.Load(), want)
	}
}

func TestLockOSThreadIsRefused(t *testing.T) {
	if !coro.Exact {
		t.Skip("not seen without the assembly stubs")
	}
	rt := enginetest.NewRuntime(t, 2, enginetest.PanicsPass)
	var mu Mutex
	mu.Lock()
	c := NewChan[int](0)
	runs := map[string]int{}
	for name, wait := range map[string]func(){
		"yield":  engine.Yield,
		"sleep":  func() { engine.Sleep(1) },
		"lock":   mu.Lock,
		"send":   func() { c.Send(1) },
		"select": func() { Select(c.RecvCase(nil)) },
		"cond":   func() { m := new(Mutex); m.Lock(); NewCond(m).Wait() },
		"nested": func() { runtime.LockOSThread(); engine.Yield() },
	} {
		k := engine.GoOn(rt.Loop(0), func() {
			runs[name]++
			runtime.LockOSThread()
			wait()
		})
		err := k.Join()
		var p *engine.PanicError
		if !errors.As(err, &p) || !strings.Contains(p.Error(), "LockOSThread") || !strings.Contains(p.Error(), "Offload") {
			t.Errorf("%s: Join returned %v", name, err)
		}
	}
	if ok, _ := c.TrySend(1); ok {
		t.Error("a Select that was refused still receives")
	}
	if _, ok, _ := c.TryRecv(); ok {
		t.Error("a Send that was refused is still in the queue")
	}
	mu.Unlock()
	if !mu.TryLock() {
		t.Error("the lock went to a task that had ended")
	}
	enginetest.Run(t, rt, func() {
		runtime.LockOSThread() // harmless if it does not wait meanwhile
		runtime.UnlockOSThread()
		engine.Yield()
		engine.Go(runtime.LockOSThread).Join() // undone at its end
		engine.Yield()
		engine.Offload(func() { runtime.LockOSThread(); runtime.UnlockOSThread() })
	})
	for name, n := range runs {
		testenv.Equal(t, n, 1, "%s: the function ran N times", name)
	}
}

// One that recovers from the refusal is not woken later by what it did not wait for.
func TestRefusedWaitIsTakenBack(t *testing.T) {
	if !coro.Exact {
		t.Skip("not seen without the assembly stubs")
	}
	rt := enginetest.NewRuntime(t, 1)
	var mu Mutex
	enginetest.Run(t, rt, func() {
		mu.Lock()
		k := engine.Go(func() {
			func() {
				defer func() { recover() }()
				runtime.LockOSThread()
				mu.Lock()
			}()
			c := NewChan[int](0)
			engine.Go(func() { mu.Unlock(); engine.Yield(); c.Send(7) })
			testenv.Got(c.Recv())(t, 7, "received")
			if !mu.TryLock() {
				t.Error("the lock went to one that had given up")
			}
		})
		k.Join()
	})
}

var seedFlag = flag.Uint64("seed", 0, "seed of the random schedules; 0 picks one")

func newRand(t testing.TB) *rand.Rand { return testenv.Rand(t, *seedFlag) }

func TestDeadlockIsReported(t *testing.T) {
	log := make(testenv.Records, 100)
	rt := enginetest.NewRuntime(t, 2, enginetest.LogTo(log))
	var a, b Mutex
	c := NewChan[string](0)
	var both WaitGroup
	both.Add(2)
	abba := func(name string, first, second *Mutex, loop int) *engine.Task {
		k, _ := rt.Spawn(engine.Options{Name: name, Loop: rt.Loop(loop)}, func() {
			first.Lock()
			both.Done()
			both.Wait()
			second.Lock()
		})
		return k
	}
	one, two := abba("one", &a, &b, 0), abba("two", &b, &a, 1)
	three := engine.GoWith(engine.Options{Name: "three"}, func() { c.Recv() })
	line := log.Next(t, "deadlock", "task one #", "task two #", "task three #")
	for _, want := range []string{"mutex Mutex", "held by task one #", "held by task two #", "channel receive Chan[string]", "holding 0 of 0", "tasks=3"} {
		enginetest.Contains(t, line, want)
	}
	a.Unlock()
	b.Unlock()
	c.Close()
	for _, k := range []*engine.Task{one, two, three} {
		testenv.Check(t, k.Join())
	}
}
