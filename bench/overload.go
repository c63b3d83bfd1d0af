package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/capriccio-go/capriccio"
	"github.com/capriccio-go/capriccio/bench/internal/load"
	"github.com/capriccio-go/capriccio/bench/internal/report"
)

// What the overload experiments share beside the servers and clients of the experiment admission.

// waitsEnv has requests wait rather than be refused.
const waitsEnv = capriccio.EnvOverload + "=wait"

// memlimitSystem is net/http as somebody who knows of GOMEMLIMIT would start it.
const memlimitSystem = "net-http-memlimit"

// serverOverhead is what a sample takes beside measuring that starts a server of chores, and ends it.
const serverOverhead = 400 * time.Millisecond

// contendersOf are those of the named systems that there are here; the others are skipped with
// the reason. A sample takes as long as takes says.
func (m *matrix) contendersOf(measure func(context.Context, admissionSystem, point) ([]sample, error), takes func(system string, p point) time.Duration, names ...string) (found []contender) {
	for _, name := range names {
		system, err := m.overloadSystem(name)
		if err != nil {
			m.fail(name, name, err)
			continue
		}
		found = append(found, contender{system: name, sample: func(ctx context.Context, p point, _ time.Duration) ([]sample, error) {
			return measure(ctx, system, p)
		}, takes: func(p point, _ time.Duration) time.Duration { return serverOverhead + takes(name, p) }})
	}
	return found
}

func (m *matrix) overloadSystem(name string) (admissionSystem, error) {
	switch name {
	case memlimitSystem:
		return m.program(name, httpFamily, m.self, nil, workerCommand, "chores-net-http"), nil
	case "nginx":
		return m.limitedSystem()
	}
	return m.system(name)
}

// limitedConns is what nginx is told to let through at a time. It is chosen by hand for
// this handler: 32 requests of 1 ms are well below the target of 100 ms.
const limitedConns = 32

const limitedConfig = nginxHead + `	error_log %[1]s/error.log crit;
	limit_conn_zone $server_port zone=all:1m;
	limit_conn_status 503;
	limit_conn_log_level info;
	upstream behind {
		server %[3]s;
		keepalive %[4]d;
	}
	server {
		listen %[2]s backlog=4096 reuseport;
		location / {
			limit_conn all %[4]d;
			proxy_http_version 1.1;
			proxy_set_header Connection "";
			proxy_pass http://behind;
		}
	}
}
`

// limitedSystem is nginx with a limit of requests under way before net/http.
func (m *matrix) limitedSystem() (admissionSystem, error) {
	behind, err := m.system("net-http")
	if err != nil {
		return behind, err
	}
	path, err := m.find("nginx")
	return admissionSystem{"nginx", httpFamily, func(ctx context.Context, n needs) (*site, error) {
		b, err := behind.start(ctx, n)
		if err != nil {
			return nil, err
		}
		s, err := startNginxWith(ctx, path, m.scratch, func(dir, addr string) string {
			return fmt.Sprintf(limitedConfig, dir, addr, b.addr, limitedConns)
		})
		if err != nil {
			return nil, errors.Join(err, b.close())
		}
		return &site{server: s, beside: append(b.beside, b.child)}, nil
	}}, err
}

// open has clients of an open loop load a server.
func (m *matrix) open(ctx context.Context, s *site, spec admissionOpen) (*admissionResult, error) {
	spec.Target, spec.Conns = s.target(s.pids()...), load.MaxConns
	spec.Patience, spec.Drain, spec.Within = patience, patience, latencyTarget
	span := patience
	for _, p := range spec.Phases {
		span += p.For
	}
	return m.runClient(ctx, s, "open", spec, span, nil)
}

// outcome is what became of requests.
func (a *admissionResult) outcome(x, goodput float64) []sample {
	samples := []sample{{"goodput", "req/s", x, goodput}}
	if a.All.Served > 0 {
		samples = append(samples, sample{"p99", "ms", x, milliseconds(a.All.P99)})
	}
	return append(samples,
		sample{"refused", "req/s", x, a.rate(a.All.Refused)},
		sample{"lost", "req/s", x, a.rate(a.All.Failed + a.All.TimedOut)})
}

// usage is what was used meanwhile.
func (a *admissionResult) usage(x float64) []sample {
	return []sample{
		{"cpu", "%", x, a.percent(a.Usage.Server)},
		{"others", "%", x, a.percent(a.Usage.Others)},
		{"client-busy", "%", x, a.percent(a.Usage.Client)},
	}
}

// late is how late the client itself was.
func (a *admissionResult) late(x float64) sample {
	return sample{"client-late", "ms", x, milliseconds(a.All.Late)}
}

// value finds a metric among samples.
func value(samples []sample, metric string) (float64, error) {
	if v, ok := valuesOf(samples)[metric]; ok {
		return v, nil
	}
	return 0, fmt.Errorf("no sample of %s", metric)
}

// valuesOf are samples by metric.
func valuesOf(samples []sample) map[string]float64 {
	values := map[string]float64{}
	for _, one := range samples {
		values[one.metric] = one.value
	}
	return values
}

// counts are what a server of ours reports of itself.
type counts struct {
	gc, all     float64 // CPU seconds
	acceptFails float64
}

// askCounts makes a server that counts report.
func (s *site) askCounts(ctx context.Context) (counts, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, serverStart, fmt.Errorf("no answer after %v", serverStart))
	defer cancel()
	if err := s.child.Tell("counts"); err != nil {
		return counts{}, err
	}
	line, err := s.child.Line(ctx)
	if err != nil {
		return counts{}, err
	}
	var c counts
	if _, err := fmt.Sscanf(line, "counts %f %f %f", &c.gc, &c.all, &c.acceptFails); err != nil {
		return counts{}, fmt.Errorf("%s: said %q, want \"counts …\": %w", s.system, line, err)
	}
	return c, nil
}

// flagPairs are flags out of names and values, in turn.
func flagPairs(pairs ...any) []string {
	var flags []string
	for i := 0; i+1 < len(pairs); i += 2 {
		flags = append(flags, fmt.Sprintf("-%v=%v", pairs[i], pairs[i+1]))
	}
	return flags
}

// calibrateBurn returns how many steps of work take 1 ms on the server core.
func (r *run) calibrateBurn() (int, error) {
	steps := 0.0
	err := r.prepare(usualOverhead, func() error {
		samples, err := samplesOf(r.ctx, 0, r.ownOnServerCore(nil, "calibrate"))
		if err == nil {
			steps, err = value(samples, "steps")
		}
		return err
	})
	return int(steps), err
}

// capacities are what servers were found to reach, so that loads can be multiples of it.
type capacities map[string][]float64

// capacityMemory is how many measurements are remembered: the machine's speed changes.
const capacityMemory = 5

// measure lets a few clients ask as fast as they are answered, and returns the median of
// the last measurements of this system.
func (c capacities) measure(ctx context.Context, m *matrix, system string, s *site, path string, span time.Duration) (float64, error) {
	now, err := untilServed(span, func(span time.Duration) (float64, error) {
		return m.served(ctx, s, at(path), capacityClients, span)
	})
	if err != nil {
		return 0, err
	}
	known := append(c[system], now)
	c[system] = known[max(0, len(known)-capacityMemory):]
	return report.Median(c[system]), nil
}
