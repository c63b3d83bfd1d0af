package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/bench/internal/report"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// fakeRun writes a report with a value, or fails.
func fakeRun(value float64, fails string, ran *[]string) func(context.Context, options, io.Writer, io.Writer) error {
	return func(_ context.Context, o options, out, _ io.Writer) error {
		*ran = append(*ran, o.experiment.name)
		if err := os.MkdirAll(o.dir, 0o777); err != nil {
			return err
		}
		r := report.Report{Name: o.experiment.name, Commit: "c", Env: report.Env{Time: "2026-01-01T00:00:00Z", Quick: o.quick}, Took: 60,
			Charts: []report.Chart{{Title: "T", Metric: "m"}}, Rows: []report.Row{{System: "capriccio", Metric: "m", Unit: "ns", X: 1,
				Value: value * 1.01, Min: value, Max: value * 1.02, N: 3, Samples: []float64{value, value * 1.01, value * 1.02}}}}
		if o.experiment.name == fails {
			return errors.New(fails + " failed")
		}
		return writeFiles(&r, o.dir, out)
	}
}

func TestRunAllKeepsWhatIsDoneAndDoesTheRestTheNextTime(t *testing.T) {
	dir := t.TempDir()
	o := options{quick: true, dir: dir, several: experiments}
	var ran []string
	err := runAll(t.Context(), o, fakeRun(100, "pipes", &ran), io.Discard, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "pipes failed") || len(ran) != len(experiments) {
		t.Errorf("ran %q, %v; want all, and the error of one", ran, err)
	}
	var progress bytes.Buffer
	ran = nil
	if err := runAll(t.Context(), o, fakeRun(100, "", &ran), io.Discard, &progress); err != nil || len(ran) != 1 || ran[0] != "pipes" {
		t.Errorf("the second time it ran %q, %v; want pipes only", ran, err)
	}
	testenv.Contains(t, progress.String(), "] pipes, about 38s", "progress")
	entries, err := os.ReadDir(filepath.Join(dir, keptName(commit(t.Context()), true)))
	if err != nil || len(entries) != 2*len(experiments) {
		t.Errorf("%d files are kept, %v; want JSON and SVG of each", len(entries), err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	interrupted := func(ctx context.Context, o options, out, progress io.Writer) error {
		if o.experiment.name == "pipes" {
			cancel()
			return context.Cause(ctx)
		}
		return fakeRun(1, "", &ran)(ctx, o, out, progress)
	}
	err = runAll(ctx, options{quick: true, dir: t.TempDir(), several: experiments}, interrupted, io.Discard, io.Discard)
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "goes on with pipes") {
		t.Errorf("interrupted: %v", err)
	}
}

func TestCompareFailsOnARegressionOnly(t *testing.T) {
	before, same, worse := t.TempDir(), t.TempDir(), t.TempDir()
	for dir, value := range map[string]float64{before: 100, same: 102, worse: 120} {
		var ran []string
		testenv.Must(t, runAll(t.Context(), options{dir: dir, several: experiments}, fakeRun(value, "", &ran), io.Discard, io.Discard))
	}
	var out bytes.Buffer
	if err := command(t.Context(), []string{"compare", before, same}, &out, io.Discard); err != nil {
		t.Errorf("2 %% more with a spread of 2 %%: %v\n%s", err, &out)
	}
	err := command(t.Context(), []string{"compare", before, worse}, &out, io.Discard)
	testenv.ErrorSays(t, err, "worse by more than 5 %", "20 % more")
	if err := command(t.Context(), []string{"compare", before, worse, "-threshold", "0.5"}, &out, io.Discard); err != nil {
		t.Errorf("20 %% more under a threshold of 50 %%: %v", err)
	}
	if err := command(t.Context(), []string{"compare", before, "nothing"}, &out, io.Discard); err == nil || !strings.Contains(err.Error(), "nothing: no such file") {
		t.Errorf("no such results: %v", err)
	}
	var usage *usageError
	if err := command(t.Context(), []string{"compare", before}, &out, io.Discard); !errors.As(err, &usage) {
		t.Errorf("one argument: %v", err)
	}
}

func TestReportLeavesWhatIsWrittenByHand(t *testing.T) {
	kept, folder := t.TempDir(), t.TempDir()
	var ran []string
	for _, quick := range []bool{true, false} {
		testenv.Must(t, runAll(t.Context(), options{dir: kept, quick: quick, several: experiments}, fakeRun(100, "", &ran), io.Discard, io.Discard))
	}
	document, page := filepath.Join(folder, "results.md"), filepath.Join(folder, "results", "pipes.md")
	testenv.Must(t, os.Mkdir(filepath.Dir(page), 0o777))
	testenv.Must(t, os.WriteFile(document, []byte("# Results\n\nBy hand.\n"), 0o666))
	testenv.Must(t, os.WriteFile(page, []byte("# Pipes\n\n<!-- bench pipes -->\nold\n<!-- end of pipes -->\n\nA finding.\n"), 0o666))
	read := func(path string) string { return string(testenv.Need(os.ReadFile(path))(t)) }
	var before []string
	for _, from := range []string{kept, t.TempDir()} { // the second time, without results, changes nothing
		testenv.Must(t, reportCommand(from, document, io.Discard))
		now := []string{read(document), read(page), read(filepath.Join(folder, "results", "data", "pipes.json"))}
		if before != nil {
			testenv.EqualSlices(t, now, before, "from what is kept beside the pages")
		}
		before = now
	}
	for _, want := range []string{"By hand.", "[pipes](results/pipes.md)", "[hello](results/hello.md)"} {
		testenv.Equal(t, strings.Count(before[0], want), 1, "times %q on the first page", want)
	}
	for _, want := range []string{"A finding.", "`go run ./bench run pipes`, ", "![pipes](pipes.svg)", "| 1 | 101 ±1% |"} {
		testenv.Equal(t, strings.Count(before[1], want), 1, "times %q on the page of pipes", want)
	}
	if strings.Contains(before[1], "\nold\n") || strings.Contains(before[1], "-quick") {
		t.Error("the old table, or a quick one where there is a full one, is there")
	}
	testenv.Contains(t, read(filepath.Join(folder, "results", "hello.md")), "# hello\n\nWhat is measured: ")
	testenv.Check(t, testenv.Err(os.Stat(filepath.Join(folder, "results", "pipes.svg"))))
}

// Ten figures lead the page, and each of them has been measured.
func TestHeadlinesAreMeasured(t *testing.T) {
	reports := testenv.Need(keptReports(filepath.Join("..", "docs", "results", "data")))(t)
	testenv.Equal(t, strings.Count(report.Headlines(reports, headlines, ours...), "\n"), 2+10)
	testenv.Equal(t, len(headlines), 10)
}

// The README has the figures of the results that are kept.
func TestFiguresOfTheReadme(t *testing.T) {
	readme := testenv.Need(os.ReadFile(filepath.Join("..", "README.md")))(t)
	made := filepath.Join(t.TempDir(), "README.md")
	testenv.Must(t, os.WriteFile(made, readme, 0o600))
	testenv.Must(t, reportFigures(filepath.Join("..", "docs", "results", "data"), made))
	testenv.Equal(t, string(readme), string(testenv.Need(os.ReadFile(made))(t)), "README.md; want what go run ./bench report writes")
	unmeasured := []report.Figure{{What: "unmeasured", Experiment: "hello", Metric: "no-metric"}}
	_, err := report.FiguresTable([]*report.Report{{Name: "hello"}}, unmeasured)
	testenv.Fails(t, err, "a figure that was not measured")
}

func TestReportsOfEachProcessorCount(t *testing.T) {
	one := func(cpu, time string, quick bool) *report.Report {
		return &report.Report{Name: "pipes", Env: report.Env{CPU: cpu, Time: time, Quick: quick}}
	}
	full := []*report.Report{one("a", "1", false), one("a", "2", true), one("b", "1", true), one("c", "2", false), one("a", "0", false)}
	quick := []*report.Report{one("a", "1", true), one("a", "2", true), one("b", "3", true)}
	for _, c := range []struct {
		name  string
		from  []*report.Report
		times []string
	}{{"full ones only, where there are some", full, []string{"2", "1"}}, {"quick ones", quick, []string{"3", "2"}}} {
		var times []string
		for _, r := range newest("pipes", c.from) {
			times = append(times, r.Env.Time)
		}
		if !slices.Equal(times, c.times) {
			t.Errorf("%s: those of %v; want of %v", c.name, times, c.times)
		}
	}
}

func TestWhatIsPublishedOrAimedAtBelongsToExperiments(t *testing.T) {
	names := experimentNames()
	for _, name := range slices.Concat(slices.Collect(maps.Keys(published)), slices.Collect(maps.Keys(aims))) {
		if !slices.Contains(names, name) {
			t.Errorf("%s is no experiment", name)
		}
	}
}

func TestProfileNamesTheGreatestFunctions(t *testing.T) {
	text := "# Overhead|Symbol|IPC\n\n 12.50% |[k] tcp_sendmsg |-  -\n  6.25%|[.] runtime.findRunnable |-  -\n"
	testenv.EqualSlices(t, topFunctions(text), []string{"12.50 % tcp_sendmsg [k]", "6.25 % runtime.findRunnable"})
}

func TestCPUNameTellsGenerationsApart(t *testing.T) {
	const info = "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 17\nmodel name\t: AMD EPYC\n\nprocessor\t: 1\n"
	testenv.Equal(t, cpuName(info), "AMD EPYC (family 25, model 17)")
	testenv.Equal(t, cpuName("CPU implementer\t: 0x41\n"), "0x41")
}

func TestFlat(t *testing.T) {
	looks := func(grows string, by float64) (all []map[string]float64) {
		for i := range 60 {
			look := map[string]float64{"resident": 50, "descriptors": 40, "goroutines": 30, "connections": 20}
			look[grows] += by * float64(i)
			all = append(all, look)
		}
		return all
	}
	testenv.Check(t, flat(looks("resident", 0)))
	for name := range soakUnits {
		testenv.ErrorSays(t, flat(looks(name, 2)), name+" have grown", name)
	}
	testenv.Fails(t, flat(looks("resident", 0)[:3]), "three looks are enough")
}
