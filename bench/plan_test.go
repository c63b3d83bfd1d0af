package main

import (
	"bytes"
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
	testenv.AtMost(t, total, 270*time.Minute, "in all, with all tools")
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
			prepare: func(r *run, _ *experiment) error { return does("prepare")(r) },
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
	e := experiment{name: "fake",
		prepare: func(r *run, _ *experiment) error {
			return r.prepare(time.Minute, func() error { return errors.New("a plan has done it") })
		},
		parts: []part{{points: pointsAt("m", 1, 2), length: 2 * time.Second, systems: func(*run) []contender {
			c := contender{system: "b", lacks: func(p point) string { return map[float64]string{2: "no"}[p.x] }}
			return slower(time.Second, []contender{{system: "a"}, c})
		}}}}
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

// A system that there is not leaves no file, and takes nothing from the others.
func TestUnknownSystemIsNoResult(t *testing.T) {
	o := options{dir: t.TempDir(), rounds: 1, systems: []string{"nope"}}
	var calls []string
	o.experiment = experiment{name: "fake", parts: []part{{points: pointsAt("m", 1, 2), length: time.Millisecond, systems: func(*run) []contender {
		return []contender{fake("capriccio", &calls), fake("goroutine", &calls)}
	}}}}
	var usage *usageError
	err := runExperiment(t.Context(), o, io.Discard, io.Discard)
	if err != nil && !errors.As(err, &usage) {
		t.Skipf("no experiments here: %v", err)
	}
	if err == nil || !strings.Contains(err.Error(), `no system "nope": choose from capriccio, goroutine`) || calls != nil {
		t.Errorf("ran %q, %v", calls, err)
	}
	if left, err := os.ReadDir(o.dir); err != nil || len(left) > 0 {
		t.Errorf("it leaves %v, %v", left, err)
	}
	o.systems = []string{"nope", "goroutine"}
	if err := runExperiment(t.Context(), o, io.Discard, io.Discard); !errors.As(err, &usage) {
		t.Errorf("%v, want a usage error", err)
	}
	if got, err := readReport(filepath.Join(o.dir, "fake.json")); err != nil || len(got.Rows) != 2 {
		t.Errorf("what it measured is not kept: %+v, %v", got, err)
	}
}
