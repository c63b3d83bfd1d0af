package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/capriccio-go/capriccio/bench/internal/report"
)

// What bigstack is made of.
const (
	bigCalls = 10      // of each task, of a function with a frame of bigFrameBytes
	bigCap   = 4 << 30 // resident bytes beyond which a process is killed
)

// runBigStack is the program of section 3.5 of the Capriccio paper: many tasks, each of which
// calls a function that needs much stack, and yields after each call.
func runBigStack(r *run) error {
	tasks := choose(r.quick, []float64{800, 3200, 12_500, 100_000}, []float64{800, 1600, 3200, 6400, 12_500, 25_000, 50_000, 100_000})
	points := pointsAt("bigstack", tasks...)
	contenders := []contender{r.bigContender("capriccio"), r.bigContender("goroutine")}
	r.measure(points, contenders, time.Second)
	r.note("x tasks; each makes %d calls of a function with a frame of %d KiB of which it touches every page, and yields after each; one core", bigCalls, bigFrameBytes>>10)
	r.note("seconds: from making the first task to the end of the last; rss-mb: the most that the process had resident")
	r.note("a process of more than %d MiB resident is killed (killed: 1, and no seconds); with more tasks than that it is not tried again", bigCap>>20)
	r.charts = []report.Chart{
		{Title: "Tasks with a frame of 1 MB: time", Metric: "seconds", XLabel: "tasks", LogY: true},
		{Title: "Tasks with a frame of 1 MB: resident memory", Metric: "rss-mb", XLabel: "tasks", LogY: true},
	}
	return nil
}

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

// runStackCost measures what a checkpoint costs, and parking beyond one.
func runStackCost(r *run) error {
	points := slices.Concat(pointsAt("room", 1), pointsAt("call-with-room", 1), pointsAt("link-call-unlink", 16<<10, 32<<10, 256<<10),
		pointsAt("yield", 2, 1000), pointsAt("yield-beyond", 2, 1000))
	contenders := []contender{
		onServerCore("capriccio", r.self, workerCommand, "stack-capriccio"),
		onServerCore("goroutine", r.self, workerCommand, "stack-goroutine"),
	}
	contenders[1].lacks = without("the compiler has put the check into each function", func(p point) bool { return strings.HasSuffix(p.metric, "room") })
	r.measure(points, contenders, 300*time.Millisecond)
	r.note("room: asking whether the stack has room, x=1; call-with-room: a Call that has it")
	r.note("link-call-unlink: a Call of an empty function that says it needs x bytes; for goroutines, the way to get such a stack there: a fresh goroutine grows to it, touching every page, and ends")
	r.note("yield-beyond: x tasks that yield beyond a checkpoint, each on a chunk of its own of 4 KiB; for goroutines, in a function with a frame of as much; yield: without")
	return nil
}
