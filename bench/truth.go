package main

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"runtime"
	"runtime/trace"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/capriccio-go/capriccio"
	"github.com/capriccio-go/capriccio/bench/internal/report"
	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/gotrace"
	"github.com/capriccio-go/capriccio/task"
)

// truthRounds is how often the program of the experiment waits and computes.
const truthRounds = 400

// truthExperiment compares graphs with what a program has measured of itself in the same run: one
// that computes and waits in turns. Of a graph that times one wait in 20, it matters which step the
// kernel interrupts, so that a run is made again where it has done so.
var truthExperiment = experiment{
	name: "truth",
	doc:  "the difference between a graph and the program's own measurements",
	parts: []part{{
		points: pointsAt("truth", 10, 100, 1000),
		systems: func(*run) []contender {
			return slower(time.Second, []contender{{system: "gotrace", sample: truthOf(tracedTruth)}, {system: "capriccio", sample: truthOf(learntTruth)}})
		},
		length: time.Second,
	}},
	notes:  []string{"x: µs of computing between two waits: for another one that computes for 20 µs, or asleep for 2 ms, of which waits and counts are; errors are against what the program measured itself, which is without what it takes to wait: after a sleep, when the caches are cold, that is some µs; gotrace times each wait, the graph of a runtime one in 20; of several runs within a second the one is taken that the kernel interrupted least often (interrupted)"},
	charts: []report.Chart{{Title: "Error of CPU time by step", Metric: "cpu-error", XLabel: "µs of a step", Bars: true}},
}

// tracedTruth runs the program as goroutines, and returns the graph of an execution trace of it.
func tracedTruth(p point, slept bool) (t truth, s *bgraph.Snapshot, err error) {
	if !slept { // to wake another one would take some µs of the step, for a thread
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	}
	var b bytes.Buffer
	if err := trace.Start(&b); err != nil {
		return t, nil, err
	}
	wait := func() { time.Sleep(truthSleep) }
	if !slept {
		ask, answer := make(chan struct{}, 1), make(chan struct{}, 1)
		defer close(ask)
		go func() {
			for range ask {
				compute(time.Now(), truthHandOver)
				answer <- struct{}{}
			}
		}()
		wait = func() { ask <- struct{}{}; <-answer }
	}
	t = computeAndWait(p, goSpawn, wait)
	trace.Stop()
	s, err = gotrace.Read(&b, gotrace.Options{})
	return t, s, err
}

// learntTruth runs it as tasks, whose graph the runtime learns.
func learntTruth(p point, slept bool) (t truth, s *bgraph.Snapshot, err error) {
	rt, err := capriccio.New(capriccio.WithLoops(1))
	if err != nil {
		return t, nil, err
	}
	defer rt.Close()
	wait := func() { task.Sleep(truthSleep) }
	if !slept {
		ask, answer := task.NewChan[struct{}](1), task.NewChan[struct{}](1)
		defer ask.Close()
		rt.Go(func() {
			for range ask.All() {
				compute(time.Now(), truthHandOver)
				answer.Send(struct{}{})
			}
		})
		wait = func() { ask.Send(struct{}{}); answer.Recv() }
	}
	return computeAndWait(p, func(fn func()) { rt.Go(fn) }, wait), engine.Default().Graph().Snapshot(), nil
}

// truthOf makes samples of a function that runs the program once, asleep between its steps or not.
func truthOf(once func(p point, slept bool) (truth, *bgraph.Snapshot, error)) func(context.Context, point, time.Duration) ([]sample, error) {
	return func(ctx context.Context, p point, d time.Duration) (out []sample, err error) {
		for _, slept := range []bool{false, true} {
			var best []sample
			least := int64(math.MaxInt64)
			for began := time.Now(); least > 0 && (best == nil || time.Since(began) < d) && ctx.Err() == nil; {
				before, err := interrupted()
				if err != nil {
					return nil, err
				}
				t, s, err := once(p, slept)
				if err != nil {
					return nil, err
				}
				after, err := interrupted()
				if err != nil {
					return nil, err
				}
				if after-before >= least {
					continue
				}
				least = after - before
				if best, err = t.compare(s, p, slept); err != nil {
					return nil, err
				}
			}
			out = append(out, best...)
			if !slept {
				out = append(out, sample{"interrupted", "1", p.x, float64(least)})
			}
		}
		return out, nil
	}
}

// interrupted is how often the kernel has taken the processor from this process (getrusage(2)).
func interrupted() (int64, error) {
	var used syscall.Rusage
	err := syscall.Getrusage(syscall.RUSAGE_SELF, &used)
	return used.Nivcsw, err
}

// How long the program waits: for another one that computes, in which the processor is not left and
// its caches stay warm, and asleep.
const (
	truthHandOver = 20 * time.Microsecond
	truthSleep    = 2 * time.Millisecond
)

// A truth is what the program has measured: means.
type truth struct{ wait, step time.Duration }

func compute(from time.Time, d time.Duration) {
	for time.Since(from) < d {
	}
}

// computeAndWait is the program, in a task or goroutine of its own.
func computeAndWait(p point, spawn func(func()), wait func()) truth {
	done := make(chan truth)
	spawn(func() {
		var t truth
		woken := time.Now()
		for range truthRounds {
			compute(woken, time.Duration(p.x)*time.Microsecond)
			computed := time.Now()
			wait()
			t.step += computed.Sub(woken)
			woken = time.Now()
			t.wait += woken.Sub(computed)
		}
		done <- truth{t.wait / truthRounds, t.step / truthRounds}
	})
	return <-done
}

// compare finds the waits of the program and the steps between in a graph, and says how far off they are.
func (t truth) compare(s *bgraph.Snapshot, p point, slept bool) (out []sample, err error) {
	reason, suffix := "channel receive", ""
	if slept {
		reason, suffix = "sleep", "-after-sleep"
	}
	i := slices.IndexFunc(s.Edges, func(e bgraph.Edge) bool {
		n := s.Node(e.From)
		return e.To == e.From && n.Reason == reason && slices.ContainsFunc(n.Stack, func(f bgraph.Frame) bool { return strings.Contains(f.Function, "computeAndWait") })
	})
	if i < 0 {
		return nil, fmt.Errorf("the graph has no %s of the program: %d nodes", reason, len(s.Nodes))
	}
	e := &s.Edges[i]
	off := func(metric string, got, want float64) {
		out = append(out, sample{metric, "%", p.x, 100 * math.Abs(got-want) / want})
	}
	off("cpu-error"+suffix, float64(e.TotalCPU()+e.Parts.Preempted+e.Parts.Folded)/float64(e.Count), float64(t.step))
	if slept {
		n := s.Node(e.From)
		off("count-error", float64(e.Count), truthRounds-1)
		off("wait-error", float64(n.MeanWait()+n.Ready.Mean()), float64(t.wait))
	}
	return out, nil
}
