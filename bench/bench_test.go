package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio"
	"github.com/capriccio-go/capriccio/bench/internal/proc"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// The test program is its own worker, as the driver is.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == workerCommand {
		if err := runWorker(os.Args[2:], os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	// Under the race detector a worker would linger for a second after its end.
	os.Setenv("GORACE", "atexit_sleep_ms=0 "+os.Getenv("GORACE"))
	os.Exit(m.Run())
}

func TestFlagsMayStandBeforeAndAfterTheName(t *testing.T) {
	for _, line := range []string{
		"pipes -quick -out d", "-quick pipes -out d", "-out=d -quick pipes", "-out d pipes --quick",
	} {
		o, err := parseRun(strings.Fields(line))
		if err != nil || o.experiment.name != "pipes" || !o.quick || o.dir != "d" {
			t.Errorf("%q: got %q quick=%v out=%q, error %v", line, o.experiment.name, o.quick, o.dir, err)
		}
	}
}

func TestRowsAndSystemsArePicked(t *testing.T) {
	o, err := parseRun(strings.Fields("admission -rows a,b-* -systems knot"))
	if err != nil || !slices.Equal(o.rows, []string{"a", "b-*"}) || !slices.Equal(o.systems, []string{"knot"}) {
		t.Errorf("got %+v, %v", o, err)
	}
}

func TestMistakesInTheCommandLineAreToldApart(t *testing.T) {
	for line, want := range map[string]string{
		"":                           "usage",
		"fly":                        `unknown command "fly"`,
		"list all":                   "no arguments",
		"run":                        "the name of an experiment, or more than one: choose from primitives, producer-consumer, pipes",
		"run pipes fly":              `no experiment "fly"`,
		"run pipes hello -systems a": "what is kept is whole",
		"run pipes -rounds -1":       "want a number from 1",
		"run pipes -rounds 0":        "want a number from 1",
		"compare a -all b c":         `two results, got ["a" "b" "c"]`,
		"run nothing":                `no experiment "nothing": choose from primitives`,
		"run pipes -fast":            "-fast",
		"run pipes -out":             "-out",
		"run -quick=7 pipe":          "quick",
		"run pipes -rows a":          "pipes has no -rows",
	} {
		err := command(t.Context(), strings.Fields(line), io.Discard, io.Discard)
		var usage *usageError
		if !errors.As(err, &usage) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want a usage error with %q", line, err, want)
		}
	}
}

func TestEveryCommandHasHelp(t *testing.T) {
	for _, name := range []string{"list", "run", "lines", "report", "compare"} {
		testenv.ErrorIs(t, command(t.Context(), []string{name, "-h"}, io.Discard, io.Discard), flag.ErrHelp, name)
	}
}

func TestListNamesEveryExperimentOnce(t *testing.T) {
	var out bytes.Buffer
	testenv.Must(t, command(t.Context(), []string{"list"}, &out, io.Discard))
	names := experimentNames()
	slices.Sort(names)
	testenv.Equal(t, len(slices.Compact(names)), len(experiments), "a name is there twice: %v", names)
	for _, name := range names {
		testenv.Contains(t, out.String(), name+" ", "list does not name %s", name)
	}
}

// fake is a contender that returns its calls' number, and what it was asked.
func fake(system string, calls *[]string) contender {
	return contender{system: system, sample: func(_ context.Context, p point, _ time.Duration) ([]sample, error) {
		*calls = append(*calls, fmt.Sprintf("%s/%s/%v", system, p.metric, p.x))
		return []sample{{p.metric, "ns", p.x, float64(len(*calls))}}, nil
	}}
}

func testRun(t *testing.T) *run {
	self := testenv.Need(os.Executable())(t)
	return &run{ctx: t.Context(), quick: true, began: time.Now(), progress: io.Discard, scratch: t.TempDir(), self: self}
}

