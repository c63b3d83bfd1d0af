package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/capriccio-go/capriccio"
	"github.com/capriccio-go/capriccio/bench/internal/report"
)

const (
	helloConns    = 64 // of the plain and the pipelined load
	helloPipeline = 16
	connsSuffix   = "-conns" // of metrics whose parameter is the connections
	pausePoint    = "pause"
	pauseSuffix   = "-paused" // of metrics whose parameter is how long the one client pauses, in ms
	ratePoint     = "rate"
	rateSuffix    = "-at-rate" // of metrics whose parameter is the requests a second
)

// runHello loads each server with small requests: plain and pipelined on 64
// connections, then plain on 1, 8 and 64, on one that pauses, and at rates far below what it can do: a server with little to do.
func runHello(r *run) error {
	knotOn := func(poller string) launcher {
		return r.own("knot-"+poller, []string{capriccio.EnvPoller + "=" + poller}, "knot")
	}
	servers := r.startAll(append(r.launchers(), knotOn("uring"), knotOn("epoll"), r.own(knotBare, nil, "knot", "-bare")))
	defer closeAll(servers)
	points := []point{
		{metric: "depth", x: 1},
		{metric: "depth", x: helloPipeline},
		{metric: "conns", x: 1},
		{metric: "conns", x: 8},
		{metric: pausePoint, x: 1},
		{metric: pausePoint, x: 20},
		{metric: ratePoint, x: 1000},
		{metric: ratePoint, x: 4000},
		{metric: ratePoint, x: 12_000},
	}
	r.reserved = tracedBudget + userBudget
	r.measure(points, serving(servers, r.loadSample), time.Second)
	r.prepare(tracedBudget+userBudget, func() error { r.countSystemCalls(servers); r.sampleUserTime(servers); return nil })
	r.note("knot and net-http, fasthttp, nginx parse HTTP; gnet's handler only looks for the blank line and sends fixed bytes")
	r.note("%s: Knot without a blocking graph, first in, first out", knotBare)
	r.note("knot-uring and knot-epoll: Knot with that poller (%s); knot: with the one it chooses", capriccio.EnvPoller)
	r.note("server on core %d, client on core %d; x is the pipelining depth on %d connections, and in metrics named *%s the connections, "+
		"in those named *%s the ms between a response and the next request of the only client, in those named *%s the requests a second of %d clients that ask by chance",
		serverCore, clientCore, helloConns, connsSuffix, pauseSuffix, rateSuffix, helloConns)
	r.note("user-cpu-per-request is what the program takes and not the kernel, of which all need about the same: by perf, %d looks a second", userRate)
	r.note("server-busy is the server's share of its core: cpu-per-request and rps compare best where it is near 100")
	r.charts = []report.Chart{
		{Title: "CPU time per request on the server", Metric: "cpu-per-request", XLabel: "pipelining depth", Bars: true},
		{Title: "Throughput, one core, 64 connections", Metric: "rps", XLabel: "pipelining depth", Bars: true},
		{Title: "99th percentile of latency", Metric: "p99", XLabel: "pipelining depth", Bars: true},
		{Title: "CPU time per request below the capacity, 64 connections", Metric: "cpu-per-request" + rateSuffix, XLabel: "requests/s", Bars: true},
		{Title: "Throughput by connections", Metric: "rps" + connsSuffix, XLabel: "connections", Bars: true},
	}
	return nil
}

// startAll starts the servers; one that does not start is left out.
func (r *run) startAll(launchers []launcher) (servers []*server) {
	for _, l := range launchers {
		if r.planning() {
			servers = append(servers, &server{system: l.system})
			continue
		}
		s, err := l.start(r.ctx)
		if err == nil {
			servers = append(servers, s)
		} else if r.ctx.Err() == nil {
			r.fail(l.system, l.system, err)
		}
	}
	if len(servers) == 0 && r.failed == nil {
		r.failed = errors.New("no server could be started")
	}
	return servers
}

func closeAll(servers []*server) {
	for _, s := range servers {
		s.close()
	}
}

// loadSample loads one server for a while from the client core.
func (r *run) loadSample(ctx context.Context, s *server, p point, d time.Duration) ([]sample, error) {
	conns, depth := helloConns, int(p.x)
	if p.metric != "depth" {
		conns, depth = int(p.x), 1
	}
	warm := d / 5
	switch p.metric {
	case pausePoint:
		args := append(loadArgs(s, 1, 1, warm, d-warm), "-pause", (time.Duration(p.x) * time.Millisecond).String())
		return r.easySample(ctx, args, p.x, pauseSuffix, d)
	case ratePoint:
		args := append(loadArgs(s, helloConns, 1, warm, d-warm), "-rate", fmt.Sprint(p.x))
		return r.easySample(ctx, args, p.x, rateSuffix, d)
	}
	samples, err := r.load(ctx, s, conns, depth, warm, d-warm)
	if err != nil {
		return nil, err
	}
	return helloSamples(samples, p, conns), nil
}

// easySample loads a server with less than it can do, by a worker with these arguments.
func (r *run) easySample(ctx context.Context, args []string, x float64, suffix string, span time.Duration) ([]sample, error) {
	samples, err := samplesOf(ctx, span, r.ownClient(args...))
	var kept []sample
	for _, one := range samples {
		if one.metric == "cpu-per-request" || one.metric == "p50" || one.metric == "p99" {
			one.metric += suffix
			one.x = x
			kept = append(kept, one)
		}
	}
	return kept, err
}

// helloSamples drops what is no result, and names the parameter: the depth, or
// in metrics of their own the connections. The plain load counts as both.
func helloSamples(samples []sample, p point, conns int) []sample {
	var kept []sample
	for _, one := range samples {
		if one.metric == "requests" {
			continue
		}
		if p.metric == "depth" {
			kept = append(kept, one)
		}
		if p.metric == "conns" || p.x == 1 {
			one.metric += connsSuffix
			one.x = float64(conns)
			kept = append(kept, one)
		}
	}
	return kept
}

func (r *run) load(ctx context.Context, s *server, conns, depth int, warm, measured time.Duration) ([]sample, error) {
	return samplesOf(ctx, warm+measured, r.ownClient(loadArgs(s, conns, depth, warm, measured)...))
}

// loadArgs are the arguments of the worker that loads a server.
func loadArgs(s *server, conns, depth int, warm, measured time.Duration) []string {
	return append([]string{"load"}, flagPairs("addr", s.addr, "conns", conns, "depth", depth, "warm", warm, "for", measured, "pid", s.child.PID())...)
}
