package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/capriccio-go/capriccio/bench/internal/report"
)

// What bigstack is made of.
const (
	bigCalls = 10      // of each task, of a function with a frame of bigFrameBytes
	bigCap   = 4 << 30 // resident bytes beyond which a process is killed
)

func (r *run) bigContender(system string) contender {
	dead := 0.0 // the least number of tasks that has got a process killed
	return contender{system: system, sample: func(ctx context.Context, p point, _ time.Duration) ([]sample, error) {
		if dead > 0 && p.x > dead {
			return nil, fmt.Errorf("as with %s tasks: killed at %d MiB", report.Number(dead), bigCap>>20)
		}
		samples, killed, err := r.bigSample(ctx, system, int(p.x))
		if killed && (dead == 0 || p.x < dead) {
			dead = p.x
		}
		return samples, err
	}}
}

// bigSample runs the program in a process of its own and keeps an eye on it.
func (r *run) bigSample(ctx context.Context, system string, tasks int) (samples []sample, killed bool, err error) {
	samples, most, killed, err := belowCap(ctx, 0, r.ownOnServerCore(nil, "bigstack", "-kind", system, "-tasks", strconv.Itoa(tasks)), bigCap)
	x := float64(tasks)
	return append(samples, sample{"rss-mb", "MiB", x, most}, sample{"killed", "1", x, choose(killed, 1.0, 0)}), killed, err
}
