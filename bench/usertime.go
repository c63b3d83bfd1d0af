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
	for range choose(r.quick, 1, 3) {
		r.perRequest("user-cpu-per-request", "ns", servers, func(s *server, depth int) (float64, []sample, error) {
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