func TestRunsAreInterleaved(t *testing.T) {
	r := testRun(t)
	var calls []string
	b := fake("b", &calls)
	b.lacks = func(p point) string {
		if p.x == 2 {
			return "does not like 2"
		}
		return ""
	}
	r.measure([]point{{metric: "m", x: 1}, {metric: "m", x: 2}}, []contender{fake("a", &calls), b}, time.Millisecond)
	want := []string{
		"a/m/1", "b/m/1", "a/m/2",
		"b/m/1", "a/m/1", "a/m/2",
		"a/m/1", "b/m/1", "a/m/2",
	}
	testenv.EqualSlices(t, calls, want, "order")
	testenv.Equal(t, r.env.Skipped["b m"], "does not like 2", "skipped %v", r.env.Skipped)
	rows := r.samples.Rows()
	if len(rows) != 3 || rows[0].Value != 5 || rows[0].Min != 1 || rows[0].Max != 7 || rows[0].N != quickRounds {
		t.Errorf("rows %+v", rows)
	}
}

func TestRivalThatFailsIsLeftOutAndOursFailsTheRun(t *testing.T) {
	broken := func(system string, calls *int) contender {
		return contender{system: system, sample: func(context.Context, point, time.Duration) ([]sample, error) {
			*calls++
			return nil, errors.New("broken")
		}}
	}
	for system, fails := range map[string]bool{"gnet": false, "capriccio": true, "knot": true} {
		r := testRun(t)
		calls := 0
		r.measure([]point{{metric: "m", x: 1}}, []contender{broken(system, &calls)}, time.Millisecond)
		if (r.failed != nil) != fails || calls != 1 || r.env.Skipped[system+" m x=1"] != "broken" {
			t.Errorf("%s: failed %v after %d calls, skipped %v", system, r.failed, calls, r.env.Skipped)
		}
	}
}

func TestInterruptEndsMeasuring(t *testing.T) {
	r := testRun(t)
	ctx, cancel := context.WithCancel(t.Context())
	r.ctx = ctx
	calls := 0
	stops := contender{system: "a", sample: func(context.Context, point, time.Duration) ([]sample, error) {
		calls++
		cancel()
		return nil, errors.New("killed")
	}}
	r.measure([]point{{metric: "m", x: 1}}, []contender{stops}, time.Millisecond)
	if calls != 1 || len(r.env.Skipped) != 0 {
		t.Errorf("%d calls, skipped %v", calls, r.env.Skipped)
	}
}

func TestQuickRunOutOfTimeKeepsOneRound(t *testing.T) {
	r := testRun(t)
	r.began = time.Now().Add(-time.Hour)
	var calls []string
	r.measure([]point{{metric: "m", x: 1}}, []contender{fake("a", &calls)}, time.Hour)
	if len(calls) != 1 || len(r.env.Notes) != 1 {
		t.Errorf("%d calls, notes %v; want one call and a note", len(calls), r.env.Notes)
	}
}

func TestPaceSharesTheTimeThatIsLeft(t *testing.T) {
	var p pace
	testenv.Equal(t, p.next(time.Second, 10*time.Second, 20), 500*time.Millisecond, "without overhead")
	p.spent(100 * time.Millisecond)
	testenv.Equal(t, p.next(time.Second, 10*time.Second, 20), 400*time.Millisecond, "with overhead")
	testenv.Equal(t, p.next(time.Second, time.Hour, 20), time.Second, "with all the time")
	testenv.Equal(t, p.next(time.Second, -time.Second, 1), shortestSample, "with none")
}

func TestSampleLines(t *testing.T) {
	got, err := parseSamples([]string{"yield ns 2 51.5", "ops ops/s 16384 1.29e+06"})
	want := []sample{{"yield", "ns", 2, 51.5}, {"ops", "ops/s", 16384, 1.29e6}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v", got, err)
	}
	for _, line := range []string{"", "yield ns 2", "yield ns two 3", "yield ns 2 three", "a b 1 2 3"} {
		if got, err := parseSamples([]string{line}); err == nil {
			t.Errorf("%q gave %v", line, got)
		}
	}
	testenv.Fails(t, testenv.Err(parseSamples(nil)), "no lines are no error")
}

