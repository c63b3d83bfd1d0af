package main

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/capriccio-go/capriccio/bench/internal/report"
)

// webLoads are the loads of overload-web as multiples of capacity; a quick run puts the
// main ones on every system and the others on the first only.
var (
	webLoads      = []float64{0.5, 0.8, 1, 1.5, 2, 5, 10}
	webMainLoads  = []float64{0.8, 2, 10}
	webOtherLoads = []float64{0.5, 1, 1.5, 5}
)

const (
	stepLow  = 0.5
	stepHigh = 1.4

	// In metrics with this suffix the handler waits in the middle, as for a database.
	waitsSuffix = "-waits"
	webPause    = 5 * time.Millisecond
)

// webTimes are how long the parts of a sample take.
type webTimes struct {
	capacity, warm, span  time.Duration
	lead, highFor, lowFor time.Duration
	steps                 int
}

var (
	webQuick = webTimes{
		capacity: 240 * time.Millisecond, warm: 350 * time.Millisecond, span: 550 * time.Millisecond,
		lead: 300 * time.Millisecond, highFor: 350 * time.Millisecond, lowFor: 500 * time.Millisecond, steps: 2,
	}
	webFull = webTimes{
		capacity: 500 * time.Millisecond, warm: 1500 * time.Millisecond, span: 3 * time.Second,
		lead: time.Second, highFor: 500 * time.Millisecond, lowFor: 1200 * time.Millisecond, steps: 4,
	}
)

// web is overload-web.
type web struct {
	*run
	webTimes
	burn  string
	known capacities
	seeds rotation
}

// runOverloadWeb offers servers whose handler takes 1 ms of CPU multiples of what they
// can do, and measures what clients get of it.
func runOverloadWeb(r *run) error {
	burn, err := r.calibrateBurn()
	if err != nil {
		return err
	}
	systems, err := r.overloadSystems("capriccio", "capriccio-fifo", "net-http", "failsafe-go", "nginx")
	if err != nil {
		return err
	}
	w := &web{run: r, webTimes: webFull, burn: strconv.Itoa(burn), known: capacities{}, seeds: rotation{}}
	main, others := webLoads, []float64(nil)
	if r.quick {
		w.webTimes, main, others = webQuick, webMainLoads, webOtherLoads
	}
	contenders := w.contenders(systems)
	stepTime := time.Duration(len(systems)) * (w.lead + w.capacity + time.Duration(w.steps)*(w.highFor+w.lowFor))
	otherTime := time.Duration(len(others)) * (w.capacity + w.warm + w.span)
	r.reserved = stepTime + otherTime
	if err := r.measure(pointsAt("load", main...), contenders, w.span); err != nil {
		return err
	}
	r.reserved = stepTime
	if len(others) > 0 {
		if err := r.measure(pointsAt("load", others...), contenders[:1], w.span); err != nil {
			return err
		}
	}
	r.reserved = 0
	if err := r.measure([]point{{metric: "step", x: stepHigh}}, contenders, w.span); err != nil {
		return err
	}
	if !r.quick {
		if err := r.measure(pointsAt("load"+waitsSuffix, webMainLoads...), contenders, w.span); err != nil {
			return err
		}
	}
	w.remarks()
	return nil
}

func (w *web) contenders(systems []overloadSystem) []contender {
	var contenders []contender
	for _, system := range systems {
		contenders = append(contenders, contender{system: system.name,
			sample: func(ctx context.Context, p point, _ time.Duration) ([]sample, error) {
				return w.sample(ctx, system, p)
			}})
	}
	return contenders
}

// sample starts a server afresh, so that it has no backlog, measures its capacity, and
// then loads it.
func (w *web) sample(ctx context.Context, system overloadSystem, p point) ([]sample, error) {
	pause, suffix := time.Duration(0), ""
	if p.metric == "load"+waitsSuffix {
		pause, suffix = webPause, waitsSuffix
	}
	s, err := system.start(ctx, nil, flagPairs("burn", w.burn, "pause", pause)...)
	if err != nil {
		return nil, err
	}
	defer s.close()
	capacity, err := w.known.measure(ctx, w.run, s, w.capacity)
	if err != nil {
		return nil, err
	}
	seed := w.seeds.next(system.name, p)
	if p.metric == "step" {
		span := w.lead + time.Duration(w.steps)*(w.highFor+w.lowFor)
		return w.client(ctx, s, span, "step", "x", p.x, "seed", seed, "low", stepLow*capacity, "high", p.x*capacity,
			"lead", w.lead, "high-for", w.highFor, "low-for", w.lowFor, "count", w.steps)
	}
	samples, err := w.client(ctx, s, w.warm+w.span, "load", "x", p.x, "seed", seed,
		"rate", p.x*capacity, "warm", w.warm, "for", w.span)
	if err != nil {
		return nil, err
	}
	goodput, err := value(samples, "goodput")
	samples = append(samples, sample{"capacity", "req/s", p.x, capacity})
	samples = slices.Insert(samples, 1, sample{"goodput-share", "%", p.x, 100 * goodput / capacity})
	for i := range samples {
		samples[i].metric += suffix
	}
	return samples, err
}

func (w *web) client(ctx context.Context, s *overloaded, span time.Duration, kind string, pairs ...any) ([]sample, error) {
	return samplesOf(ctx, span, w.clientCommand(s, kind, flagPairs(pairs...)...))
}

func (w *web) remarks() {
	w.note("the handler computes for 1 ms of CPU: %s steps of a loop, the same for all, counted and not timed", w.burn)
	w.note("x is the load as a multiple of capacity, which is what the same server serves %d clients of a closed loop just before; "+
		"goodput: responses 200 within %v of when the request was due; goodput-share: of capacity", capacityClients, latencyTarget)
	w.note("requests come by a Poisson process with the same seed for all; a client that has waited %v closes its connection (lost); "+
		"p99 is that of the responses 200 that came; client-late: p99 of what the client itself was late", patience)
	w.note("settle-ms: after a step from %g to %g times capacity, until the 99th percentile in windows of 10 ms stays within 1.5 times its level; "+
		"%v if it is not level, or above %v, in the second half; recover-ms: after the step down, until it stays below twice its value of before",
		stepLow, stepHigh, w.highFor, latencyTarget)
	w.note("nginx: lets %d requests at a time through to net-http (limit_conn, a number chosen by hand), both on the server core", limitedConns)
	w.note("failsafe-go: net/http and its adaptive limiter with default settings around the handler; it counts handlers that have begun, and on one core "+
		"one that never waits ends before the next begins; in metrics named *%s handlers wait for %v in the middle (full runs only)", waitsSuffix, webPause)
	w.note("others: what else ran on the server core, in ticks of 10 ms; with much of it the capacity is not what was measured before")
	w.env.Notes = slices.Compact(w.env.Notes)
	w.charts = []report.Chart{
		{Title: "Goodput within 100 ms, share of capacity", Metric: "goodput-share", XLabel: "offered load, multiples of capacity"},
		{Title: "99th percentile of what is served", Metric: "p99", XLabel: "offered load, multiples of capacity", LogY: true},
		{Title: "Refused", Metric: "refused", XLabel: "offered load, multiples of capacity"},
		{Title: "Settling after a step", Metric: "settle-ms", XLabel: "multiples of capacity", Bars: true},
	}
}
