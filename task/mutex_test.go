package task

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/enginetest"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

func TestMutexMisuse(t *testing.T) {
	var mu Mutex
	enginetest.MustPanic(t, "Unlock of an unlocked Mutex", mu.Unlock)
	mu.Lock()
	if mu.TryLock() {
		t.Error("locked twice")
	}
	mu.Unlock()
	if !mu.TryLock() {
		t.Error("TryLock of an unlocked Mutex failed")
	}
	mu.Unlock()
	rt := enginetest.NewRuntime(t, 1, enginetest.PanicsPass)
	testenv.Fails(t, rt.Go(mu.Unlock).Join(), "Unlock of an unlocked Mutex in a task passed")
}

func TestMutexIsHandedOverInOrder(t *testing.T) {
	enginetest.EachLoops(t, func(t *testing.T, rt *engine.Runtime) {
		var mu Mutex
		var order []int // guarded by mu
		mu.Lock()
		var tasks []*engine.Task
		for i := range 20 {
			tasks = append(tasks, engine.GoOn(rt.Loop(i%rt.Loops()), func() {
				mu.Lock()
				order = append(order, i)
				engine.Yield()
				mu.Unlock()
			}))
			enginetest.WaitParked(t, rt, i+1, engine.ReasonMutex)
		}
		mu.Unlock()
		for _, k := range tasks {
			k.Join()
		}
		for i, got := range order {
			testenv.MustEqual(t, i, got, "order %v", order)
		}
	})
}

// Those that keep taking a lock again at once do not keep another from it: not a writer, nor one that wants all units.
func TestLocksStarveNobody(t *testing.T) {
	enginetest.EachLoops(t, func(t *testing.T, rt *engine.Runtime) {
		var mu Mutex
		var rw RWMutex
		s := NewSemaphore(4)
		for _, x := range []struct {
			hogs       int
			hold, wait func()
		}{
			{1, func() { mu.Lock(); engine.Yield(); mu.Unlock() }, func() { enginetest.Pass(&mu) }},
			{4, func() { // one or the other reads at any time
				rw.RLock()
				engine.Yield()
				rw.RUnlock()
				if rt.Loops() == 1 {
					engine.Yield()
				}
			}, func() { enginetest.Pass(&rw) }},
			{8, func() { s.Acquire(1); engine.Yield(); s.Release(1) }, func() { testenv.Check(t, s.Acquire(4)); s.Release(4) }},
		} {
			var stop atomic.Bool
			joined := enginetest.Spread(t, rt, x.hogs, func(int) {
				for !stop.Load() {
					x.hold()
				}
			})
			enginetest.Everyone(t, rt, 6, func(int) {
				for range 5 {
					x.wait()
				}
			})
			stop.Store(true)
			joined()
		}
	})
}

func TestLockIsNotEndedByCancellation(t *testing.T) {
	rt := enginetest.NewRuntime(t, 2)
	var mu Mutex
	mu.Lock()
	ctx, cancel := context.WithCancel(context.Background())
	k := engine.GoWith(engine.Options{Context: ctx}, func() {
		mu.Lock()
		testenv.Fails(t, ctx.Err(), "locked too early")
		mu.Unlock()
	})
	enginetest.WaitParked(t, rt, 1, engine.ReasonMutex)
	cancel()
	enginetest.WaitParked(t, rt, 1, engine.ReasonMutex)
	mu.Unlock()
	testenv.Check(t, k.Join())
}

