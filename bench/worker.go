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
var workers = map[string]func(args []string, out io.Writer){
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
	"chores-net-http": func(args []string, out io.Writer) { check(chores.RunHTTP(args, out, chores.Limits{})) },
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
	"fcgi":            runResponder,
	"players":         runPlayers,
	"soak-backend":    runSoakBackend,
	"models":          runModelServer,
	"models-load":     runModelLoad,
	"visits":          runVisits,
	"fleet-server":    runFleetServer,
	"fleet-balancers": runFleetBalancers,
	"fleet-users":     runFleetUsers,
}

func init() {
	for _, way := range cacheWays {
		workers[way] = measuring(map[string]metricFunc{"per-request": measureCache(way)})
	}
	for system := range graphs {
		workers[system] = observed(system)
	}
}

func runWorker(args []string, out io.Writer) {
	if len(args) == 0 || workers[args[0]] == nil {
		check(fmt.Errorf("%s: unknown kind %.1q", workerCommand, args))
	}
	workers[args[0]](args[1:], out)
}

type job struct {
	metric   string
	x        int
	duration time.Duration
	work     int // nanoseconds an operation has to do besides
	emit     emitter
}

// emitter prints one sample of a worker, which parseSamples reads.
type emitter func(metric, unit string, value float64)

func emitAt[X int | float64](out io.Writer, x X) emitter {
	return func(metric, unit string, value float64) { fmt.Fprintf(out, "%s %s %v %.6g\n", metric, unit, x, value) }
}

type metricFunc func(j job)

// workInfix stands between a metric's name and the work of each operation.
const workInfix = "-work-"

// measuring makes a worker out of the metrics that a system knows.
func measuring(metrics map[string]metricFunc) func([]string, io.Writer) {
	return func(args []string, out io.Writer) {
		j := must(parseJob(args))
		j.emit = emitAt(out, j.x)
		name, _, _ := strings.Cut(j.metric, workInfix)
		measure, ok := metrics[name]
		if !ok {
			check(fmt.Errorf("unknown metric %q", j.metric))
		}
		warm()
		measure(j)
	}
}

func parseJob(args []string) (job, error) {
	var j job
	var ms int
	var more string
	n, _ := fmt.Sscan(strings.Join(args, " "), &j.metric, &j.x, &ms, &j.work, &more)
	if n != len(args) || n < 3 || n > 4 || j.x < 1 || ms < 1 || j.work < 0 {
		return job{}, fmt.Errorf("arguments are %q, want METRIC X MILLISECONDS [WORK_NS], numbers from 1", args)
	}
	j.duration = time.Duration(ms) * time.Millisecond
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
		var s sample
		var more string
		if n, err := fmt.Sscan(line, &s.metric, &s.unit, &s.x, &s.value, &more); n != 4 {
			return nil, fmt.Errorf("sample line %q: want 4 fields: %w", line, err)
		}
		samples = append(samples, s)
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
