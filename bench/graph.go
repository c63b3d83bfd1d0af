package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/capriccio-go/capriccio/bench/internal/report"
)

// graphSteps are the runtimes of the experiment, each with more to do than the one before.
var graphSteps = []string{bareSystem, "capriccio-observed", "capriccio-counted", "capriccio-sampled", "capriccio-traced"}

// runGraphOverhead is Table 2 of the Capriccio paper: what learning the blocking graph
// costs, part by part, and what of that a web server feels.
func runGraphOverhead(r *run) error {
	var loops []contender
	for _, system := range graphSteps {
		loops = append(loops, onServerCore(system, r.self, workerCommand, system))
	}
	r.reserved = quickBudget * 6 / 10 // for what follows
	r.measure([]point{{metric: "yield", x: 2}, {metric: "yield", x: 1000}, {metric: "chan", x: 1000}}, loops, 500*time.Millisecond)
	r.reserved = quickBudget * 4 / 10
	r.measure([]point{{metric: "graph-size", x: 1000}}, []contender{onBothCores("capriccio-traced", r.self)}, 500*time.Millisecond)
	r.reserved = quickBudget * 2 / 10
	if err := r.graphServers(); err != nil {
		return err
	}
	r.reserved = 0
	r.graphCaches()
	if err := r.addEdgeCycles(clockGHz()); err != nil {
		return err
	}
	r.note("capriccio-bare: no graph, as all here first in, first out; -observed: the call path's fingerprint, handed to an observer that does nothing; " +
		"-counted: nodes and edges found and counted; -sampled: times and histograms for 1 wait in 20; -traced: for every one, heap for 1 in 320")
	r.note("knot-bare: no graph; knot-traced: with the graph that a program gets, 1 wait in 20 timed. step is the mean CPU time between two waits; kernel's share included")
	r.note("cache-cpu-per-transaction: examples/memcache over a unix socket, x connections; without graph and as a program gets it; both first in, first out")
	r.note("edge-cycles: what the graph adds to a step between two waits, in cycles of the clock, by what is on: the yield of 2 tasks less that without a graph; knot-traced: a step of Knot itself, the kernel's share included")
	r.note("dump: Snapshot and Encode of a graph with x nodes; stall: the longest that the one loop was kept waiting meanwhile, by whatever")
	r.charts = []report.Chart{
		{Title: "Yield with and without the graph", Metric: "yield", XLabel: "ready tasks", Bars: true},
		{Title: "Knot, CPU time per request", Metric: "cpu-per-request", XLabel: "pipelining depth", Bars: true},
	}
	return nil
}

// graphServers loads Knot with and without a graph.
func (r *run) graphServers() error {
	servers := r.startAll([]launcher{r.own(knotBare, nil, "knot", "-bare"), r.own("knot-traced", nil, "knot", "-graph")})
	defer closeAll(servers)
	r.measure(pointsAt("depth", 1, helloPipeline), serving(servers, r.loadSample), 2*time.Second)
	for _, s := range servers {
		if s.system == "knot-traced" {
			return r.prepare(0, func() error { return r.addStep(s) })
		}
	}
	return nil
}

// graphCaches loads the example of a memory cache with and without a graph.
func (r *run) graphCaches() {
	path, err := r.buildCommand("examples/memcache")
	if err != nil {
		r.skip("memcache", err)
		return
	}
	var contenders []contender
	for system, graph := range map[string]string{"capriccio-memcache": "off", "capriccio-memcache-traced": "on"} {
		socket := filepath.Join(r.scratch, system)
		contenders = append(contenders, contender{system: system, sample: func(ctx context.Context, p point, d time.Duration) ([]sample, error) {
			samples, err := r.sampleModel(ctx, socket, "memcached", p, d, func(ctx context.Context, socket string, p point) (*server, error) {
				os.Remove(socket)
				command := onCores(p, path, "-addr", socket)
				command.Env = append(command.Env, "CAPRICCIO_SCHED=fifo", "CAPRICCIO_GRAPH="+graph)
				return startCommand(ctx, system, command)
			})
			if err != nil {
				return nil, err
			}
			cpu, err := value(samples, "cpu-per-transaction")
			return []sample{{"cache-cpu-per-transaction", "ns", p.x, cpu}}, err
		}})
	}
	slices.SortFunc(contenders, func(a, b contender) int { return strings.Compare(a.system, b.system) })
	r.measure([]point{{metric: "one", x: 60}}, contenders, 2*time.Second)
}

// addEdgeCycles adds samples of what the graph costs at each step, in cycles of a clock of that many GHz (Capriccio, Table 2).
func (r *run) addEdgeCycles(gigahertz float64) error {
	if gigahertz == 0 {
		r.skip("edge-cycles", errors.New("/proc/cpuinfo does not say how fast the clock is"))
		return nil
	}
	rows := report.Report{Rows: r.samples.Rows()}
	none, ok := rows.Find(bareSystem, "yield", 2)
	for _, system := range graphSteps[1:] {
		if row, there := rows.Find(system, "yield", 2); ok && there {
			if err := r.add(system, []sample{{"edge-cycles", "cycles", 1, (row.Value - none.Value) * gigahertz}}); err != nil {
				return err
			}
		}
	}
	if step, ok := rows.Find("knot-traced", "step", 1); ok {
		return r.add("knot-traced", []sample{{"edge-cycles", "cycles", 1, step.Value * gigahertz}})
	}
	return nil
}

// clockGHz is the rate of the processor's clock, 0 if nothing says.
func clockGHz() float64 {
	data, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, "cpu MHz"); ok {
			mhz, _ := strconv.ParseFloat(strings.Trim(rest, "\t :\n"), 64)
			return mhz / 1000
		}
	}
	return 0
}

// addStep asks a server what a step takes, see reportStep.
func (r *run) addStep(s *server) error {
	ctx, cancel := context.WithTimeoutCause(r.ctx, serverStart, fmt.Errorf("no answer after %v", serverStart))
	defer cancel()
	s.child.Signal(syscall.SIGUSR1)
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
