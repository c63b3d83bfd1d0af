package recorder_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/recorder"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/task"
)

func TestTimesOfAWait(t *testing.T) {
	s := observed(t, 1, recorder.Config{Sampling: 1}, func(*engine.Runtime) {
		sem := task.NewSemaphore(1)
		sem.Acquire(1)
		var wg task.WaitGroup
		wg.Go(func() {
			sem.Acquire(1)
		})
		engine.YieldAt("let it park")
		spin(2 * time.Millisecond)
		sem.Release(1) // it is ready now, but runs when this task waits
		spin(5 * time.Millisecond)
		wg.Wait()
	})
	n := one(t, s, "semaphore")
	if n.Wait.Count != 1 || n.Wait.Sum < 2e6 || n.Wait.Max != n.Wait.Sum {
		t.Errorf("waited %v in %d waits, at most %v; want 2ms or a little more in one", n.Wait.Sum, n.Wait.Count, n.Wait.Max)
	}
	if n.Ready.Count != 1 || n.Ready.Sum < 5e6 {
		t.Errorf("was ready for %v in %d waits; want 5ms or a little more in one", n.Ready.Sum, n.Ready.Count)
	}
	testenv.Equal(t, n.Peak, 1, "peak")
}

func TestNowPeakAndOldest(t *testing.T) {
	g := recorder.New(recorder.Config{})
	rt := start(t, 2, g)
	defer rt.Close()
	const tasks = 40
	sem := task.NewSemaphore(tasks)
	sem.TryAcquire(tasks)
	parked := make(chan struct{}, tasks)
	for i := range tasks {
		engine.GoOn(rt.Loop(i%2), func() {
			parked <- struct{}{}
			sem.Acquire(1)
		})
	}
	for range tasks {
		<-parked
	}
	wait := func(want int64) (n *bgraph.Node) {
		testenv.Until(t, fmt.Sprint(want, " tasks that wait"), func() bool {
			for _, n = range nodes(g.Snapshot(), "semaphore") {
				if n.Now == want && n.Peak == tasks {
					return true
				}
			}
			return false
		})
		return n
	}
	wait(tasks) // some still wait for the lock of the semaphore
	spin(3 * time.Millisecond)
	n := wait(tasks)
	if n.Oldest < 2e6 {
		t.Errorf("the oldest waits for %v, want 3ms or more", n.Oldest)
	}
	sem.Release(tasks / 2)
	wait(tasks / 2)
	sem.Release(tasks / 2)
}

func TestASnapshotSeesALoopThatIsStuck(t *testing.T) {
	g := recorder.New(recorder.Config{})
	rt := start(t, 1, g)
	defer rt.Close()
	stuck, free := make(chan struct{}), make(chan struct{})
	rt.Go(func() {
		engine.YieldAt("before")
		close(stuck)
		<-free // a plain channel: the whole loop waits
	})
	<-stuck
	n := one(t, g.Snapshot(), "before")
	if n.Arrivals != 1 || n.Departures != 1 || n.Now != 0 {
		t.Errorf("%d arrivals, %d departures, %d there; want 1, 1, 0", n.Arrivals, n.Departures, n.Now)
	}
	close(free)
}

// A task that runs, or only yields, is not shown as one that waits, and one that is ready after a wait is, also where the loop notes its waits by itself.
func TestOldestIsOfThoseThatWait(t *testing.T) {
	g := recorder.New(recorder.Config{})
	rt := start(t, 1, g)
	oldest := func(of string) (max bgraph.Nanos) {
		for _, n := range g.Snapshot().Nodes {
			if n.Reason == of {
				max = n.Oldest
			}
		}
		return max
	}
	testenv.Must(t, rt.Run(context.Background(), func(context.Context) error {
		c := task.NewChan[int](0)
		engine.Go(func() {
			for range 300 {
				c.Recv()
			}
		})
		for range 200 {
			c.Send(0)
			if oldest("channel receive") == 0 {
				t.Error("the other task neither waits for the channel nor is ready after that")
			}
			engine.Sleep(time.Millisecond)
			testenv.MustEqual(t, oldest("sleep"), 0, "a task that runs has slept for")
			engine.Yield()
			testenv.MustEqual(t, oldest("yield"), 0, "a task waits in Yield")
		}
		if oldest("channel receive") == 0 {
			t.Error("the other task does not wait for the channel")
		}
		for range 100 {
			c.Send(0)
		}
		return nil
	}))
}
