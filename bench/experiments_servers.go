package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/capriccio-go/capriccio"
	"github.com/capriccio-go/capriccio/bench/internal/proc"
	"github.com/capriccio-go/capriccio/bench/internal/report"
)

// The experiments that load servers, ours and others, from the client core.

var helloExperiment = experiment{
	name: "hello",
	doc:  "small HTTP responses, plain and pipelined",
	parts: []part{{
		points: append(pointsAt("depth", 1, helloPipeline), append(pointsAt("conns", 1, 8),
			append(pointsAt(pausePoint, 1, 20), pointsAt(ratePoint, 1000, 4000, 12_000)...)...)...),
		servers: func(r *run) []launcher {
			knotOn := func(poller string) launcher {
				return r.own("knot-"+poller, []string{capriccio.EnvPoller + "=" + poller}, "knot")
			}
			return append(r.launchers(), knotOn("uring"), knotOn("epoll"), r.own(knotBare, nil, "knot", "-bare"))
		},
		sample:   (*run).loadSample,
		length:   time.Second,
		reserved: tracedBudget + userBudget,
		beside: func(r *run, servers []*server) error {
			return r.prepare(tracedBudget+userBudget, func() error { r.countSystemCalls(servers); r.sampleUserTime(servers); return nil })
		},
	}},
	notes: []string{
		"knot and net-http, fasthttp, nginx parse HTTP; gnet's handler only looks for the blank line and sends fixed bytes",
		knotBare + ": Knot without a blocking graph, first in, first out",
		fmt.Sprintf("knot-uring and knot-epoll: Knot with that poller (%s); knot: with the one it chooses", capriccio.EnvPoller),
		fmt.Sprintf("server on core %d, client on core %d; x is the pipelining depth on %d connections, and in metrics named *%s the connections, "+
			"in those named *%s the ms between a response and the next request of the only client, in those named *%s the requests a second of %d clients that ask by chance",
			serverCore, clientCore, helloConns, connsSuffix, pauseSuffix, rateSuffix, helloConns),
		fmt.Sprintf("user-cpu-per-request is what the program takes and not the kernel, of which all need about the same: by perf, %d looks a second", userRate),
		"server-busy is the server's share of its core: cpu-per-request and rps compare best where it is near 100",
	},
	charts: []report.Chart{
		{Title: "CPU time per request on the server", Metric: "cpu-per-request", XLabel: "pipelining depth", Bars: true},
		{Title: "Throughput, one core, 64 connections", Metric: "rps", XLabel: "pipelining depth", Bars: true},
		{Title: "99th percentile of latency", Metric: "p99", XLabel: "pipelining depth", Bars: true},
		{Title: "CPU time per request below the capacity, 64 connections", Metric: "cpu-per-request" + rateSuffix, XLabel: "requests/s", Bars: true},
		{Title: "Throughput by connections", Metric: "rps" + connsSuffix, XLabel: "connections", Bars: true},
	},
}

// idleConns fits below the usual hard limit of 20,000 descriptors a process.
const idleConns = 19_000

var idleConnsExperiment = experiment{
	name: "idle-conns",
	doc:  "process memory per idle keep-alive connection",
	parts: []part{{
		points: pointsAt("bytes-per-conn", idleConns),
		servers: func(r *run) []launcher {
			return append(r.launchers(), r.own("capriccio-task", nil, "task-server"), r.own("knot-upgraded", nil, "knot", "-upgraded"))
		},
		sample: (*run).idleSample,
		fresh:  1500 * time.Millisecond,
		length: 2 * time.Second,
	}},
	notes: []string{
		fmt.Sprintf("bytes-per-conn is what %d connections add to the process, divided by them; process-bytes is all it holds then (what nginx lays out for them at its start is in there only)", idleConns),
		"a connection of knot that waits for its next request has no task; one of capriccio-task has one that waits in Read, with a buffer of 256 bytes",
		"a connection of knot-upgraded was taken over by its handler, as for a WebSocket, and waits with OnReadable",
		"sockets live in the kernel and are not counted",
	},
	charts: []report.Chart{{Title: "Process memory per idle keep-alive connection", Metric: "bytes-per-conn", XLabel: "connections", Bars: true}},
}

