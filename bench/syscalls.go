package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/capriccio-go/capriccio/bench/internal/proc"
)

// tracedTime is how long a server is loaded while its calls are counted.
const tracedTime = 300 * time.Millisecond

// tracedBudget is about what countSystemCalls takes in all.
const tracedBudget = 7 * time.Second

// countSystemCalls adds syscalls-per-request of each server, from a short run of its own: by perf, whose tracepoint
// costs next to nothing.
func (r *run) countSystemCalls(servers []*server) {
	r.perRequest("syscalls-per-request", "1", servers, func(tool string, s *server, depth int) (float64, []sample, error) {
		path, samples, err := r.loadUnderPerf(tool, s, depth, "stat", "-x", ",", "-e", "raw_syscalls:sys_enter")
		if err != nil {
			return 0, nil, err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return 0, nil, err
		}
		calls, err := perfCalls(string(data))
		return float64(calls), samples, err
	})
	r.note("system calls are counted by perf")
}

// perRequest adds a metric of each server: the amount that measure finds in a short run under perf, divided by the number of
// requests, which is among the samples of that run. Where perf is missing, or may not count, the metric is left out.
func (r *run) perRequest(metric, unit string, servers []*server, measure func(tool string, s *server, depth int) (float64, []sample, error)) {
	tool, err := exec.LookPath("perf")
	if err != nil {
		r.skip(metric, err)
		return
	}
	for _, depth := range []int{1, helloPipeline} {
		for _, s := range servers {
			if r.ctx.Err() != nil {
				return
			}
			name := fmt.Sprintf("%s %s x=%d", s.system, metric, depth)
			fmt.Fprintln(r.progress, name)
			took, samples, err := measure(tool, s, depth)
			requests := 0.0
			if err == nil {
				requests, err = tracedRequests(depth, samples)
			}
			if err == nil {
				err = r.samples.Add(s.system, metric, unit, float64(depth), took/requests)
			}
			if err != nil {
				r.skip(name, err)
			}
		}
	}
}

// tracedRequests is how many requests a load has made in all.
func tracedRequests(depth int, samples []sample) (float64, error) {
	for _, one := range samples {
		if one.metric == "requests" && one.value > 0 {
			// Each connection's first exchange, and half of those under way at the end.
			return one.value + float64(helloConns) + float64(helloConns*depth)/2, nil
		}
	}
	return 0, errors.New("the load made no request")
}

// loadUnderPerf has perf run the load, and watch the server meanwhile, and returns the file it has written.
func (r *run) loadUnderPerf(tool string, s *server, depth int, watch ...string) (string, []sample, error) {
	path := filepath.Join(r.scratch, fmt.Sprintf("perf-%s-%s-%d", watch[0], s.system, depth))
	ctx, cancel := context.WithTimeoutCause(r.ctx, serverStart, errors.New("perf did not end"))
	defer cancel()
	command := r.ownClient(loadArgs(s, helloConns, depth, 0, tracedTime)...)
	command.Args = slices.Concat(watch, []string{"-o", path, "-p", strconv.Itoa(s.child.PID()), "--", r.self}, command.Args)
	command.Path = tool
	lines, err := proc.Output(ctx, command)
	if err != nil {
		return "", nil, err
	}
	samples, err := parseSamples(lines)
	return path, samples, err
}

// perfCalls reads the line "1234,,raw_syscalls:sys_enter,5678,100.00,,".
func perfCalls(data string) (int, error) {
	for line := range strings.Lines(data) {
		count, rest, _ := strings.Cut(line, ",")
		if strings.Contains(rest, "raw_syscalls:sys_enter") {
			return strconv.Atoi(count)
		}
	}
	return 0, errors.New("perf counted nothing")
}

const (
	// userRate is how often a second perf looks what a server does: the kernel's own user and system time is from
	// a look at each tick, a fortieth of that, and under load from other programs was wrong by a factor.
	userRate = 9973
	// userBudget is about what sampleUserTime takes in all, in a quick run.
	userBudget = tracedBudget
)

// sampleUserTime adds user-cpu-per-request of each server: what the program itself takes, without the kernel, of
// which all servers need about the same. From short runs of their own.
func (r *run) sampleUserTime(servers []*server) {
	for range choose(r.quick, 1, 3) {
		r.perRequest("user-cpu-per-request", "ns", servers, func(tool string, s *server, depth int) (float64, []sample, error) {
			path, samples, err := r.loadUnderPerf(tool, s, depth, "record", "-q", "-e", "cpu-clock:u", "-F", strconv.Itoa(userRate))
			if err != nil {
				return 0, nil, err
			}
			lines, err := exec.CommandContext(r.ctx, tool, "script", "-i", path, "-F", "ip").Output()
			if err != nil {
				return 0, nil, fmt.Errorf("perf script: %w", err)
			}
			return float64(bytes.Count(lines, []byte("\n"))) * 1e9 / userRate, samples, nil
		})
	}
}
