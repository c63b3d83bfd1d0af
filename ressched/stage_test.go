package ressched

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/enginetest"
	"github.com/capriccio-go/capriccio/internal/recorder"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

func TestStageLetsOneInAtATime(t *testing.T) {
	s := newStage(t)
	for _, loops := range []int{1, 2, 8} {
		rt := enginetest.NewRuntime(t, loops)
		inside, most, done := 0, 0, 0
		enginetest.Everyone(t, rt, 40, func(i int) {
			for range 5 {
				s.Do(func() { // unsynchronised otherwise: the race detector is the judge
					inside++
					most = max(most, inside)
					if i%7 == 0 {
						engine.Yield()
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

// Figure 3 of the paper: an operation starts two others, and goes on when both are done.
func TestACallerWithTwoChildrenResumesOnce(t *testing.T) {
	s := newStage(t)
	g := recorder.New(recorder.Config{})
	rt := enginetest.NewRuntime(t, 1, func(c *engine.Config) { c.Graph = g })
	caller := testenv.Need(rt.Spawn(engine.Options{Name: "caller"}, func() {
		var c Children
		order := ""
		a, err1 := Invoke(&c, s, func() int { engine.Yield(); order += "a"; return 1 })
		b, err2 := Invoke(&c, s, func() string { engine.Yield(); order += "b"; return "two" })
		if err1 != nil || err2 != nil || order != "" {
			t.Errorf("started: %v, %v, order %q; want the caller to go on at once", err1, err2, order)
		}
		c.Wait()
		x, errA := a.Get()
		y, errB := b.Get()
		if x != 1 || y != "two" || errA != nil || errB != nil || order != "ab" {
			t.Errorf("%v %v, %v %v, order %q", x, errA, y, errB, order)
		}
		for _, n := range g.Snapshot().Nodes {
			if n.Reason == engine.ReasonWaitGroup.String() {
				testenv.Equal(t, n.Departures, 1, "the caller has waited N times")
			}
		}
	}))(t)
	testenv.Must(t, caller.Join())
}

func TestAnOperationThatPanicsHasAnError(t *testing.T) {
	s := newStage(t)
	rt := enginetest.NewRuntime(t, 2, enginetest.PanicsPass)
	enginetest.Run(t, rt, func() {
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
	rt, check := enginetest.Closing(t, 1, enginetest.ShortGrace)
	held, release := make(chan bool), make(chan bool)
	engine.GoOn(rt.Loop(0), func() { close(held); <-release })
	<-held
	var c Children
	r := testenv.Need(Invoke(&c, s, func() int { t.Error("ran"); return 1 }))(t)
	if err := rt.Close(); err == nil { // by now the loop has been told to end what has not begun
		t.Error("Close returned no error although a task holds the loop")
	}
	close(release)
	check()
	c.Wait()
	testenv.Fails(t, testenv.Err(r.Get()), "Get of an operation that was dropped has no error")
}

func TestInvokeWaitsWhileTheStageHasEnough(t *testing.T) {
	s := newStage(t)
	rt := enginetest.NewRuntime(t, 1)
	enginetest.Run(t, rt, func() {
		s.Enough(true)
		var c Children
		started := false
		caller := engine.Go(func() {
			testenv.Check(t, testenv.Err(Invoke(&c, s, func() int { return 1 })))
			started = true
		})
		for range 5 {
			engine.Yield()
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
		if err := engine.Under(ctx, func() error { _, err := Invoke(&c, s, func() int { return 1 }); return err }); !errors.Is(err, context.Canceled) {
			t.Errorf("a cancelled task: %v", err)
		}
	})
}

// A runtime knows the stages that its own tasks have come to, and of two with one name the first.
func TestARuntimeKnowsItsStages(t *testing.T) {
	s, same := newStage(t), newStage(t)
	s.SetThresholds(10, time.Second)
	here, other := enginetest.OneOfMany(t, 1), enginetest.OneOfMany(t, 1)
	if here.StageNamed(s.name) != nil {
		t.Error("a stage is known before a task has come to it")
	}
	testenv.Must(t, here.Go(func() {
		s.Do(func() {})
		same.Do(func() {})
	}).Join())
	s.Do(func() {}) // of a plain goroutine
	if known := here.StageNamed(s.name); known != &s.settings {
		t.Errorf("known: %v", known)
	}
	if n, d := s.settings.Thresholds(); n != 10 || d != time.Second {
		t.Errorf("%d, %v", n, d)
	}
	if other.StageNamed(s.name) != nil {
		t.Error("another runtime knows the stage")
	}
}

func TestStagesHaveTheRanksOfTheirLastOrder(t *testing.T) {
	a, b, c := newStage(t), newStage(t), newStage(t)
	ranks := func() [3]int { return [3]int{a.settings.Rank(), b.settings.Rank(), c.settings.Rank()} }
	for _, order := range []struct {
		stages []*Stage
		want   [3]int
	}{{[]*Stage{b, a}, [3]int{2, 1, 0}}, {[]*Stage{c}, [3]int{2, 1, 1}}, {[]*Stage{a, c}, [3]int{1, 0, 2}}} {
		if err := OrderStages(order.stages...); err != nil || ranks() != order.want {
			t.Errorf("%v, ranks %v; want %v", err, ranks(), order.want)
		}
	}
	if err := OrderStages(a, b, a); err == nil || !strings.Contains(err.Error(), a.name) || ranks() != [3]int{1, 0, 2} {
		t.Errorf("a stage twice: %v, ranks %v", err, ranks())
	}
}