var filesExperiment = experiment{
	name:    "files",
	doc:     "files of 1 KB to 10 MB that are in memory",
	prepare: func(r *run, _ *experiment) error { return r.prepare(0, r.writeServed) },
	parts: []part{{
		points:  append(append(pointsAt("mix", 0), pointsAt("file", 1, 16, 100, 10<<10)...), pointsAt(besidePoint, 10<<10)...),
		servers: func(r *run) []launcher { return r.fileServers("") },
		sample:  (*run).fetchSample,
		length:  2 * time.Second,
	}},
	notes: []string{
		fmt.Sprintf("*%s: %d clients ask for the file of 1 KB every %v while as many as above download the largest; throughput%[1]s is of these downloads, whose client has the lower priority", besideSuffix, besideConns, besidePause),
		fmt.Sprintf("x: KB of the file that all ask for; 0: one of %d of 0.6 to 32 KB; %d connections, 8 for the largest file; all in memory", mixFiles, helloConns),
		fmt.Sprintf("nginx: sendfile, tcp_nopush, open_file_cache; all others as they come; server on core %d, client on core %d", serverCore, clientCore),
		"congestion control: " + congestionControl() + "; bbr paces, and then the largest file costs up to three times as much, whenever it takes the connection for slow",
	},
	charts: []report.Chart{{Title: "CPU time of a server per request", Metric: "cpu-per-request", XLabel: "KB", Bars: true}},
}

func congestionControl() string {
	control, err := os.ReadFile("/proc/sys/net/ipv4/tcp_congestion_control")
	if err != nil {
		return "unknown"
	}
	return string(bytes.TrimSpace(control))
}

const (
	tlsKeptAlive  = 0
	tlsHandshakes = 1
	tlsIdleConns  = 1000
)

var tlsExperiment = experiment{
	name: "tls",
	doc:  "requests, handshakes and idle connections of TLS 1.3",
	prepare: func(r *run, _ *experiment) error {
		return r.prepare(0, func() error {
			if err := r.writeServed(); err != nil {
				return err
			}
			return writeKey(r.keyFile())
		})
	},
	parts: []part{{
		points:   append(pointsAt("kept-alive", tlsKeptAlive), pointsAt("handshakes", tlsHandshakes)...),
		servers:  func(r *run) []launcher { return r.fileServers(r.keyFile()) },
		sample:   (*run).tlsSample,
		length:   2 * time.Second,
		reserved: 12 * time.Second,
	}, {
		points:  pointsAt("bytes-per-conn", tlsIdleConns),
		servers: func(r *run) []launcher { return r.fileServers(r.keyFile()) },
		sample:  (*run).idleTLS,
		fresh:   3 * time.Second,
		length:  time.Second,
		once:    true,
	}},
	notes: []string{
		fmt.Sprintf("x: %d a file of 1 KB on 16 connections that are kept alive, %d on a new connection each time, without tickets (P-256, TLS 1.3); %d idle connections", tlsKeptAlive, tlsHandshakes, tlsIdleConns),
		fmt.Sprintf("the client is crypto/tls on core %d, and busier than most servers: compare cpu-per-request; it offers X25519 only, "+
			"as not every OpenSSL has X25519MLKEM768, which Go's servers would take", clientCore),
	},
	charts: []report.Chart{{Title: "CPU time of a server per request", Metric: "cpu-per-request", XLabel: "load", Bars: true}},
}

const http2Conns = 8

var http2Experiment = experiment{
	name: "http2",
	doc:  "small responses by HTTP/2",
	parts: []part{{
		points: pointsAt("streams", 1, 16),
		servers: func(r *run) []launcher {
			if _, err := r.find("h2load"); err != nil {
				r.skip("http2", err)
				return nil
			}
			found := append([]launcher{r.own("knot", nil, "knot"), r.own("knot-http", nil, "knot", "-http")}, r.peer("net-http")...)
			return append(found, r.nginx("nginx", nginxSite{listen: " http2", server: nginxHello}.config)...)
		},
		sample: (*run).http2Sample,
		length: 2 * time.Second,
	}},
	notes: []string{
		fmt.Sprintf("x: requests under way on each of %d connections of h2load; HTTP/2 without TLS (prior knowledge); server on core %d, client on core %d", http2Conns, serverCore, clientCore),
		"knot-http and net-http have the same handler of net/http",
	},
	charts: []report.Chart{{Title: "Requests", Metric: "rps", XLabel: "streams", Bars: true}, {Title: "CPU time per request", Metric: "cpu-per-request", XLabel: "streams", Bars: true}},
}

const (
	helloConns    = 64 // of the plain and the pipelined load
	helloPipeline = 16
	connsSuffix   = "-conns" // of metrics whose parameter is the connections
	pausePoint    = "pause"
	pauseSuffix   = "-paused" // of metrics whose parameter is how long the one client pauses, in ms
	ratePoint     = "rate"
	rateSuffix    = "-at-rate" // of metrics whose parameter is the requests a second
	besidePoint   = "beside"
	besideSuffix  = "-beside" // of metrics of small requests during large downloads
	besideConns   = 8
	besidePause   = 5 * time.Millisecond
)

