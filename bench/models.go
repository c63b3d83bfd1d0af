package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/capriccio-go/capriccio/bench/internal/models"
	"github.com/capriccio-go/capriccio/bench/internal/proc"
	"github.com/capriccio-go/capriccio/bench/internal/report"
)

// bothSuffix is of metrics for which the server may use both cores.
const bothSuffix = "-both"

// runModels compares the ways to arrange the threads of a server (Voras and Žagar), and tasks
// and goroutines with them.
func runModels(r *run) error {
	systems := []string{"capriccio", "goroutine", "sped", "symped-1", "symped-2", "amped-0-2", "amped-1-2", "seda-s-1", "seda-s-2", "seda-2-4"}
	points := []point{{metric: "one", x: 20}, {metric: "one", x: 60}, {metric: "one", x: 100}, {metric: "one", x: 200},
		{metric: "both", x: 20}, {metric: "both", x: 60}, {metric: "both", x: 100}, {metric: "both", x: 200}}
	if r.quick {
		points = []point{{metric: "one", x: 60}, {metric: "both", x: 60}}
	}
	var contenders []contender
	for i, system := range systems {
		contenders = append(contenders, contender{system: system, sample: func(ctx context.Context, p point, d time.Duration) ([]sample, error) {
			path := filepath.Join(r.scratch, fmt.Sprint("models-", i))
			return r.sampleModel(ctx, system, path, p, d)
		}})
	}
	if err := r.measure(points, contenders, 4*time.Second); err != nil {
		return err
	}
	r.note("x: connections over a unix socket, each with one request under way; %d records of 10 to 1,000 bytes; %.0f %% of the requests read",
		models.Records, 100*models.Reads)
	r.note("server on core %d, in metrics named *%s on both; one client thread on core %d; all are Go programs, threads are locked goroutines over raw epoll; capriccio: tasks on as many loops as cores",
		serverCore, bothSuffix, clientCore)
	r.note("switches: of threads, by the kernel's count; the paper: SPED and SEDA least, then AMPED, SEDA-S, SYMPED most, by 54 %% over the next, with 4 threads on 8 cores")
	r.charts = []report.Chart{
		{Title: "CPU time per transaction on the server", Metric: "cpu-per-transaction", XLabel: "connections"},
		{Title: "Transactions", Metric: "transactions", XLabel: "connections"},
	}
	return nil
}

// sampleModel starts a server and loads it.
func (r *run) sampleModel(ctx context.Context, system, path string, p point, d time.Duration) ([]sample, error) {
	core, procs := serverCore, 1
	if p.metric == "both" {
		core, procs = proc.AnyCore, 2
	}
	s, err := startCommand(ctx, system, proc.Command{Path: r.self, Core: core, Args: []string{workerCommand, "models", "-model", system, "-socket", path},
		Env: []string{fmt.Sprintf("GOMAXPROCS=%d", procs)}})
	if err != nil {
		return nil, err
	}
	defer s.child.Close()
	ctx, cancel := context.WithTimeoutCause(ctx, d+sampleTimeout, fmt.Errorf("no end after %v", d+sampleTimeout))
	defer cancel()
	lines, err := proc.Output(ctx, proc.Command{Path: r.self, Core: clientCore, Env: []string{"GOMAXPROCS=1"},
		Args: append([]string{workerCommand, "models-load", "-socket", path},
			flagPairs("pid", s.child.PID(), "conns", int(p.x), "warm", d/4, "for", d-d/4)...)})
	if err != nil {
		return nil, err
	}
	samples, err := parseSamples(lines)
	if p.metric == "both" {
		for i := range samples {
			samples[i].metric += bothSuffix
		}
	}
	return samples, err
}
