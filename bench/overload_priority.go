package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/capriccio-go/capriccio/bench/internal/load"
	"github.com/capriccio-go/capriccio/bench/internal/report"
)

// The loads of the priority experiment as multiples of capacity: in normal times 60 % in
// all, in the spike 2.8 times what the server can do, of which the urgent part is little.
const (
	urgentLoad    = 0.4
	leisurelyLoad = 0.2
	spike         = 12.0
)

// priorityExperiment puts a spike of unimportant requests beside important ones.
var priorityExperiment = experiment{
	name: "priority",
	doc:  "urgent requests beside 12 times the usual number of others",
	describe: func(r *run, e *experiment) error {
		w, err := newWeb(r)
		e.parts = []part{{
			points: pointsAt("spike", spike, 1),
			systems: func(*run) []contender {
				return w.contendersOf(w.prioritySample, w.takes, "capriccio", "capriccio-fifo", "net-http", "failsafe-go")
			},
			length: time.Second,
		}}
		e.notes = []string{
			fmt.Sprintf("urgent requests come at %g times capacity, others at %g, both by Poisson processes; in the spike the others come %g times as often; a header says which (Priority: %s or %s)",
				urgentLoad, leisurelyLoad, spike, urgent, leisurely),
			fmt.Sprintf("success: share of urgent requests answered 200 within %v, when clients give up; success-in-time: within %v; success-low: of the others; p99: of urgent ones served; goodput: of all, within %v",
				patience, latencyTarget, latencyTarget),
			fmt.Sprintf("the handler computes for 1 ms of CPU: %d steps of a loop; capacity is measured just before", w.matrix.steps),
			"failsafe-go: net/http and its prioritized adaptive limiter around the handler; the other peers know no priorities",
		}
		return err
	},
	charts: []report.Chart{
		{Title: "Urgent requests answered", Metric: "success", XLabel: "multiples of the normal number of others", Bars: true},
		{Title: "99th percentile of urgent requests", Metric: "p99", XLabel: "multiples of the normal number of others", Bars: true},
	},
}

// spikeTimes are long enough to see one failure in a thousand: some 400 urgent requests come in a second.
func (w *web) spikeTimes(p point) (warm, span time.Duration) {
	switch {
	case w.quick && p.x == 1:
		return 200 * time.Millisecond, 1200 * time.Millisecond
	case w.quick:
		return 300 * time.Millisecond, 4 * time.Second
	}
	return 500 * time.Millisecond, 4 * time.Second
}

// prioritySample offers both at once.
func (w *web) prioritySample(ctx context.Context, system admissionSystem, p point) (samples []sample, err error) {
	s, err := system.start(ctx, needs{counted: true, prioritized: true})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	const path = "/do?cpu=1ms"
	capacity, err := w.known.measure(ctx, w.matrix, system.name, s, path, w.webTimes.capacity)
	if err != nil {
		return nil, err
	}
	warm, span := w.spikeTimes(p)
	seen, err := w.open(ctx, s, admissionOpen{OpenConfig: load.OpenConfig{
		Requests: [][]byte{class{path: path, urgency: urgent}.text(), class{path: path, urgency: leisurely}.text()},
		Phases: []load.Phase{
			{For: warm, Rates: []float64{urgentLoad * capacity, leisurelyLoad * capacity}},
			{For: span, Rates: []float64{urgentLoad * capacity, p.x * leisurelyLoad * capacity}},
		},
		From: warm, Seed: uint64(w.round + 1),
	}})
	if err != nil {
		return nil, err
	}
	high, low := seen.Classes[0], seen.Classes[1]
	samples = []sample{
		{"success", "%", p.x, share(high.Served, high.Due)},
		{"success-in-time", "%", p.x, share(high.InTime, high.Due)},
		{"success-low", "%", p.x, share(low.Served, low.Due)},
	}
	if high.Served > 0 {
		samples = append(samples, sample{"p99", "ms", p.x, milliseconds(high.P99)})
	}
	samples = append(samples,
		sample{"goodput", "req/s", p.x, seen.rate(seen.All.InTime)}, sample{"refused", "req/s", p.x, seen.rate(seen.All.Refused)})
	return append(append(samples, seen.usage(p.x)...), seen.late(p.x)), nil
}
