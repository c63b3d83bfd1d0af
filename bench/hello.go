package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/capriccio-go/capriccio/bench/internal/proc"
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
	conns, depth, warm := int(p.x), 1, d/5
	switch p.metric {
	case pausePoint:
		return r.easySample(ctx, s, p.x, pauseSuffix, d, "conns", 1, "pause", time.Duration(p.x)*time.Millisecond)
	case ratePoint:
		return r.easySample(ctx, s, p.x, rateSuffix, d, "conns", helloConns, "rate", p.x)
	case "depth":
		conns, depth = helloConns, int(p.x)
	}
	samples, err := r.load(ctx, s, conns, depth, warm, d-warm)
	if err != nil {
		return nil, err
	}
	return helloSamples(samples, p, conns), nil
}

// easySample loads a server with less than it can do, as the flags say.
func (r *run) easySample(ctx context.Context, s *server, x float64, suffix string, d time.Duration, flags ...any) (kept []sample, err error) {
	samples, err := r.client(ctx, d, s, "load", append([]any{"warm", d / 5, "for", d - d/5}, flags...))
	for _, one := range samples {
		if one.metric == "cpu-per-request" || one.metric == "p50" || one.metric == "p99" {
			one.metric += suffix
			kept = append(kept, one)
		}
	}
	return allAt(x, kept), err
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

// idleSample gives a fresh server idle connections and compares its memory, after letting it settle both times.
func (r *run) idleSample(ctx context.Context, s *server, p point, settle time.Duration) ([]sample, error) {
	// What serving takes at all is not a connection's.
	if _, err := r.load(ctx, s, 1, 1, 0, settle/4); err != nil {
		return nil, err
	}
	before, err := proc.Memory(s.child.PID())
	if err != nil {
		return nil, err
	}
	after, opened, err := r.holding(ctx, s, int(p.x), settle/2, "hold")
	if err != nil {
		return nil, err
	}
	return []sample{
		{"bytes-per-conn", "B", p.x, float64(after-before) / p.x},
		{"process-bytes", "B", p.x, float64(after)},
		{"open-and-request", "µs", p.x, float64(opened.Microseconds()) / p.x},
	}, nil
}

// holding has a worker hold connections to a server, and returns what the server's process holds, after letting it
// settle, and how long it took to open them.
func (r *run) holding(ctx context.Context, s *server, conns int, settle time.Duration, worker string) (bytes int64, opened time.Duration, err error) {
	opened, err = whileHeld(ctx, r.ownClient(worker, "-addr", s.addr, "-conns", strconv.Itoa(conns)), func() (err error) {
		select {
		case <-time.After(settle):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		bytes, err = proc.Memory(s.child.PID())
		return err
	})
	return bytes, opened, err
}

// whileHeld runs f while a worker holds connections, and returns how long it took to open them.
func whileHeld(ctx context.Context, worker proc.Command, f func() error) (opened time.Duration, err error) {
	client, err := proc.Start(worker)
	if err != nil {
		return 0, err
	}
	defer client.Close()
	began := time.Now()
	opening, cancel := within(ctx, sampleTimeout)
	defer cancel()
	if line, err := client.Line(opening); err != nil || line != "holding" {
		return 0, fmt.Errorf("opening connections: %q, %w", line, err)
	}
	opened = time.Since(began)
	return opened, f()
}
