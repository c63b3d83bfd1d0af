package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/capriccio-go/capriccio/bench/internal/chores"
	"github.com/capriccio-go/capriccio/bench/internal/proc"
)

// workerCommand is the hidden command under which the driver runs itself again
// as the process to be measured. The C baselines take the same arguments and
// print the same lines.
const workerCommand = "worker"

// workers are the processes this program can be, by the first argument.
var workers = map[string]func(args []string, out io.Writer) error{
	"goroutine":       measuring(goroutineMetrics),
	"capriccio":       measuring(taskMetrics(oneLoop)),
	bareSystem:        measuring(taskMetrics(bareLoop)),
	holdingSystem:     measuring(taskMetrics(loopThatHolds)),
	"epoll-go":        measuring(epollMetrics),
	"gotrace":         readTraceWorker,
	"load":            runLoad,
	"hold":            runHold,
	"knot":            runKnot,
	"reverse-proxy":   runReverseProxy,
	"cases":           runCases,
	"native":          runNativeServer,
	"locked-read":     runLockedRead,
	"chores-knot":     runChoresKnot,
	"chores-net-http": func(args []string, out io.Writer) error { return chores.RunHTTP(args, out, chores.Limits{}) },
	"client":          runClient,
	"calibrate":       runCalibrate,
	"memory":          runMemoryWorker,
	"pubsub":          runPubsubWorker,
	"cohort-writes":   runWritesWorker,
	"task-server":     runTaskServer,
	"disk-goroutine":  diskWorker(goDisk),
	"disk-capriccio":  diskWorker(taskDisk),
	"files":           runFileServer,
	"deep":            runDeepServer,
	"deep-client":     runDeepClient,
	"deep-capriccio":  measuring(deepTaskMetrics(freshTasks)),
	"deep-goroutine":  measuring(deepTaskMetrics(goroutines.fresh)),
	"bigstack":        runBigStackWorker,
	"stack-capriccio": measuring(chunkMetrics),
	"stack-goroutine": measuring(growMetrics),
	"fetch":           runFetch,
	relayEnds:         runRelayEnds,
	"tls-load":        runTLSLoad,
	"tls-hold":        runTLSHold,
	"fcgi":            runResponder,
	"players":         runPlayers,
	"models":          runModelServer,
	"models-load":     runModelLoad,
	"phases":          runPhases,
	"visits":          runVisits,
}

func init() {
	for _, way := range cacheWays {
		workers[way] = measuring(map[string]metricFunc{"per-request": measureCache(way)})
	}
	for system := range graphs {
		workers[system] = observed(system)
	}
}

func runWorker(args []string, out io.Writer) error {
	if len(args) == 0 {
		return fmt.Errorf("%s: no kind given", workerCommand)
	}
	work, ok := workers[args[0]]
	if !ok {
		return fmt.Errorf("%s: unknown kind %q", workerCommand, args[0])
	}
	return work(args[1:], out)
}

// job is what a measuring worker was asked for.
type job struct {
	metric   string
	x        int
	duration time.Duration
	work     int // nanoseconds an operation has to do besides
	emit     emitter
}

// emitter prints one sample of a worker, which parseSamples reads.
type emitter func(metric, unit string, value float64)

// emitAt prints samples at x.
func emitAt[X int | float64](out io.Writer, x X) emitter {
	return func(metric, unit string, value float64) { fmt.Fprintf(out, "%s %s %v %.6g\n", metric, unit, x, value) }
}

// metricFunc measures one metric and emits it.
type metricFunc func(j job) error

// workInfix stands between a metric's name and the work of each operation.
const workInfix = "-work-"

// measuring makes a worker out of the metrics that a system knows.
func measuring(metrics map[string]metricFunc) func([]string, io.Writer) error {
	return func(args []string, out io.Writer) error {
		j, err := parseJob(args)
		if err != nil {
			return err
		}
		j.emit = emitAt(out, j.x)
		name, _, _ := strings.Cut(j.metric, workInfix)
		measure, ok := metrics[name]
		if !ok {
			return fmt.Errorf("unknown metric %q", j.metric)
		}
		warm()
		return measure(j)
	}
}

func parseJob(args []string) (job, error) {
	if len(args) != 3 && len(args) != 4 {
		return job{}, fmt.Errorf("arguments are %q, want METRIC X MILLISECONDS [WORK_NS]", args)
	}
	j := job{metric: args[0]}
	numbers := []int{0, 0, 0}
	for i, text := range args[1:] {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return job{}, fmt.Errorf("not a whole number: %q", text)
		}
		numbers[i] = n
	}
	j.x, j.duration, j.work = numbers[0], time.Duration(numbers[1])*time.Millisecond, numbers[2]
	if j.x < 1 || j.duration < 1 {
		return job{}, fmt.Errorf("arguments are %q, want X and MILLISECONDS of at least 1", args)
	}
	return j, nil
}

