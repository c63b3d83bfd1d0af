package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// A planned run goes through an experiment without starting or measuring anything, to find how long it takes: all
// that is measured goes through once, and what comes before through prepare.
func (r *run) planning() bool { return r.planned != nil }

// usualOverhead is what a sample takes beside measuring: a process starts.
const usualOverhead = 60 * time.Millisecond

// planOf is about how long an experiment takes, by its rounds, points, systems and lengths.
func planOf(ctx context.Context, e experiment, o options) (time.Duration, error) {
	r, err := planned(ctx, e, o)
	return *r.planned, err
}

func planned(ctx context.Context, e experiment, o options) (*run, error) {
	r := &run{ctx: ctx, quick: o.quick, asked: o.rounds, length: o.length, progress: io.Discard,
		scratch: filepath.Join(os.DevNull, "of a plan"), planned: new(time.Duration)}
	return r, e.carryOut(r)
}

// prepare does what has to be done besides measuring, and takes about that long.
func (r *run) prepare(about time.Duration, f func() error) error {
	if r.planning() {
		*r.planned += about
		return nil
	}
	return f()
}

// listExperiments writes which experiments there are, and about how many minutes each takes.
func listExperiments(ctx context.Context, out io.Writer) error {
	var total [2]time.Duration
	fmt.Fprintf(out, "%-18s %6s %6s\n", "", "quick", "full")
	for _, e := range experiments {
		fmt.Fprintf(out, "%-18s", e.name)
		var failed error
		for i, quick := range []bool{true, false} {
			d, err := planOf(ctx, e, options{quick: quick})
			total[i] += d
			failed = err
			fmt.Fprintf(out, " %6.1f", d.Minutes())
		}
		fmt.Fprintf(out, "  %s\n", e.doc)
		if failed != nil {
			fmt.Fprintf(out, "%-32s  here: %v\n", "", failed)
		}
	}
	fmt.Fprintf(out, "%-18s %6.1f %6.1f  minutes\n", "all", total[0].Minutes(), total[1].Minutes())
	return nil
}
