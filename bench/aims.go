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
		ratio("p99"+besideSuffix, "knot", "nginx", 1.05, 10<<10),
	),
	"tls": slices.Concat(
		ratio("cpu-per-request", "knot", "nginx", 1.1, tlsKeptAlive), ratio("cpu-per-request", "knot", "nginx", 1.11, tlsHandshakes),
		limit("bytes-per-conn", "knot", 16<<10, tlsIdleConns),
	),
	"http2":       ratio("rps", "knot-http", "net-http", 1.3, 1, 16),
	"http3":       slices.Concat(ratio("cpu-per-request", "knot", "caddy", 1.5, 1, 100), ratio("cpu-per-request", "knot", "quic-go", 1.1, 1, 100)),
	"proxy":       ratio("cpu-per-request", "knot", "nginx", 0.9, 1),
	"proxy-cache": ratio("cpu-per-request", "knot", "nginx", 0.9, 1, 16, 100),
	"fleet": slices.Concat(
		ratio("p99", "knot-prequal-32", "knot-least-32", 0.5, 0.8), ratio("p99", "knot-prequal-1", "knot-least-1", 1, 0.8),
		limit("goodput-share", "knot-prequal-32", 90, 3), limit("goodput-share", "knot-prequal-1", 90, 3), limit("goodput-share", "knot-least-32", 90, 3),
	),
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

func limit(metric, system string, bound float64, xs ...float64) []report.Aim {
	return ratio(metric, system, "", bound, xs...)
}

func ratio(metric, system, over string, bound float64, xs ...float64) []report.Aim {
	var all []report.Aim
	for _, x := range xs {
		all = append(all, report.Aim{Metric: metric, System: system, X: x, Over: over, OverX: x, Limit: bound})
	}
	return all
}

func rows(metric string, bound float64, names ...string) []report.Aim {
	var all []report.Aim
	for _, name := range names {
		all = append(all, report.Aim{Metric: metric, System: "capriccio", Row: name, Limit: bound})
	}
	return all
}

