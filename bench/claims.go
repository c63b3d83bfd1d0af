package main

import "github.com/capriccio-go/capriccio/bench/internal/report"

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
