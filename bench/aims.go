package main

import (
	"slices"

	"github.com/capriccio-go/capriccio/bench/internal/report"
)

// aims are what the project wants to reach, by experiment: "bench report" holds the results against them.
var aims = map[string][]report.Aim{
	"primitives": slices.Concat(
		ratio("yield", "capriccio", "goroutine", 1, 2, 1000, 10000),
		ratio("yield", "capriccio", bareSystem, 1.15, 2, 1000, 10000),
		ratio("chan", "capriccio", "goroutine", 0.7, 2, 1000, 10000),
		ratio("cond", "capriccio", "goroutine", 0.7, 2, 1000, 10000),
		ratio("create-finish", "capriccio", "goroutine", 0.8, 1, 1000),
		ratio("mutex", "capriccio", "goroutine", 1, 1),
	),
	"producer-consumer": ratio("ops", "capriccio", "goroutine", 1.5, 1000),
	"pipes": slices.Concat(
		ratio("tokens", "capriccio", "goroutine", 1.6, 64, 256, 1024, 4096, 8192),
		ratio("tokens", "capriccio", "epoll-c", 0.9, 64, 256, 1024, 4096, 8192),
	),
	"parked": slices.Concat(
		limit("bytes-per-task", "capriccio", 3072, 100_000, 1_000_000),
		ratio("made-and-finished", "capriccio", "goroutine", 1.5, 100_000, 1_000_000),
	),
	"idle-conns": slices.Concat(
		limit("bytes-per-conn", "knot", 1024, 19_000),
		limit("bytes-per-conn", "knot-upgraded", 1536, 19_000),
		limit("bytes-per-conn", "capriccio-task", 3584, 19_000),
	),
	"hello": slices.Concat(
		ratio("cpu-per-request", "knot", "net-http", 0.5, 1),
		ratio("cpu-per-request", "knot", "fasthttp", 0.85, 1),
		ratio("cpu-per-request", "knot", "gnet", 1, 1, 16),
		ratio("user-cpu-per-request", "knot", "fasthttp", 0.85, 1),
		ratio("user-cpu-per-request", "knot", "gnet", 1, 1, 16),
		ratio("cpu-per-request", "knot-http", "net-http", 0.75, 1),
		ratio("cpu-per-request"+rateSuffix, "knot", "net-http", 1, 1000, 4000, 12_000),
		ratio("cpu-per-request"+rateSuffix, "knot-http", "net-http", 1, 1000, 4000, 12_000),
	),
	"files": slices.Concat(
		ratio("cpu-per-request", "knot", "nginx", 0.9, 0), ratio("cpu-per-request", "knot", "lighttpd", 0.95, 0),
		ratio("cpu-per-request", "knot", "nginx", 1, 1, 16, 100, 10<<10), ratio("cpu-per-request", "knot", "lighttpd", 1, 1, 16, 100, 10<<10),
	),
	"tls": slices.Concat(
		ratio("cpu-per-request", "knot", "nginx", 1.1, tlsKeptAlive), ratio("cpu-per-request", "knot", "nginx", 1.11, tlsHandshakes),
		limit("bytes-per-conn", "knot", 16<<10, tlsIdleConns),
	),
	"http2": ratio("rps", "knot-http", "net-http", 1.3, 1, 16),
	"proxy": ratio("cpu-per-request", "knot", "nginx", 0.9, 1),
	"native": slices.Concat(
		limit("p99-channel", "knot", 10, 1), limit("p99-sleep", "knot", 10, 1),
		limit("p99-cond", "knot", 10, 1), limit("p99-mutex", "knot", 10, 1),
		[]report.Aim{
			{Metric: "rps-many", System: "knot", X: 1, Over: "knot", OverX: 0, Limit: 0.95},
			{Metric: "rps-many", System: "knot-uring", X: 1, Over: "knot-uring", OverX: 0, Limit: 0.95},
		},
		ratio("lock-across-read", "capriccio", "goroutine", 1.5, 5000),
	),
	"disk-direct": slices.Concat(
		ratio("reads", "capriccio", "fio", 0.95, 1, 4, 16, 64, 256),
		ratio("reads", "capriccio", "goroutine", 1, 1, 4, 16), ratio("reads", "capriccio", "goroutine", 3, 64, 256),
	),
	"disk-cached":  ratio("reads", "capriccio", "goroutine", 1, 0, 1, 10, 100),
	"stack-cost":   slices.Concat(limit("room", "capriccio", 3, 1), limit("link-call-unlink", "capriccio", 90, 16<<10, 32<<10, 256<<10)),
	"bigstack":     limit("rss-mb", "capriccio", 400, 100_000),
	"deep-handler": slices.Concat(ratio("bytes-per-conn", "capriccio", "goroutine", 0.25, 19_000), ratio("ns-per-task", "capriccio", "goroutine", 0.5, 1)),
	"graph-overhead": slices.Concat(
		ratio("yield", "capriccio-sampled", bareSystem, 1.25, 2, 1000), ratio("yield", "capriccio-traced", bareSystem, 1.5, 2, 1000),
		ratio("rps", "knot-traced", "knot", 0.98, 1, 16),
		limit("bytes-per-node", "capriccio-traced", 2048, 1000), limit("bytes-per-edge", "capriccio-traced", 512, 1000),
		limit("dump", "capriccio-traced", 100, 1000), limit("stall", "capriccio-traced", 1000, 1000),
	),
	"gotrace": slices.Concat(
		limit("speed-channels", "gotrace", 25, 0), limit("speed-net-http", "gotrace", 25, 0),
		limit("events-channels", "gotrace", 4.5, 0), limit("events-net-http", "gotrace", 4.5, 0),
		limit("resident-share-channels", "gotrace", 100, 0), limit("resident-share-net-http", "gotrace", 100, 0),
		limit("shown-500k", "gotrace", 4, 0), limit("shown-after-100k", "gotrace", 4, 0),
	),
	"truth": slices.Concat(
		limit("count-error", "gotrace", 0.5, 10, 100, 1000), limit("wait-error", "gotrace", 0.5, 1000),
		limit("cpu-error", "gotrace", 3, 100), limit("cpu-error", "gotrace", 20, 10), limit("cpu-error", "capriccio", 10, 10, 100),
	),
	admissionName: slices.Concat(
		rows("goodput-share", 98, "cpu-200us-2x", "cpu-1ms-2x", "cpu-5ms-2x", "mix-2x", "lock-sleep-2x", "lock-cpu-2x",
			"waits-2x", "waits-early-2x", "waits-streams-2x"),
		rows("goodput-share", 90, "cpu-200us-10x", "cpu-1ms-10x", "cpu-5ms-10x", "mix-10x", "lock-sleep-10x", "lock-cpu-10x",
			"waits-1.2x", "waits-10x", "waits-early-1.2x", "waits-early-10x"),
		rows("p99-to-0.8x", 2, "cpu-200us-2x", "cpu-200us-10x", "cpu-1ms-2x", "cpu-1ms-10x", "cpu-5ms-2x", "cpu-5ms-10x", "mix-2x", "mix-10x",
			"lock-sleep-2x", "lock-sleep-10x", "lock-cpu-2x", "lock-cpu-10x"),
		rows("least-class-share", 98, "mix-2x"), rows("least-class-share", 90, "mix-10x"),
		rows("false-refused", 0.1, "cpu-200us-0.8x", "cpu-1ms-0.8x", "cpu-5ms-0.8x", "mix-0.8x", "lock-sleep-0.8x", "lock-cpu-0.8x"),
		rows("important-served", 99.9, "cpu-priority", "lock-priority"), rows("bystanders-served", 99.9, "two-locks"),
		rows("nine-served", 95, "ten-tenants"), rows("step-normal", 95, "step-1.4x"),
		rows("last-to-first", 98, "minute-2x"), rows("normal-after", 2, "backend-step"), rows("goodput-share", 80, "clients-16384"),
		rows("killed", 0, "holds-mixed-512m", "holds-20-200ms", "responses-256m", "pollers-hold-256m", "clients-16384", "memory-held-64m"),
	),
}

// limit is an aim for a system's value at some parameters.
func limit(metric, system string, bound float64, xs ...float64) []report.Aim {
	return ratio(metric, system, "", bound, xs...)
}

// ratio is an aim for a system's value divided by another's.
func ratio(metric, system, over string, bound float64, xs ...float64) []report.Aim {
	var all []report.Aim
	for _, x := range xs {
		all = append(all, report.Aim{Metric: metric, System: system, X: x, Over: over, OverX: x, Limit: bound})
	}
	return all
}

// rows is an aim for rows of the matrix, by name.
func rows(metric string, bound float64, names ...string) []report.Aim {
	var all []report.Aim
	for _, name := range names {
		all = append(all, report.Aim{Metric: metric, System: "capriccio", Row: name, Limit: bound})
	}
	return all
}
