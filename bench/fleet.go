package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"syscall"
	"time"

	"github.com/capriccio-go/capriccio/bench/internal/proc"
	"github.com/capriccio-go/capriccio/bench/internal/report"
)

// fleetExperiment loads eight servers through balancers: one server is slow, one has a noisy neighbour, one stalls.
var fleetExperiment = experiment{
	name: "fleet",
	doc:  "eight servers, one slow, one with a noisy neighbour, one that stalls, behind 1 and 32 balancers",
	prepare: func(r *run, e *experiment) error {
		if r.asked == 0 {
			r.asked = 1
		}
		t := choose(r.quick, fleetTimes{warm: 5 * time.Second, span: 5 * time.Second, stallEvery: 5 * time.Second, stalls: 500 * time.Millisecond},
			fleetTimes{warm: 5 * time.Second, span: 20 * time.Second, stallEvery: 20 * time.Second, stalls: 2 * time.Second})
		e.parts = []part{{
			points:  pointsAt("load", choose(r.quick, []float64{0.8, 3}, []float64{0.5, 0.8, 1, 1.5, 3})...),
			systems: func(r *run) []contender { return r.fleets(sleepingServers, t, fronts) },
			called:  func(system string, p point) string { return fmt.Sprintf("%s %v", system, p) },
		}}
		return nil
	},
	notes: []string{
		fmt.Sprintf("eight Knot servers, each a process; a request keeps one of %d workers of a server for %v on average, above the capacity for %v, exponentially distributed, without processor time: so eight servers and what is asked of them fit on two cores", fleetWorkers, fleetService(1), fleetService(3)),
		fmt.Sprintf("server 1 takes twice as long; server 2 has a noisy neighbour: half of the time, in pieces of %v to %v, it takes %d times as long; server 3 is stopped (SIGSTOP) for 2 s every 20 s, in a quick run for 0.5 s every 5 s", noiseLeast, noiseMost, noiseSlows),
		fmt.Sprintf("x: users a second, in parts of what all workers together can serve in a second, %.0f, above the capacity %.0f; users come by chance, wait %v, and ask up to %d times more, after %v and twice as long each time, half as much more or less", fleetCapacity(1), fleetCapacity(3), fleetPatience, fleetRetries, fleetPause),
		"NAME-32: 32 balancers that know nothing of each other; each attempt takes a random one: proxies of one process, each with its own listener and its own state; NAME-1: one",
		"goodput: answers of servers that reached a user who still waited; goodput-share: in parts of what is asked for or of the capacity, whichever is less; p50, p99: of these, from when the user came until the answer, with all attempts and pauses; attempts: of a user; refused: attempts with 503",
		"grpc: 32 clients of grpc-go with round_robin and weighted_round_robin (by load reports with each response: requests a second, and how busy the workers are; blackoutPeriod 2 s, else as it comes); each takes plain requests and asks a server over HTTP/2 without TLS",
		"nginx: least_conn; haproxy: leastconn; both as they come otherwise, with connections kept alive",
		fmt.Sprintf("servers and balancers on core %d, users on core %d", serverCore, clientCore),
	},
	charts: []report.Chart{
		{Title: "99th percentile", Metric: "p99", XLabel: "× capacity", LogY: true},
		{Title: "Users answered, in parts of the capacity", Metric: "goodput-share", XLabel: "× capacity"},
		{Title: "Median", Metric: "p50", XLabel: "× capacity", LogY: true},
	},
}

const (
	fleetServers = 8
	fleetWorkers = 4
	slowServer   = 0 // takes twice as long
	noisyServer  = 1
	stallServer  = 2
	slowTimes    = 2
	stallsShare  = 0.1 // of the time
	manyFronts   = 32
)

// fleetService is how long a request takes on average. Above the capacity there are four attempts of a user, and fewer users,
// so that neither they nor the balancers lack processors.
func fleetService(x float64) time.Duration {
	return choose(x > 1, 100*time.Millisecond, 20*time.Millisecond)
}

// fleetCapacity is how many requests a second all workers together can serve.
func fleetCapacity(x float64) float64 {
	servers := fleetServers - 3 + 1.0/slowTimes + (1+1.0/noiseSlows)/2 + 1 - stallsShare
	return servers * fleetWorkers / fleetService(x).Seconds()
}

