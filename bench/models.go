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

// modelsExperiment compares the ways to arrange the threads of a server (Voras and Žagar), and tasks
// and goroutines with them.
var modelsExperiment = experiment{
	name: "models",
	doc:  "a cache over unix sockets by SPED, SEDA, AMPED, SYMPED, tasks, goroutines (Voras and Žagar)",
	parts: []part{{
		points:  append(pointsAt("one", 20, 60, 200), pointsAt("both", 20, 60, 200)...),
		quick:   append(pointsAt("one", 60), pointsAt("both", 60)...),
		systems: (*run).modelContenders,
		length:  time.Second,
	}},
	notes: []string{
		fmt.Sprintf("x: connections over a unix socket, each with one request under way; %d records of 10 to 1,000 bytes; %.0f %% of the requests read",
			models.Records, 100*models.Reads),
		fmt.Sprintf("server on core %d, in metrics named *%s on both; one client thread on core %d; but for memcached and redis all are Go programs, threads are locked goroutines over raw epoll; capriccio: tasks on as many loops as cores",
			serverCore, bothSuffix, clientCore),
		"switches: of threads, by the kernel's count; the paper: SPED and SEDA least, then AMPED, SEDA-S, SYMPED most, by 54 % over the next, with 4 threads on 8 cores",
	},
	charts: []report.Chart{
		{Title: "CPU time per transaction on the server", Metric: "cpu-per-transaction", XLabel: "connections"},
		{Title: "Transactions", Metric: "transactions", XLabel: "connections"},
	},
}

func (r *run) modelContenders() (contenders []contender) {
	for _, system := range []string{"capriccio", "goroutine", "sped", "symped-1", "symped-2", "amped-0-2", "amped-1-2", "seda-s-1", "seda-s-2", "seda-2-4"} {
		contenders = append(contenders, r.cache(system, "own", func(ctx context.Context, socket string, p point) (*server, error) {
			return startCommand(ctx, system, onCores(p, r.self, workerCommand, "models", "-model", system, "-socket", socket))
		}))
	}
	contenders = append(contenders, r.memcacheExample("capriccio-memcache")...)
	for _, peer := range cachePeers {
		path, err := r.find(peer.program)
		if err != nil {
			r.skip(peer.system, err)
			continue
		}
		contenders = append(contenders, r.cache(peer.system, peer.system, func(ctx context.Context, socket string, p point) (*server, error) {
			return startUntil(ctx, peer.system, onCores(p, path, peer.args(socket, p)...), accepting("unix", socket))
		}))
	}
	return contenders
}

// memcacheExample is examples/memcache, with more in its environment.
func (r *run) memcacheExample(system string, env ...string) []contender {
	path, err := r.buildCommand("examples/memcache")
	if err != nil {
		r.skip(system, err)
		return nil
	}
	return []contender{r.cache(system, "memcached", func(ctx context.Context, socket string, p point) (*server, error) {
		command := onCores(p, path, "-addr", socket)
		command.Env = append(command.Env, env...)
		return startCommand(ctx, system, command)
	})}
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

// cache is a cache that listens on a unix socket and speaks the protocol; it starts for each sample.
func (r *run) cache(system, protocol string, start func(ctx context.Context, socket string, p point) (*server, error)) contender {
	socket := filepath.Join(r.scratch, system)
	return contender{system: system, sample: func(ctx context.Context, p point, d time.Duration) ([]sample, error) {
		os.Remove(socket) // of the time before
		s, err := start(ctx, socket, p)
		if err != nil {
			return nil, err
		}
		defer s.child.Close()
		samples, err := samplesOf(ctx, d, r.ownClient(append([]string{"models-load"}, flagPairs("socket", socket, "protocol", protocol,
			"pid", s.child.PID(), "conns", int(p.x), "warm", d/4, "for", d-d/4)...)...))
		if p.metric == "both" {
			for i := range samples {
				samples[i].metric += bothSuffix
			}
		}
		return samples, err
	}}
}
