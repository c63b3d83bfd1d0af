package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/capriccio-go/capriccio"
	"github.com/capriccio-go/capriccio/bench/internal/report"
)

// graphSteps are the runtimes of the experiment, each with more to do than the one before.
var graphSteps = []string{bareSystem, "capriccio-counted", "capriccio-sampled", "capriccio-traced"}

// graphOverheadExperiment is Table 2 of the Capriccio paper: the cost of learning the blocking graph,
// part by part, and its effect on a web server.
var graphOverheadExperiment = experiment{
	name: "graph-overhead",
	doc:  "the cost of learning the blocking graph (Table 2)",
	parts: []part{{
		points:   append(pointsAt("yield", 2, 1000), pointsAt("chan", 1000)...),
		systems:  func(r *run) []contender { return r.workersNamed(graphSteps...) },
		length:   500 * time.Millisecond,
		reserved: quickBudget * 6 / 10,
	}, {
		points:   pointsAt("graph-size", 1000),
		systems:  func(r *run) []contender { return []contender{onBothCores("capriccio-traced", r.self)} },
		length:   500 * time.Millisecond,
		reserved: quickBudget * 4 / 10,
	}, {
		points: pointsAt("depth", 1, helloPipeline),
		servers: func(r *run) []launcher {
			return []launcher{r.own(knotBare, nil, "knot", "-bare"), r.own("knot-traced", nil, "knot", "-graph")}
		},
		sample:   (*run).loadSample,
		length:   2 * time.Second,
		reserved: quickBudget * 2 / 10,
		beside:   (*run).addStep,
	}, {
		points:  pointsAt("one", 60),
		systems: (*run).graphCaches,
		length:  2 * time.Second,
	}},
	after: func(r *run) error { return r.addEdgeCycles(clockGHz()) },
	notes: []string{
		"capriccio-bare: no graph, as all here first in, first out; " +
			"-counted: nodes and edges found and counted; -sampled: times and histograms for 1 wait in 20; -traced: for every one, heap for 1 in 320",
		"knot-bare: no graph; knot-traced: with the graph that a program gets, 1 wait in 20 timed. step is the mean CPU time between two waits; kernel's share included",
		"cache-cpu-per-transaction: examples/memcache over a unix socket, x connections; without graph and as a program gets it; both first in, first out",
		"edge-cycles: what the graph adds to a step between two waits, in cycles of the clock, by what is on: the yield of 2 tasks less that without a graph; knot-traced: a step of Knot itself, the kernel's share included",
		"dump: Snapshot and Encode of a graph with x nodes; stall: the longest that the one loop was kept waiting meanwhile, by whatever",
	},
	charts: []report.Chart{
		{Title: "Yield with and without the graph", Metric: "yield", XLabel: "ready tasks", Bars: true},
		{Title: "Knot, CPU time per request", Metric: "cpu-per-request", XLabel: "pipelining depth", Bars: true},
	},
}

// graphCaches are the example of a memory cache with and without a graph.
func (r *run) graphCaches() []contender {
	all := append(r.memcacheExample("capriccio-memcache", capriccio.EnvSched+"=fifo", capriccio.EnvGraph+"=off"),
		r.memcacheExample("capriccio-memcache-traced", capriccio.EnvSched+"=fifo", capriccio.EnvGraph+"=on")...)
	for i, c := range all {
		all[i].sample = func(ctx context.Context, p point, d time.Duration) ([]sample, error) {
			samples, err := c.sample(ctx, p, d)
			if err != nil {
				return nil, err
			}
			cpu, err := value(samples, "cpu-per-transaction")
			return []sample{{"cache-cpu-per-transaction", "ns", p.x, cpu}}, err
		}
	}
	return all
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

// addStep asks the server with a graph what a step takes, see reportStep.
func (r *run) addStep(servers []*server) error {
	i := slices.IndexFunc(servers, func(s *server) bool { return s.system == "knot-traced" })
	if i < 0 || r.planning() {
		return nil
	}
	s := servers[i]
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