func TestTracersTotals(t *testing.T) {
	const table = "% time     seconds  usecs/call     calls    errors syscall\n" +
		" 60.00    0.600000           2       300           read\n" +
		"------ ----------- ----------- --------- --------- ----------------\n" +
		"100.00    1.000000           1       912        12 total\n"
	testenv.Got(straceCalls(table))(t, 912, "strace")
	testenv.Got(perfCalls("# started\n\n1234,,raw_syscalls:sys_enter,5678,100.00,,\n"))(t, 1234, "perf")
	if got, err := straceCalls("strace: gone"); err == nil {
		t.Errorf("strace: %d of nothing", got)
	}
	for _, data := range []string{"", "<not counted>,,raw_syscalls:sys_enter,0,100.00,,"} {
		if got, err := perfCalls(data); err == nil {
			t.Errorf("perf: %d of %q", got, data)
		}
	}
}

func TestPlainLoadCountsAsDepthAndAsConnections(t *testing.T) {
	samples := []sample{{"rps", "req/s", 1, 5}, {"requests", "1", 1, 9}}
	got := helloSamples(samples, point{metric: "depth", x: 1}, 64)
	testenv.EqualSlices(t, got, []sample{{"rps", "req/s", 1, 5}, {"rps-conns", "req/s", 64, 5}}, "plain")
	got = helloSamples([]sample{{"rps", "req/s", 16, 5}}, point{metric: "depth", x: 16}, 64)
	testenv.EqualSlices(t, got, []sample{{"rps", "req/s", 16, 5}}, "pipelined")
	got = helloSamples(samples, point{metric: "conns", x: 8}, 8)
	testenv.EqualSlices(t, got, []sample{{"rps-conns", "req/s", 8, 5}}, "connections")
}

func TestTokensFollowThePaper(t *testing.T) {
	for pipes, want := range map[int]int{1: 1, 4: 1, 64: 16, 127: 31, 128: 128, 16384: 128} {
		testenv.Equal(t, tokensFor(pipes), want, "%d pipes have N tokens", pipes)
	}
}

func TestBadJobsAreRefused(t *testing.T) {
	for _, line := range []string{
		"", "yield", "yield 2", "yield 0 10", "yield 2 0", "yield two 10", "yield 2 -1", "yield 2 10 x", "yield 2 10 0 0", "fly 2 10", "chan 1 10",
	} {
		for _, kind := range []string{"goroutine", "capriccio"} {
			testenv.Fails(t, runWorker(append([]string{kind}, strings.Fields(line)...), io.Discard), "%s took %q", kind, line)
		}
	}
	testenv.Fails(t, runWorker([]string{"stranger"}, io.Discard), "an unknown kind was taken")
	testenv.Fails(t, runWorker(nil, io.Discard), "no kind was taken")
}

func needTwoCores(t *testing.T) {
	cores, err := proc.Cores()
	if err != nil || !slices.Contains(cores, serverCore) || !slices.Contains(cores, clientCore) {
		t.Skipf("needs cores %d and %d, may use %v (error %v)", serverCore, clientCore, cores, err)
	}
}

// measuringRun is testRun for processes on both cores.
func measuringRun(t *testing.T) *run {
	needTwoCores(t)
	return testRun(t)
}

// Every metric of both Go systems, as small as can be, in a process of its own.
func TestWorkersMeasureEveryMetric(t *testing.T) {
	r := measuringRun(t)
	for _, c := range r.goContenders(bareSystem) {
		metrics := goroutineMetrics
		if c.system != "goroutine" {
			metrics = taskMetrics(oneLoop)
		}
		for metric := range metrics {
			t.Run(c.system+" "+metric, func(t *testing.T) {
				t.Parallel()
				for _, x := range []float64{2, 5} {
					samples := testenv.Need(c.sample(t.Context(), point{metric: metric, x: x}, time.Millisecond))(t)
					for _, s := range samples {
						if s.x != x || metric != "parked" && (!strings.HasSuffix(s.metric, metric) || s.value < 0) {
							t.Errorf("x=%v: got %+v", x, s)
						}
					}
				}
			})
		}
	}
	if len(goroutineMetrics) != len(taskMetrics(oneLoop)) {
		t.Errorf("goroutines have %d metrics, capriccio %d", len(goroutineMetrics), len(taskMetrics(oneLoop)))
	}
}

