package task

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/enginetest"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

func TestLockMisuse(t *testing.T) {
	var mu Mutex
	testenv.MustPanic(t, "Unlock of an unlocked Mutex", mu.Unlock)
	mu.Lock()
	testenv.Equal(t, mu.TryLock(), false, "TryLock of a locked Mutex")
	mu.Unlock()
	testenv.Equal(t, mu.TryLock(), true, "TryLock of an unlocked Mutex")
	mu.Unlock()
	rt := enginetest.NewRuntime(t, 1, enginetest.PanicsPass)
	testenv.Fails(t, rt.Go(mu.Unlock).Join(), "Unlock of an unlocked Mutex in a task")

	var rw RWMutex
	testenv.MustPanic(t, "Unlock without Lock", rw.Unlock)
	testenv.MustPanic(t, "RUnlock without RLock", rw.RUnlock)

	s := NewSemaphore(2)
	for _, n := range []int64{3, -1} {
		testenv.Fails(t, s.Acquire(n), "Acquire(%d) of 2", n)
		testenv.Equal(t, s.TryAcquire(n), false, "TryAcquire(%d) of 2", n)
	}
	testenv.Check(t, s.Acquire(0))
	testenv.MustPanic(t, "Release of more than was taken", func() { s.Release(1) })
	testenv.MustPanic(t, "negative size", func() { NewSemaphore(-1) })
}

