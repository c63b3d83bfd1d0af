package task

import (
	"context"
	"iter"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/enginetest"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

func TestShutdownCancelsWhenItsContextEnds(t *testing.T) {
	rt, check := enginetest.Closing(t, 2)
	errs := make(chan error, 4)
	c := NewChan[int](0)
	rt.Go(func() { errs <- engine.Sleep(time.Hour) })
	rt.Go(func() { _, err := c.Recv(); errs <- err })
	rt.Go(func() { errs <- engine.Await(context.Background()) })
	rt.Go(func() {
		_, err := Select()
		testenv.Fails(t, engine.Err(), "Err")
		testenv.ErrorIs(t, context.Cause(engine.Context()), engine.ErrShutdown, "Context")
		errs <- err
	})
	for _, why := range []engine.Reason{engine.ReasonSleep, engine.ReasonChanRecv, engine.ReasonContext, engine.ReasonSelect} {
		enginetest.WaitParked(t, rt, 1, why)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var closers sync.WaitGroup
	for range 3 {
		closers.Go(func() { testenv.Check(t, rt.Shutdown(ctx)) })
	}
	cancel()
	closers.Wait()
	for range 4 {
		err := <-errs
		testenv.ErrorIs(t, err, engine.ErrShutdown, "the end of a wait")
		testenv.ErrorIs(t, err, context.Canceled, "the end of a wait")
	}
	check()
}

// unwindObjects is what tasks wait for that only the end of the runtime wakes.
type unwindObjects struct {
	mu, held   Mutex
	rw, heldRW RWMutex
	native     sync.Mutex
	wg         WaitGroup
	busy       Once
}

func newUnwindObjects() *unwindObjects {
	o := new(unwindObjects)
	o.wg.Add(1)
	o.held.Lock()
	o.heldRW.RLock()
	return o
}

func (o *unwindObjects) waits(t *testing.T) []func() {
	return []func(){
		func() { o.wg.Wait() },
		func() { o.held.Lock(); defer o.held.Unlock() },
		func() { o.mu.Lock(); defer o.mu.Unlock(); NewCond(&o.mu).Wait() },
		func() { o.mu.Lock(); defer o.mu.Unlock(); NewCond(&o.mu).Wait() },
		func() { o.heldRW.Lock(); defer o.heldRW.Unlock() },
		func() { o.busy.Do(func() { t.Error("ran twice") }) },
		func() { o.rw.Lock(); defer o.rw.Unlock(); NewCond(&o.rw).Wait() },
		func() { o.rw.RLock(); defer o.rw.RUnlock(); NewCond(o.rw.RLocker()).Wait() },
		func() { o.native.Lock(); defer o.native.Unlock(); NewCond(&o.native).Wait() },
		func() { new(Once).Do(o.wg.Wait) },
		func() {
			for {
				engine.Sleep(time.Hour) // ignores that it is cancelled
			}
		},
		func() { engine.Go(o.wg.Wait).Join(); o.wg.Wait() },
		func() {
			c := NewChan[int](0)
			for {
				Select(c.RecvCase(nil), c.SendCase(1))
				c.Send(1)
				c.Recv()
			}
		},
		func() {
			defer o.wg.Wait() // parks once more while it is being ended
			o.wg.Wait()
		},
	}
}

// Waits that cancellation does not end are ended too, and deferred functions run.
func TestShutdownUnwinds(t *testing.T) {
	for _, loops := range []int{1, 2, 8} {
		rt, check := enginetest.Closing(t, loops, enginetest.ShortGrace, func(c *engine.Config) {
			c.OnPanic = func(p *engine.PanicError) { t.Errorf("%v\n%s", p, p.Stack) }
		})
		o := newUnwindObjects()
		release, began := make(chan struct{}), make(chan struct{})
		go o.busy.Do(func() { close(began); <-release })
		<-began
		var deferred atomic.Int32
		done := func() {
			deferred.Add(1)
			engine.Yield() // may be called here, and ends nothing else
		}
		waits := o.waits(t)
		var tasks []*engine.Task
		var begun atomic.Int32
		for i := range 3 * len(waits) {
			tasks = append(tasks, engine.GoOn(rt.Loop(i%loops), func() {
				begun.Add(1)
				defer deferred.Add(1)
				defer done()
				waits[i%len(waits)]()
				t.Errorf("wait %d came back", i%len(waits))
			}))
		}
		plain := make(chan struct{})
		go func() { // queued behind tasks that are ended
			defer close(plain)
			o.heldRW.RLock() // behind writers, which are never to come
			testenv.Pass(&o.held)
		}()
		testenv.Until(t, "all begin", func() bool { return int(begun.Load()) == len(tasks) })
		rt.Close() // on a slow machine the grace time is too short for all to end
		for i, k := range tasks {
			testenv.ErrorIs(t, k.Join(), engine.ErrGoexit, "wait %d: Join", i%len(waits))
		}
		testenv.Equal(t, int(deferred.Load()), 2*len(tasks), "deferred functions ran")
		o.held.Unlock()
		<-plain
		close(release)
		o.mu.Lock() // everything is unlocked, and nobody dead is in a queue
		o.rw.Lock()
		o.native.Lock()
		o.held.Lock()
		check()
	}
}

// A task that a Cond has woken does not end before it has the lock again, although the holder outlasts the runtime.
func TestShutdownLeavesTheLockOfACondToItsHolder(t *testing.T) {
	rt, check := enginetest.Closing(t, 1, enginetest.ShortGrace, func(c *engine.Config) {
		c.OnPanic = func(p *engine.PanicError) { t.Errorf("%v\n%s", p, p.Stack) }
	})
	var mu Mutex
	var written, read RWMutex
	locks := []struct {
		held, l sync.Locker
		try     func() bool
	}{
		{&mu, &mu, mu.TryLock},
		{&written, &written, written.TryLock},
		{&read, read.RLocker(), read.TryRLock},
	}
	release := make(chan struct{})
	var tasks []*engine.Task
	for i, lock := range locks {
		c := NewCond(lock.l)
		tasks = append(tasks, rt.Go(func() {
			lock.l.Lock()
			defer lock.l.Unlock()
			c.Wait()
		}))
		enginetest.WaitParked(t, rt, 1, engine.ReasonCond)
		tasks = append(tasks, rt.Go(func() {
			lock.held.Lock()
			defer lock.held.Unlock()
			c.Signal()
			engine.Offload(func() { <-release })
		}))
		enginetest.WaitParked(t, rt, i+1, engine.ReasonOffload)
		enginetest.WaitParked(t, rt, 0, engine.ReasonCond)
	}
	testenv.Fails(t, rt.Close(), "no report of the tasks that are left")
	for i, lock := range locks {
		testenv.Equal(t, lock.try(), false, "lock %d is free while it is held", i)
	}
	close(release)
	for _, k := range tasks {
		testenv.Check(t, k.Join())
	}
	check()
}

// What a task holds passes, through its deferred functions, to a plain goroutine.
func TestLockOfAnUnwoundTaskIsPassedOn(t *testing.T) {
	rt, check := enginetest.Closing(t, 2, enginetest.ShortGrace)
	var mu Mutex
	var gate WaitGroup
	gate.Add(1)
	hold := func(int) { mu.Lock(); defer mu.Unlock(); gate.Wait() }
	inTurn(t, rt, 1, engine.ReasonWaitGroup, hold)
	inTurn(t, rt, 4, engine.ReasonMutex, hold)
	got := make(chan struct{})
	go func() { mu.Lock(); close(got) }()
	rt.Close()
	<-got
	check()
}

func TestShutdownUnwindsPulls(t *testing.T) {
	needThreadLocks(t)
	rt, check := enginetest.Closing(t, 2, enginetest.ShortGrace)
	var mu Mutex
	mu.Lock()
	var once sync.WaitGroup
	once.Add(3)
	inTurn(t, rt, 3, engine.ReasonMutex, func(int) {
		defer once.Done()
		next, stop := iter.Pull(func(yield func(int) bool) { mu.Lock(); yield(1) })
		defer stop()
		next()
		t.Error("came back")
	})
	rt.Close()
	once.Wait()
	check()
}

// Groups of tasks that will never start do not keep others waiting.
func TestGroupsOfTasksThatNeverStart(t *testing.T) {
	first, checkFirst := enginetest.Closing(t, 1, enginetest.ShortGrace)
	var free atomic.Bool
	started := make(chan struct{})
	var wg WaitGroup
	g, _ := NewGroup(context.Background())
	engine.GoOn(first.Loop(0), func() {
		close(started)
		for !free.Load() {
		}
	})
	<-started
	wg.Go(func() { t.Error("ran") })
	g.Go(func() error { t.Error("ran"); return nil })
	testenv.Fails(t, first.Close(), "no report of the task that holds the loop")
	free.Store(true)
	wg.Wait()
	testenv.ErrorIs(t, g.Wait(), engine.ErrShutdown, "Group.Wait")
	checkFirst()
}

// A goroutine that goes on after the end, as one of an http.Server may, does not take the process down.
func TestPlainGoroutinesAfterTheLastRuntime(t *testing.T) {
	enginetest.OneOfMany(t, 1).Close()
	never := func() { t.Error("ran") }
	testenv.ErrorIs(t, engine.Go(never).Join(), engine.ErrShutdown, "Join")
	testenv.ErrorIs(t, engine.Start(never), engine.ErrShutdown, "Start")
	testenv.Equal(t, AfterFunc(0, never).Stop(), true, "a timer has fired")
	var wg WaitGroup
	wg.Go(never)
	wg.Wait()
	var g Group
	g.Go(func() error { never(); return nil })
	testenv.ErrorIs(t, g.Wait(), engine.ErrShutdown, "Group.Wait")
}
