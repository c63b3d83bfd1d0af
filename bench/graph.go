package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/capriccio-go/capriccio/bench/internal/proc"
	"github.com/capriccio-go/capriccio/bench/internal/report"
)

// graphSteps are the runtimes of the experiment, each with more to do than the one before.
var graphSteps = []string{"capriccio", "capriccio-observed", "capriccio-counted", "capriccio-sampled", "capriccio-traced"}

// runGraphOverhead is Table 2 of the Capriccio paper: what learning the blocking graph
// costs, part by part, and what of that a web server feels.
func runGraphOverhead(r *run) error {
	var loops []contender
	for _, system := range graphSteps {
		loops = append(loops, onServerCore(system, r.self, workerCommand, system))
	}
	r.reserved = quickBudget * 6 / 10 // for what follows
	if err := r.measure([]point{{metric: "yield", x: 2}, {metric: "yield", x: 1000}, {metric: "chan", x: 1000}}, loops, 500*time.Millisecond); err != nil {
		return err
	}
	r.reserved = quickBudget * 4 / 10
	if err := r.measure([]point{{metric: "graph-size", x: 1000}}, []contender{onBothCores("capriccio-traced", r.self)}, 500*time.Millisecond); err != nil {
		return err
	}
	r.reserved = 0
	if err := r.graphServers(); err != nil {
		return err
	}
	r.note("capriccio: no graph; -observed: the call path's fingerprint, handed to an observer that does nothing; " +
		"-counted: nodes and edges found and counted; -sampled: times and histograms for 1 wait in 20; -traced: for every one, heap for 1 in 320")
	r.note("knot: no graph; knot-traced: as a program gets it, 1 wait in 20 timed. step is the mean CPU time between two waits; kernel's share included")
	r.note("dump: Snapshot and Encode of a graph with x nodes; stall: the longest that the one loop was kept waiting meanwhile, by whatever")
	r.charts = []report.Chart{
		{Title: "Yield with and without the graph", Metric: "yield", XLabel: "ready tasks", Bars: true},
		{Title: "Knot, CPU time per request", Metric: "cpu-per-request", XLabel: "pipelining depth", Bars: true},
	}
	return nil
}

// onBothCores is onServerCore for a worker that needs a second core.
func onBothCores(system, self string) contender {
	return contender{system: system, sample: func(ctx context.Context, p point, d time.Duration) ([]sample, error) {
		ctx, cancel := context.WithTimeoutCause(ctx, d+sampleTimeout, fmt.Errorf("no end after %v", d+sampleTimeout))
		defer cancel()
		lines, err := proc.Output(ctx, proc.Command{Path: self, Core: proc.AnyCore, Args: []string{
			workerCommand, system, p.metric, strconv.FormatFloat(p.x, 'f', -1, 64), strconv.FormatInt(d.Milliseconds(), 10)}})
		if err != nil {
			return nil, err
		}
		return parseSamples(lines)
	}}
}

// graphServers loads Knot with and without a graph.
func (r *run) graphServers() error {
	var launchers []launcher
	for _, way := range []struct {
		system string
		args   []string
	}{{"knot", nil}, {"knot-traced", []string{"-graph"}}} {
		launchers = append(launchers, launcher{way.system, func(ctx context.Context) (*server, error) {
			return startServer(ctx, way.system, r.self, slices.Concat([]string{workerCommand, "knot"}, way.args)...)
		}})
	}
	servers, err := r.startAll(launchers)
	if err != nil {
		return err
	}
	defer closeAll(servers)
	var contenders []contender
	for _, s := range servers {
		contenders = append(contenders, contender{system: s.system, sample: r.loadSample(s)})
	}
	if err := r.measure([]point{{metric: "depth", x: 1}, {metric: "depth", x: helloPipeline}}, contenders, 2*time.Second); err != nil {
		return err
	}
	for _, s := range servers {
		if s.system == "knot-traced" {
			return r.addStep(s)
		}
	}
	return nil
}

// addStep asks a server what a step takes, see reportStep.
func (r *run) addStep(s *server) error {
	ctx, cancel := context.WithTimeoutCause(r.ctx, serverStart, fmt.Errorf("no answer after %v", serverStart))
	defer cancel()
	if err := syscall.Kill(s.child.PID(), syscall.SIGUSR1); err != nil {
		return fmt.Errorf("asking %s: %w", s.system, err)
	}
	line, err := s.child.Line(ctx)
	if err != nil {
		return err
	}
	samples, err := parseSamples([]string{line})
	if err != nil {
		return err
	}
	return r.add(s.system, samples)
}
