package main

import (
	"fmt"
	"io"
	"log/slog"
	"math"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/capriccio-go/capriccio/bench/internal/report"
	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/poller"
	"github.com/capriccio-go/capriccio/internal/recorder"
	_ "github.com/capriccio-go/capriccio/netpoll" // its pollers
	"github.com/capriccio-go/capriccio/ressched"
	"github.com/capriccio-go/capriccio/task"
)

// graphs are the graphs that graph-overhead compares, by system.
var graphs = map[string]recorder.Config{
	"capriccio-counted": {Sampling: math.MaxInt32, HeapEvery: -1},
	"capriccio-sampled": {},
	"capriccio-traced":  {Sampling: 1},
}

// observed makes the workers of the graphs: the metrics of our tasks, on a loop that is observed.
func observed(system string) func(args []string, out io.Writer) {
	metrics := taskMetrics(func() (*task.Runtime, error) { return loopObservedBy(recorder.New(graphs[system])) })
	metrics["graph-size"] = graphSize
	return measuring(metrics)
}

// graphSize measures what a graph of x nodes takes, and what it is to look at it.
func graphSize(j job) {
	const few, many = 1, 5
	thin := newSizedGraph(j.x, few)
	thin.rt.Close()
	thick := newSizedGraph(j.x, many)
	edge := (thick.bytes - thin.bytes) / float64(len(thick.g.Snapshot().Edges)-len(thin.g.Snapshot().Edges))
	j.emit("bytes-per-edge", "bytes", edge)
	s := thin.g.Snapshot()
	j.emit("bytes-per-node", "bytes", (thin.bytes-edge*float64(len(s.Edges)))/float64(len(s.Nodes)))
	for _, procs := range []int{2, 1} { // a processor for the dump, and one for both
		runtime.GOMAXPROCS(procs)
		suffix := ""
		if procs == 1 {
			suffix = "-one-core"
		}
		dumpAgainAndAgain(j, thick, suffix)
	}
	check(thick.rt.Close())
}

// dumpAgainAndAgain measures dumps of s.
func dumpAgainAndAgain(j job, s *sizedGraph, suffix string) {
	var took, stalls, idle []float64
	for begin := time.Now(); time.Since(begin) < j.duration || len(took) == 0; {
		watch := watchStalls(s.rt)
		t := time.Now()
		check(s.g.Snapshot().Encode(io.Discard))
		d := time.Since(t)
		took = append(took, d.Seconds()*1e3)
		stalls = append(stalls, float64(watch())/1e3)
		watch = watchStalls(s.rt)
		time.Sleep(d)
		idle = append(idle, float64(watch())/1e3)
	}
	j.emit("dump"+suffix, "ms", report.Median(took))
	j.emit("stall"+suffix, "us", report.Median(stalls))
	j.emit("stall-without-dump"+suffix, "us", report.Median(idle))
}

type sizedGraph struct {
	g     *recorder.Graph
	rt    *task.Runtime
	bytes float64
}

// newSizedGraph lets tasks wait at n nodes, going from each to a number of others.
func newSizedGraph(n, degree int) *sizedGraph {
	names := make([]string, n)
	for i := range names {
		names[i] = "node " + strconv.Itoa(i)
	}
	before := liveBytes()
	g := recorder.New(recorder.Config{})
	rt := must(loopObservedBy(g))
	check(rt.Go(func() {
		for step := 1; step <= degree; step++ {
			for i, at := 0, 0; i < 2*n; i++ {
				at = (at + step) % n
				ressched.YieldAt(names[at])
			}
		}
	}).Join())
	s := &sizedGraph{g: g, rt: rt}
	if got := len(g.Snapshot().Nodes); got < n {
		check(fmt.Errorf("graph has %d nodes, want %d", got, n))
	}
	s.bytes = liveBytes() - before
	runtime.KeepAlive(names)
	return s
}

func liveBytes() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// watchStalls lets a task of rt take the time again and again; the function returned
// ends that and tells the longest gap in nanoseconds.
func watchStalls(rt *task.Runtime) func() int64 {
	var stop atomic.Bool
	var worst int64
	begun, done := make(chan struct{}), make(chan struct{})
	rt.Go(func() {
		defer close(done)
		close(begun)
		for last := time.Now(); !stop.Load(); {
			task.Yield()
			now := time.Now()
			worst = max(worst, int64(now.Sub(last)))
			last = now
		}
	})
	<-begun
	return func() int64 {
		stop.Store(true)
		<-done
		return worst
	}
}

// loopObservedBy makes a runtime with one loop; g is its graph.
func loopObservedBy(g *recorder.Graph) (*task.Runtime, error) {
	rt, err := engine.New(engine.Config{
		Loops: 1, NewPoller: func(int) (engine.Poller, error) { return poller.Epoll() },
		Graph: g, Log: slog.New(slog.DiscardHandler), HoldLimit: -1,
	})
	return (*task.Runtime)(rt), err
}
