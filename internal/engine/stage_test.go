package engine

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

func TestStageLetsOneInAtATime(t *testing.T) {
	s := newStage(t)
	for _, loops := range []int{1, 2, 8} {
		rt := newRuntime(t, loops)
		inside, most, done := 0, 0, 0
		everyone(t, rt, 40, func(i int) {
			for range 5 {
				s.Do(func() { // unsynchronised otherwise: the race detector is the judge
					inside++
					most = max(most, inside)
					if i%7 == 0 {
						Yield()
					}
					inside--
					done++
				})
			}
		})
		rt.Close()
		if most != 1 || done != 200 {
			t.Errorf("%d loops: %d at a time, %d in all; want 1 and 200", loops, most, done)
		}
	}
}

func TestStagesHaveNames(t *testing.T) {
	testenv.Fails(t, testenv.Err(NewStage("")), "a stage without name")
}

// newStage makes a stage for one test.
func newStage(t *testing.T) *Stage {
	return testenv.Need(NewStage(t.Name()))(t)
}

// readyCount counts how often the task of a name has become ready. Loop-private.
type readyCount struct {
	DeafObserver
	name  string
	count int
}

func (r *readyCount) Ready(t *Task) {
	if t.Name() == r.name {
		r.count++
	}
}

// Figure 3 of the paper: an operation starts two others, and goes on when both are done.
func TestACallerWithTwoChildrenResumesOnce(t *testing.T) {
	s := newStage(t)
	seen := &readyCount{name: "caller"}
	rt := newRuntime(t, 1, func(c *Config) { c.NewObserver = func(*Loop) Observer { return seen } })
	caller := testenv.Need(rt.Spawn(Options{Name: "caller"}, func() {
		var c Children
		order := ""
		a, err1 := Invoke(&c, s, func() int { Yield(); order += "a"; return 1 })
		b, err2 := Invoke(&c, s, func() string { Yield(); order += "b"; return "two" })
		if err1 != nil || err2 != nil || order != "" {
			t.Errorf("started: %v, %v, order %q; want the caller to go on at once", err1, err2, order)
		}
		before := seen.count
		c.Wait()
		x, errA := a.Get()
		y, errB := b.Get()
		if x != 1 || y != "two" || errA != nil || errB != nil || order != "ab" {
			t.Errorf("%v %v, %v %v, order %q", x, errA, y, errB, order)
		}
		testenv.Equal(t, seen.count-before, 1, "the caller became ready N times")
	}))(t)
	testenv.Must(t, caller.Join())
}

func TestAnOperationThatPanicsHasAnError(t *testing.T) {
	s := newStage(t)
	rt := newRuntime(t, 2, panicsPass)
	run(t, rt, func() {
		var c Children
		bad, _ := Invoke(&c, s, func() int { panic("of a test") })
		good, _ := Invoke(&c, s, func() int { return 1 })
		c.Wait()
		testenv.ErrorSays(t, testenv.Err(bad.Get()), s.name, "Get of the one that panicked")
		testenv.Got(good.Get())(t, 1)
	})
}

// Nobody waits for ever for an operation that has not begun when the runtime ends.
func TestAnOperationThatIsDroppedIsDone(t *testing.T) {
	s := newStage(t)
	rt, check := closing(t, 1, shortGrace)
	held, release := make(chan bool), make(chan bool)
	GoOn(rt.Loop(0), func() { close(held); <-release })
	<-held
	var c Children
	r := testenv.Need(Invoke(&c, s, func() int { t.Error("ran"); return 1 }))(t)
	if err := rt.Close(); err == nil { // by now the loop has been told to end what has not begun
		t.Error("Close returned no error although a task holds the loop")
	}
	close(release)
	<-rt.Loop(0).stopped
	testenv.Equal(t, c.left.count, 0, "operations are left of a runtime that has ended")
	c.Wait()
	testenv.Fails(t, testenv.Err(r.Get()), "Get of an operation that was dropped has no error")
	check()
}

func TestInvokeWaitsWhileTheStageHasEnough(t *testing.T) {
	s := newStage(t)
	rt := newRuntime(t, 1)
	run(t, rt, func() {
		s.Enough(true)
		var c Children
		started := false
		caller := Go(func() {
			testenv.Check(t, testenv.Err(Invoke(&c, s, func() int { return 1 })))
			started = true
		})
		for range 5 {
			Yield()
		}
		if started {
			t.Error("started although the stage has enough")
		}
		s.Enough(false)
		caller.Join()
		c.Wait()
		s.Enough(true)
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if err := Under(ctx, func() error { _, err := Invoke(&c, s, func() int { return 1 }); return err }); !errors.Is(err, context.Canceled) {
			t.Errorf("a cancelled task: %v", err)
		}
	})
}

// A runtime knows the stages that its own tasks have come to, and of two with one name the first.
func TestARuntimeKnowsItsStages(t *testing.T) {
	s, same := newStage(t), newStage(t)
	s.SetThresholds(10, time.Second)
	here, other := oneOfMany(t, 1), oneOfMany(t, 1)
	if here.StageNamed(s.name) != nil || here.stages.any.Load() {
		t.Error("a stage is known before a task has come to it")
	}
	testenv.Must(t, here.Go(func() {
		s.Do(func() {})
		same.Do(func() {})
	}).Join())
	s.Do(func() {}) // of a plain goroutine
	if here.StageNamed(s.name) != s || !here.stages.any.Load() {
		t.Errorf("known: %v", here.StageNamed(s.name))
	}
	if n, d := s.Thresholds(); n != 10 || d != time.Second {
		t.Errorf("%d, %v", n, d)
	}
	if other.StageNamed(s.name) != nil || other.stages.any.Load() {
		t.Error("another runtime knows the stage")
	}
}

func TestStagesHaveTheRanksOfTheirLastOrder(t *testing.T) {
	a, b, c := newStage(t), newStage(t), newStage(t)
	ranks := func() [3]int { return [3]int{a.Rank(), b.Rank(), c.Rank()} }
	for _, order := range []struct {
		stages []*Stage
		want   [3]int
	}{{[]*Stage{b, a}, [3]int{2, 1, 0}}, {[]*Stage{c}, [3]int{2, 1, 1}}, {[]*Stage{a, c}, [3]int{1, 0, 2}}} {
		if err := OrderStages(order.stages); err != nil || ranks() != order.want {
			t.Errorf("%v, ranks %v; want %v", err, ranks(), order.want)
		}
	}
	if err := OrderStages([]*Stage{a, b, a}); err == nil || !strings.Contains(err.Error(), a.name) || ranks() != [3]int{1, 0, 2} {
		t.Errorf("a stage twice: %v, ranks %v", err, ranks())
	}
}