// A fleetKind is a kind of servers.
type fleetKind struct {
	start    func(r *run, ctx context.Context, i int, x float64) (*server, error)
	capacity func(x float64) float64 // requests a second of all
}

var sleepingServers = fleetKind{
	start: func(r *run, ctx context.Context, i int, x float64) (*server, error) {
		flags := flagPairs("service", fleetService(x), "workers", fleetWorkers, "slow", choose(i == slowServer, slowTimes, 1), "noisy", i == noisyServer, "seed", i+1)
		return startServer(ctx, fmt.Sprint("server ", i+1), r.self, append([]string{workerCommand, "fleet-server"}, flags...)...)
	},
	capacity: fleetCapacity,
}

type fleetTimes struct{ warm, span, stallEvery, stalls time.Duration }

// A front starts n balancers before servers, by the program that find returns; it returns the process and their addresses.
type front struct {
	name  string
	find  func(r *run) (program string, err error)
	start func(r *run, ctx context.Context, program string, n int, servers []string) (*server, error)
}

func (f *front) ours() bool { return strings.HasPrefix(f.name, "knot") }

var fronts = []front{
	{"knot-prequal", (*run).itself, knotFront("prequal")},
	{"knot-least", (*run).itself, knotFront("least")},
	{"nginx", func(r *run) (string, error) { return r.find("nginx") }, nginxFront},
	{"haproxy", func(r *run) (string, error) { return r.find("haproxy") }, haproxyFront},
	{"grpc-round-robin", (*run).grpcBalancers, grpcFront(`{"round_robin": {}}`)},
	// By default gRPC goes by no weights for the first 10 s.
	{"grpc-weighted", (*run).grpcBalancers, grpcFront(`{"weighted_round_robin": {"blackoutPeriod": "2s"}}`)},
}

func (r *run) itself() (string, error)        { return r.self, nil }
func (r *run) grpcBalancers() (string, error) { return r.buildPeer("grpc-balancers") }

// fleets are many balancers of each make; of ours also one.
func (r *run) fleets(k fleetKind, t fleetTimes, fronts []front) (all []contender) {
	for _, f := range fronts {
		program, err := f.find(r)
		if err != nil {
			r.skip(f.name, err)
			continue
		}
		for _, n := range choose(r.quick || !f.ours(), []int{manyFronts}, []int{manyFronts, 1}) {
			all = append(all, contender{system: fmt.Sprintf("%s-%d", f.name, n),
				sample: func(ctx context.Context, p point, _ time.Duration) ([]sample, error) {
					return r.fleetSample(ctx, k, f, program, n, p.x, t)
				},
				takes: func(point, time.Duration) time.Duration { return t.warm + t.span + 2*time.Second }})
		}
	}
	return all
}

// fleetSample starts a fleet and loads it.
func (r *run) fleetSample(ctx context.Context, k fleetKind, f front, program string, n int, x float64, t fleetTimes) (samples []sample, err error) {
	var servers []*server
	defer func() { closeAll(servers) }()
	var addrs []string
	for i := range fleetServers {
		s, err := k.start(r, ctx, i, x)
		if err != nil {
			return nil, err
		}
		servers, addrs = append(servers, s), append(addrs, s.addr)
	}
	b, err := f.start(r, ctx, program, n, addrs)
	if err != nil {
		return nil, err
	}
	servers = append(servers, b)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	stalled := make(chan struct{})
	go func() {
		defer close(stalled)
		if t.stalls == 0 {
			return
		}
		stall(ctx, servers[stallServer].child, t)
	}()
	defer func() {
		for _, s := range samples {
			if s.metric == "goodput" {
				samples = append(samples, sample{"goodput-share", "%", x, 100 * s.value / (min(x, 1) * k.capacity(x))})
			}
		}
	}()
	samples, err = samplesOf(ctx, t.warm+t.span, r.ownClient(append([]string{"fleet-users"}, flagPairs(
		"addrs", b.addr, "rate", x*k.capacity(x), "warm", t.warm, "for", t.span, "x", x, "seed", r.round+1)...)...))
	stop()
	<-stalled
	return samples, err
}