func TestRWMutexLetsReadersTogetherAndWritersAlone(t *testing.T) {
	enginetest.EachLoops(t, func(t *testing.T, rt *engine.Runtime) {
		var rw RWMutex
		var readers, writers atomic.Int32
		value := 0 // guarded by rw
		enginetest.Everyone(t, rt, 12, func(i int) {
			for k := range 150 {
				if (i+k)%5 == 0 {
					rw.Lock()
					if n := writers.Add(1); n != 1 || readers.Load() != 0 {
						t.Errorf("%d writers, %d readers", n, readers.Load())
					}
					value++
					if k%3 == 0 {
						engine.Yield()
					}
					writers.Add(-1)
					rw.Unlock()
					continue
				}
				l := rw.RLocker()
				l.Lock()
				readers.Add(1)
				before := value
				if k%3 == 0 {
					engine.Yield()
				}
				if value != before || writers.Load() != 0 {
					t.Error("written while read")
				}
				readers.Add(-1)
				l.Unlock()
			}
		})
	})
}

// A writer that waits keeps later readers out, and is followed by them all.
func TestRWMutexOrder(t *testing.T) {
	rt := enginetest.NewRuntime(t, 2)
	var rw RWMutex
	rw.RLock()
	var wrote atomic.Bool
	writer := rt.Go(func() { rw.Lock(); wrote.Store(true); rw.Unlock() })
	enginetest.WaitParked(t, rt, 1, engine.ReasonRWMutexWrite)
	if rw.TryRLock() || rw.TryLock() {
		t.Error("overtook a writer that waits")
	}
	var in WaitGroup
	in.Add(3)
	var readers []*engine.Task
	for range 3 {
		readers = append(readers, rt.Go(func() {
			rw.RLock()
			if !wrote.Load() {
				t.Error("read before the writer that came first")
			}
			in.Done()
			in.Wait()
			rw.RUnlock()
		}))
	}
	enginetest.WaitParked(t, rt, 3, engine.ReasonRWMutexRead)
	rw.RUnlock()
	for _, k := range append(readers, writer) {
		k.Join()
	}
	enginetest.MustPanic(t, "Unlock without Lock", rw.Unlock)
	enginetest.MustPanic(t, "RUnlock without RLock", rw.RUnlock)
}

// Several objects are biased towards a loop that ends before others use them.
func TestGuardOfALoopThatHasEnded(t *testing.T) {
	rt := testenv.Need(engine.New(engine.Config{Loops: 1, NewPoller: enginetest.NewChanPoller, Log: enginetest.Quiet()}))(t)
	var mu Mutex
	c := NewChan[int](1)
	enginetest.Run(t, rt, func() { enginetest.Pass(&mu); c.Send(1) })
	var racing sync.WaitGroup
	for range 4 {
		racing.Go(func() { enginetest.Pass(&mu) })
	}
	rt.Close()
	racing.Wait()
	enginetest.Pass(&mu)
	testenv.Got(c.Recv())(t, 1)
	other := enginetest.NewRuntime(t, 1)
	enginetest.Run(t, other, func() { enginetest.Pass(&mu) })
}

