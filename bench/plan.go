package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
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

// once adds samples of a system, which take about that long, and returns how long they took. What an interrupted run
// has kept of the same key is not measured again; an interrupted one measures nothing any more.
func (r *run) once(system, key string, about time.Duration, measure func() ([]sample, error)) (took time.Duration, err error) {
	if r.planning() {
		if line := system + ": " + key; !strings.Contains(key, "round ") || strings.HasSuffix(key, "round 0") {
			r.outline = append(r.outline, line)
		}
		*r.planned += about
		return about, nil
	}
	if err := context.Cause(r.ctx); err != nil {
		return 0, err
	}
	if kept, ok := r.journal.find(key); ok {
		samples, err := parseSamples(kept.Samples)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", r.journal.path, err)
		}
		return time.Duration(kept.Seconds * float64(time.Second)), r.add(system, samples)
	}
	began := time.Now()
	samples, err := measure()
	took = time.Since(began)
	if err == nil {
		err = r.add(system, samples)
	}
	if err == nil {
		if unkept := r.journal.keep(key, samples, took); unkept != nil {
			r.failed, r.journal = errors.Join(r.failed, unkept, r.journal.end(false)), nil
		}
	}
	return took, err
}

// try is once for what is called so, and left out if it fails. It reports whether there are samples.
func (r *run) try(system, what, key string, about time.Duration, measure func() ([]sample, error)) (took time.Duration, ok bool) {
	took, err := r.once(system, key, about, measure)
	if err != nil && r.ctx.Err() == nil {
		r.fail(system, what, err)
	}
	return took, err == nil
}

// partEnding is of the names of journals.
const partEnding = ".part"

// A journal is a file of what has been measured so far, for a run that goes on after it was interrupted. A nil one
// keeps nothing.
type journal struct {
	path string
	kept map[string]entry // of earlier calls
	took float64          // seconds, of those
	file *os.File
}

// An entry is a line of a journal. The first one has nothing but the key, which says what was run.
type entry struct {
	Key     string   `json:"key"`
	Seconds float64  `json:"seconds,omitempty"`
	Samples []string `json:"samples,omitempty"` // as workers print them
}

// openJournal reads what is kept of the same run, or begins afresh. A line that was cut off does not count, nor does
// what follows it.
func openJournal(path, of string) (*journal, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, err
	}
	j := &journal{path: path, kept: map[string]entry{}, file: f}
	good := int64(0)
	for in := bufio.NewReader(f); ; {
		line, err := in.ReadBytes('\n')
		var e entry
		if err != nil || json.Unmarshal(line, &e) != nil || good == 0 && e.Key != of {
			break
		}
		if good > 0 {
			j.kept[e.Key] = e
			j.took += e.Seconds
		}
		good += int64(len(line))
	}
	_, err = f.Seek(good, io.SeekStart)
	if err = errors.Join(err, f.Truncate(good)); err == nil && good == 0 {
		err = j.write(entry{Key: of})
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return j, nil
}

func (j *journal) find(key string) (entry, bool) {
	if j == nil {
		return entry{}, false
	}
	e, ok := j.kept[key]
	return e, ok
}

func (j *journal) keep(key string, samples []sample, took time.Duration) error {
	if j == nil {
		return nil
	}
	e := entry{Key: key, Seconds: took.Seconds()}
	for _, s := range samples {
		e.Samples = append(e.Samples, fmt.Sprintf("%s %s %v %v", s.metric, s.unit, s.x, s.value))
	}
	return j.write(e)
}

func (j *journal) write(e entry) error {
	line, err := json.Marshal(e)
	if err == nil {
		_, err = j.file.Write(append(line, '\n'))
	}
	return err
}

// end closes the journal, and removes it if it is of no use any more.
func (j *journal) end(done bool) error {
	if j == nil {
		return nil
	}
	err := j.file.Close()
	if done {
		err = errors.Join(err, os.Remove(j.path))
	}
	return err
}

// sameRun names what may go on where an interrupted run has ended: of the same program, on such a machine, with the
// same arguments.
func (r *run) sameRun(commit string) (string, error) {
	program, err := os.ReadFile(r.self)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s %x, %s, quick %v, %s", commit, sha256.Sum256(program), r.env.CPU, r.quick, r.env.Args), nil
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
