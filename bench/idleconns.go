package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/capriccio-go/capriccio/bench/internal/proc"
	"github.com/capriccio-go/capriccio/bench/internal/report"
)

// idleConns fits below the usual hard limit of 20,000 descriptors a process.
const idleConns = 19_000

// runIdleConns measures what a server's process holds for each connection that
// has made one request and is kept alive.
func runIdleConns(r *run) error {
	var contenders []contender
	parked := launcher{"capriccio-task", func(ctx context.Context) (*server, error) {
		return startServer(ctx, "capriccio-task", r.self, workerCommand, "task-server")
	}}
	upgraded := launcher{"knot-upgraded", func(ctx context.Context) (*server, error) {
		return startServer(ctx, "knot-upgraded", r.self, workerCommand, "knot", "-upgraded")
	}}
	for _, l := range append(r.launchers(), parked, upgraded) {
		contenders = append(contenders, contender{
			system: l.system,
			sample: func(ctx context.Context, p point, settle time.Duration) ([]sample, error) {
				return r.idleSample(ctx, l, int(p.x), settle)
			},
		})
	}
	points := []point{{metric: "bytes-per-conn", x: idleConns}}
	if err := r.measure(points, contenders, 2*time.Second); err != nil {
		return err
	}
	r.note("bytes-per-conn is what %d connections add to the process, divided by them; process-bytes is all it holds then (what nginx lays out for them at its start is in there only)", idleConns)
	r.note("a connection of knot that waits for its next request has no task; one of capriccio-task has one that waits in Read, with a buffer of 256 bytes")
	r.note("a connection of knot-upgraded was taken over by its handler, as for a WebSocket, and waits with OnReadable")
	r.note("sockets live in the kernel and are not counted")
	r.charts = []report.Chart{
		{Title: "Process memory per idle keep-alive connection", Metric: "bytes-per-conn", XLabel: "connections", Bars: true},
	}
	return nil
}

// idleSample starts a server afresh, gives it idle connections and compares its
// memory, after letting it settle both times.
func (r *run) idleSample(ctx context.Context, l launcher, conns int, settle time.Duration) ([]sample, error) {
	s, err := l.start(ctx)
	if err != nil {
		return nil, err
	}
	defer s.child.Close()
	// What serving takes at all is not a connection's.
	if _, err := r.load(ctx, s, 1, 1, 0, settle/4); err != nil {
		return nil, err
	}
	before, err := proc.Memory(s.child.PID())
	if err != nil {
		return nil, err
	}
	client, err := proc.Start(proc.Command{
		Path: r.self, Core: clientCore,
		Args: []string{workerCommand, "hold", "-addr", s.addr, "-conns", strconv.Itoa(conns)},
	})
	if err != nil {
		return nil, err
	}
	defer client.Close()
	began := time.Now()
	opening, cancel := context.WithTimeoutCause(ctx, sampleTimeout, fmt.Errorf("connections not open after %v", sampleTimeout))
	defer cancel()
	if _, err := client.Line(opening); err != nil {
		return nil, err
	}
	opened := time.Since(began)
	select {
	case <-time.After(settle / 2):
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	after, err := proc.Memory(s.child.PID())
	if err != nil {
		return nil, err
	}
	x := float64(conns)
	return []sample{
		{"bytes-per-conn", "B", x, float64(after-before) / x},
		{"process-bytes", "B", x, float64(after)},
		{"open-and-request", "µs", x, float64(opened.Microseconds()) / x},
	}, nil
}