func TestMutexIsHandedOverInOrder(t *testing.T) {
	enginetest.EachLoops(t, func(t *testing.T, rt *engine.Runtime) {
		var mu Mutex
		var order []int // guarded by mu
		mu.Lock()
		joined := inTurn(t, rt, 20, engine.ReasonMutex, func(i int) {
			mu.Lock()
			order = append(order, i)
			engine.Yield()
			mu.Unlock()
		})
		mu.Unlock()
		joined()
		testenv.Equal(t, len(order), 20, "had it")
		testenv.Equal(t, slices.IsSorted(order), true, "in the order of the waits: %v", order)
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
			{1, func() { mu.Lock(); engine.Yield(); mu.Unlock() }, func() { testenv.Pass(&mu) }},
			{4, func() { // one or the other reads at any time
				rw.RLock()
				engine.Yield()
				rw.RUnlock()
				if rt.Loops() == 1 {
					engine.Yield()
				}
			}, func() { testenv.Pass(&rw) }},
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
					testenv.Equal(t, writers.Add(1), 1, "writers")
					testenv.Equal(t, readers.Load(), 0, "readers beside a writer")
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
				testenv.Equal(t, value, before, "written while read")
				testenv.Equal(t, writers.Load(), 0, "writers beside a reader")
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
	testenv.Equal(t, rw.TryRLock() || rw.TryLock(), false, "overtook a writer that waits")
	var in WaitGroup
	in.Add(3)
	joined := inTurn(t, rt, 3, engine.ReasonRWMutexRead, func(int) {
		rw.RLock()
		testenv.Equal(t, wrote.Load(), true, "the writer that came first has written")
		in.Done()
		in.Wait()
		rw.RUnlock()
	})
	rw.RUnlock()
	joined()
	writer.Join()
}

func TestSemaphoreAdmitsItsUnits(t *testing.T) {
	enginetest.EachLoops(t, func(t *testing.T, rt *engine.Runtime) {
		const size = 10
		s := NewSemaphore(size)
		var in atomic.Int64
		enginetest.Everyone(t, rt, 12, func(i int) {
			for k := range 100 {
				n := int64((i*k)%size) + 1
				if k%4 != 0 {
					testenv.Check(t, s.Acquire(n))
				} else if !s.TryAcquire(n) {
					continue
				}
				testenv.AtMost(t, in.Add(n), size, "units taken")
				if k%3 == 0 {
					engine.Yield()
				}
				in.Add(-n)
				s.Release(n)
			}
		})
		testenv.Equal(t, s.TryAcquire(size), true, "all units are there")
	})
}

// When a large request gives up, those behind it that fit are served.
func TestSemaphoreGivesWayAfterCancellation(t *testing.T) {
	rt := enginetest.NewRuntime(t, 2)
	s := NewSemaphore(4)
	s.Acquire(2)
	ctx, cancel := context.WithCancel(context.Background())
	large := engine.GoWith(engine.Options{Context: ctx}, func() {
		testenv.ErrorIs(t, s.Acquire(4), context.Canceled)
	})
	enginetest.WaitParked(t, rt, 1, engine.ReasonSemaphore)
	behind := rt.Go(func() { s.Acquire(2) })
	enginetest.WaitParked(t, rt, 2, engine.ReasonSemaphore)
	cancel()
	large.Join()
	behind.Join()
	s.Release(4)
}

// What is granted to a caller whose context has ended by the time it goes on is given back, as with
// golang.org/x/sync/semaphore; a signal, which can't be, counts.
func TestAGrantAfterTheEndOfTheContext(t *testing.T) {
	rt := enginetest.NewRuntime(t, 1)
	var mu, free Mutex
	s, cond := NewSemaphore(1), NewCond(&free)
	for _, c := range []struct {
		name  string
		hold  func()
		wait  func(ctx context.Context) error
		grant func()
		free  func() bool
		err   error
	}{
		{"Mutex", mu.Lock, mu.LockContext, mu.Unlock, mu.TryLock, context.Canceled},
		{"Semaphore", func() { s.Acquire(1) }, func(ctx context.Context) error { return s.AcquireContext(ctx, 1) },
			func() { s.Release(1) }, func() bool { return s.TryAcquire(1) }, context.Canceled},
		{"Cond", func() {}, func(ctx context.Context) error { free.Lock(); defer free.Unlock(); return cond.WaitContext(ctx) },
			cond.Signal, free.TryLock, nil},
	} {
		enginetest.Run(t, rt, func() {
			ctx, cancel := context.WithCancel(context.Background())
			c.hold()
			var err error
			waiting := engine.Go(func() { err = c.wait(ctx) })
			engine.Yield()
			c.grant() // it is woken, and goes on after the end
			cancel()
			waiting.Join()
			testenv.Equal(t, err, c.err, c.name)
			testenv.Equal(t, c.free(), true, "%s: free after that", c.name)
		})
	}
}

// A loop that owns the guards of several objects ends before others use them.
func TestGuardOfALoopThatHasEnded(t *testing.T) {
	rt := enginetest.OneOfMany(t, 1)
	var mu Mutex
	c := NewChan[int](1)
	enginetest.Run(t, rt, func() { testenv.Pass(&mu); c.Send(1) })
	var racing sync.WaitGroup
	for range 4 {
		racing.Go(func() { testenv.Pass(&mu) })
	}
	rt.Close()
	racing.Wait()
	testenv.Pass(&mu)
	testenv.Got(c.Recv())(t, 1)
	other := enginetest.NewRuntime(t, 1)
	enginetest.Run(t, other, func() { testenv.Pass(&mu) })
}

func TestDescribeWait(t *testing.T) {
	rt := enginetest.NewRuntime(t, 2)
	var mu Mutex
	var rw RWMutex
	hold := NewChan[int](0)
	start := func(name string, why engine.Reason, fn func()) *engine.Task {
		t.Helper()
		k := engine.GoWith(engine.Options{Name: name}, fn)
		enginetest.WaitParked(t, rt, 1, why)
		return k
	}
	on := func(why engine.Reason, want string) {
		t.Helper()
		for _, i := range rt.Tasks() {
			testenv.Equal(t, i.State, "parked", "%+v", i)
			testenv.Equal(t, i.ID != 0 && i.Name != "", true, "%+v has a number and a name", i)
			if i.Reason == why {
				testenv.Contains(t, i.On, want)
			}
		}
	}
	holder := start("holder", engine.ReasonChanRecv, func() { mu.Lock(); rw.Lock(); hold.Recv(); rw.Unlock(); mu.Unlock() })
	one := start("one", engine.ReasonMutex, func() { testenv.Pass(&mu) })
	two := start("two", engine.ReasonRWMutexRead, func() { testenv.Pass(rw.RLocker()) })
	on(engine.ReasonMutex, "held by task holder #")
	on(engine.ReasonRWMutexRead, "held for writing by task holder #")
	on(engine.ReasonChanRecv, "holding 0 of 0")
	hold.Send(1)
	for _, k := range []*engine.Task{holder, one, two} {
		k.Join()
	}
	mu.Lock()
	heir := start("heir", engine.ReasonMutex, func() { mu.Lock(); hold.Recv(); mu.Unlock() })
	on(engine.ReasonMutex, "held by a plain goroutine")
	mu.Unlock()
	enginetest.WaitParked(t, rt, 1, engine.ReasonChanRecv)
	last := start("last", engine.ReasonMutex, func() { testenv.Pass(&mu) })
	on(engine.ReasonMutex, "held by task heir #")
	hold.Send(1)
	heir.Join()
	last.Join()
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
			enginetest.Run(t, enginetest.NewRuntime(t, 1), func() {
				m := make()
				m.lock()
				next := engine.Go(func() {
					m.lock()
					testenv.Equal(t, m.quick(), true, "quick after it was handed over")
					m.unlock()
				})
				engine.Yield()
				testenv.Equal(t, m.quick(), false, "quick while somebody waits")
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
				testenv.Equal(t, m.quick(), true, "quick after the one that waited has given up")
				m.unlock()
			})
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
