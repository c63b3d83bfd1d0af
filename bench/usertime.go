package main

import (
	"bytes"
	"fmt"
	"os/exec"
	"strconv"
)

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
	tool, err := exec.LookPath("perf")
	if err != nil {
		r.skip("user-cpu-per-request", err)
		return
	}
	rounds := 3
	if r.quick {
		rounds = 1
	}
	for range rounds {
		for _, depth := range []int{1, helloPipeline} {
			for _, s := range servers {
				if r.ctx.Err() != nil {
					return
				}
				name := fmt.Sprintf("%s user-cpu-per-request x=%d", s.system, depth)
				fmt.Fprintln(r.progress, name)
				user, err := r.userTime(tool, s, depth)
				if err == nil {
					err = r.samples.Add(s.system, "user-cpu-per-request", "ns", float64(depth), user)
				}
				if err != nil {
					r.fail(s.system, name, err)
				}
			}
		}
	}
}

// userTime is what s takes for a request, in ns.
func (r *run) userTime(tool string, s *server, depth int) (float64, error) {
	path, samples, err := r.loadUnderPerf(tool, s, depth, "record", "-q", "-e", "cpu-clock:u", "-F", strconv.Itoa(userRate))
	if err != nil {
		return 0, err
	}
	requests, err := tracedRequests(depth, samples)
	if err != nil {
		return 0, err
	}
	lines, err := exec.CommandContext(r.ctx, tool, "script", "-i", path, "-F", "ip").Output()
	if err != nil {
		return 0, fmt.Errorf("perf script: %w", err)
	}
	return float64(bytes.Count(lines, []byte("\n"))) * 1e9 / userRate / requests, nil
}
