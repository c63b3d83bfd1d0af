package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/capriccio-go/capriccio/bench/internal/proc"
	"github.com/capriccio-go/capriccio/bench/internal/report"
)

// groupLimit is what a server and the kernel's memory for it may take, as in a container.
const groupLimit = 512 << 20

// overloadCgroupExperiment is overload-memory as it comes to a container: a memory cgroup has the
// limit, nobody has told the Go runtime, and the kernel kills the process that takes more.
var overloadCgroupExperiment = experiment{
	name: "overload-cgroup",
	doc:  "the same in a memory cgroup of 512 MiB, with nothing said to the Go runtime",
	prepare: func(r *run) error {
		return r.prepare(0, func() error { return proc.CanHave(proc.NewMemoryGroup(groupLimit)) })
	},
	parts: []part{{
		points: pointsAt("hold", memoryMain...),
		systems: func(r *run) []contender {
			m := &matrix{run: r}
			return m.contendersOf(m.groupSample, m.memoryTakes, "capriccio", "capriccio-fifo", "net-http", memlimitSystem)
		},
		length: time.Second,
	}},
	notes: []string{
		"x: clients of a closed loop; each request allocates 1 MiB, touches it and holds it for 50 ms; requests wait rather than be refused",
		fmt.Sprintf("the server is in a memory cgroup of %d MiB, GOMEMLIMIT is not set, but to nine tenths of it for %s; killed: 1 if the kernel has killed it, then its goodput is 0", groupLimit>>20, memlimitSystem),
		"group-mb: the most that the group has used, kernel memory included",
	},
	charts: []report.Chart{{Title: "Requests served, held 50 ms", Metric: "goodput", XLabel: "clients"}},
}

func (m *matrix) groupSample(ctx context.Context, system admissionSystem, p point) ([]sample, error) {
	n := needs{counted: true, memory: groupLimit, watch: memoryCap, env: []string{waitsEnv}}
	if system.name == memlimitSystem {
		n.env = append(n.env, "GOMEMLIMIT="+strconv.Itoa(groupLimit*9/10))
	}
	samples, s, err := m.memoryLoad(ctx, system, n, m.memoryShape(system, p))
	if err != nil {
		return nil, err
	}
	if s.peakErr != nil {
		return nil, fmt.Errorf("the most that the group has used: %w", s.peakErr)
	}
	return append(samples, sample{"group-mb", "MiB", p.x, float64(s.peak) / (1 << 20)}), nil
}
