package main

import (
	"context"
	"fmt"
	"time"

	"github.com/capriccio-go/capriccio/bench/internal/proc"
	"github.com/capriccio-go/capriccio/bench/internal/report"
)

const (
	serverQuota = 0.08 // of core 0: eight servers and their balancers fit on it
	quotaWork   = 2    // ms of the processor that a request takes on average
)

// fleetQuotaExperiment is fleet with servers that a CPU quota limits, as a container has one: one of them has half of it.
var fleetQuotaExperiment = experiment{
	name: "fleet-quota",
	doc:  "eight servers that need the processor, in CPU cgroups, one with half the quota, behind 32 balancers",
	prepare: func(r *run, e *experiment) error {
		if err := r.prepare(0, func() error { return proc.CanHave(proc.NewCPUGroup(serverQuota)) }); err != nil {
			return err
		}
		steps, err := r.calibrateBurn()
		if err != nil {
			return err
		}
		if r.asked == 0 {
			r.asked = 1
		}
		k := fleetKind{
			start: func(r *run, ctx context.Context, i int, _ float64) (*server, error) {
				flags := flagPairs("burn", quotaWork*steps, "workers", fleetWorkers, "seed", i+1)
				start := programServer(fmt.Sprint("server ", i+1), nil, r.self, append([]string{workerCommand, "fleet-server"}, flags...)...).start
				return start(ctx, needs{quota: serverQuota / choose(i == slowServer, slowTimes, 1.0)})
			},
			capacity: func(float64) float64 { return (fleetServers - 1 + 1.0/slowTimes) * serverQuota * 1000 / quotaWork },
		}
		t := choose(r.quick, fleetTimes{warm: 5 * time.Second, span: 5 * time.Second}, fleetTimes{warm: 5 * time.Second, span: 10 * time.Second})
		e.parts = []part{{
			points:  pointsAt("load", 0.8, 3),
			systems: func(r *run) []contender { return r.fleets(k, t, fronts[:3]) }, // ours and nginx
			called:  func(system string, p point) string { return fmt.Sprintf("%s %v", system, p) },
		}}
		return nil
	},
	notes: []string{
		fmt.Sprintf("eight Knot servers, each a process with a quota of %v of core %d, one with half of that; a request takes %d ms of it on average, exponentially distributed, measured where nothing else runs, and what Knot itself takes besides", serverQuota, serverCore, quotaWork),
		"a quota is for 100 ms, as it usually is: a server that has used it stands still for the rest of them, which is most of the time of a response",
		"users, systems and metrics are those of fleet",
	},
	charts: []report.Chart{
		{Title: "99th percentile", Metric: "p99", XLabel: "× capacity", LogY: true},
		{Title: "Users answered, in parts of the capacity", Metric: "goodput-share", XLabel: "× capacity"},
	},
}
