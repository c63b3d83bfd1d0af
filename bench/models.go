package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
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
	connections := choose(r.quick, []float64{60}, []float64{20, 60, 200})
	points := append(pointsAt("one", connections...), pointsAt("both", connections...)...)
	var contenders []contender
	add := func(system, protocol string, start func(ctx context.Context, socket string, p point) (*server, error)) {
		path := filepath.Join(r.scratch, fmt.Sprint("models-", len(contenders)))
		contenders = append(contenders, contender{system: system, sample: func(ctx context.Context, p point, d time.Duration) ([]sample, error) {
			return r.sampleModel(ctx, path, protocol, p, d, start)
		}})
	}
	for _, system := range systems {
		add(system, "own", func(ctx context.Context, socket string, p point) (*server, error) {
			return startCommand(ctx, system, onCores(p, r.self, workerCommand, "models", "-model", system, "-socket", socket))
		})
	}
	if path, err := r.buildCommand("examples/memcache"); err != nil {
		r.skip("capriccio-memcache", err)
	} else {
		add("capriccio-memcache", "memcached", func(ctx context.Context, socket string, p point) (*server, error) {
			os.Remove(socket)
			return startCommand(ctx, "capriccio-memcache", onCores(p, path, "-addr", socket))
		})
	}
	for _, peer := range cachePeers {
		path, err := r.find(peer.program)
		if err != nil {
			r.skip(peer.system, err)
			continue
		}
		add(peer.system, peer.system, func(ctx context.Context, socket string, p point) (*server, error) {
			os.Remove(socket) // of the time before
			return startUntil(ctx, peer.system, onCores(p, path, peer.args(socket, p)...), accepting("unix", socket))
		})
	}
	r.measure(points, contenders, time.Second)
	r.note("x: connections over a unix socket, each with one request under way; %d records of 10 to 1,000 bytes; %.0f %% of the requests read",
		models.Records, 100*models.Reads)
	r.note("server on core %d, in metrics named *%s on both; one client thread on core %d; but for memcached and redis all are Go programs, threads are locked goroutines over raw epoll; capriccio: tasks on as many loops as cores",
		serverCore, bothSuffix, clientCore)
	r.note("switches: of threads, by the kernel's count; the paper: SPED and SEDA least, then AMPED, SEDA-S, SYMPED most, by 54 %% over the next, with 4 threads on 8 cores")
	r.charts = []report.Chart{
		{Title: "CPU time per transaction on the server", Metric: "cpu-per-transaction", XLabel: "connections"},
		{Title: "Transactions", Metric: "transactions", XLabel: "connections"},
	}
	return nil
}

// cachePeers are caches that speak protocols of their own, with as many threads as they may have cores.
var cachePeers = []struct {
	system, program string
	args            func(socket string, p point) []string
}{
	{"memcached", "memcached", func(socket string, p point) []string {
		args := []string{"-s", socket, "-t", strconv.Itoa(coresOf(p))}
		if os.Geteuid() == 0 {
			args = append(args, "-u", "root")
		}
		return args
	}},
	{"redis", "redis-server", func(socket string, p point) []string {
		return []string{"--port", "0", "--unixsocket", socket, "--save", "", "--appendonly", "no", "--io-threads", strconv.Itoa(coresOf(p))}
	}},
}

// coresOf is how many cores the server may use.
func coresOf(p point) int {
	if p.metric == "both" {
		return 2
	}
	return 1
}

// onCores is a command that may use as many.
func onCores(p point, path string, args ...string) proc.Command {
	return proc.Command{Path: path, Core: choose(coresOf(p) > 1, proc.AnyCore, serverCore), Args: args, Env: []string{fmt.Sprint("GOMAXPROCS=", coresOf(p))}}
}

// sampleModel starts a server and loads it.
func (r *run) sampleModel(ctx context.Context, path, protocol string, p point, d time.Duration,
	start func(ctx context.Context, socket string, p point) (*server, error)) ([]sample, error) {
	s, err := start(ctx, path, p)
	if err != nil {
		return nil, err
	}
	defer s.child.Close()
	samples, err := samplesOf(ctx, d, r.ownClient(append([]string{"models-load"}, flagPairs("socket", path, "protocol", protocol,
		"pid", s.child.PID(), "conns", int(p.x), "warm", d/4, "for", d-d/4)...)...))
	if p.metric == "both" {
		for i := range samples {
			samples[i].metric += bothSuffix
		}
	}
	return samples, err
}
