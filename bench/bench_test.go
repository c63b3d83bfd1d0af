package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capriccio-go/capriccio/bench/internal/proc"
	"github.com/capriccio-go/capriccio/bench/internal/report"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/google/pprof/profile"
)

// The test program is its own worker, as the driver is.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == workerCommand {
		runWorker(os.Args[2:], os.Stdout)
		os.Exit(0)
	}
	// Under the race detector a worker would linger for a second after its end.
	os.Setenv("GORACE", "atexit_sleep_ms=0 "+os.Getenv("GORACE"))
	os.Exit(m.Run())
}

func TestMistakesInTheCommandLineAreToldApart(t *testing.T) {
	for line, want := range map[string]string{
		"":                           "usage",
		"fly":                        `unknown command "fly"`,
		"list all":                   "no arguments",
		"run":                        "the name of an experiment, or more than one: choose from primitives, producer-consumer, pipes",
		"run pipes fly":              `no experiment "fly"`,
		"run pipes hello -systems a": "what is kept is whole",
		"run pipes -rounds -1":       "want numbers from 0",
		"compare a b c":              `two results, got ["a" "b" "c"]`,
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
	r.measure([]point{{metric: "m", x: 1}, {metric: "m", x: 2}}, []contender{fake("a", &calls), b}, time.Millisecond, nil)
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
		r.measure([]point{{metric: "m", x: 1}}, []contender{broken(system, &calls)}, time.Millisecond, nil)
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
	r.measure([]point{{metric: "m", x: 1}}, []contender{stops}, time.Millisecond, nil)
	if calls != 1 || len(r.env.Skipped) != 0 {
		t.Errorf("%d calls, skipped %v", calls, r.env.Skipped)
	}
}

func TestQuickRunOutOfTimeKeepsOneRound(t *testing.T) {
	r := testRun(t)
	r.began = time.Now().Add(-time.Hour)
	var calls []string
	r.measure([]point{{metric: "m", x: 1}}, []contender{fake("a", &calls)}, time.Hour, nil)
	if len(calls) != 1 || len(r.env.Notes) != 1 {
		t.Errorf("%d calls, notes %v; want one call and a note", len(calls), r.env.Notes)
	}
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

func TestCallsThatPerfCounts(t *testing.T) {
	testenv.Got(perfCalls("# started\n\n1234,,raw_syscalls:sys_enter,5678,100.00,,\n"))(t, 1234)
	for _, data := range []string{"", "<not counted>,,raw_syscalls:sys_enter,0,100.00,,"} {
		testenv.Fails(t, testenv.Err(perfCalls(data)), "%q", data)
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

// runAsTests are the experiments that run here. The others take long, or have tests of their own.
const runAsTests = "primitives producer-consumer pipes parked idle-conns admission-memory cohort-writes cohort-cache bigstack deep-handler " +
	"stack-cost models lingering-close relay proxy files tls native overload-memory overload-cgroup"

// Experiments measure each metric at its first point, or at 60, on all systems that can be had here, and the metrics of
// their aims and of the papers.
func TestExperimentsMeasureTheirMetrics(t *testing.T) {
	for _, e := range experiments {
		if !slices.Contains(strings.Fields(runAsTests), e.name) {
			continue
		}
		t.Run(e.name, func(t *testing.T) {
			if testenv.Race && e.name == nativeExperiment.name {
				t.Skip("under the race detector a task that waits natively keeps its loop")
			}
			givenTime(t, func(d time.Duration) error {
				r := measuringRun(t)
				r.asked = 1
				small := e
				if e.prepare != nil {
					if err := e.prepare(r, &small); err != nil { // no memory cgroup can be made
						t.Skip(err)
					}
					small.prepare = nil
				}
				small.parts = slices.Clone(small.parts)
				for i := range small.parts {
					p := &small.parts[i]
					p.points = slices.CompactFunc(slices.Clone(p.points), func(a, b point) bool { return a.metric == b.metric })
					p.quick, p.length, p.reserved, p.beside = nil, d, 0, nil
					for j := range p.points {
						if e.name != "stack-cost" { // where x is bytes
							p.points[j].x = min(p.points[j].x, 60)
						}
					}
				}
				if err := errors.Join(small.carryOut(r), r.failed); err != nil {
					return err
				}
				rows := r.samples.Rows()
				for _, of := range slices.Concat(aims[e.name], claimed(e.name)) {
					if slices.Contains(r.offered, of.System) && !slices.ContainsFunc(rows, func(row report.Row) bool { return row.System == of.System && row.Metric == of.Metric }) {
						t.Errorf("no %s of %s; skipped %q", of.Metric, of.System, r.env.Skipped)
					}
				}
				return nil
			})
		})
	}
}

// claimed are the values for which papers have published figures.
func claimed(name string) (all []report.Aim) {
	for _, c := range published[name] {
		all = append(all, report.Aim{Metric: c.Metric, System: c.System})
	}
	return all
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

// The table of the papers' systems, and all other pages, name experiments that there are.
func TestDocumentsNameExperiments(t *testing.T) {
	pages := append(testenv.Need(filepath.Glob("../docs/*.md"))(t), "../README.md")
	inRow := regexp.MustCompile(`(?m)^\|.*\| (.*go run \./bench run .*) \|$`)
	named := 0
	check := func(page, name string) {
		if named++; name != "all" && !slices.Contains(experimentNames(), name) {
			t.Errorf("%s names the experiment %q, which there is not", page, name)
		}
	}
	for _, page := range pages {
		text := string(testenv.Need(os.ReadFile(page))(t))
		for _, command := range regexp.MustCompile(`go run \./bench run ([a-z-]+)`).FindAllStringSubmatch(text, -1) {
			check(page, command[1])
		}
		for _, row := range inRow.FindAllStringSubmatch(text, -1) {
			for _, name := range regexp.MustCompile("`([a-z-]+)`").FindAllStringSubmatch(row[1], -1) {
				check(page, name[1])
			}
		}
	}
	testenv.AtLeast(t, named, 30, "names were found")
}

// Servers that could do more agree on the same key exchange as the others.
func TestHandshakesAreTheSameForAll(t *testing.T) {
	var curve atomic.Uint32
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		curve.Store(uint32(r.TLS.CurveID))
		w.Write(make([]byte, 1<<10))
	}))
	defer server.Close()
	c := testenv.Need(askTLS(server.Listener.Addr().String(), nil))(t)
	defer c.Close()
	testenv.Equal(t, tls.CurveID(curve.Load()), tls.X25519, "key exchange by")
}

// However slow the machine, what goes on is not taken for something that hangs; what does not, is.
func TestOnlyWhatStandsStillHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var stalled atomic.Bool
		progress, end := untilStalled(time.Minute, func() { stalled.Store(true) })
		for range 100 {
			time.Sleep(59 * time.Second)
			progress()
		}
		if synctest.Wait(); stalled.Load() {
			t.Error("what goes on is taken for something that hangs")
		}
		time.Sleep(61 * time.Second)
		if synctest.Wait(); !stalled.Load() {
			t.Error("what stands still is not found")
		}
		end()
	})
}

