package main

import "github.com/capriccio-go/capriccio/bench/internal/report"

// published are the figures of the papers that our experiments can be held against, by experiment.
var published = map[string][]report.Claim{
	"primitives": {
		{What: "a switch ÷ one of pthreads (NPTL)", Source: "Capriccio, Table 1", Metric: "yield", System: "capriccio", X: 2, Over: "pthread", OverX: 2, Published: 0.86},
		{What: "creating a thread ÷ one of pthreads", Source: "Capriccio, Table 1", Metric: "create-finish", System: "capriccio", X: 1, Over: "pthread", OverX: 1, Published: 1.21},
	},
	"disk-cached": {
		{What: "reads with nothing missed ÷ pthreads", Source: "Capriccio, Figure 4", Metric: "reads", System: "capriccio", X: 0, Over: "pthread", OverX: 0, Published: 0.5},
	},
	"graph-overhead": {
		{What: "a switch with statistics and stack traces ÷ one without", Source: "Capriccio, Table 1", Metric: "yield", System: "capriccio-traced", X: 2, Over: bareSystem, OverX: 2, Published: 2.33},
		{What: "cycles of a stack trace at an edge", Source: "Capriccio, Table 2", Metric: "edge-cycles", System: "capriccio-observed", X: 1, Published: 2447},
	},
	"web": {
		{What: "an unmodified server on this runtime ÷ on threads", Source: "Capriccio, Figure 9", Metric: "throughput", System: "knot-net-http", X: 1024, Over: "net-http", OverX: 1024, Published: 1.15},
	},
	"cohort-pubsub": {
		{What: "events with cohorts ÷ threads", Source: "Cohort, 5.2", Metric: "events", System: "capriccio", X: 0, Over: "goroutine", OverX: 0, Published: 1.21},
		{What: "response time for 16 clients ÷ threads", Source: "Cohort, Figure 8", Metric: "response", System: "capriccio", X: 16, Over: "goroutine", OverX: 16, Published: 0.82},
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
	},
	"models": {
		{What: "SYMPED ÷ SEDA-S, the next best, on all cores", Source: "Voras and Žagar, Figure 7", Metric: "transactions-both", System: "symped-2", X: 100, Over: "seda-s-2", OverX: 100, Published: 1.54},
	},
	"flow-overhead": {
		{What: "share of the processor's time", Source: "Aspen, Table 1", Metric: "all", System: "capriccio-flow", Published: 9},
	},
	"vod": {
		{What: "players ÷ a thread each, 1 Mbit/s, one disk", Source: "Aspen, Figure 10", Metric: "clients", System: "capriccio-flow", X: 1, Over: "goroutine", OverX: 1, Published: 1},
	},
}
