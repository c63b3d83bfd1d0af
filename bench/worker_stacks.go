package main

import (
	"flag"
	"fmt"
	"io"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/capriccio-go/capriccio/stackchunk"
	"github.com/capriccio-go/capriccio/task"
)

// Beside the frame itself: what the function and its caller need, and what the kernel's
// signals and the runtime may add.
const callSlack = 2 << 10

// runBigStackWorker is the program of bigstack; it prints how long it took.
func runBigStackWorker(args []string, out io.Writer) {
	flags := flag.NewFlagSet("bigstack", flag.ExitOnError)
	kind := flags.String("kind", "", "capriccio or goroutine")
	count := flags.Int("tasks", 1, "tasks")
	flags.Parse(args)
	var took time.Duration
	switch *kind {
	case "capriccio":
		onOneLoop(func(job) {
			took = tasks.bigStack(*count, func() { stackchunk.Call(bigFrameBytes+callSlack, bigFrame) })
		})(job{})
	case "goroutine":
		took = goroutines.bigStack(*count, bigFrame)
	default:
		check(fmt.Errorf("-kind=%q, want capriccio or goroutine", *kind))
	}
	emitAt(out, *count)("seconds", "s", took.Seconds())
}

func (s *threads) bigStack(tasks int, call func()) time.Duration {
	start, all := time.Now(), s.waitGroup()
	all.Add(tasks)
	body := func() {
		for range bigCalls {
			call()
			s.yield()
		}
		all.Done()
	}
	for range tasks {
		s.spawn(body)
	}
	all.Wait()
	return time.Since(start)
}

// Metrics of stack-cost. In link-call-unlink x is what is needed, in bytes.
var (
	chunkMetrics = map[string]metricFunc{
		"room":             onOneLoop(measureRoom),
		"call-with-room":   onOneLoop(measureCallWithRoom),
		"link-call-unlink": onOneLoop(measureLink),
		"yield":            onOneLoop(taskYield),
		"yield-beyond": onOneLoop(func(j job) {
			stackchunk.Call(beyondBytes, func() {
				measureYield(beyond(j), taskSpawn, task.Yield, func(stop *atomic.Bool) (n int64) {
					stackchunk.Call(beyondBytes, func() { n = yieldUntil(stop, task.Yield) })
					return n
				})
			})
		}),
	}
	growMetrics = map[string]metricFunc{
		"link-call-unlink": measureGrow,
		"yield":            goroutineMetrics["yield"],
		"yield-beyond": func(j job) {
			measureYield(beyond(j), goSpawn, runtime.Gosched, func(stop *atomic.Bool) int64 {
				var frame [beyondBytes]byte
				n := yieldUntil(stop, runtime.Gosched)
				return n + int64(frame[n&(beyondBytes-1)])
			})
		},
	}
)

func onOneLoop(measure metricFunc) metricFunc { return onLoopOf(oneLoop, measure) }

// beyondBytes is what yield-beyond asks for.
const beyondBytes = 4 << 10

// beyond renames what measureYield emits.
func beyond(j job) job {
	emit := j.emit
	j.emit = func(metric, unit string, value float64) {
		if metric == "yield" {
			metric = "yield-beyond"
		}
		emit(metric, unit, value)
	}
	return j
}

func yieldUntil(stop *atomic.Bool, yield func()) (n int64) {
	for !stop.Load() {
		yield()
		n++
	}
	return n
}

func measureRoom(j job) {
	const batch = 10_000
	has := 0
	j.emit("room", "ns", j.untilTime(batch, func() {
		for range batch {
			if stackchunk.Room(64) {
				has++
			}
		}
	}))
	if has == 0 {
		check(fmt.Errorf("a fresh task has no room for 64 bytes"))
	}
}

func measureCallWithRoom(j job) {
	const batch = 10_000
	calls := 0
	f := func() { calls++ }
	j.emit("call-with-room", "ns", j.untilTime(batch, func() {
		for range batch {
			stackchunk.Call(64, f)
		}
	}))
}

func measureLink(j job) {
	const batch = 1000
	calls := 0
	f := func() { calls++ }
	before := stackchunk.ReadStats().Links
	j.emit("link-call-unlink", "ns", j.untilTime(batch, func() {
		for range batch {
			stackchunk.Call(stackchunk.Bytes(j.x), f)
		}
	}))
	if links := stackchunk.ReadStats().Links - before; links < uint64(calls) {
		check(fmt.Errorf("%d calls made %d links", calls, links))
	}
}

// measureGrow has fresh goroutines need as much stack.
func measureGrow(j job) {
	var wg sync.WaitGroup
	body := func() { useStack(j.x); wg.Done() }
	const batch = 100
	j.emit("link-call-unlink", "ns", j.untilTime(batch, func() {
		for range batch {
			wg.Add(1)
			go body()
			wg.Wait()
		}
	}))
}
