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
	var failed []error
	for i, e := range o.several {
		if _, err := os.Stat(filepath.Join(dir, e.name+".json")); err == nil {
			fmt.Fprintf(progress, "%s: kept already\n", e.name)
			continue
		}
		takes, _ := planOf(ctx, e, o) // its error shows when the experiment runs
		fmt.Fprintf(progress, "\n[%d/%d] %s, about %v\n", i+1, len(o.several), e.name, takes.Round(time.Second))
		one := o
		one.experiment, one.dir = e, filepath.Join(dir, runningFolder)
		err := runOne(ctx, one, out, progress)
		if err == nil {
			err = keep(one.dir, dir)
		}
		err = errors.Join(err, os.RemoveAll(one.dir))
		if cause := context.Cause(ctx); cause != nil {
			return fmt.Errorf("%w: the same command again goes on with %s", cause, e.name)
		}
		if err != nil {
			failed = append(failed, err)
			fmt.Fprintln(progress, "bench:", err)
		}
	}
	fmt.Fprintf(out, "results are in %s\n", dir)
	if len(failed) > 0 {
		fmt.Fprintln(out, "the same command again does what has failed")
	}
	return errors.Join(failed...)
}

// runningFolder is where the experiment that runs writes: a result of one that fails is not kept.
const runningFolder = "running"

func keep(from, to string) error {
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	slices.Reverse(entries) // the JSON last: once it is there, so is all else
	for _, e := range entries {
		if err := os.Rename(filepath.Join(from, e.Name()), filepath.Join(to, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// keptReports reads all reports below a folder, or that in a file.
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

func compareCommand(before, after string, threshold float64, out io.Writer) error {
	b, err := keptReports(before)
	if err != nil {
		return err
	}
	a, err := keptReports(after)
	if err != nil {
		return err
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
			all = append(all, report.Compare(x, y, ours)...)
		}
	}
	if len(all) == 0 {
		return fmt.Errorf("%s and %s have nothing in common", before, after)
	}
	worse, err := report.WriteDifferences(out, all, threshold)
	if err != nil {
		return err
	}
	if worse > 0 {
		return fmt.Errorf("%d of %d values are worse by more than %.0f %%", worse, len(all), 100*threshold)
	}
	return nil
}
