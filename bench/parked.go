package main

import (
	"fmt"
	"time"

	"github.com/capriccio-go/capriccio/bench/internal/proc"
	"github.com/capriccio-go/capriccio/bench/internal/report"
)

const (
	manyParked = 1_000_000
	// What a parked task is given room for when there is a doubt about memory.
	roomPerTask = 6 << 10
)

// runParked measures what a parked task takes, and a million made and finished.
func runParked(r *run) error {
	points := []point{{metric: "parked", x: 100_000}}
	free, err := proc.Available()
	if err != nil {
		return err
	}
	if !r.planning() && free < manyParked*roomPerTask {
		r.skip(fmt.Sprintf("parked x=%d", manyParked), fmt.Errorf("%d MiB of memory are free", free>>20))
	} else {
		points = append(points, point{metric: "parked", x: manyParked})
	}
	r.measure(points, slower(time.Second, r.goContenders()), time.Second)
	r.note("x tasks are made and each parks; then all are woken and finish; on core %d", serverCore)
	r.note("bytes-per-task is what the process grew by; park is the time per task until all were parked, made-and-finished until all had finished")
	r.charts = []report.Chart{
		{Title: "Memory per parked task", Metric: "bytes-per-task", XLabel: "tasks", Bars: true},
		{Title: "Time per task, made, parked and finished", Metric: "made-and-finished", XLabel: "tasks", Bars: true},
	}
	return nil
}
