package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/google/pprof/profile"

	"github.com/capriccio-go/capriccio/bench/internal/load"
	"github.com/capriccio-go/capriccio/bench/internal/report"
)

// phases are the load of flow-adapt: rest, then up to a peak and down again, some times.
type phases struct {
	idle, ramp, peak time.Duration
	low, high        float64 // requests/s
	times            int
}

var (
	phasesFull  = phases{3 * time.Second, 1500 * time.Millisecond, 5 * time.Second, 20, 1000, 3}
	phasesQuick = phases{1500 * time.Millisecond, 500 * time.Millisecond, 2 * time.Second, 20, 1000, 2}
)

func (p phases) period() time.Duration { return p.idle + 2*p.ramp + p.peak }
func (p phases) length() time.Duration { return time.Duration(p.times)*p.period() + p.idle }

// rate is how many requests come per second after so long.
func (p phases) rate(t time.Duration) float64 {
	t %= p.period()
	up := func(share float64) float64 { return p.low + (p.high-p.low)*min(max(share, 0), 1) }
	if t < p.idle+p.ramp+p.peak {
		return up((t - p.idle).Seconds() / p.ramp.Seconds())
	}
	return up((p.period() - t).Seconds() / p.ramp.Seconds())
}

const (
	adaptDelay    = 20 * time.Millisecond // that a request of flow-adapt waits: at the peak 20 are waiting
	adaptPatience = 10 * time.Second
	adaptBytes    = 10_000 // of the page
)

// flowAdaptExperiment shows how the number of servlets follows the load.
var flowAdaptExperiment = experiment{
	name: "flow-adapt",
	doc:  "servlets of a flow graph under three peaks (Aspen, Figure 6)",
	prepare: func(r *run, e *experiment) error {
		shape := choose(r.quick, phasesQuick, phasesFull)
		path, err := r.buildCommand("examples/flowweb")
		if err != nil {
			return err
		}
		if !r.quick && r.asked == 0 {
			r.asked = quickRounds // of three peaks each
		}
		root := filepath.Join(r.scratch, "site")
		flags := map[string]string{"capriccio-flow": "-high=20", "flow-high-5": "-high=5", "flow-high-2": "-high=2", "flow-1024-fixed": "-servlets=1024"}
		if err := r.prepare(0, func() error { return writeAll(root, map[string][]byte{"page": make([]byte, adaptBytes)}) }); err != nil {
			return err
		}
		e.parts = []part{{
			points: pointsAt("", 0),
			once:   true,
			called: func(system string, _ point) string { return system },
			systems: func(r *run) []contender {
				return slower(shape.length()+time.Second, eachOf(func(system string) sampler {
					return func(context.Context, point, time.Duration) ([]sample, error) {
						return r.adapt(system, path, shape, "-root", root, "-delay", adaptDelay.String(), flags[system])
					}
				}, "capriccio-flow", "flow-high-5", "flow-high-2", "flow-1024-fixed"))
			},
		}}
		e.notes = []string{
			fmt.Sprintf("examples/flowweb; each request waits %v; Poisson arrivals, %v to %v a second: %d times %v at rest, %v up, %v peak, %v down",
				adaptDelay, shape.low, shape.high, shape.times, shape.idle, shape.ramp, shape.peak, shape.ramp),
			"capriccio-flow: HIGH = 20, as in the paper; flow-1024-fixed: always 1,024 servlets, no adaptation: what adaptation has to be worth",
		}
		return nil
	},
	charts: []report.Chart{
		{Title: "Servlets", Metric: "servlets", XLabel: "s"},
		{Title: "Bandwidth delivered", Metric: "bandwidth", XLabel: "s"},
	},
	details: []string{"servlets", "bandwidth"},
}

// load is what clients do in these phases, whose rates change every step.
func (p phases) load() (all []load.Phase) {
	const step = 50 * time.Millisecond
	for at := time.Duration(0); at < p.length(); at += step {
		all = append(all, load.Phase{For: step, Rates: []float64{p.rate(at + step/2)}})
	}
	return all
}

