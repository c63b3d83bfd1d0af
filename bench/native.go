package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/capriccio-go/capriccio"
	"github.com/capriccio-go/capriccio/bench/internal/load"
	"github.com/capriccio-go/capriccio/bench/internal/report"
)

const (
	nativeClients = 64
	manyMetric    = "many" // sleep with 1,024 requests under way, few of them waiting for a blocked handler
	manyClients   = 1024
	manyConns     = 4096 // connections; each request of manyMetric is sent on a random one
	nativeTasks   = 5000
	lockedMetric  = "lock-across-read"
)

// nativeExperiment measures what tasks cost the others that wait without the runtime: in a Go channel, a
// mutex, a sync.Cond, time.Sleep.
var nativeExperiment = experiment{
	name: "native",
	doc:  "handlers that wait in Go channels and locks, and their effect on other requests",
	parts: []part{{
		points: pointsAt(manyMetric, 0, 1),
		servers: func(r *run) []launcher { // without knot-holding, which serves next to nothing
			return slices.DeleteFunc(r.nativeServers(), func(l launcher) bool { return l.system == "knot-holding" })
		},
		sample:   (*run).nativeSample,
		length:   2 * time.Second,
		reserved: quickBudget * 6 / 10,
	}, {
		// Without blockers one mode is like the other.
		points:   slices.Concat(pointsAt("sleep", 0), pointsAt("channel", 1), pointsAt("sleep", 1), pointsAt("cond", 1), pointsAt("mutex", 1)),
		servers:  (*run).nativeServers,
		sample:   (*run).nativeSample,
		length:   2 * time.Second,
		reserved: quickBudget / 4,
	}, {
		points:  pointsAt(lockedMetric, nativeTasks),
		systems: (*run).lockedReaders,
		length:  time.Second,
	}},
	notes: []string{
		fmt.Sprintf("x is the share of requests, in %%, whose handler waits natively for %v; p99 and rps are of the others; %d clients, each with one request under way", nativeWait, nativeClients),
		fmt.Sprintf("at 1 %% most of those clients wait for a blocked handler, with goroutines too; %s: %d requests under way, handlers in time.Sleep, so that a server's own loss shows", manyMetric, manyClients),
		fmt.Sprintf("%s: each request comes on one of %d connections drawn by lot, with waits or without, as clients that come in an order of their own make a server faster than any that come by chance (ADR 0035)", manyMetric, manyConns),
		"knot-holding: Knot whose loop waits with the task, as without detaching",
		fmt.Sprintf("%s: x tasks want one sync.Mutex, which they hold while they write to an echo server and read; the time for each", lockedMetric),
	},
	charts: []report.Chart{
		{Title: "99th percentile of the other requests", Metric: "p99-sleep", XLabel: "handlers that wait natively, %", Bars: true, LogY: true},
	},
}

func (r *run) nativeServers() []launcher {
	return []launcher{
		r.own("knot", nil, "native"), r.own("knot-uring", []string{capriccio.EnvPoller + "=uring"}, "native"),
		r.own("knot-holding", nil, "native", "-holding"), r.own("net-http", nil, "native", "-http"),
	}
}

const noneAnswered = "no request was answered whose handler does not wait"

// nativeSample loads a server. A share of its handlers, p.x percent, waits in the mode that the metric names.
func (r *run) nativeSample(ctx context.Context, s *server, p point, d time.Duration) ([]sample, error) {
	clients, conns, path := nativeClients, 0, "/"+p.metric
	if p.metric == manyMetric {
		clients, conns, path = manyClients, manyConns, "/sleep"
	}
	seen, err := r.runLoad(ctx, clientSpec{Within: latencyTarget, Closed: &load.ClosedConfig{
		Target: s.target(s.child.PID()), Mix: mixed(class{path: "/", share: 100 - p.x}, class{path: path, share: p.x}),
		Clients: clients, Conns: conns, Warm: d / 4, For: d - d/4, Seed: 1,
	}}, d, nil)
	if err != nil {
		return nil, err
	}
	all, others := seen.All, seen.Classes[0]
	if all.Failed > 0 || all.Refused > 0 {
		return nil, fmt.Errorf("%d requests lost, %d refused", all.Failed, all.Refused)
	}
	if others.Served == 0 {
		return nil, errors.New(noneAnswered)
	}
	return []sample{
		{"rps-" + p.metric, "req/s", p.x, seen.rate(others.Served)},
		{"p99-" + p.metric, "ms", p.x, milliseconds(others.P99)},
		{"cpu-per-request-" + p.metric, "ns", p.x, float64(seen.Usage.Server) / float64(all.Served)},
	}, nil
}

// lockedReaders are thousands of tasks, and of goroutines, that share a lock and a connection to a server, which ends
// with the run.
func (r *run) lockedReaders() []contender {
	echo, err := r.startBeside("echo", r.ownClient("native", "-http"))
	if err != nil {
		r.fail("capriccio", "echo", err)
		return nil
	}
	r.ends = append(r.ends, echo.close)
	return []contender{
		r.lockedReader("capriccio", echo.addr), r.lockedReader("capriccio-uring", echo.addr, capriccio.EnvPoller+"=uring"),
		r.lockedReader("goroutine", echo.addr),
	}
}

func (r *run) lockedReader(system, addr string, env ...string) contender {
	return contender{system: system, sample: func(ctx context.Context, p point, _ time.Duration) ([]sample, error) {
		// The worker ends itself if it hangs: how long it takes depends on the machine.
		flags := flagPairs("addr", addr, "tasks", p.x, "goroutines", system == "goroutine")
		return samplesOf(ctx, time.Hour, r.ownOnServerCore(env, append([]string{"locked-read"}, flags...)...))
	}}
}
