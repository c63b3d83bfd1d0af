package feed

import (
	"fmt"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/ressched"
	"github.com/capriccio-go/capriccio/task"
)

// A loop that goes to sleep right after a step in a stage keeps that from no other loop.
func TestALoopThatSleepsKeepsNoStage(t *testing.T) {
	for _, policy := range []string{Cohort, Resource} {
		for seed := range uint64(8) {
			stageTests++
			stage := testenv.Need(ressched.NewStage(fmt.Sprint("stage ", stageTests)))(t)
			rt, _ := fed(t, 2, seed, Config{Policy: policy})
			over := task.NewChan[int](0)
			sleeper := engine.GoOn(rt.Loop(0), func() {
				stage.Do(func() {}) // from the next turn on it is a node of the policy
				engine.Sleep(time.Millisecond)
				stage.Do(func() {})
				over.Recv()
			})
			other := engine.GoOn(rt.Loop(1), func() {
				engine.Sleep(time.Second)
				began := rt.Now()
				stage.Do(func() {})
				if took := rt.Now() - began; took > 100*time.Millisecond {
					t.Errorf("%s, seed %d: the stage was had after %v, when another loop slept", policy, seed, took)
				}
			})
			waker := engine.GoOn(rt.Loop(1), func() {
				engine.Sleep(10 * time.Second)
				over.Close()
			})
			for _, k := range []*engine.Task{sleeper, other, waker} {
				testenv.Must(t, k.Join())
			}
			rt.Close()
		}
	}
}
