package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/words"
)

// A recording is a file named by the time of its snapshot, so that names sort by time,
// and by the program: 20260314T031245.000Z-knot-4711.bgraph.
const (
	recordingTime   = "20060102T150405.000Z"
	recordingSuffix = ".bgraph"
)

var recordingName = regexp.MustCompile(`^([0-9]{8}T[0-9]{6}\.[0-9]{3}Z)-(.+)-([0-9]+)\.bgraph$`)

func nameRecording(s *bgraph.Snapshot) string {
	return s.Taken.UTC().Format(recordingTime) + "-" + programPart(s) + "-" + strconv.Itoa(s.Program.PID) + recordingSuffix
}

// programPart is the name of the program, fit for the name of a file.
func programPart(s *bgraph.Snapshot) string { return fileName(s.Program.Name) }

// fileName is a name as a part of the name of a file.
func fileName(name string) string {
	part := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r) {
			return r
		}
		return '_'
	}, name)
	if part == "" {
		return "unknown"
	}
	return part[:min(len(part), 100)]
}

// listRecordings returns the names of the recordings in a folder, the earliest first.
func listRecordings(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if recordingName.MatchString(e.Name()) && e.Type().IsRegular() {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// A folderSource is a folder of recordings. As time goes on it shows one after the
// other, and then the last for ever.
type folderSource struct {
	dir   string
	names []string
	clock clock
	begun time.Time // when the first was asked for
	step  time.Duration
	last  bool // the last is all that is wanted
	file  *fileSource
}

func openFolder(dir string, c clock, step time.Duration) (*folderSource, error) {
	names, err := listRecordings(dir)
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("the folder %s has no recordings; bgdump -record makes them, with names like 20060102T150405.000Z-PROGRAM-PID%s", printable(dir), recordingSuffix)
	}
	return &folderSource{dir: dir, names: names, clock: c, step: step}, nil
}

func (f *folderSource) Name() string { return "recordings in " + printable(f.dir) }

// current is the index of the recording that is due.
func (f *folderSource) current() int {
	if f.last {
		return len(f.names) - 1
	}
	now := f.clock.Now()
	if f.begun.IsZero() {
		f.begun = now
	}
	return int(min(now.Sub(f.begun)/f.step, time.Duration(len(f.names)-1)))
}

func (f *folderSource) Snapshot(ctx context.Context) (*bgraph.Snapshot, error) {
	return f.read(ctx, f.names[f.current()])
}

func (f *folderSource) read(ctx context.Context, name string) (*bgraph.Snapshot, error) {
	if path := filepath.Join(f.dir, name); f.file == nil || f.file.path != path {
		f.file = &fileSource{path: path}
	}
	return f.file.Snapshot(ctx)
}

// span returns the last recording and the latest that was made at least d before it, with a little grace: they are
// not made exactly on time.
func (f *folderSource) span(ctx context.Context, d time.Duration) (before, after *bgraph.Snapshot, err error) {
	last := f.names[len(f.names)-1]
	end := recordedAt(last)
	for _, name := range slices.Backward(f.names) {
		if end.Sub(recordedAt(name)) < d-min(d/10, time.Second/2) {
			continue
		}
		if before, err = f.read(ctx, name); err != nil {
			return nil, nil, err
		}
		after, err = f.read(ctx, last)
		return before, after, err
	}
	return nil, nil, fmt.Errorf("%s cover %s only", f.Name(), end.Sub(recordedAt(f.names[0])))
}

// recordedAt is the time in the name of a recording.
func recordedAt(name string) time.Time {
	t, err := time.Parse(recordingTime, recordingName.FindStringSubmatch(name)[1])
	if err != nil {
		return time.Time{} // digits that are no time: long ago
	}
	return t
}

// A recorder writes a snapshot of a source into a folder again and again.
type recorder struct {
	src      source
	dir      string
	interval time.Duration
	keep     retention
	sur      *surroundings

	written int
	failing int // attempts that failed since the last success
}

// run records until ctx ends, or a process that is recorded does. The first snapshot
// must succeed; later on the source, or the disk, may be away for a while.
func (r *recorder) run(ctx context.Context) error {
	if err := os.MkdirAll(r.dir, 0o700); err != nil {
		return err
	}
	next := r.sur.clock.Now()
	err := r.recordOnce(ctx)
	if ctx.Err() != nil {
		return r.stopped("")
	}
	if err != nil {
		return err
	}
	r.say("recording %s every %s in %s; stop with Ctrl-C", r.src.Name(), r.interval, printable(r.dir))
	for {
		// A snapshot that took long does not delay all that follow.
		now := r.sur.clock.Now()
		for next = next.Add(r.interval); !next.After(now); {
			next = next.Add(r.interval)
		}
		if wait(ctx, r.sur.clock, next.Sub(now)) != nil {
			return r.stopped("")
		}
		err := r.recordOnce(ctx)
		if ctx.Err() != nil {
			return r.stopped("")
		}
		if isEnded(err) {
			return r.stopped(err.Error() + "; ")
		}
		r.report(err)
	}
}

// report says when things begin to fail, and when they work again.
func (r *recorder) report(err error) {
	switch {
	case err != nil && r.failing == 0:
		r.say("%v\ntrying again every %s", err, r.interval)
	case err == nil && r.failing > 0:
		r.say("it works again, after %s", words.Plural(r.failing, "attempt")+" that failed")
	}
	if err != nil {
		r.failing++
	} else {
		r.failing = 0
	}
}

func (r *recorder) say(format string, args ...any) {
	fmt.Fprintf(r.sur.stderr, "%s bgdump: %s\n", r.sur.clock.Now().Format(time.TimeOnly), explain(fmt.Errorf(format, args...)))
}

func (r *recorder) stopped(why string) error {
	r.say("%s%d snapshots written to %s", why, r.written, printable(r.dir))
	return nil
}

// recordOnce writes one recording and then removes old ones. It removes them even if the write has failed, as the disk may be full.
func (r *recorder) recordOnce(ctx context.Context) error {
	err := r.write(ctx)
	if ctx.Err() != nil {
		return err
	}
	return errors.Join(err, r.keep.prune(r.dir, r.sur.clock.Now()))
}

func (r *recorder) write(ctx context.Context) error {
	s, err := r.src.Snapshot(ctx)
	if err != nil {
		return err
	}
	if err := bgraph.WriteFile(filepath.Join(r.dir, nameRecording(s)), s); err != nil {
		return err
	}
	r.written++
	return nil
}
