package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"syscall"
	"time"

	"github.com/capriccio-go/capriccio/bench/internal/proc"
	"github.com/capriccio-go/capriccio/bench/internal/report"
)

// groupLimit is what a server and the kernel's memory for it may take, as in a container.
const groupLimit = 512 << 20

// memlimitSystem is net/http as somebody who knows of GOMEMLIMIT would start it.
const memlimitSystem = "net-http-memlimit"

// runOverloadCgroup is overload-memory as it comes to a container: a memory cgroup has the
// limit, nobody has told the Go runtime, and the kernel kills the process that takes more.
func runOverloadCgroup(r *run) error {
	group, err := proc.NewMemoryGroup(groupLimit)
	if err != nil {
		return err
	}
	if err := group.Close(); err != nil {
		return err
	}
	systems, err := r.overloadSystems("capriccio", "capriccio-fifo", "net-http", memlimitSystem)
	if err != nil {
		return err
	}
	var contenders []contender
	for _, system := range systems {
		contenders = append(contenders, contender{system: system.name,
			sample: func(ctx context.Context, p point, _ time.Duration) ([]sample, error) {
				return r.groupSample(ctx, system, p)
			}})
	}
	if err := r.measure(pointsAt("hold", memoryMain...), contenders, time.Second); err != nil {
		return err
	}
	r.note("x: clients of a closed loop; each request allocates 1 MiB, touches it and holds it for 50 ms; requests wait rather than be refused")
	r.note("the server is in a memory cgroup of %d MiB, GOMEMLIMIT is not set, but to nine tenths of it for %s; killed: 1 if the kernel has killed it, then its goodput is 0", groupLimit>>20, memlimitSystem)
	r.note("group-mb: the most that the group has used, kernel memory included")
	r.charts = []report.Chart{{Title: "Requests served, held 50 ms", Metric: "goodput", XLabel: "clients"}}
	return nil
}

func (r *run) groupSample(ctx context.Context, system overloadSystem, p point) (samples []sample, err error) {
	group, err := proc.NewMemoryGroup(groupLimit)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, group.Close()) }()
	var env []string
	if system.name == memlimitSystem {
		env = []string{"GOMEMLIMIT=" + strconv.Itoa(groupLimit*9/10)}
	}
	s, err := system.start(ctx, env, flagPairs("allocate", memoryHeld, "hold", 50*time.Millisecond, "waits", true, "group", group.Dir())...)
	if err != nil {
		return nil, err
	}
	defer s.close()
	if samples, err = r.memoryLoad(ctx, s, system.name, p, false); err != nil {
		return nil, err
	}
	most, err := group.Peak()
	if err != nil {
		return nil, fmt.Errorf("the most that the group has used: %w", err)
	}
	return append(samples, sample{"group-mb", "MiB", p.x, float64(most) / (1 << 20)}), nil
}

// killed reports whether the server was killed, which may take a moment to be seen.
func (s *overloaded) killed() bool {
	select {
	case <-s.child.Ended():
		return s.child.KilledBy() == syscall.SIGKILL
	case <-time.After(time.Second):
		return false
	}
}