func (r *run) startAll(launchers []launcher) (servers []*server) {
	for _, l := range launchers {
		if r.planning() {
			servers = append(servers, &server{system: l.system})
			continue
		}
		s, err := l.start(r.ctx, needs{})
		if err == nil {
			servers = append(servers, s)
		} else if r.ctx.Err() == nil {
			r.fail(l.system, l.system, err)
		}
	}
	if len(servers) == 0 && r.failed == nil {
		r.failed = errors.New("no server could be started")
	}
	return servers
}

func closeAll(servers []*server) {
	for _, s := range servers {
		s.close()
	}
}

// loadSample loads one server for a while from the client core.
func (r *run) loadSample(ctx context.Context, s *server, p point, d time.Duration) ([]sample, error) {
	conns, flags := helloConns, []any{"warm", d / 5, "for", d - d/5}
	switch p.metric {
	case "depth":
		flags = append(flags, "depth", p.x)
	case "conns":
		conns = int(p.x)
	case pausePoint:
		conns, flags = 1, append(flags, "pause", time.Duration(p.x)*time.Millisecond)
	case ratePoint:
		flags = append(flags, "rate", p.x)
	}
	samples, err := r.client(ctx, d, s, "load", append(flags, "conns", conns))
	return helloSamples(samples, p, conns), err
}

// easySuffixes are of the metrics of loads that are less than a server can do.
var easySuffixes = map[string]string{pausePoint: pauseSuffix, ratePoint: rateSuffix}

// helloSamples drops what is no result, and names the parameter: the depth, or
// in metrics of their own the connections. The plain load counts as both.
func helloSamples(samples []sample, p point, conns int) (kept []sample) {
	for _, one := range samples {
		if suffix, easy := easySuffixes[p.metric]; easy {
			if one.metric == "cpu-per-request" || one.metric == "p50" || one.metric == "p99" {
				kept = append(kept, sample{one.metric + suffix, one.unit, p.x, one.value})
			}
			continue
		}
		if one.metric == "requests" {
			continue
		}
		if p.metric == "depth" {
			kept = append(kept, one)
		}
		if p.metric == "conns" || p.x == 1 {
			kept = append(kept, sample{one.metric + connsSuffix, one.unit, float64(conns), one.value})
		}
	}
	return kept
}

func loadArgs(s *server, conns, depth int, warm, measured time.Duration) []string {
	return append([]string{"load"}, flagPairs("addr", s.addr, "conns", conns, "depth", depth, "warm", warm, "for", measured, "pid", s.child.PID())...)
}

// idleSample gives a fresh server idle connections and compares its memory, after letting it settle both times.
func (r *run) idleSample(ctx context.Context, s *server, p point, settle time.Duration) ([]sample, error) {
	// Memory that the first requests take is not counted for connections.
	if _, err := r.client(ctx, settle/4, s, "load", []any{"for", settle / 4}); err != nil {
		return nil, err
	}
	before, err := proc.Memory(s.child.PID())
	if err != nil {
		return nil, err
	}
	after, opened, err := r.holding(ctx, s, int(p.x), settle/2)
	if err != nil {
		return nil, err
	}
	return []sample{
		{"bytes-per-conn", "B", p.x, float64(after-before) / p.x},
		{"process-bytes", "B", p.x, float64(after)},
		{"open-and-request", "µs", p.x, float64(opened.Microseconds()) / p.x},
	}, nil
}

// holding has a worker hold connections to a server, and returns what the server's process holds, after letting it
// settle, and how long it took to open them.
func (r *run) holding(ctx context.Context, s *server, conns int, settle time.Duration, flags ...string) (bytes int64, opened time.Duration, err error) {
	opened, err = whileHeld(ctx, r.ownClient(append([]string{"hold", "-addr", s.addr, "-conns", strconv.Itoa(conns)}, flags...)...), func() (err error) {
		select {
		case <-time.After(settle):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		bytes, err = proc.Memory(s.child.PID())
		return err
	})
	return bytes, opened, err
}

// whileHeld runs f while a worker holds connections, and returns how long it took to open them.
func whileHeld(ctx context.Context, worker proc.Command, f func() error) (opened time.Duration, err error) {
	client, err := proc.Start(worker)
	if err != nil {
		return 0, err
	}
	defer client.Close()
	began := time.Now()
	opening, cancel := within(ctx, sampleTimeout)
	defer cancel()
	if line, err := client.Line(opening); err != nil || line != "holding" {
		return 0, fmt.Errorf("opening connections: %q, %w", line, err)
	}
	opened = time.Since(began)
	return opened, f()
}
