package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/bench/internal/report"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// A plan starts nothing and writes nothing: its scratch folder can't be made.
func TestFullRunsAreNotTooLong(t *testing.T) {
	total := time.Duration(0)
	for _, e := range experiments {
		d, err := planOf(t.Context(), e, options{})
		if err != nil {
			t.Logf("%s: %v", e.name, err) // a tool that is not here
		}
		most := 25 * time.Minute
		if e.name == admissionName {
			most = 47 * time.Minute
		}
		testenv.AtMost(t, d, most, e.name)
		quick, _ := planOf(t.Context(), e, options{quick: true})
		testenv.AtMost(t, quick, d+10*time.Second, "%s: quick, for %v full", e.name, d)
		total += d
	}
	testenv.AtMost(t, total, 220*time.Minute, "in all, with all tools")
}

// What each experiment measures, on which systems, with which charts and aims. Results that are kept compare with later
// ones only as long as this stays; change the file only with a reason.
func TestExperimentsMeasureWhatTheyDid(t *testing.T) {
	var all bytes.Buffer
	for _, e := range experiments {
		for _, quick := range []bool{false, true} {
			r, err := planned(t.Context(), e, options{quick: quick})
			testenv.Check(t, err)
			fmt.Fprintf(&all, "%s, quick %v\n", e.name, quick)
			for _, line := range r.outline {
				fmt.Fprintln(&all, " ", line)
			}
			for _, note := range r.env.Notes {
				fmt.Fprintln(&all, "  note", note)
			}
			for _, c := range r.charts {
				fmt.Fprintf(&all, "  chart %s by %s: %s\n", c.Metric, c.XLabel, c.Title)
			}
		}
		for _, a := range aims[e.name] {
			fmt.Fprintf(&all, "  aim %s %s %v %s %v: %v\n", a.System, a.Metric, a.X, a.Over+a.Row, a.OverX, a.Limit)
		}
		for _, c := range published[e.name] {
			fmt.Fprintf(&all, "  published %s %s %v %s %v: %v\n", c.System, c.Metric, c.X, c.Over, c.OverX, c.Published)
		}
	}
	testenv.Golden(t, "experiments.txt", all.Bytes())
}

func TestExperimentIsCarriedOutInOrder(t *testing.T) {
	for quick, want := range map[bool]string{
		true:  "prepare a/m/1 a/m/1 a/m/1 b/n/5 after end",
		false: "prepare a/m/1 a/m/2 a/m/1 a/m/2 a/m/1 a/m/2 a/m/1 a/m/2 b/n/5 b/n/5 b/n/5 b/n/5 after end",
	} {
		r := testRun(t)
		r.quick = quick
		var calls []string
		does := func(what string) func(*run) error {
			return func(*run) error { calls = append(calls, what); return nil }
		}
		e := experiment{
			prepare: does("prepare"),
			parts: []part{
				{points: pointsAt("m", 1, 2), quick: pointsAt("m", 1), length: time.Millisecond,
					systems: func(r *run) []contender {
						r.ends = append(r.ends, func() { calls = append(calls, "end") })
						return []contender{fake("a", &calls)}
					}},
				{points: pointsAt("n", 5), once: true, length: time.Millisecond,
					systems: func(*run) []contender { return []contender{fake("b", &calls)} }},
			},
			after: does("after"), notes: []string{"100 %"}, charts: []report.Chart{{Metric: "m"}},
		}
		testenv.Must(t, e.carryOut(r))
		testenv.Equal(t, strings.Join(calls, " "), want, "quick %v", quick)
		if r.asked != 0 || !slices.Equal(r.env.Notes, e.notes) || len(r.charts) != 1 {
			t.Errorf("asked for %d rounds, notes %q, charts %v", r.asked, r.env.Notes, r.charts)
		}
	}
}

func TestPlanCountsRoundsPointsAndSystems(t *testing.T) {
	e := experiment{name: "fake", run: func(r *run) error {
		c := contender{system: "b", lacks: func(p point) string { return map[float64]string{2: "no"}[p.x] }}
		if err := r.prepare(time.Minute, func() error { return errors.New("a plan has done it") }); err != nil {
			return err
		}
		r.measure(pointsAt("m", 1, 2), slower(time.Second, []contender{{system: "a"}, c}), 2*time.Second)
		return nil
	}}
	for o, want := range map[*options]time.Duration{
		{}:            time.Minute + fullRounds*3*3*time.Second + lossesProfiled*3*time.Second,
		{rounds: 2}:   time.Minute + 2*3*3*time.Second + lossesProfiled*3*time.Second,
		{quick: true}: time.Minute + 3*(time.Second+shortestSample), // more than there is time for, but one round
	} {
		if got, err := planOf(t.Context(), e, *o); got != want || err != nil {
			t.Errorf("%+v: %v, %v; want %v", *o, got, err, want)
		}
	}
}

// interruptible is an experiment of two systems at two points, whose values are numbered, and that is cut off at one.
type interruptible struct {
	calls  []string
	cutAt  int
	cancel context.CancelFunc
	fails  string
}

