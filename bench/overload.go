package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/capriccio-go/capriccio"
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
func (m *matrix) contendersOf(measure func(context.Context, admissionSystem, point) ([]sample, error), takes func(system string, p point) time.Duration, names ...string) ([]contender, error) {
	var found []contender
	for _, name := range names {
		system, err := m.system(name)
		if err != nil {
			m.skip(name, err)
			continue
		}
		found = append(found, contender{system: name, sample: func(ctx context.Context, p point, _ time.Duration) ([]sample, error) {
			return measure(ctx, system, p)
		}, takes: func(p point, _ time.Duration) time.Duration { return serverOverhead + takes(name, p) }})
	}
	if m.ctx.Err() != nil {
		return nil, context.Cause(m.ctx)
	}
	if len(found) == 0 {
		return nil, errors.New("no server could be started")
	}
	return found, nil
}

// outcome is what became of requests.
func (a *admissionResult) outcome(x float64) []sample {
	samples := []sample{{"goodput", "req/s", x, a.rate(a.All.Served)}}
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

// value finds a metric among samples.
func value(samples []sample, metric string) (float64, error) {
	for _, one := range samples {
		if one.metric == metric {
			return one.value, nil
		}
	}
	return 0, fmt.Errorf("no sample of %s", metric)
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
	if err := s.order("counts"); err != nil {
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
		samples, err := samplesOf(r.ctx, 0, r.ownOnServerCore(nil, "admission", "calibrate"))
		if err == nil {
			steps, err = value(samples, "steps")
		}
		return err
	})
	return int(steps), err
}