// published are the figures of the papers that our experiments can be held against, by experiment.
var published = map[string][]report.Claim{
	"primitives": {
		{What: "a switch ÷ one of pthreads (NPTL)", Source: "Capriccio, Table 1", Metric: "yield", System: "capriccio", X: 2, Over: "pthread", OverX: 2, Published: 0.86},
		{What: "creating a thread ÷ one of pthreads", Source: "Capriccio, Table 1", Metric: "create-finish", System: "capriccio", X: 1, Over: "pthread", OverX: 1, Published: 1.21},
		{What: "an uncontended mutex ÷ one of pthreads", Source: "Capriccio, 2.4", Metric: "mutex", System: "capriccio", X: 1, Over: "pthread", OverX: 1, Published: 0.25},
	},
	"pipes": {
		{What: "tokens ÷ epoll in C, more than 256 pipes", Source: "Capriccio, Figure 2", Metric: "tokens", System: "capriccio", X: 1024, Over: "epoll-c", OverX: 1024, Published: 0.9},
		{What: "tokens ÷ threads (here goroutines), more than 1,000 pipes: at least", Source: "Capriccio, Figure 2", Metric: "tokens", System: "capriccio", X: 4096, Over: "goroutine", OverX: 4096, Published: 2},
	},
	"bigstack": {
		{What: "time of 800 tasks with shared ÷ own stacks", Source: "Capriccio, 3.5", Metric: "seconds", System: "capriccio", X: 800, Over: "goroutine", OverX: 800, Published: 0.31},
	},
	"disk-direct": {
		{What: "reads by 64 readers ÷ kernel threads", Source: "Capriccio, Figure 3", Metric: "reads", System: "capriccio", X: 64, Over: "pthread", OverX: 64, Published: 1},
		{What: "reads by 256 readers ÷ by 64: levels off at 100", Source: "Capriccio, Figure 3", Metric: "reads", System: "capriccio", X: 256, Over: "capriccio", OverX: 64, Published: 1},
	},
	"disk-cached": {
		{What: "reads with nothing missed ÷ pthreads", Source: "Capriccio, Figure 4", Metric: "reads", System: "capriccio", X: 0, Over: "pthread", OverX: 0, Published: 0.5},
		{What: "reads of which all miss ÷ pthreads", Source: "Capriccio, Figure 4", Metric: "reads", System: "capriccio", X: 100, Over: "pthread", OverX: 100, Published: 1},
	},
	"graph-overhead": {
		{What: "a switch with statistics and stack traces ÷ one without", Source: "Capriccio, Table 1", Metric: "yield", System: "capriccio-traced", X: 2, Over: bareSystem, OverX: 2, Published: 2.33},
		{What: "cycles of a stack trace at an edge", Source: "Capriccio, Table 2", Metric: "edge-cycles", System: "capriccio-counted", X: 1, Published: 2447},
		{What: "cycles of stack trace and statistics at an edge", Source: "Capriccio, Table 2", Metric: "edge-cycles", System: "capriccio-traced", X: 1, Published: 3120},
	},
	"web": {
		{What: "an unmodified server on this runtime ÷ on threads", Source: "Capriccio, Figure 9", Metric: "throughput", System: "knot-net-http", X: 1024, Over: "net-http", OverX: 1024, Published: 1.15},
		{What: "Knot ÷ a server of events (Haboob; here nginx)", Source: "Capriccio, Figure 9", Metric: "throughput", System: "knot", X: 1024, Over: "nginx", OverX: 1024, Published: 1},
		{What: "a server of flows ÷ the next best (AMPED; here nginx with aio threads)", Source: "Aspen, Figure 8", Metric: "throughput", System: "capriccio-flow", X: 1024, Over: "nginx", OverX: 1024, Published: 1.09},
	},
	"cohort-pubsub": {
		{What: "events with cohorts ÷ threads", Source: "Cohort, 5.2", Metric: "events", System: "capriccio", X: 0, Over: "goroutine", OverX: 0, Published: 1.21},
		{What: "response time for 16 clients ÷ threads", Source: "Cohort, Figure 8", Metric: "response", System: "capriccio", X: 16, Over: "goroutine", OverX: 16, Published: 0.82},
		{What: "response time for 4 clients ÷ threads", Source: "Cohort, Figure 8", Metric: "response", System: "capriccio", X: 4, Over: "goroutine", OverX: 4, Published: 0.93},
		{What: "the same for 16 clients without partitions", Source: "Cohort, 5.2", Metric: "response", System: "capriccio-one-stage", X: 16, Over: "goroutine", OverX: 16, Published: 1},
		{What: "events in cohorts of at most 4 ÷ unlimited", Source: "Cohort, 5.2", Metric: "events", System: "capriccio", X: 4, Over: "capriccio", Published: 0.79},
		{What: "events in cohorts of at most 10 ÷ unlimited", Source: "Cohort, 5.2", Metric: "events", System: "capriccio", X: 10, Over: "capriccio", Published: 0.83},
		{What: "events in cohorts of at most 20 ÷ unlimited", Source: "Cohort, 5.2", Metric: "events", System: "capriccio", X: 20, Over: "capriccio", Published: 0.91},
		{What: "misses of the second cache (here of a model) ÷ threads", Source: "Cohort, 5.2", Metric: "model-l2", System: "capriccio", Over: "goroutine", Published: 0.45},
	},
	"cohort-writes": {
		{What: "a write in a cohort of 8 ÷ one alone", Source: "Cohort, Figure 2", Metric: "per-write", System: "uring-batch", X: 8, Over: "uring-batch", OverX: 1, Published: 0.32},
		{What: "a write in a cohort of 64 ÷ one alone", Source: "Cohort, Figure 2", Metric: "per-write", System: "uring-batch", X: 64, Over: "uring-batch", OverX: 1, Published: 0.18},
	},
	"web-surge": {
		{What: "pages/s of stages ÷ threads, light load", Source: "Cohort, Figure 6", Metric: "rps", System: "knot-cohorts", X: 50, Over: "net-http-256", OverX: 50, Published: 0.94},
		{What: "pages/s of stages ÷ threads, heavy load", Source: "Cohort, Figure 6", Metric: "rps", System: "knot-cohorts", X: 4000, Over: "net-http-256", OverX: 4000, Published: 1.13},
		{What: "mean latency, heavy ÷ light load, stages", Source: "Cohort, Figure 6", Metric: "mean", System: "knot-cohorts", X: 4000, Over: "knot-cohorts", OverX: 50, Published: 2.3},
		{What: "mean latency, heavy ÷ light load, threads", Source: "Cohort, Figure 6", Metric: "mean", System: "net-http-256", X: 4000, Over: "net-http-256", OverX: 50, Published: 45},
		{What: "mean latency of stages ÷ threads, light load", Source: "Cohort, Figure 6", Metric: "mean", System: "knot-cohorts", X: 50, Over: "net-http-256", OverX: 50, Published: 20},
	},
	"models": {
		{What: "SYMPED ÷ SEDA-S, the next best, on all cores", Source: "Voras and Žagar, Figure 7", Metric: "transactions-both", System: "symped-2", X: 60, Over: "seda-s-2", OverX: 60, Published: 1.54},
		{What: "SPED ÷ SEDA with 2 and 4 threads, on all cores", Source: "Voras and Žagar, Figure 7", Metric: "transactions-both", System: "sped", X: 60, Over: "seda-2-4", OverX: 60, Published: 1},
		{What: "SYMPED ÷ memcached, unix sockets", Source: "Voras, ivoras.net, 2011", Metric: "transactions-both", System: "symped-2", X: 60, Over: "memcached", OverX: 60, Published: 1.17},
	},
	"flow-overhead": {
		{What: "share of the processor's time", Source: "Aspen, Table 1", Metric: "all", System: "capriccio-flow", Published: 9},
		{What: "% in statistics of service times", Source: "Aspen, Table 1", Metric: "statistics", System: "capriccio-flow", Published: 2.7441},
		{What: "% in enqueue", Source: "Aspen, Table 1", Metric: "enqueue", System: "capriccio-flow", Published: 2.4875},
		{What: "% in dequeue", Source: "Aspen, Table 1", Metric: "dequeue", System: "capriccio-flow", Published: 1.7408},
		{What: "% in variables of a flow", Source: "Aspen, Table 1", Metric: "per-flow", System: "capriccio-flow", Published: 1.1027},
	},
	"vod": {
		{What: "players ÷ a thread each, 1 Mbit/s, one disk", Source: "Aspen, Figure 10", Metric: "clients", System: "capriccio-flow", X: 1, Over: "goroutine", OverX: 1, Published: 1},
		{What: "players ÷ a thread each, 6 Mbit/s, one disk: within 10 %", Source: "Aspen, Figure 11", Metric: "clients", System: "capriccio-flow", X: 6, Over: "goroutine", OverX: 6, Published: 1},
	},
}
