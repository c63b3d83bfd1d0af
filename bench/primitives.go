package main

import (
	"time"

	"github.com/capriccio-go/capriccio/bench/internal/report"
)

// runPrimitives is Table 1 of the Capriccio paper: what single operations cost.
func runPrimitives(r *run) error {
	points := append(pointsAt("create-finish", 1, 1000), pointsAt("mutex", 1)...)
	for _, metric := range []string{"yield", "chan", "cond"} {
		points = append(points, pointsAt(metric, 2, 1000, 10_000)...)
	}
	contenders := append(append(r.goContenders(bareSystem), onServerCore(holdingSystem, r.self, workerCommand, holdingSystem)), r.baselines("pthread", "state-threads")...)
	for i := range contenders {
		if system := contenders[i].system; system == "pthread" || system == "state-threads" {
			contenders[i].lacks = without("has no channels; cond is its hand-off", func(p point) bool { return p.metric == "chan" })
		}
	}
	r.measure(points, contenders, 500*time.Millisecond)
	r.note("everything runs on core %d; x is the tasks that take turns, for create-finish the tasks made before waiting for them all", serverCore)
	r.note("chan and cond hand a token round a ring of x tasks, by unbuffered channels or by one condition for each")
	r.note("%s: nothing is detached (WithDetaching): between it and capriccio lies what that costs those that never wait natively, but for a store at each entry, which both have", holdingSystem)
	r.note("state-threads has no yield: its figure is waking the longest waiting thread and waiting behind the others")
	r.charts = []report.Chart{
		{Title: "Yield", Metric: "yield", XLabel: "ready tasks", LogY: true},
		{Title: "Hand-off by condition", Metric: "cond", XLabel: "tasks", LogY: true},
		{Title: "Hand-off by channel", Metric: "chan", XLabel: "tasks"},
	}
	return nil
}
