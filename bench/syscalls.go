package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/capriccio-go/capriccio/bench/internal/proc"
)

// tracedTime is how long a server is loaded while its calls are counted.
const tracedTime = 300 * time.Millisecond

// tracedBudget is about what countSystemCalls takes in all.
const tracedBudget = 7 * time.Second

// counter loads a server and returns its system calls and the load's samples.
type counter func(r *run, tool string, s *server, depth int) (calls int, samples []sample, err error)

// chooseCounter prefers perf(1), whose tracepoint costs next to nothing, if the
// kernel lets us use it, to strace(1), which slows a server down so much that
// it batches and polls differently.
func (r *run) chooseCounter(s *server) (string, counter, error) {
	tool, err := exec.LookPath("perf")
	if err == nil {
		if _, _, err = countByPerf(r, tool, s, 1); err == nil {
			r.note("system calls are counted by perf")
			return tool, countByPerf, nil
		}
	}
	tool, missing := exec.LookPath("strace")
	if missing != nil {
		return "", nil, errors.Join(err, missing)
	}
	r.note("system calls are counted under strace, which slows servers down and makes them poll more often")
	return tool, countByStrace, nil
}

// countSystemCalls adds syscalls-per-request of each server, from a short run
// of its own.
func (r *run) countSystemCalls(servers []*server) {
	if len(servers) == 0 {
		return
	}
	tool, count, err := r.chooseCounter(servers[0])
	if err != nil {
		r.skip("syscalls-per-request", err)
		return
	}
	r.perRequest("syscalls-per-request", "1", servers, func(s *server, depth int) (float64, []sample, error) {
		calls, samples, err := count(r, tool, s, depth)
		return float64(calls), samples, err
	})
}

// perRequest adds a metric of each server, of which a short run of its own takes so much, and has these samples.
func (r *run) perRequest(metric, unit string, servers []*server, measure func(s *server, depth int) (float64, []sample, error)) {
	for _, depth := range []int{1, helloPipeline} {
		for _, s := range servers {
			if r.ctx.Err() != nil {
				return
			}
			name := fmt.Sprintf("%s %s x=%d", s.system, metric, depth)
			fmt.Fprintln(r.progress, name)
			took, samples, err := measure(s, depth)
			requests := 0.0
			if err == nil {
				requests, err = tracedRequests(depth, samples)
			}
			if err == nil {
				err = r.samples.Add(s.system, metric, unit, float64(depth), took/requests)
			}
			if err != nil {
				r.fail(s.system, name, err)
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

// countByPerf has perf run the load and count the server's calls meanwhile.
func countByPerf(r *run, tool string, s *server, depth int) (int, []sample, error) {
	path, samples, err := r.loadUnderPerf(tool, s, depth, "stat", "-x", ",", "-e", "raw_syscalls:sys_enter")
	if err != nil {
		return 0, nil, err
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return 0, nil, err
	}
	calls, err := perfCalls(string(data))
	return calls, samples, err
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

// countByStrace attaches strace to a server and loads it.
func countByStrace(r *run, tool string, s *server, depth int) (int, []sample, error) {
	path := filepath.Join(r.scratch, fmt.Sprintf("strace-%s-%d", s.system, depth))
	ctx, cancel := context.WithTimeoutCause(r.ctx, serverStart, errors.New("strace did not end"))
	defer cancel()
	child, err := proc.Start(proc.Command{
		Path: tool, Core: clientCore,
		Args: []string{"-c", "-f", "-q", "-o", path, "-p", strconv.Itoa(s.child.PID())},
	})
	if err != nil {
		return 0, nil, err
	}
	defer child.Close()
	if err := awaitTraced(ctx, s.child.PID(), child); err != nil {
		return 0, nil, err
	}
	samples, err := r.load(ctx, s, helloConns, depth, 0, tracedTime)
	if err != nil {
		return 0, nil, err
	}
	child.Signal(syscall.SIGINT) // detach and write
	// strace ends by the signal it got, or with status 0: the file tells.
	_ = child.Wait(ctx)
	data, err := os.ReadFile(path)
	if err != nil {
		return 0, nil, err
	}
	calls, err := straceCalls(string(data))
	return calls, samples, err
}

// awaitTraced waits until every thread of a process has a tracer.
func awaitTraced(ctx context.Context, pid int, tracer *proc.Child) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		traced, err := allTraced(pid)
		if err != nil || traced {
			return err
		}
		select {
		case <-tick.C:
		case <-tracer.Ended():
			return errors.Join(errors.New("strace ended at once"), tracer.Wait(ctx))
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func allTraced(pid int) (bool, error) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	if err != nil || len(files) == 0 {
		return false, errors.Join(fmt.Errorf("process %d has no threads", pid), err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			continue // the thread has ended
		}
		if strings.Contains(string(data), "TracerPid:\t0\n") {
			return false, nil
		}
	}
	return true, nil
}

// straceCalls reads the total of the table that strace -c writes:
// "100.00    0.123456           1     98765       12 total".
func straceCalls(data string) (int, error) {
	for line := range strings.Lines(data) {
		fields := strings.Fields(line)
		if len(fields) >= 4 && fields[len(fields)-1] == "total" {
			return strconv.Atoi(fields[3])
		}
	}
	return 0, errors.New("strace counted nothing")
}
