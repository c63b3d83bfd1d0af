package main

import (
	"time"

	"github.com/capriccio-go/capriccio/bench/internal/report"
)

// runPipes is Figure 2 of the Capriccio paper: tokens are passed among pipes.
func runPipes(r *run) error {
	points := pointsAt("tokens", 4, 16, 64, 256, 1024, 4096, 8192, 16_384)
	contenders := append(r.goContenders(bareSystem), r.baselines("epoll-c")...)
	contenders = append(contenders, onServerCore("epoll-go", r.self, workerCommand, "epoll-go"))
	r.measure(points, contenders, time.Second)
	r.note("x is the pipes; tokens of %d bytes, a quarter as many as pipes and at most 128; a task for each pipe, on core %d", tokenBytes, serverCore)
	r.note("each token goes to a pipe drawn by lot: to the neighbour, tokens gather in bunches that need no waiting, at another pace in each system")
	r.note("epoll-go is epoll-c in Go, by raw system calls: what is between the two is not the tasks' doing")
	r.note("a pipe has two descriptors where they fit below the limit, otherwise one that reads and writes")
	r.charts = []report.Chart{
		{Title: "Tokens passed among pipes", Metric: "tokens", XLabel: "pipes"},
	}
	return nil
}
