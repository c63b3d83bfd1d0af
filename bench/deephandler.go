package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/capriccio-go/capriccio/bench/internal/proc"
	"github.com/capriccio-go/capriccio/bench/internal/report"
)

const (
	// Connections fit below the usual hard limit of 20,000 descriptors a process, of the
	// server and of the client.
	deepConns = 19_000
	// A handshake takes both sides half a millisecond, which a quick run has no time for.
	deepQuickTLS = 8000
	// deepBytes is what the handler once needs of stack.
	deepBytes = 32 << 10
	// deepNeed is what the checkpoint says, so that the rest of the handler has room too.
	deepNeed = deepBytes + 2<<10
	// deepTasks are the fresh tasks of ns-per-task that are alive at a time.
	deepTasks = 1000

	realSuffix    = "-tls"  // of metrics of a handler that makes a TLS handshake, decodes JSON, executes a template
	renderSuffix  = "-page" // … of tasks that do so without the handshake
	afterGCSuffix = "-after-gc"
)

// deepHandlerExperiment measures what tasks cost whose handler goes deep once and then waits.
var deepHandlerExperiment = experiment{
	name: "deep-handler",
	doc:  "19,000 connections whose handler once needed 32 KiB of stack",
	parts: []part{{
		points: append(pointsAt("ns-per-task", deepTasks), pointsAt("ns-per-task"+renderSuffix, deepTasks)...),
		systems: func(r *run) []contender {
			return []contender{onServerCore("capriccio", r.self, workerCommand, "deep-capriccio"), onServerCore("goroutine", r.self, workerCommand, "deep-goroutine")}
		},
		length:   500 * time.Millisecond,
		reserved: 27 * time.Second,
	}, {
		points: append(pointsAt("bytes-per-conn", deepConns), pointsAt("bytes-per-conn"+realSuffix, deepConns)...),
		quick:  append(pointsAt("bytes-per-conn", deepConns), pointsAt("bytes-per-conn"+realSuffix, deepQuickTLS)...),
		systems: func(r *run) []contender {
			return slower(8*time.Second, eachOf(func(system string) sampler {
				return func(ctx context.Context, p point, d time.Duration) ([]sample, error) {
					return r.deepSample(ctx, system, p, d)
				}
			}, "capriccio", "goroutine"))
		},
		length: time.Second,
	}},
	notes: []string{
		fmt.Sprintf("bytes-per-conn: what %d connections add to the process when the handler of each has once needed %d KiB of stack and waits for its next request; the handler makes no garbage, and there is no collection (GOGC=off)",
			deepConns, deepBytes>>10),
		fmt.Sprintf("in metrics named *%s the handler makes a TLS handshake, decodes JSON, executes a template and encodes JSON, and its TLS connection stays: memory of the heap beside the stacks, with garbage of it, and collections (which shrink goroutines' stacks) meanwhile", realSuffix),
		fmt.Sprintf("in metrics named *%s after three forced collections", afterGCSuffix),
		"stack-per-conn: the part of bytes-per-conn that is stacks, by the runtime's own count",
		fmt.Sprintf("ns-per-task: x fresh tasks at a time, each needs %d KiB of stack once and ends; named *%s: decodes JSON, executes a template and encodes JSON instead", deepBytes>>10, renderSuffix),
	},
	charts: []report.Chart{
		{Title: "Memory per connection that went deep once", Metric: "bytes-per-conn", XLabel: "connections", Bars: true},
		{Title: "… with TLS, JSON and a template", Metric: "bytes-per-conn" + realSuffix, XLabel: "connections", Bars: true},
		{Title: "Fresh tasks that go deep", Metric: "ns-per-task", XLabel: "tasks at a time", Bars: true},
	},
}

