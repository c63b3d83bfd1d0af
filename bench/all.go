package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/capriccio-go/capriccio/bench/internal/report"
)

// keptFolder is where results are kept, a folder for each commit, with "-quick" for quick runs.
const keptFolder = "results"

func keptName(commit string, quick bool) string {
	if quick {
		return commit + "-quick"
	}
	return commit
}

// runAll runs those of the experiments whose result is not kept yet, with runOne, which is
// runExperiment, and goes on after one that fails.
func runAll(ctx context.Context, o options, runOne func(context.Context, options, io.Writer, io.Writer) error, out, progress io.Writer) error {
	kept := o.dir
	if kept == "" {
		kept = keptFolder
	}
	revision := commit(ctx)
	if strings.HasSuffix(revision, "-dirty") {
		fmt.Fprintln(progress, "bench: the working folder has changes: results are kept as of a commit that is not there")
	}
	dir := filepath.Join(kept, keptName(revision, o.quick))
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	took := usualTimes(kept, o)
	var left []experiment
	for _, e := range o.several {
		if _, err := os.Stat(filepath.Join(dir, e.name+".json")); err == nil {
			fmt.Fprintf(progress, "%s: kept already\n", e.name)
			continue
		}
		left = append(left, e)
	}
	var failed []error
	for i, e := range left {
		rest := time.Duration(0)
		for _, later := range left[i:] {
			rest += took(later)
		}
		fmt.Fprintf(progress, "\n[%d/%d] %s, about %v; about %v left in all\n", i+1, len(left), e.name,
			took(e).Round(time.Second), rest.Round(time.Second))
		one := o
		one.experiment, one.dir = e, filepath.Join(dir, runningFolder, e.name)
		err := runOne(ctx, one, out, progress)
		full := errors.Is(err, syscall.ENOSPC) // perhaps only of the picture, which report draws again
		if err == nil || full {
			err = errors.Join(err, keep(e.name, one.dir, dir))
		}
		if full { // what the others measure could not be kept either
			return fmt.Errorf("%w: make room; the same command again goes on", err)
		}
		if cause := context.Cause(ctx); cause != nil {
			return fmt.Errorf("%w: the same command again goes on with %s", cause, e.name)
		}
		if err != nil {
			failed = append(failed, err)
			fmt.Fprintln(progress, "bench:", err)
		}
	}
	os.Remove(filepath.Join(dir, runningFolder)) // unless something is in there
	fmt.Fprintf(out, "results are in %s\n", dir)
	if len(failed) > 0 {
		fmt.Fprintln(out, "the same command again does what has failed")
	}
	return errors.Join(failed...)
}

// runningFolder is where experiments write that are not done: what they have measured stays there for the next call.
const runningFolder = "running"

// keep moves the files of one experiment to where they stay, if it has a result.
func keep(name, from, to string) error {
	if _, err := os.Stat(filepath.Join(from, name+".json")); err != nil {
		return err
	}
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	slices.Reverse(entries) // the JSON last: once it is there, so is all else
	for _, e := range entries {
		if filepath.Ext(e.Name()) == partEnding {
			continue
		}
		if err := os.Rename(filepath.Join(from, e.Name()), filepath.Join(to, e.Name())); err != nil {
			return err
		}
	}
	return os.RemoveAll(from)
}

// usualTimes reports how long experiments take: as long as the last time, whatever the commit, or
// about as long as they were seen to take.
func usualTimes(kept string, o options) func(e experiment) time.Duration {
	known := map[string]time.Duration{}
	newest := map[string]string{}
	reports, _ := keptReports(kept)
	for _, r := range reports {
		if r.Env.Quick == o.quick && r.Env.Args == o.args() && r.Took > 0 && r.Env.Time > newest[r.Name] {
			known[r.Name], newest[r.Name] = time.Duration(r.Took*float64(time.Second)), r.Env.Time
		}
	}
	return func(e experiment) time.Duration {
		if d, ok := known[e.name]; ok {
			return d
		}
		d, _ := planOf(context.Background(), e, o) // its error shows when it runs
		return d
	}
}

// keptReports reads all reports below a folder, by file name.
func keptReports(folder string) ([]*report.Report, error) {
	var all []*report.Report
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && d.Name() == runningFolder {
			return filepath.SkipDir
		}
		if err != nil || d.IsDir() || filepath.Ext(path) != ".json" {
			return err
		}
		r, err := readReport(path)
		if err == nil {
			all = append(all, r)
		}
		return err
	})
	return all, err
}

func readReport(path string) (*report.Report, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	r, err := report.Read(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if r.Name == "" {
		return nil, fmt.Errorf("%s: no report of an experiment", path)
	}
	return r, nil
}

// findReports reads the reports that an argument of compare or report means: a file, a folder,
// or a commit, of which the beginning is enough, with "-quick" behind it for quick runs.
func findReports(arg string) ([]*report.Report, error) {
	if info, err := os.Stat(arg); err == nil {
		if info.IsDir() {
			return keptReports(arg)
		}
		r, err := readReport(arg)
		return []*report.Report{r}, err
	}
	hash, quick := strings.CutSuffix(arg, "-quick")
	entries, err := os.ReadDir(keptFolder)
	if err != nil {
		return nil, fmt.Errorf("%s is no file or folder, and no results are kept: %w", arg, err)
	}
	var found []string
	for _, e := range entries {
		if h, q := strings.CutSuffix(e.Name(), "-quick"); strings.HasPrefix(h, hash) && q == quick {
			found = append(found, e.Name())
		}
	}
	if len(found) != 1 {
		return nil, fmt.Errorf("%s is no file or folder, and %d of the kept commits match: %q", arg, len(found), found)
	}
	return keptReports(filepath.Join(keptFolder, found[0]))
}

// compareCommand compares the results of two commits, folders or files.
func compareCommand(before, after string, o options, out io.Writer) error {
	b, err := findReports(before)
	if err != nil {
		return err
	}
	a, err := findReports(after)
	if err != nil {
		return err
	}
	systems := ours
	if o.all {
		systems = nil
	}
	var all []report.Difference
	for _, x := range b {
		for _, y := range a {
			if x.Name != y.Name {
				continue
			}
			if x.Env.CPU != y.Env.CPU || x.Env.Quick != y.Env.Quick {
				fmt.Fprintf(out, "%s: not the same kind of run: %s, quick %v; %s, quick %v\n", x.Name, x.Env.CPU, x.Env.Quick, y.Env.CPU, y.Env.Quick)
			}
			for _, r := range []*report.Report{x, y} {
				if r.Env.Disturbed() {
					fmt.Fprintf(out, "%s of %.12s: other programs had %.0f %% of the machine's time\n", r.Name, r.Commit, r.Env.Others)
				}
			}
			all = append(all, report.Compare(x, y, systems)...)
		}
	}
	if len(all) == 0 {
		return fmt.Errorf("%s and %s have nothing in common", before, after)
	}
	worse, err := report.WriteDifferences(out, all, o.threshold)
	if err != nil {
		return err
	}
	if worse > 0 {
		return fmt.Errorf("%d of %d values are worse by more than %.0f %%", worse, len(all), 100*o.threshold)
	}
	return nil
}
