package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/capriccio-go/capriccio"
	"github.com/capriccio-go/capriccio/bench/internal/report"
)

const (
	nativeClients = 64
	manyMetric    = "many" // sleep, with 1,024 requests under way, of which few wait for a blocked handler
	manyClients   = 1024
	manyConns     = 4096 // on one of which, drawn by lot, each of those comes
	nativeTasks   = 5000
	lockedMetric  = "lock-across-read"
)

// runNative measures what tasks cost the others that wait without the runtime: in a Go channel, a
// mutex, a sync.Cond, time.Sleep.
func runNative(r *run) error {
	servers := r.startAll([]launcher{
		r.own("knot", nil, "native"), r.own("knot-uring", []string{capriccio.EnvPoller + "=uring"}, "native"),
		r.own("knot-holding", nil, "native", "-holding"), r.own("net-http", nil, "native", "-http"),
	})
	defer closeAll(servers)
	contenders := serving(servers, r.nativeSample)
	if r.quick {
		r.reserved = quickBudget * 6 / 10
	}
	alive := slices.DeleteFunc(slices.Clone(contenders), func(c contender) bool { return c.system == "knot-holding" }) // it serves next to nothing
	r.measure(pointsAt(manyMetric, 0, 1), alive, 2*time.Second)
	// Without blockers one mode is like the other.
	points := []point{{metric: "sleep", x: 0}}
	for _, mode := range nativeModes {
		points = append(points, point{metric: mode, x: 1})
	}
	if r.quick {
		r.reserved = quickBudget / 4
	}
	r.measure(points, contenders, 2*time.Second)
	if err := r.lockedReads(); err != nil {
		return err
	}
	r.note("x is the share of requests, in %%, whose handler waits natively for %v; p99 and rps are of the others; %d clients, each with one request under way", nativeWait, nativeClients)
	r.note("at 1 %% most of those clients wait for a blocked handler, with goroutines too; %s: %d requests under way, handlers in time.Sleep, so that a server's own loss shows", manyMetric, manyClients)
	r.note("%s: each request comes on one of %d connections drawn by lot, with waits or without, as clients that come in an order of their own make a server faster than any that come by chance (ADR 0035)", manyMetric, manyConns)
	r.note("knot-holding: Knot whose loop waits with the task, as without detaching")
	r.note("%s: x tasks want one sync.Mutex, which they hold while they write to an echo server and read; the time for each", lockedMetric)
	r.charts = []report.Chart{
		{Title: "99th percentile of the other requests", Metric: "p99-sleep", XLabel: "handlers that wait natively, %", Bars: true, LogY: true},
	}
	return nil
}

const noneAnswered = "no request was answered whose handler does not wait"

// nativeSample loads a server of which a share of the handlers waits in the mode that the metric names.
func (r *run) nativeSample(ctx context.Context, s *server, p point, d time.Duration) ([]sample, error) {
	clients, conns, path := nativeClients, 0, "/"+p.metric
	if p.metric == manyMetric {
		clients, conns, path = manyClients, manyConns, "/sleep"
	}
	spec := closedSpec(s.target(s.child.PID()), []class{{path: "/", share: 100 - p.x}, {path: path, share: p.x}}, clients, 1)
	spec.Conns, spec.Warm, spec.For = conns, d/4, d-d/4
	seen, err := r.runLoad(ctx, "closed", spec, d, nil)
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

// lockedReads has thousands of tasks, and of goroutines, share a lock and a connection.
func (r *run) lockedReads() error {
	r.reserved = 0
	echo, err := r.startBeside("echo", r.ownClient("native", "-http"))
	if err != nil {
		return err
	}
	defer echo.close()
	r.measure([]point{{metric: lockedMetric, x: nativeTasks}}, []contender{
		r.lockedReader("capriccio", echo.addr), r.lockedReader("capriccio-uring", echo.addr, capriccio.EnvPoller+"=uring"),
		r.lockedReader("goroutine", echo.addr),
	}, time.Second)
	return nil
}

func (r *run) lockedReader(system, addr string, env ...string) contender {
	return contender{system: system, sample: func(ctx context.Context, p point, _ time.Duration) ([]sample, error) {
		// The worker ends itself if it hangs: how long it takes depends on the machine.
		flags := flagPairs("addr", addr, "tasks", p.x, "goroutines", system == "goroutine")
		return samplesOf(ctx, time.Hour, r.ownOnServerCore(env, append([]string{"locked-read"}, flags...)...))
	}}
}
