package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/capriccio-go/capriccio/bench/internal/load"
	"github.com/capriccio-go/capriccio/bench/internal/report"
)

// webMainLoads are loads of overload-web as multiples of capacity; a quick run puts them on every system and others on
// the first only.
var webMainLoads = []float64{0.8, 2, 10}

const (
	stepLow  = 0.5
	stepHigh = 1.4

	// A quick run measures a load above the capacity from then on: by 3 s a server has found out that it is an
	// overload, and has refused those that had waited until then. A full run has more and longer samples.
	overloadLead = 3 * time.Second

	// In metrics with this suffix the handler waits in the middle, as for a database.
	waitsSuffix = "-waits"
	webPause    = 5 * time.Millisecond
)

type webTimes struct {
	capacity, warm, span time.Duration
	step                 load.Steps
}

var (
	webQuick = webTimes{240 * ms, 350 * ms, 550 * ms, load.Steps{Target: latencyTarget, Lead: 300 * ms, High: 350 * ms, Low: 500 * ms, Count: 2}}
	webFull  = webTimes{400 * ms, 700 * ms, 1500 * ms, load.Steps{Target: latencyTarget, Lead: sec, High: 500 * ms, Low: 1200 * ms, Count: 3}}
)

// stepping is how long the load goes up and down.
func (t *webTimes) stepping() time.Duration {
	return t.step.Lead + time.Duration(t.step.Count)*(t.step.High+t.step.Low)
}

type web struct {
	*matrix
	webTimes
}

func newWeb(r *run) (*web, error) {
	steps, err := r.calibrateBurn()
	return &web{matrix: &matrix{run: r, steps: steps}, webTimes: choose(r.quick, webQuick, webFull)}, err
}

var overloadWebExperiment = experiment{
	name:    "overload-web",
	doc:     "goodput of a handler of 1 ms of CPU at up to 10 times capacity",
	prepare: prepareOverloadWeb,
	charts: []report.Chart{
		{Title: "Goodput within 100 ms, share of capacity", Metric: "goodput-share", XLabel: "offered load, multiples of capacity"},
		{Title: "99th percentile of what is served", Metric: "p99", XLabel: "offered load, multiples of capacity", LogY: true},
		{Title: "Refused", Metric: "refused", XLabel: "offered load, multiples of capacity"},
		{Title: "Settling after a step", Metric: "settle-ms", XLabel: "multiples of capacity", Bars: true},
	},
}

func prepareOverloadWeb(r *run, e *experiment) error {
	w, err := newWeb(r)
	if err != nil {
		return err
	}
	all := w.contendersOf(w.behindNginx, w.sample, w.takes, "capriccio", "capriccio-fifo", "net-http", "failsafe-go", "nginx")
	loaded := func(metric string, contenders []contender, reserved time.Duration, xs ...float64) part {
		return part{points: pointsAt(metric, xs...), length: w.span, reserved: reserved, systems: func(*run) []contender { return contenders }}
	}
	if r.quick {
		steps := time.Duration(len(all)) * (w.webTimes.capacity + w.stepping())
		others, otherTime := []float64{0.5, 1, 1.5, 5}, time.Duration(0)
		for _, x := range others {
			otherTime += w.webTimes.capacity + w.warmAt(x) + w.span
		}
		e.parts = []part{loaded("load", all, steps+otherTime, webMainLoads...), loaded("load", all[:1], steps, others...), loaded("step", all, 0, stepHigh)}
	} else {
		e.parts = []part{loaded("load", all, 0, 0.8, 1, 2, 10), loaded("step", all, 0, stepHigh), loaded("load"+waitsSuffix, all, 0, webMainLoads...)}
	}
	e.notes = []string{
		fmt.Sprintf("the handler computes for 1 ms of CPU: %d steps of a loop, the same for all, counted and not timed", w.steps),
		fmt.Sprintf("x is the load as a multiple of capacity, which is what the same server serves %d clients of a closed loop just before; "+
			"goodput: responses 200 within %v of when the request was due; goodput-share: of capacity", capacityClients, latencyTarget),
		fmt.Sprintf("requests come by a Poisson process with the same seed for all; a client that has waited %v closes its connection (lost); "+
			"p99 is that of the responses 200 that came; client-late: p99 of what the client itself was late", patience),
		fmt.Sprintf("settle-ms: after a step from %g to %g times capacity, until the 99th percentile in windows of 10 ms stays within 1.5 times its level; "+
			"%v if it is not level, or above %v, in the second half; recover-ms: after the step down, until it stays below twice its value of before",
			stepLow, stepHigh, w.step.High, latencyTarget),
		fmt.Sprintf("nginx: lets %d requests at a time through to net-http (limit_conn, a number chosen by hand), both on the server core", limitedConns),
		fmt.Sprintf("failsafe-go: net/http and its adaptive limiter with default settings around the handler; it counts handlers that have begun, and on one core "+
			"one that never waits ends before the next begins; in metrics named *%s handlers wait for %v in the middle (full runs only)", waitsSuffix, webPause),
		"others: what else ran on the server core, in ticks of 10 ms; with much of it the capacity is not what was measured before",
	}
	if r.quick {
		e.notes = slices.Insert(e.notes, 2, fmt.Sprintf("loads above the capacity are measured from %v after they begin", overloadLead))
	}
	return nil
}

func (w *web) warmAt(load float64) time.Duration {
	if w.quick && load > 1 {
		return overloadLead
	}
	return w.warm
}

// takes is how long a sample takes, of which clients wait for the last answers after the load.
func (w *web) takes(_ string, p point) time.Duration {
	capacity := w.webTimes.capacity * 5 / 4
	switch {
	case p.metric == "step":
		return capacity + w.stepping()
	case p.metric == "spike":
		warm, span := w.spikeTimes(p)
		return capacity + warm + span + patience/2
	}
	return capacity + w.warmAt(p.x) + w.span + patience/2
}

// sample starts a server afresh, so that it has no backlog, measures its capacity, and
// then loads it.
func (w *web) sample(ctx context.Context, system launcher, p point) ([]sample, error) {
	offered, suffix := openLoad{classes: alone("/do?cpu=1ms"), patience: patience}, ""
	if p.metric == "load"+waitsSuffix {
		offered.classes, suffix = alone(fmt.Sprintf("/do?cpu=1ms&sleep=%v", webPause)), waitsSuffix
	}
	if p.metric == "step" {
		offered = offered.stepping(w.step, stepLow, p.x)
	} else {
		warm := w.warmAt(p.x)
		offered.from, offered.phases = warm, []phase{{span: warm + w.span, times: p.x}}
	}
	e := extent{}
	seen, _, err := w.loaded(ctx, system, row{needs: needs{counted: true}, load: offered, ownCapacity: w.webTimes.capacity}, &e, w.round+1)
	if err != nil {
		return nil, err
	}
	if p.metric == "step" {
		return []sample{
			{"settle-ms", "ms", p.x, milliseconds(seen.Steps.Settle)},
			{"recover-ms", "ms", p.x, milliseconds(seen.Steps.Recover)},
			{"step-p99-before", "ms", p.x, milliseconds(seen.Steps.Before)},
			{"step-p99-top", "ms", p.x, milliseconds(seen.Steps.Top)},
		}, nil
	}
	goodput := seen.rate(seen.All.InTime)
	samples := slices.Insert(seen.outcome(p.x, goodput), 1, sample{"goodput-share", "%", p.x, 100 * goodput / e.capacity})
	samples = append(append(samples, seen.usage(p.x)...), seen.late(p.x), sample{"capacity", "req/s", p.x, e.capacity})
	return suffixed(samples, suffix), nil
}