func TestDescribeWait(t *testing.T) {
	rt := enginetest.NewRuntime(t, 2)
	var mu Mutex
	var rw RWMutex
	hold := NewChan[int](0)
	engine.GoWith(engine.Options{Name: "holder"}, func() { mu.Lock(); rw.Lock(); hold.Recv(); rw.Unlock(); mu.Unlock() })
	enginetest.WaitParked(t, rt, 1, engine.ReasonChanRecv)
	engine.GoWith(engine.Options{Name: "one"}, func() { enginetest.Pass(&mu) })
	engine.GoWith(engine.Options{Name: "two"}, func() { enginetest.Pass(rw.RLocker()) })
	enginetest.WaitParked(t, rt, 1, engine.ReasonMutex)
	enginetest.WaitParked(t, rt, 1, engine.ReasonRWMutexRead)
	on := map[engine.Reason]string{}
	for _, i := range rt.Tasks() {
		on[i.Reason] = i.On
		if i.State != "parked" || i.ID == 0 || i.Name == "" {
			t.Errorf("%+v", i)
		}
	}
	enginetest.Contains(t, on[engine.ReasonMutex], "held by task holder #")
	enginetest.Contains(t, on[engine.ReasonRWMutexRead], "held for writing by task holder #")
	enginetest.Contains(t, on[engine.ReasonChanRecv], "holding 0 of 0")
	hold.Send(1)
	enginetest.WaitFor(t, "the end", func() bool { return rt.Loop(0).Tasks()+rt.Loop(1).Tasks() == 0 })

	mu.Lock()
	heir := engine.GoWith(engine.Options{Name: "heir"}, func() { mu.Lock(); hold.Recv(); mu.Unlock() })
	enginetest.WaitParked(t, rt, 1, engine.ReasonMutex)
	mu.Unlock()
	enginetest.WaitParked(t, rt, 1, engine.ReasonChanRecv)
	last := rt.Go(func() { enginetest.Pass(&mu) })
	enginetest.WaitParked(t, rt, 1, engine.ReasonMutex)
	for _, i := range rt.Tasks() {
		if i.Reason == engine.ReasonMutex {
			enginetest.Contains(t, i.On, "held by task heir #")
		}
	}
	hold.Send(1)
	heir.Join()
	last.Join()
	mu.Lock()
	again := engine.GoWith(engine.Options{Name: "again"}, func() { enginetest.Pass(&mu) })
	enginetest.WaitParked(t, rt, 1, engine.ReasonMutex)
	for _, i := range rt.Tasks() {
		enginetest.Contains(t, i.On, "held by a plain goroutine")
	}
	mu.Unlock()
	again.Join()
}

// Once nobody waits any more, a lock is as quick as it was before somebody did: whether that one got it or gave up.
func TestLocksForgetThatSomebodyWaited(t *testing.T) {
	type quickLock struct {
		lock, unlock func()
		until        func(context.Context) error
		quick        func() bool // it is locked, and what follows does not need the guard
	}
	for name, make := range map[string]func() quickLock{
		"Mutex": func() quickLock {
			m := new(Mutex)
			return quickLock{m.Lock, m.Unlock, m.LockContext, func() bool { return m.state.Load() == mutexLocked }}
		},
		"RWMutex": func() quickLock {
			m := new(RWMutex)
			return quickLock{m.Lock, m.Unlock, nil, func() bool { return m.state.Load() == rwWriting }}
		},
		"Semaphore": func() quickLock {
			s := NewSemaphore(1)
			take := func(ctx context.Context) error { return s.AcquireContext(ctx, 1) }
			return quickLock{func() { take(context.Background()) }, func() { s.Release(1) }, take, func() bool { return s.used.Load() == 1 }}
		},
	} {
		t.Run(name, func(t *testing.T) {
			rt := enginetest.NewRuntime(t, 1)
			task := rt.Go(func() {
				m := make()
				m.lock()
				next := engine.Go(func() {
					m.lock()
					if !m.quick() {
						t.Error("not after it was handed over")
					}
					m.unlock()
				})
				engine.Yield()
				if m.quick() {
					t.Error("quick while somebody waits")
				}
				m.unlock()
				next.Join()
				if m.until == nil {
					return
				}
				m.lock()
				ctx, cancel := context.WithCancel(context.Background())
				next = engine.Go(func() { m.until(ctx) })
				engine.Yield()
				cancel()
				next.Join()
				if !m.quick() {
					t.Error("not after the one that waited has given up")
				}
				m.unlock()
			})
			testenv.Must(t, task.Join())
		})
	}
}

// TestWaitsOfGoroutinesStayInTheirBubble: a plain goroutine may wait in a bubble of testing/synctest, and outside of one after that.
func TestWaitsOfGoroutinesStayInTheirBubble(t *testing.T) {
	wait := func() {
		var m Mutex
		m.Lock()
		woken := make(chan bool)
		go func() {
			m.Lock()
			close(woken)
		}()
		for m.state.Load() != mutexAwaited {
			runtime.Gosched()
		}
		m.Unlock()
		<-woken
	}
	for range 100 { // as a pool keeps some of what it gets
		synctest.Test(t, func(*testing.T) { wait() })
		wait()
	}
}
