package ressched

import (
	"testing"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/enginetest"
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

// A runtime knows the stages that its own tasks have come to.
func TestARuntimeKnowsItsStages(t *testing.T) {
	s := newStage(t)
	here, other := enginetest.OneOfMany(t, 1), enginetest.OneOfMany(t, 1)
	if here.HasStage(s.name) {
		t.Error("a stage is known before a task has come to it")
	}
	testenv.Must(t, here.Go(func() { s.Do(func() {}) }).Join())
	s.Do(func() {}) // of a plain goroutine
	if !here.HasStage(s.name) {
		t.Error("the stage is not known")
	}
	if other.HasStage(s.name) {
		t.Error("another runtime knows the stage")
	}
}