func (f *interruptible) run(r *run) error {
	var all []contender
	for _, system := range []string{"capriccio", "goroutine"} {
		all = append(all, contender{system: system, sample: func(ctx context.Context, p point, _ time.Duration) ([]sample, error) {
			name := fmt.Sprint(system, p.x, r.round)
			f.calls = append(f.calls, name)
			if len(f.calls) == f.cutAt {
				f.cancel()
				return nil, ctx.Err()
			}
			if name == f.fails {
				return nil, errors.New("it fails")
			}
			return []sample{{"m", "req/s", p.x, 10*p.x + float64(r.round) + 1.0/3}}, nil
		}})
	}
	r.measure(pointsAt("m", 1, 2), all, time.Millisecond)
	return nil
}

func (f *interruptible) call(t *testing.T, o options, cutAt int) error {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	f.calls, f.cutAt, f.cancel = nil, cutAt, cancel
	o.experiment = experiment{name: "fake", run: f.run}
	return runExperiment(ctx, o, io.Discard, io.Discard)
}

func TestInterruptedRunGoesOnWhereItWas(t *testing.T) {
	o := options{dir: t.TempDir()}
	part, f := filepath.Join(o.dir, "fake"+partEnding), &interruptible{}
	if err := f.call(t, o, 8); !errors.Is(err, context.Canceled) {
		t.Skipf("no experiments here: %v", err)
	}
	file, err := os.OpenFile(part, os.O_WRONLY|os.O_APPEND, 0)
	testenv.Must(t, err)
	_, err = file.WriteString(`{"key":"1 goroutine`) // as of a call that was killed
	testenv.Must(t, errors.Join(err, file.Close()))
	if err := f.call(t, o, 3); !errors.Is(err, context.Canceled) || f.calls[0] != "capriccio2 1" {
		t.Fatalf("ran %q, %v; want it to go on with the eighth", f.calls, err)
	}
	if err := f.call(t, o, 0); err != nil || len(f.calls) != 4*fullRounds-7-2 {
		t.Fatalf("ran %q, %v; want the others of %d", f.calls, err, 4*fullRounds)
	}
	got := testenv.Need(readReport(filepath.Join(o.dir, "fake.json")))(t)
	for _, row := range got.Rows {
		var want []float64
		for round := range fullRounds {
			want = append(want, 10*row.X+float64(round)+1.0/3)
		}
		if row.N != fullRounds || row.Unit != "req/s" || !slices.Equal(row.Samples, want) {
			t.Errorf("%+v, want %v", row, want)
		}
	}
	if len(got.Rows) != 4 || !strings.Contains(fmt.Sprint(got.Env.Notes), "9 samples are of an earlier call") {
		t.Errorf("%d rows, notes %q", len(got.Rows), got.Env.Notes)
	}
	if _, err := os.Stat(part); !os.IsNotExist(err) {
		t.Errorf("the journal is still there: %v", err)
	}
}

func TestOnlyTheSameRunGoesOn(t *testing.T) {
	o := options{dir: t.TempDir()}
	f := &interruptible{}
	if err := f.call(t, o, 8); !errors.Is(err, context.Canceled) {
		t.Skipf("no experiments here: %v", err)
	}
	o.rounds = 2
	if err := f.call(t, o, 0); err != nil || len(f.calls) != 8 {
		t.Errorf("ran %q, %v; want all of another number of rounds", f.calls, err)
	}
}

// What has failed is measured the next time, and nothing else.
func TestFailedRunDoesTheRestTheNextTime(t *testing.T) {
	o := options{dir: t.TempDir(), rounds: 1}
	f := &interruptible{fails: "capriccio2 0"}
	if err := f.call(t, o, 0); err == nil || !strings.Contains(err.Error(), "it fails") {
		t.Skipf("no experiments here: %v", err)
	}
	f.fails = ""
	if err := f.call(t, o, 0); err != nil || !slices.Equal(f.calls, []string{"capriccio2 0"}) {
		t.Errorf("ran %q, %v; want what has failed", f.calls, err)
	}
}

// A system that there is not leaves no file, and takes nothing from the others.
func TestUnknownSystemIsNoResult(t *testing.T) {
	o := options{dir: t.TempDir(), rounds: 1, systems: []string{"nope"}}
	f := &interruptible{}
	var usage *usageError
	err := f.call(t, o, 0)
	if err != nil && !errors.As(err, &usage) {
		t.Skipf("no experiments here: %v", err)
	}
	if err == nil || !strings.Contains(err.Error(), `no system "nope": choose from capriccio, goroutine`) || f.calls != nil {
		t.Errorf("ran %q, %v", f.calls, err)
	}
	if left, err := os.ReadDir(o.dir); err != nil || len(left) > 0 {
		t.Errorf("it leaves %v, %v", left, err)
	}
	o.systems = []string{"nope", "goroutine"}
	if err := f.call(t, o, 0); !errors.As(err, &usage) {
		t.Errorf("%v, want a usage error", err)
	}
	if got, err := readReport(filepath.Join(o.dir, "fake.json")); err != nil || len(got.Rows) != 2 {
		t.Errorf("what it measured is not kept: %+v, %v", got, err)
	}
}
