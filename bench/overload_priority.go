package main

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/capriccio-go/capriccio/bench/internal/report"
)

// The loads of the priority experiment as multiples of capacity: in normal times 60 % in
// all, in the spike 2.8 times what the server can do, of which the urgent part is little.
const (
	urgentLoad    = 0.4
	leisurelyLoad = 0.2
	spike         = 12.0
)

// runPriority puts a spike of unimportant requests beside important ones.
func runPriority(r *run) error {
	burn, err := r.calibrateBurn()
	if err != nil {
		return err
	}
	systems, err := r.overloadSystems("capriccio", "capriccio-fifo", "net-http", "failsafe-go")
	if err != nil {
		return err
	}
	w := &web{run: r, webTimes: webFull, burn: strconv.Itoa(burn), known: capacities{}, seeds: rotation{}}
	if r.quick {
		w.webTimes = webQuick
	}
	var contenders []contender
	for _, system := range systems {
		contenders = append(contenders, contender{system: system.name,
			sample: func(ctx context.Context, p point, _ time.Duration) ([]sample, error) {
				return w.prioritySample(ctx, system, p)
			}})
	}
	if err := r.measure([]point{{metric: "spike", x: spike}, {metric: "spike", x: 1}}, contenders, time.Second); err != nil {
		return err
	}
	r.note("urgent requests come at %g times capacity, others at %g, both by Poisson processes; in the spike the others come %g times as often; a header says which (Priority: %s or %s)",
		urgentLoad, leisurelyLoad, spike, urgent, leisurely)
	r.note("success: share of urgent requests answered 200 within %v, when clients give up; success-in-time: within %v; success-low: of the others; p99: of urgent ones served; goodput: of all, within %v",
		patience, latencyTarget, latencyTarget)
	r.note("the handler computes for 1 ms of CPU: %s steps of a loop; capacity is measured just before", w.burn)
	r.note("failsafe-go: net/http and its prioritized adaptive limiter around the handler; the other peers know no priorities")
	r.env.Notes = slices.Compact(r.env.Notes)
	r.charts = []report.Chart{
		{Title: "Urgent requests answered", Metric: "success", XLabel: "multiples of the normal number of others", Bars: true},
		{Title: "99th percentile of urgent requests", Metric: "p99", XLabel: "multiples of the normal number of others", Bars: true},
	}
	return nil
}

// prioritySample measures long enough to see one failure in a thousand.
func (w *web) prioritySample(ctx context.Context, system overloadSystem, p point) ([]sample, error) {
	s, err := system.start(ctx, nil, flagPairs("burn", w.burn, "prioritized", true)...)
	if err != nil {
		return nil, err
	}
	defer s.close()
	capacity, err := w.known.measure(ctx, w.run, s, w.capacity)
	if err != nil {
		return nil, err
	}
	warm, span := time.Second, 10*time.Second
	switch {
	case w.quick && p.x == 1:
		warm, span = 200*time.Millisecond, 1200*time.Millisecond
	case w.quick:
		warm, span = 300*time.Millisecond, 4*time.Second
	}
	return w.client(ctx, s, warm+span+patience, "priority", "x", p.x, "seed", w.seeds.next(system.name, p),
		"urgent", urgentLoad*capacity, "leisurely", p.x*leisurelyLoad*capacity, "leisurely-before", leisurelyLoad*capacity,
		"warm", warm, "for", span)
}