// onServerCore makes a contender of a command that measures by itself: a worker
// of this program or a C baseline. It runs on the server core alone.
func onServerCore(system, path string, args ...string) contender {
	return measuredBy(system, onCore(serverCore, nil, path, args...))
}

// onBothCores is onServerCore for a worker of this program that needs a second core.
func onBothCores(system, self string) contender {
	return measuredBy(system, proc.Command{Path: self, Core: proc.AnyCore, Args: []string{workerCommand, system}})
}

// measuredBy makes a contender of such a command, which may run anywhere.
func measuredBy(system string, command proc.Command) contender {
	return contender{system: system, sample: func(ctx context.Context, p point, d time.Duration) ([]sample, error) {
		command := command
		command.Args = slices.Concat(command.Args, []string{
			p.metric, strconv.FormatFloat(p.x, 'f', -1, 64), strconv.FormatInt(max(d.Milliseconds(), 1), 10), strconv.Itoa(p.work)})
		return samplesOf(ctx, d, command)
	}}
}

// ownClient is a worker of this program that loads a server from the client core.
func (r *run) ownClient(args ...string) proc.Command {
	return onCore(clientCore, nil, r.self, append([]string{workerCommand}, args...)...)
}

// ownOnServerCore is a worker of this program on the server core, with more in its environment.
func (r *run) ownOnServerCore(env []string, args ...string) proc.Command {
	return onCore(serverCore, env, r.self, append([]string{workerCommand}, args...)...)
}

// onCore is a program that has one core, with more in its environment.
func onCore(core int, env []string, path string, args ...string) proc.Command {
	return proc.Command{Path: path, Core: core, Env: append([]string{"GOMAXPROCS=1"}, env...), Args: args}
}

// samplesOf runs a command to its end, which takes about span, and reads the samples that it prints.
func samplesOf(ctx context.Context, span time.Duration, command proc.Command) ([]sample, error) {
	lines, err := linesOf(ctx, span, command)
	if err != nil {
		return nil, err
	}
	return parseSamples(lines)
}

// linesOf is likewise for what it prints.
func linesOf(ctx context.Context, span time.Duration, command proc.Command) ([]string, error) {
	ctx, cancel := within(ctx, span+sampleTimeout)
	defer cancel()
	return proc.Output(ctx, command)
}

// within is ctx with a limit, which is named if it is reached.
func within(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, limit, fmt.Errorf("no end after %v", limit))
}

// sampleTimeout is what a sample may take beside the measuring itself. It ends what hangs, and is much longer
// than what works takes on a machine that is busy with something else.
const sampleTimeout = 2 * time.Minute

// parseSamples reads lines of "metric unit x value".
func parseSamples(lines []string) ([]sample, error) {
	samples := make([]sample, 0, len(lines))
	for _, line := range lines {
		fields := strings.Fields(line)
		if len(fields) != 4 {
			return nil, fmt.Errorf("sample line %q: want 4 fields", line)
		}
		x, err := strconv.ParseFloat(fields[2], 64)
		if err != nil {
			return nil, fmt.Errorf("sample line %q: %w", line, err)
		}
		value, err := strconv.ParseFloat(fields[3], 64)
		if err != nil {
			return nil, fmt.Errorf("sample line %q: %w", line, err)
		}
		samples = append(samples, sample{fields[0], fields[1], x, value})
	}
	if len(samples) == 0 {
		return nil, fmt.Errorf("printed no sample")
	}
	return samples, nil
}

// baselines are the C contenders that this machine can build, besides the Go
// ones; the others are skipped with the compiler's reason.
func (r *run) baselines(names ...string) []contender {
	var built []contender
	for _, name := range names {
		if path := r.baseline(name, name); path != "" {
			built = append(built, onServerCore(name, path))
		}
	}
	return built
}

// baseline compiles the C program of a system; "" if that can't be done.
func (r *run) baseline(system, program string) string {
	path := program
	if err := r.prepare(0, func() (err error) { path, err = compileC(r.ctx, r.scratch, program); return err }); err != nil {
		r.skip(system, err)
	}
	return path
}

// workersNamed are workers of this program, each a system of that name.
func (r *run) workersNamed(systems ...string) (all []contender) {
	for _, system := range systems {
		all = append(all, onServerCore(system, r.self, workerCommand, system))
	}
	return all
}

// goContenders are our tasks, goroutines and others, each a worker of this program.
func (r *run) goContenders(others ...string) []contender {
	if slices.Contains(others, bareSystem) {
		r.note("%s: capriccio without a blocking graph, first in, first out", bareSystem)
	}
	return r.workersNamed(append([]string{"capriccio", "goroutine"}, others...)...)
}
