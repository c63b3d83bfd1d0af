package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/capriccio-go/capriccio"
	"github.com/capriccio-go/capriccio/bench/internal/report"
)

// schedulers are the systems of the experiment and the policy of each.
var schedulers = []struct{ system, policy string }{
	{"capriccio", "resource"},
	{"capriccio-cohort", "cohort"},
	{"capriccio-fifo", "fifo"},
}

// runSchedCost measures what it costs to choose: the policies alone, a loop whose tasks
// yield, and what of that a web server feels.
func runSchedCost(r *run) error {
	var loops []contender
	for _, s := range schedulers {
		c := withPolicy(s.system, s.policy, r.self)
		if s.policy == "fifo" {
			c.lacks = func(p point) string {
				if p.metric != "yield" {
					return "the loop does without a policy"
				}
				return ""
			}
		}
		loops = append(loops, c)
	}
	points := slices.Concat(pointsAt("choose", 10, 1000), pointsAt("choose-alone", 10, 1000), pointsAt("yield", 2, 1000))
	r.reserved = quickBudget / 2 // for the servers
	if err := r.measure(points, loops, 500*time.Millisecond); err != nil {
		return err
	}
	r.reserved = 0
	if err := r.schedServers(); err != nil {
		return err
	}
	r.note("choose: one task becoming ready, the choice of a node and the charge, policy alone, x nodes with 4 ready tasks each; " +
		"choose-alone: 1 ready task each, so that every step chooses anew and its node leaves and comes back")
	r.note("Knot's requests wait rather than be refused: the client takes no other answer, and a server that shares the core with others has to refuse now and then")
	r.note("yield: x tasks that yield in turns, blocking graph on; rps and the like: Knot's hello, server on core %d, client on core %d, x is the pipelining depth on %d connections",
		serverCore, clientCore, helloConns)
	r.charts = []report.Chart{
		{Title: "Choosing and charging a node", Metric: "choose", XLabel: "nodes", Bars: true},
		{Title: "Yield", Metric: "yield", XLabel: "ready tasks", Bars: true},
		{Title: "Knot, throughput", Metric: "rps", XLabel: "pipelining depth", Bars: true},
	}
	return nil
}

// withPolicy makes a contender that measures on a loop, or simulated loop, with a policy.
func withPolicy(system, policy, self string) contender {
	return measuredBy(system, onCore(serverCore, []string{capriccio.EnvSched + "=" + policy}, self, workerCommand, "sched-cost"))
}

// schedServers loads Knot under each policy.
func (r *run) schedServers() error {
	var launchers []launcher
	for _, s := range schedulers {
		launchers = append(launchers, r.own(s.system, []string{capriccio.EnvSched + "=" + s.policy, capriccio.EnvGraph + "=on"}, "knot", "-patient"))
	}
	servers, err := r.startAll(launchers)
	if err != nil {
		return err
	}
	defer closeAll(servers)
	return r.measure(pointsAt("depth", 1, helloPipeline), serving(servers, func(s *server) sampler {
		load := r.loadSample(s)
		return func(ctx context.Context, p point, d time.Duration) ([]sample, error) {
			samples, err := load(ctx, p, d)
			return slices.DeleteFunc(samples, func(one sample) bool { return strings.HasSuffix(one.metric, connsSuffix) }), err
		}
	}), 2*time.Second)
}
