package task

import (
	"errors"
	"flag"
	"iter"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/capriccio-go/capriccio/internal/coro"
	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/enginetest"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/stackchunk"
)

var seedFlag = flag.Uint64("seed", 0, "seed of the random schedules; 0 picks one")

func newRand(t testing.TB) *rand.Rand { return testenv.Rand(t, *seedFlag) }

// Many ends of all kinds, among tasks that go on, leave the loop as it was.
func TestLoopSurvivesPanicsAndGoexits(t *testing.T) {
	var panics atomic.Int32
	rt := enginetest.NewRuntime(t, 2, func(c *engine.Config) { c.OnPanic = func(*engine.PanicError) { panics.Add(1) } })
	rnd := newRand(t)
	ends := make([]int, 600)
	tasks := make([]*engine.Task, len(ends))
	want := int32(0)
	var mu Mutex
	count := 0 // guarded by mu
	for i := range ends {
		how := rnd.IntN(6)
		ends[i] = how
		tasks[i] = rt.Go(func() {
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
		})
	}
	for i, k := range tasks {
		err := k.Join()
		var p *engine.PanicError
		switch how := ends[i]; how {
		case 0, 1:
			want++
			testenv.Equal(t, errors.As(err, &p), true, "a panic: Join")
		case 2, 3:
			testenv.Equal(t, err, engine.ErrGoexit, "Goexit: Join")
		default:
			testenv.Check(t, err, "Join")
		}
	}
	testenv.Equal(t, count, 2*len(ends), "count")
	testenv.Equal(t, panics.Load(), want, "panics")
}

func needThreadLocks(t *testing.T) {
	t.Helper()
	if !coro.Exact {
		t.Skip("thread locks and iterators that are pulled are not seen without the assembly stubs")
	}
}

func TestLockOSThreadIsRefused(t *testing.T) {
	needThreadLocks(t)
	rt := enginetest.NewRuntime(t, 2, enginetest.PanicsPass)
	var mu Mutex
	mu.Lock()
	c := NewChan[int](0)
	for name, wait := range map[string]func(){
		"yield":  engine.Yield,
		"sleep":  func() { engine.Sleep(1) },
		"lock":   mu.Lock,
		"send":   func() { c.Send(1) },
		"select": func() { Select(c.RecvCase(nil)) },
		"cond":   func() { m := new(Mutex); m.Lock(); NewCond(m).Wait() },
		"nested": func() { runtime.LockOSThread(); engine.Yield() },
	} {
		runs := 0
		err := engine.GoOn(rt.Loop(0), func() {
			runs++
			runtime.LockOSThread()
			wait()
		}).Join()
		testenv.ErrorSays(t, err, "LockOSThread", "%s: Join", name)
		testenv.ErrorSays(t, err, "Offload", "%s: Join", name)
		testenv.Equal(t, runs, 1, "%s: the function ran N times", name)
	}
	nobodyAt(t, c, 1)
	mu.Unlock()
	testenv.Equal(t, mu.TryLock(), true, "TryLock: the lock went to no task that had ended")
	enginetest.Run(t, rt, func() {
		runtime.LockOSThread() // harmless if it does not wait meanwhile
		runtime.UnlockOSThread()
		engine.Yield()
		engine.Go(runtime.LockOSThread).Join() // undone at its end
		engine.Yield()
		engine.Offload(func() { runtime.LockOSThread(); runtime.UnlockOSThread() })
	})
}

// One that recovers from the refusal is not woken later by what it did not wait for.
func TestRefusedWaitIsTakenBack(t *testing.T) {
	needThreadLocks(t)
	rt := enginetest.NewRuntime(t, 1)
	var mu Mutex
	enginetest.Run(t, rt, func() {
		mu.Lock()
		engine.Go(func() {
			testenv.MustPanic(t, "a wait with a locked thread", func() {
				runtime.LockOSThread()
				mu.Lock()
			})
			c := NewChan[int](0)
			engine.Go(func() { mu.Unlock(); engine.Yield(); c.Send(7) })
			testenv.Got(c.Recv())(t, 7, "received")
			testenv.Equal(t, mu.TryLock(), true, "TryLock: the lock went to none that had given up")
		}).Join()
	})
}

func TestDeadlockIsReported(t *testing.T) {
	log := make(testenv.Records, 100)
	rt := enginetest.OneOfMany(t, 2, enginetest.LogTo(log))
	var a, b Mutex
	c := NewChan[string](0)
	var both WaitGroup
	both.Add(2)
	start := func(name string, loop int, fn func()) *engine.Task {
		return testenv.Need(rt.Spawn(engine.Options{Name: name, Loop: rt.Loop(loop)}, fn))(t)
	}
	abba := func(first, second *Mutex) func() {
		return func() {
			first.Lock()
			both.Done()
			both.Wait()
			second.Lock()
		}
	}
	tasks := []*engine.Task{start("one", 0, abba(&a, &b)), start("two", 1, abba(&b, &a)), start("three", 0, func() { c.Recv() })}
	log.Next(t, "deadlock", "task one #", "task two #", "task three #", "mutex Mutex", "held by task one #", "held by task two #",
		"channel receive Chan[string]", "holding 0 of 0", "tasks=3")
	a.Unlock()
	b.Unlock()
	c.Close()
	for _, k := range tasks {
		testenv.Check(t, k.Join())
	}
}

// An iterator that waits, pulled by a task, waits as that task and stops no loop.
func TestPullOfAnIteratorThatWaits(t *testing.T) {
	needThreadLocks(t)
	for _, loops := range []int{1, 2} {
		rt := enginetest.NewRuntime(t, loops)
		c := NewChan[int](0)
		var mu Mutex
		yieldLocked := func() {
			mu.Lock()
			engine.Yield()
			mu.Unlock()
		}
		me := rt.Go(func() {
			self := engine.Current()
			next, stop := iter.Pull(func(yield func(int) bool) {
				for v := range c.All() {
					testenv.Equal(t, engine.Current(), self, "the iterator does not run as its task")
					engine.Sleep(1)
					yieldLocked()
					stackchunk.Call(100<<10, engine.Yield)
					engine.Offload(func() {})
					if !yield(v) {
						return
					}
				}
			})
			defer stop()
			for want := range 50 {
				v, ok := next()
				testenv.Equal(t, v, want, "pulled")
				testenv.Equal(t, ok, true, "there is one more")
				yieldLocked()
			}
			_, ok := next()
			testenv.Equal(t, ok, false, "there is one too many")
		})
		enginetest.Run(t, rt, func() {
			for i := range 50 {
				yieldLocked()
				c.Send(i)
			}
			c.Close()
		})
		testenv.Check(t, me.Join())
	}
}
