package main

import (
	"context"
	"time"

	"github.com/capriccio-go/capriccio/bench/internal/report"
)

const (
	fdsLimit   = 256    // open descriptors of the server
	fdsClients = 10_000 // that connect at once
	// fdsKeep is how long a client keeps its connection after its answer, so that
	// descriptors stay scarce until nearly all are served.
	fdsKeep = 20 * time.Millisecond
)

// runOverloadFDs has many clients connect to servers that may only have few connections.
func runOverloadFDs(r *run) error {
	systems, err := r.overloadSystems("capriccio", "capriccio-fifo", "net-http")
	if err != nil {
		return err
	}
	jam, limit := 2*time.Second, 20*time.Second
	if r.quick {
		jam, limit = time.Second, 10*time.Second
	}
	var contenders []contender
	for _, system := range systems {
		contenders = append(contenders, contender{system: system.name,
			sample: func(ctx context.Context, p point, _ time.Duration) ([]sample, error) {
				return r.fdsSample(ctx, system, p, jam, limit)
			}})
	}
	if err := r.measure([]point{{metric: "clients", x: fdsClients}}, contenders, time.Second); err != nil {
		return err
	}
	r.note("%d clients connect at once, ask once, and keep their connection; the server may have %d descriptors; "+
		"after %v, they hang up %v after their answer", fdsClients, fdsLimit, jam, fdsKeep)
	r.note("knot: without its own limit of connections (MaxConns), which would turn clients away")
	r.note("cpu-jammed: CPU of the server while it has no descriptor left and can do nothing, the second half of that time; " +
		"accept-errors: that failed, as the server logs them, in all")
	r.note("all-served: until the last one has an answer, or %v; the kernel repeats a client's call after 1, 3, 7 … s if the queue of the listener was full", limit)
	r.charts = []report.Chart{
		{Title: "CPU with no descriptor left", Metric: "cpu-jammed", XLabel: "clients", Bars: true},
		{Title: "Time until all are served", Metric: "all-served", XLabel: "clients", Bars: true},
	}
	return nil
}

func (r *run) fdsSample(ctx context.Context, system overloadSystem, p point, jam, limit time.Duration) ([]sample, error) {
	s, err := system.start(ctx, nil, flagPairs("descriptors", fdsLimit, "waits", true)...)
	if err != nil {
		return nil, err
	}
	defer s.close()
	samples, err := samplesOf(ctx, limit, r.clientCommand(s, "crowd", flagPairs("clients", int(p.x), "x", p.x,
		"jam", jam, "keep", fdsKeep, "limit", limit)...))
	if err != nil {
		return nil, err
	}
	counted, err := s.askCounts(ctx)
	return append(samples, sample{"accept-errors", "1", p.x, counted.acceptFails}), err
}