// stall stops a process for a while, again and again; the first time when users are counted.
func stall(ctx context.Context, c *proc.Child, t fleetTimes) {
	wait := func(d time.Duration) bool {
		select {
		case <-time.After(d):
			return true
		case <-ctx.Done():
			return false
		}
	}
	for next := t.warm + t.stallEvery/4; wait(next); next = t.stallEvery - t.stalls {
		c.Signal(syscall.SIGSTOP)
		on := wait(t.stalls)
		c.Signal(syscall.SIGCONT)
		if !on {
			return
		}
	}
}

// knotFront is Knot's proxy with that balance.
func knotFront(balance string) func(*run, context.Context, string, int, []string) (*server, error) {
	return func(_ *run, ctx context.Context, program string, n int, servers []string) (*server, error) {
		return startServer(ctx, "knot-"+balance, program, append([]string{workerCommand, "fleet-balancers"}, flagPairs("n", n, "balance", balance, "servers", strings.Join(servers, ","))...)...)
	}
}

// grpcFront are clients of gRPC with that load balancing configuration.
func grpcFront(balancing string) func(*run, context.Context, string, int, []string) (*server, error) {
	return func(_ *run, ctx context.Context, program string, n int, servers []string) (*server, error) {
		return startServer(ctx, "grpc-go", program, flagPairs("n", n, "config", `{"loadBalancingConfig": [`+balancing+`]}`, "servers", strings.Join(servers, ","), "patience", fleetPatience)...)
	}
}

// nginxFront is one process of nginx, with an upstream of its own for each balancer.
func nginxFront(r *run, ctx context.Context, program string, n int, servers []string) (*server, error) {
	return r.configuredFront(ctx, configured{system: "nginx", path: program,
		args: func(dir, config string) []string { return []string{"-p", dir, "-e", "stderr", "-c", config} }},
		n, func(dir string, addrs []string) string {
			var b strings.Builder
			fmt.Fprintf(&b, nginxHead, dir, "")
			b.WriteString("\terror_log stderr crit;\n")
			for i, addr := range addrs {
				fmt.Fprintf(&b, "\tupstream u%d { least_conn; keepalive 64; server %s; }\n", i, strings.Join(servers, "; server "))
				fmt.Fprintf(&b, "\tserver { listen %s; location / { proxy_pass http://u%d; proxy_http_version 1.1; proxy_set_header Connection \"\"; } }\n", addr, i)
			}
			return b.String() + "}\n"
		})
}

// haproxyFront is one thread of HAProxy, with a backend of its own for each balancer.
func haproxyFront(r *run, ctx context.Context, program string, n int, servers []string) (*server, error) {
	return r.configuredFront(ctx, configured{system: "haproxy", path: program,
		args: func(_, config string) []string { return []string{"-db", "-f", config} }},
		n, func(_ string, addrs []string) string {
			var b strings.Builder
			b.WriteString("global\n\tnbthread 1\n\tmaxconn 8000\ndefaults\n\tmode http\n\ttimeout connect 5s\n\ttimeout client 60s\n\ttimeout server 60s\n\toption abortonclose\n")
			for i, addr := range addrs {
				fmt.Fprintf(&b, "listen l%d\n\tbind %s\n\tbalance leastconn\n", i, addr)
				for j, s := range servers {
					fmt.Fprintf(&b, "\tserver s%d %s\n", j, s)
				}
			}
			return b.String()
		})
}

// configuredFront starts a program that reads a file, with n addresses of its own.
func (r *run) configuredFront(ctx context.Context, c configured, n int, configure func(dir string, addrs []string) string) (*server, error) {
	var addrs []string
	var all []io.Closer
	for range n - 1 {
		addr, reserved, err := reserveAddress()
		if err != nil {
			return nil, err
		}
		addrs = append(addrs, addr)
		all = append(all, reserved)
	}
	c.configure = func(dir, addr string) string {
		for _, r := range all {
			r.Close()
		}
		addrs = append(addrs, addr)
		return configure(dir, addrs)
	}
	s, err := startConfigured(ctx, needs{}, c, r.scratch)
	if err != nil {
		return nil, err
	}
	s.addr = strings.Join(addrs, ",")
	return s, nil
}