// adapt runs one server under the phases.
func (r *run) adapt(system, path string, shape phases, args ...string) ([]sample, error) {
	s, err := startServer(r.ctx, system, path, append(args, "-addr", "127.0.0.1:0", "-stats", servedTime.String())...)
	if err != nil {
		return nil, err
	}
	defer s.child.Close()
	var samples []sample
	most, sum, changes, last, n := 0.0, 0.0, 0.0, 0.0, 0.0
	seen, err := r.runLoad(r.ctx, clientSpec{Within: latencyTarget, Open: &load.OpenConfig{
		Target: s.target(s.child.PID()), Requests: [][]byte{[]byte("GET /page HTTP/1.1\r\nHost: bench\r\n\r\n")},
		Phases: shape.load(), Patience: adaptPatience, Drain: adaptPatience, Conns: 2000, Seed: 1,
	}}, shape.length(), func(ctx context.Context, ended <-chan struct{}) error {
		for {
			line, err := s.child.Line(ctx)
			if err != nil {
				return err
			}
			var at, servlets, handled float64
			if _, err := fmt.Sscan(line, &at, &servlets, &handled); err != nil {
				return fmt.Errorf("%q: %w", line, err)
			}
			samples = append(samples, sample{"servlets", "1", math.Round(at*4) / 4, servlets})
			if n > 0 {
				changes += math.Abs(servlets - last)
			}
			last, most, sum, n = servlets, max(most, servlets), sum+servlets, n+1
			select {
			case <-ended:
				return nil
			default:
			}
		}
	})
	if err != nil {
		return nil, err
	}
	all := seen.All
	if all.Served == 0 || all.Served < all.Due {
		return nil, fmt.Errorf("%d of %d requests were served", all.Served, all.Due)
	}
	for i, served := range seen.Served {
		samples = append(samples, sample{"bandwidth", "Mbit/s", float64(i) * servedTime.Seconds(), float64(served*adaptBytes) * 8 / 1e6 / servedTime.Seconds()})
	}
	return append(samples, sample{"p50", "ms", 0, milliseconds(all.P50)}, sample{"p99", "ms", 0, milliseconds(all.P99)},
		sample{"longest", "ms", 0, milliseconds(seen.Longest)}, sample{"cpu-per-request", "µs", 0, seen.Usage.Server.Seconds() * 1e6 / float64(all.Served)},
		sample{"servlets-most", "1", 0, most}, sample{"servlets-mean", "1", 0, sum / n}, sample{"changes", "1/min", 0, changes / (n * servedTime.Minutes())}), nil
}

// overheads are the parts of package flow that Table 1 has, by the functions that they are.
var overheads = []struct{ metric, function string }{
	{"statistics", ".(*sizer)."},
	{"enqueue", ".put"},
	{"dequeue", ".take"},
	{"per-flow", "flow.(*Vars["},
	{"give-back", ".done"},
}

// The files and clients of flow-overhead.
const flowFolders, flowClients = 20, 256

// flowOverheadExperiment measures which share of the processor's time a flow graph takes for itself.
var flowOverheadExperiment = experiment{
	name: "flow-overhead",
	doc:  "the cost of a flow graph beside its modules (Aspen, Table 1)",
	prepare: func(r *run, e *experiment) error {
		path, err := r.buildCommand("examples/flowweb")
		if err != nil {
			return err
		}
		tree, root := newWebTree(flowFolders), filepath.Join(r.scratch, "tree")
		length := choose(r.quick, 4*time.Second, 10*time.Second)
		if err := r.prepare(writing(tree.bytes()), func() error { return tree.write(r.ctx, root) }); err != nil {
			return err
		}
		e.parts = []part{{
			points: pointsAt("", 0),
			called: func(string, point) string { return "" },
			systems: func(r *run) []contender {
				return slower(length*11/10+time.Second, eachOf(func(string) sampler {
					return func(context.Context, point, time.Duration) ([]sample, error) {
						return r.flowProfile(path, root, length)
					}
				}, "capriccio-flow"))
			},
		}}
		e.notes = []string{
			fmt.Sprintf("shares of the CPU time of examples/flowweb, %d clients, %d MB of SPECweb99-like files in memory; the paper: statistics 2.74 %%, enqueue 2.49 %%, dequeue 1.74 %%, per-flow 1.10 %%, all below 9 %%",
				flowClients, tree.bytes()/1e6),
			"enqueue and dequeue include waits for the queue's lock and choosing what runs next; give-back: the end of a call of Run, statistics included",
		}
		return nil
	},
	charts: []report.Chart{{Title: "Share of CPU time", Metric: "all", Bars: true}},
}

// flowProfile profiles a flow graph that serves the files below root while a client asks for them.
func (r *run) flowProfile(path, root string, length time.Duration) ([]sample, error) {
	file := filepath.Join(r.scratch, "profile")
	s, err := startServer(r.ctx, "capriccio-flow", path, "-addr", "127.0.0.1:0", "-root", root, "-cpuprofile", file)
	if err != nil {
		return nil, err
	}
	defer s.close()
	_, err = r.client(r.ctx, 2*length, s, "fetch", []any{"conns", flowClients, "folders", flowFolders, "warm", length / 10, "for", length})
	s.child.Signal(syscall.SIGINT)
	select {
	case <-s.child.Ended():
	case <-time.After(sampleTimeout):
		err = errors.Join(err, errors.New("the server did not end"))
	}
	if err != nil {
		return nil, err
	}
	data, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer data.Close()
	p, err := profile.Parse(data)
	if err != nil {
		return nil, err
	}
	return flowShares(p), nil
}

// flowShares are the shares of the parts of package flow in a CPU profile, in percent. A sample
// counts for the innermost of them.
func flowShares(p *profile.Profile) []sample {
	of, total := map[string]int64{}, int64(0)
	for _, s := range p.Sample {
		value := s.Value[len(s.Value)-1]
		total += value
	frames:
		for _, location := range s.Location {
			for _, line := range location.Line {
				for _, o := range overheads {
					name := line.Function.Name
					if strings.Contains(name, o.function) && strings.Contains(name, "/flow.") {
						of[o.metric] += value
						of["all"] += value
						break frames
					}
				}
			}
		}
	}
	var shares []sample
	for _, metric := range []string{"statistics", "enqueue", "dequeue", "per-flow", "give-back", "all"} {
		shares = append(shares, sample{metric, "%", 0, 100 * float64(of[metric]) / float64(max(total, 1))})
	}
	return shares
}