// deepSample starts a server afresh, has a client open connections, and compares its memory.
func (r *run) deepSample(ctx context.Context, system string, p point, settle time.Duration) ([]sample, error) {
	limit := settle + sampleTimeout
	ctx, cancel := within(ctx, limit)
	defer cancel()
	withTLS := strings.HasSuffix(p.metric, realSuffix)
	var env []string
	if !withTLS {
		env = []string{"GOGC=off"}
	}
	deep := strconv.FormatBool(withTLS)
	s, err := r.own(system, env, "deep", "-kind", system, "-tls="+deep).start(ctx, needs{})
	if err != nil {
		return nil, err
	}
	defer s.child.Close()
	client := func(conns int) proc.Command {
		return r.ownClient("deep-client", "-addr", s.addr, "-tls="+deep, "-conns", strconv.Itoa(conns))
	}
	// Memory that the first requests take is not counted for connections.
	if _, err := whileHeld(ctx, client(100), func() error { return nil }); err != nil {
		return nil, err
	}
	before, err := askMemory(ctx, s, false)
	if err != nil {
		return nil, err
	}
	var after, collected deepMemory
	opened, err := whileHeld(ctx, client(int(p.x)), func() (err error) {
		if after, err = askMemory(ctx, s, false); err != nil {
			return err
		}
		collected, err = askMemory(ctx, s, true)
		return err
	})
	if err != nil {
		return nil, err
	}
	per := func(metric string, bytes int64) sample {
		return sample{metric, "B", p.x, float64(bytes) / p.x}
	}
	suffix := strings.TrimPrefix(p.metric, "bytes-per-conn")
	return []sample{
		per("bytes-per-conn"+suffix, after.process-before.process),
		per("stack-per-conn"+suffix, after.stacks-before.stacks),
		per("bytes-per-conn"+suffix+afterGCSuffix, collected.process-before.process),
		per("stack-per-conn"+suffix+afterGCSuffix, collected.stacks-before.stacks),
		{"collections" + suffix, "1", p.x, float64(after.collections - before.collections)},
		{"open-and-request" + suffix, "µs", p.x, float64(opened.Microseconds()) / p.x},
	}, nil
}

// deepMemory is what a process holds.
type deepMemory struct {
	process     int64 // bytes
	stacks      int64 // bytes, by the Go runtime's count
	collections int64 // so far
}

// askMemory asks a server for what it holds, after collecting garbage if wanted.
func askMemory(ctx context.Context, s *server, collect bool) (m deepMemory, err error) {
	signal := syscall.SIGUSR1
	if collect {
		signal = syscall.SIGHUP
	}
	s.child.Signal(signal)
	line, err := s.child.Line(ctx)
	if err != nil {
		return m, err
	}
	if _, err := fmt.Sscanf(line, "memory %d %d", &m.stacks, &m.collections); err != nil {
		return m, errors.Join(fmt.Errorf("%s: said %q, want \"memory …\"", s.system, line), err)
	}
	m.process, err = proc.Memory(s.child.PID())
	return m, err
}

// The calls and frames of bigstack.
const (
	bigCalls = 10      // of each task, of a function with a frame of bigFrameBytes
	bigCap   = 4 << 30 // resident bytes beyond which a process is killed
)

func (r *run) bigContender(system string) contender {
	dead := 0.0 // the least number of tasks that has got a process killed
	return contender{system: system, sample: func(ctx context.Context, p point, _ time.Duration) ([]sample, error) {
		if dead > 0 && p.x > dead {
			return nil, fmt.Errorf("as with %s tasks: killed at %d MiB", report.Number(dead), bigCap>>20)
		}
		samples, killed, err := r.bigSample(ctx, system, int(p.x))
		if killed && (dead == 0 || p.x < dead) {
			dead = p.x
		}
		return samples, err
	}}
}

// bigSample runs the program in a process of its own and keeps an eye on it.
func (r *run) bigSample(ctx context.Context, system string, tasks int) (samples []sample, killed bool, err error) {
	samples, most, killed, err := belowCap(ctx, 0, r.ownOnServerCore(nil, "bigstack", "-kind", system, "-tasks", strconv.Itoa(tasks)), bigCap)
	x := float64(tasks)
	return append(samples, sample{"rss-mb", "MiB", x, most}, sample{"killed", "1", x, choose(killed, 1.0, 0)}), killed, err
}
