package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/capriccio-go/capriccio"
	"github.com/capriccio-go/capriccio/internal/sched"
	"github.com/capriccio-go/capriccio/task"
)

// runSchedCostWorker measures what the policy that the environment names costs.
func runSchedCostWorker(args []string, out io.Writer) error {
	metrics := map[string]metricFunc{
		"choose":       func(j job) error { return measureChoice(j, 4) },
		"choose-alone": func(j job) error { return measureChoice(j, 1) },
		"yield":        onLoopOf(oneLoop, yieldAtOneNode),
	}
	return measuring(metrics)(args, out)
}

// yieldAtOneNode has j.x tasks yield in turns, all at the same node of the graph: under every
// policy another task of the node runs then, so that each yield is a switch.
func yieldAtOneNode(j job) error {
	var stop bool
	var total int64
	var over task.WaitGroup
	over.Add(j.x)
	for range j.x {
		task.Go(func() {
			for !stop {
				task.Yield()
				total++
			}
			over.Done()
		})
	}
	if err := task.Sleep(j.duration / 10); err != nil {
		return err
	}
	start, before := time.Now(), total
	if err := task.Sleep(j.duration); err != nil {
		return err
	}
	j.emit("yield", "ns", float64(time.Since(start))/float64(total-before))
	stop = true
	over.Wait()
	return nil
}

// What a loop would do: the choices in a turn, and the length of a step.
const (
	choicesPerTurn = 256
	choiceStep     = time.Microsecond
)

// measureChoice has a policy choose among j.x nodes with as many ready tasks each. A task
// that was chosen is ready again at the same node when its step is over.
func measureChoice(j job, ready int) error {
	p, err := policyToChoose(j.x)
	if err != nil {
		return err
	}
	for n := range j.x {
		for range ready {
			p.Ready(sched.Node(n))
		}
	}
	cycles := uint64(choiceStep) // a cycle is a nanosecond here
	var now time.Duration
	var failed error
	last, ok := p.Next()
	if !ok {
		return fmt.Errorf("nothing to run among %d nodes", j.x)
	}
	j.emit(j.metric, "ns", j.untilTime(choicesPerTurn, func() {
		now += choicesPerTurn * choiceStep
		p.Tick(now)
		for range choicesPerTurn {
			p.Ready(last)
			next, ok := p.Next()
			if !ok {
				failed = fmt.Errorf("nothing to run at %v", now)
				return
			}
			p.Charge(last, cycles)
			last = next
		}
	}))
	return failed
}

// policyToChoose makes the policy that the environment names, with n nodes. Resource knows
// two resources, of which the nodes take and give.
func policyToChoose(n int) (sched.Policy, error) {
	switch name := os.Getenv(capriccio.EnvSched); name {
	case "cohort":
		return sched.NewCohort(sched.CohortConfig{}), nil
	case "resource":
		ledger := sched.NewLedger()
		for _, name := range []string{"memory", "buffers"} {
			id, err := ledger.Add(sched.Spec{Name: name, Limit: 100})
			if err != nil {
				return nil, err
			}
			ledger.Observe(0, id, 50)
		}
		learned := make([]sched.Prediction, n)
		for i := range learned {
			learned[i] = sched.Prediction{
				Steps: 1000, CPU: sched.Moments{Mean: float64(choiceStep), Variance: 1}, Left: float64(i),
				Changes: []sched.Moments{{Mean: float64(i%3 - 1)}, {Mean: float64(i%5 - 2)}},
				Net:     []float64{0, 0}, Peak: make([]sched.Moments, 2),
			}
		}
		return sched.NewResource(sched.ResourceConfig{
			Ledger: ledger, Predictions: func() []sched.Prediction { return learned },
		}), nil
	default:
		return nil, fmt.Errorf("no policy %q to measure; want cohort or resource", name)
	}
}
