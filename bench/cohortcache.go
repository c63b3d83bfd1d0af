package main

import (
	"time"

	"github.com/capriccio-go/capriccio/bench/internal/report"
)

// cacheWays are ways to keep a cache of files that tasks of several loops look into.
var cacheWays = []string{"capriccio-shared", "capriccio-partitioned", "capriccio-per-loop"}

// runCohortCache is the staged file cache of the Cohort Scheduling paper, section 5.1 and Figure 5, at its best:
// all files are in memory. There each processor has a table of its own, and a request goes to the one
// that has its file; Knot has a table for all, in parts with a lock each.
func runCohortCache(r *run) error {
	var contenders []contender
	for _, way := range cacheWays {
		contenders = append(contenders, onBothCores(way, r.self))
	}
	r.measure([]point{{metric: "per-request", x: 1}, {metric: "per-request", x: 2}}, contenders, 2*time.Second)
	r.note("x: loops. per-request: the process's CPU time, of which a hit itself is to find one of %d files by its path, drawn by Zipf's law, to move it to the front of a list, and to read its %d KiB; %d tasks a loop ask", cacheFiles, cacheFileBytes>>10, cacheTasks)
	r.note("shared: %d parts with a lock each, as Knot has; partitioned: a part for each loop, a task of which answers those of others, without a lock; per-loop: each loop has all files", cacheParts)
	r.note("taken: of 100 locks those that another loop had; crossings: wakes from loop to loop for a request")
	r.charts = []report.Chart{{Title: "CPU time of a hit in a file cache", Metric: "per-request", XLabel: "loops", Bars: true}}
	return nil
}
