package main

import (
	"fmt"
	"time"

	"github.com/capriccio-go/capriccio/bench/internal/report"
)

// runPairs is Figure 1 of the Capriccio paper: producers and consumers share a
// bounded buffer.
func runPairs(r *run) error {
	points := r.pairPoints()
	contenders := append(r.goContenders(bareSystem), r.baselines("pthread", "state-threads")...)
	for i := range contenders {
		switch contenders[i].system {
		case "pthread":
			contenders[i].lacks = above(choose(r.quick, 1000.0, 4096), "two kernel threads a pair")
		case "state-threads":
			contenders[i].lacks = above(choose(r.quick, 256.0, 1000), "a wake-up searches a queue that grows with the threads")
		}
	}
	r.measure(points, contenders, 500*time.Millisecond)
	r.note("x is the pairs: as many producers as consumers, one buffer of %d slots, one mutex and two conditions, on core %d", bufferSlots, serverCore)
	r.note("in metrics named *%s* a consumer computes for so long on each message, outside the mutex", workInfix)
	r.note("a producer fills the whole buffer before it waits, so a switch serves up to %d messages; %s has a buffer of one slot, where each message takes two switches", bufferSlots, oneSlotMetric)
	r.charts = []report.Chart{
		{Title: "Messages, no work", Metric: "ops", XLabel: "producer-consumer pairs", LogY: true},
		{Title: "Messages, 100 ns of work each", Metric: "ops-work-100ns", XLabel: "producer-consumer pairs"},
		{Title: "Messages, 1,000 ns of work each", Metric: "ops-work-1000ns", XLabel: "producer-consumer pairs"},
	}
	return nil
}

// pairPoints go by powers of four without work, but for the 1,000 pairs that the project has
// a goal for; with work, which makes the curves flat, and in a quick run there are fewer.
func (r *run) pairPoints() []point {
	points := pointsAt("ops", choose(r.quick, []float64{1, 16, 256, 1000, 4096, 16_384}, []float64{1, 4, 16, 64, 256, 1000, 4096, 16_384})...)
	for _, work := range []int{100, 1000} {
		for _, x := range []float64{1, 16, 1000, 16_384} {
			points = append(points, point{metric: fmt.Sprintf("ops%s%dns", workInfix, work), x: x, work: work})
		}
	}
	return append(points, pointsAt(oneSlotMetric, 16, 1000, 16_384)...)
}

// above makes a contender sit out points with a parameter above a limit.
func above(limit float64, why string) func(point) string {
	return without(fmt.Sprintf("left out above %s: %s", report.Number(limit), why), func(p point) bool { return p.x > limit })
}
