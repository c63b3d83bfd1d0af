package engine

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

func TestMutexMisuse(t *testing.T) {
	var mu Mutex
	mustPanic(t, "Unlock of an unlocked Mutex", mu.Unlock)
	mu.Lock()
	if mu.TryLock() {
		t.Error("locked twice")
	}
	mu.Unlock()
	if !mu.TryLock() {
		t.Error("TryLock of an unlocked Mutex failed")
	}
	mu.Unlock()
	rt := newRuntime(t, 1, panicsPass)
	testenv.Fails(t, rt.Go(mu.Unlock).Join(), "Unlock of an unlocked Mutex in a task passed")
}

func TestMutexIsHandedOverInOrder(t *testing.T) {
	eachLoops(t, func(t *testing.T, rt *Runtime) {
		var mu Mutex
		var order []int // guarded by mu
		mu.Lock()
		var tasks []*Task
		for i := range 20 {
			tasks = append(tasks, GoOn(rt.Loop(i%rt.Loops()), func() {
				mu.Lock()
				order = append(order, i)
				Yield()
				mu.Unlock()
			}))
			waitParked(t, rt, i+1, ReasonMutex)
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
	eachLoops(t, func(t *testing.T, rt *Runtime) {
		var mu Mutex
		var rw RWMutex
		s := NewSemaphore(4)
		for _, x := range []struct {
			hogs       int
			hold, wait func()
		}{
			{1, func() { mu.Lock(); Yield(); mu.Unlock() }, func() { pass(&mu) }},
			{4, func() { // one or the other reads at any time
				rw.RLock()
				Yield()
				rw.RUnlock()
				if rt.Loops() == 1 {
					Yield()
				}
			}, func() { pass(&rw) }},
			{8, func() { s.Acquire(1); Yield(); s.Release(1) }, func() { testenv.Check(t, s.Acquire(4)); s.Release(4) }},
		} {
			var stop atomic.Bool
			joined := spread(t, rt, x.hogs, func(int) {
				for !stop.Load() {
					x.hold()
				}
			})
			everyone(t, rt, 6, func(int) {
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
	rt := newRuntime(t, 2)
	var mu Mutex
	mu.Lock()
	ctx, cancel := context.WithCancel(context.Background())
	k := goWith(Options{Context: ctx}, func() {
		mu.Lock()
		testenv.Fails(t, ctx.Err(), "locked too early")
		mu.Unlock()
	})
	waitParked(t, rt, 1, ReasonMutex)
	cancel()
	waitParked(t, rt, 1, ReasonMutex)
	mu.Unlock()
	testenv.Check(t, k.Join())
}

func TestRWMutexLetsReadersTogetherAndWritersAlone(t *testing.T) {
	eachLoops(t, func(t *testing.T, rt *Runtime) {
		var rw RWMutex
		var readers, writers atomic.Int32
		value := 0 // guarded by rw
		everyone(t, rt, 12, func(i int) {
			for k := range 150 {
				if (i+k)%5 == 0 {
					rw.Lock()
					if n := writers.Add(1); n != 1 || readers.Load() != 0 {
						t.Errorf("%d writers, %d readers", n, readers.Load())
					}
					value++
					if k%3 == 0 {
						Yield()
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
					Yield()
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

func TestRWMutexReadersAreInAtOnce(t *testing.T) {
	eachLoops(t, func(t *testing.T, rt *Runtime) {
		var rw RWMutex
		var in atomic.Int32
		const n = 9
		everyone(t, rt, n, func(int) {
			rw.RLock()
			in.Add(1)
			for in.Load() < n { // ends only if all are in together
				Yield()
			}
			rw.RUnlock()
		})
		if !rw.TryLock() {
			t.Error("still locked")
		}
	})
}

// A writer that waits keeps later readers out, and is followed by them all.
func TestRWMutexOrder(t *testing.T) {
	rt := newRuntime(t, 2)
	var rw RWMutex
	rw.RLock()
	var wrote atomic.Bool
	writer := rt.Go(func() { rw.Lock(); wrote.Store(true); rw.Unlock() })
	waitParked(t, rt, 1, ReasonRWMutexWrite)
	if rw.TryRLock() || rw.TryLock() {
		t.Error("overtook a writer that waits")
	}
	var in WaitGroup
	in.Add(3)
	var readers []*Task
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
	waitParked(t, rt, 3, ReasonRWMutexRead)
	rw.RUnlock()
	for _, k := range append(readers, writer) {
		k.Join()
	}
	mustPanic(t, "Unlock without Lock", rw.Unlock)
	mustPanic(t, "RUnlock without RLock", rw.RUnlock)
}

// Several objects are biased towards a loop that ends before others use them.
func TestGuardOfALoopThatHasEnded(t *testing.T) {
	rt := testenv.Need(New(Config{Loops: 1, NewPoller: newChanPoller, Log: quiet()}))(t)
	var mu Mutex
	c := NewChan[int](1)
	run(t, rt, func() { pass(&mu); c.Send(1) })
	var racing sync.WaitGroup
	for range 4 {
		racing.Go(func() { pass(&mu) })
	}
	rt.Close()
	racing.Wait()
	pass(&mu)
	testenv.Got(c.Recv())(t, 1)
	other := newRuntime(t, 1)
	run(t, other, func() { pass(&mu) })
}

func TestDescribeWait(t *testing.T) {
	rt := newRuntime(t, 2)
	var mu Mutex
	var rw RWMutex
	hold := NewChan[int](0)
	goWith(Options{Name: "holder"}, func() { mu.Lock(); rw.Lock(); hold.Recv(); rw.Unlock(); mu.Unlock() })
	waitParked(t, rt, 1, ReasonChanRecv)
	goWith(Options{Name: "one"}, func() { pass(&mu) })
	goWith(Options{Name: "two"}, func() { pass(rw.RLocker()) })
	waitParked(t, rt, 1, ReasonMutex)
	waitParked(t, rt, 1, ReasonRWMutexRead)
	on := map[Reason]string{}
	for _, i := range rt.Tasks() {
		on[i.Reason] = i.On
		if i.State != "parked" || i.ID == 0 || i.Name == "" {
			t.Errorf("%+v", i)
		}
	}
	contains(t, on[ReasonMutex], "held by task holder #")
	contains(t, on[ReasonRWMutexRead], "held for writing by task holder #")
	contains(t, on[ReasonChanRecv], "holding 0 of 0")
	hold.Send(1)
	waitFor(t, "the end", func() bool { return rt.Loop(0).Tasks()+rt.Loop(1).Tasks() == 0 })

	mu.Lock()
	heir := goWith(Options{Name: "heir"}, func() { mu.Lock(); hold.Recv(); mu.Unlock() })
	waitParked(t, rt, 1, ReasonMutex)
	mu.Unlock()
	waitParked(t, rt, 1, ReasonChanRecv)
	last := rt.Go(func() { pass(&mu) })
	waitParked(t, rt, 1, ReasonMutex)
	for _, i := range rt.Tasks() {
		if i.Reason == ReasonMutex {
			contains(t, i.On, "held by task heir #")
		}
	}
	hold.Send(1)
	heir.Join()
	last.Join()
	mu.Lock()
	again := goWith(Options{Name: "again"}, func() { pass(&mu) })
	waitParked(t, rt, 1, ReasonMutex)
	for _, i := range rt.Tasks() {
		contains(t, i.On, "held by a plain goroutine")
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
			rt := newRuntime(t, 1)
			task := rt.Go(func() {
				m := make()
				m.lock()
				next := Go(func() {
					m.lock()
					if !m.quick() {
						t.Error("not after it was handed over")
					}
					m.unlock()
				})
				Yield()
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
				next = Go(func() { m.until(ctx) })
				Yield()
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