func TestPhasesGoUpAndDown(t *testing.T) {
	p := phases{10 * time.Second, 2 * time.Second, 5 * time.Second, 100, 300, 2}
	for at, want := range map[time.Duration]float64{
		0: 100, 10 * time.Second: 100, 11 * time.Second: 200, 12 * time.Second: 300, 17 * time.Second: 300, 18 * time.Second: 200,
		19 * time.Second: 100, 30 * time.Second: 200,
	} {
		testenv.Equal(t, p.rate(at), want, "a second after %v", at)
	}
	testenv.Equal(t, p.length(), 48*time.Second, "length")
}

func TestSharesOfAFlowGraph(t *testing.T) {
	stack := func(value int64, names ...string) *profile.Sample {
		s := &profile.Sample{Value: []int64{1, value}}
		for _, name := range names {
			s.Location = append(s.Location, &profile.Location{Line: []profile.Line{{Function: &profile.Function{Name: name}}}})
		}
		return s
	}
	const flow = "github.com/capriccio-go/capriccio/internal/flow."
	got := valuesOf(flowShares(&profile.Profile{Sample: []*profile.Sample{
		stack(10, "runtime.mallocgc", flow+"(*Instance[go.shape.int]).put", flow+"(*Out[go.shape.int]).Send", "main.run"),
		stack(20, flow+"(*sizer).addService", flow+"(*Instance[...]).done"),
		stack(30, "os.put", "main.run"),
		stack(40, flow+"(*Vars[...]).Of", "main.run"),
	}}))
	for metric, want := range map[string]float64{"enqueue": 10, "statistics": 20, "give-back": 0, "per-flow": 40, "all": 70} {
		testenv.Equal(t, got[metric], want, "%s in %%", metric)
	}
}
