package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/capriccio-go/capriccio/bench/internal/chores"
	"github.com/capriccio-go/capriccio/bench/internal/load"
	"github.com/capriccio-go/capriccio/bench/internal/report"
)

const (
	fdsLimit   = 256    // open descriptors of the server
	fdsClients = 10_000 // that connect at once
	// fdsKeep is how long a client keeps its connection after its answer, so that
	// descriptors stay scarce until nearly all are served.
	fdsKeep = 20 * time.Millisecond
)

// overloadFDsExperiment has many clients connect to servers that may only have few connections.
var overloadFDsExperiment = experiment{
	name: "overload-fds",
	doc:  "10,000 clients of a server with 256 descriptors",
	describe: func(r *run, e *experiment) error {
		jam, limit := choose(r.quick, time.Second, 2*time.Second), choose(r.quick, 10*time.Second, 20*time.Second)
		e.parts = []part{{
			points: pointsAt("clients", fdsClients),
			systems: func(r *run) []contender {
				m := &matrix{run: r}
				return m.contendersOf(func(ctx context.Context, system admissionSystem, p point) ([]sample, error) {
					return m.fdsSample(ctx, system, p, fdsLimit, jam, limit)
				}, func(string, point) time.Duration { return jam + limit/4 }, "capriccio", "capriccio-fifo", "net-http")
			},
			length: time.Second,
		}}
		e.notes = []string{
			fmt.Sprintf("%d clients connect at once, ask once, and keep their connection; the server may have %d descriptors; after %v, they hang up %v after their answer",
				fdsClients, fdsLimit, jam, fdsKeep),
			"knot: without its own limit of connections (MaxConns), which would turn clients away",
			"cpu-jammed: CPU of the server while it has no descriptor left and can do nothing, the second half of that time; accept-errors: that failed, as the server logs them, in all",
			fmt.Sprintf("all-served: until the last one has an answer, or %v; the kernel repeats a client's call after 1, 3, 7 … s if the queue of the listener was full", limit),
		}
		return nil
	},
	charts: []report.Chart{
		{Title: "CPU with no descriptor left", Metric: "cpu-jammed", XLabel: "clients", Bars: true},
		{Title: "Time until all are served", Metric: "all-served", XLabel: "clients", Bars: true},
	},
}

func (m *matrix) fdsSample(ctx context.Context, system admissionSystem, p point, descriptors int, jam, limit time.Duration) (samples []sample, err error) {
	s, err := system.start(ctx, needs{counted: true, descriptors: descriptors, env: []string{waitsEnv}})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	seen, err := m.runClient(ctx, s, "crowd", load.CrowdConfig{
		Target: s.target(s.pids()...), Request: class{path: chores.HelloPath}.text(), Clients: int(p.x), Jam: jam, Keep: fdsKeep, Limit: limit,
	}, limit, nil)
	if err != nil {
		return nil, err
	}
	counted, err := s.askCounts(ctx)
	all := seen.All
	return []sample{
		{"served", "%", p.x, share(all.Served, int(p.x))},
		{"refused", "%", p.x, share(all.Refused, int(p.x))},
		{"lost", "%", p.x, share(all.Failed, int(p.x))},
		{"all-served", "s", p.x, seen.Took.Seconds()},
		{"p99", "ms", p.x, milliseconds(all.P99)},
		{"cpu-jammed", "%", p.x, 100 * seen.Jam.Server.Seconds() / (jam / 2).Seconds()},
		{"cpu-per-client", "µs", p.x, seen.Usage.Server.Seconds() * 1e6 / p.x},
		{"accept-errors", "1", p.x, counted.acceptFails},
	}, err
}
