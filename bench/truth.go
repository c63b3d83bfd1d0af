package main

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"runtime/trace"
	"strings"
	"time"

	"github.com/capriccio-go/capriccio"
	"github.com/capriccio-go/capriccio/bench/internal/report"
	"github.com/capriccio-go/capriccio/bgraph"
	"github.com/capriccio-go/capriccio/bgraph/gotrace"
	"github.com/capriccio-go/capriccio/task"
)

// truthRounds is how often the program of the experiment waits and computes.
const truthRounds = 400

// runTruth compares graphs with what a program has measured of itself in the same run: one
// that waits and computes in turns. So other load on the machine counts on both sides.
func runTruth(r *run) error {
	contenders := []contender{{system: "gotrace", sample: func(_ context.Context, p point, _ time.Duration) ([]sample, error) {
		var b bytes.Buffer
		if err := trace.Start(&b); err != nil {
			return nil, err
		}
		done := make(chan truth)
		go func() { done <- waitAndCompute(p, time.Sleep) }()
		measured := <-done
		trace.Stop()
		s, err := gotrace.Read(&b, gotrace.Options{})
		if err != nil {
			return nil, err
		}
		return measured.compare(s, p)
	}}, {system: "capriccio", sample: func(_ context.Context, p point, _ time.Duration) ([]sample, error) {
		rt, err := capriccio.New(capriccio.WithLoops(1))
		if err != nil {
			return nil, err
		}
		defer rt.Close()
		done := make(chan truth)
		rt.Go(func() { done <- waitAndCompute(p, func(d time.Duration) { task.Sleep(d) }) })
		return (<-done).compare(bgraph.Default().Snapshot(), p)
	}}}
	points := []point{{metric: "truth", x: 10}, {metric: "truth", x: 100}, {metric: "truth", x: 1000}}
	if err := r.measure(points, contenders, time.Second); err != nil {
		return err
	}
	r.note("x: µs of computing between two waits of 2 ms; errors are against what the program measured itself, without what it takes to wait and to be traced; gotrace times each wait, the graph of a runtime one in 20")
	r.charts = []report.Chart{{Title: "Error of CPU time by step", Metric: "cpu-error", XLabel: "µs of a step", Bars: true}}
	return nil
}

// A truth is what the program has measured: means.
type truth struct{ wait, step time.Duration }

func waitAndCompute(p point, sleep func(time.Duration)) (t truth) {
	woken := time.Now()
	for range truthRounds {
		for time.Since(woken) < time.Duration(p.x)*time.Microsecond {
		}
		computed := time.Now()
		sleep(2 * time.Millisecond)
		t.step += computed.Sub(woken)
		woken = time.Now()
		t.wait += woken.Sub(computed)
	}
	return truth{t.wait / truthRounds, t.step / truthRounds}
}

// compare finds the wait and the step of waitAndCompute in a graph, and says how far off they are.
func (t truth) compare(s *bgraph.Snapshot, p point) ([]sample, error) {
	for i := range s.Edges {
		e := &s.Edges[i]
		n := s.Node(e.From)
		if f := n.Place(); e.To != e.From || f == nil || n.Reason != "sleep" || !strings.Contains(f.Function, "waitAndCompute") && !strings.Contains(f.Function, "runTruth") {
			continue
		}
		off := func(metric string, got, want float64) sample {
			return sample{metric, "%", p.x, 100 * math.Abs(got-want) / want}
		}
		step := float64(e.TotalCPU()+e.Parts.Preempted+e.Parts.Folded) / float64(e.Count)
		return []sample{off("count-error", float64(e.Count), truthRounds-1), off("cpu-error", step, float64(t.step)),
			off("wait-error", float64(n.Wait.Mean()+n.Ready.Mean()), float64(t.wait))}, nil
	}
	return nil, fmt.Errorf("the graph has no sleep of the program: %d nodes", len(s.Nodes))
}