func TestBaselinesMeasure(t *testing.T) {
	r := measuringRun(t)
	for system, metrics := range map[string][]string{
		"pthread":       {"yield", "cond", "mutex", "create-finish", "ops", "ops-work-100ns", "ops-one-slot"},
		"state-threads": {"yield", "cond", "mutex", "create-finish", "ops", "ops-work-100ns", "ops-one-slot"},
		"epoll-c":       {"tokens"},
	} {
		t.Run(system, func(t *testing.T) {
			path, err := compileC(t.Context(), r.scratch, system)
			if err != nil {
				t.Skip(err)
			}
			c := onServerCore(system, path)
			for _, metric := range metrics {
				samples, err := c.sample(t.Context(), point{metric: metric, x: 5, work: 100}, time.Millisecond)
				if err != nil {
					t.Error(err)
				} else if s := samples[0]; s.metric != metric || s.x != 5 || s.value <= 0 {
					t.Errorf("%s: got %+v", metric, s)
				}
			}
			if _, err := c.sample(t.Context(), point{metric: "fly", x: 1}, time.Millisecond); err == nil {
				t.Error("an unknown metric was measured")
			}
		})
	}
}

func TestServersAnswerTheLoad(t *testing.T) {
	r := measuringRun(t)
	knotOn := func(poller string) launcher {
		return r.own("knot-"+poller, []string{capriccio.EnvPoller + "=" + poller}, "knot")
	}
	launchers := append(r.nginx("nginx", func(dir, addr string) string { return fmt.Sprintf(nginxConfig, dir, addr) }),
		r.own("knot", nil, "knot"), r.own("capriccio-task", nil, "task-server"), knotOn("epoll"))
	for _, l := range launchers {
		s := testenv.Need(l.start(t.Context()))(t)
		for _, depth := range []int{1, helloPipeline} {
			if depth > 1 && l.system == "capriccio-task" {
				continue // which takes one request at a time
			}
			samples := testenv.Need(r.load(t.Context(), s, 2, depth, 0, 5*time.Millisecond))(t)
			if s := samples[0]; s.metric != "rps" || s.x != float64(depth) || s.value <= 0 {
				t.Errorf("%s, depth %d: %+v", l.system, depth, samples)
			}
		}
		s.child.Close()
	}
	_, err := knotOn("pigeon").start(t.Context())
	testenv.ErrorSays(t, err, "pigeon")
}

func TestServerThatDoesNotStartTellsWhy(t *testing.T) {
	for script, want := range map[string]string{
		"echo broken >&2; exit 1": "broken",
		"echo hello":              `said "hello"`,
	} {
		_, err := startServer(t.Context(), "x", "/bin/sh", "-c", script)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want an error with %q", script, err, want)
		}
	}
}

func TestCBaselineOfNoNameIsAnError(t *testing.T) {
	testenv.Fails(t, testenv.Err(compileC(t.Context(), t.TempDir(), "nothing")), "compiled")
}

func TestResultFolderIsMade(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	got, err := resultFolder(dir)
	if err != nil || got != dir {
		t.Errorf("got %q, %v", got, err)
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		t.Errorf("no folder: %v", err)
	}
}

// The table of the papers' systems in the README names experiments that there are.
func TestReadmeNamesExperiments(t *testing.T) {
	text := testenv.Need(os.ReadFile("../README.md"))(t)
	named := 0
	for _, row := range regexp.MustCompile(`(?m)^\|.*\| (.*go run \./bench run .*) \|$`).FindAllStringSubmatch(string(text), -1) {
		for _, command := range regexp.MustCompile("`(?:go run \\./bench run )?([a-z-]+)`").FindAllStringSubmatch(row[1], -1) {
			if named++; !slices.Contains(experimentNames(), command[1]) {
				t.Errorf("the README names the experiment %q, which there is not", command[1])
			}
		}
	}
	testenv.AtLeast(t, named, 25, "names were found")
}
