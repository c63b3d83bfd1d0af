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

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/gotrace"
	"github.com/capriccio-go/capriccio/internal/graphcompare"
)

// isGate reports whether the command line asks for a verdict on two sides, each of one capture or more.
func (set *settings) isGate() bool {
	return len(set.sources) == 2 && !set.merge && (set.mode == modeLint || set.mode == modeMD)
}

// gate compares the captures of two sides. Two moments of one run are shown as what happened between them, as everywhere.
func gate(ctx context.Context, set *settings, sur *surroundings) (int, error) {
	var sides [2][]*bgraph.Snapshot
	for i, arg := range set.sources {
		var err error
		if sides[i], err = captures(ctx, arg, sur, set); err != nil {
			return exitFailed, err
		}
	}
	before, after := sides[0], sides[1]
	if a, b := before[0], after[0]; len(before) == 1 && len(after) == 1 && a.Kind != bgraph.KindGoroutines && bgraph.SameRun(a, b) && !a.Period && !b.Period {
		s, err := bgraph.Diff(a, b)
		if err != nil {
			return exitFailed, err
		}
		return show(set, s, sur)
	}
	for _, s := range slices.Concat(before, after) {
		if s.Kind != before[0].Kind {
			return exitFailed, errors.New("these cannot be compared: some are graphs of tasks, others execution traces")
		}
	}
	v := graphcompare.Judge(before, after, set.focus, set.ignore)
	err := output(set, sur, func(w io.Writer) error {
		switch {
		case set.json:
			return writeJSON(w, v)
		case set.mode == modeMD:
			return v.WriteMarkdown(w)
		}
		return v.WriteText(w)
	})
	switch {
	case err != nil:
		return exitFailed, err
	case len(v.Regressions) > 0:
		return exitFound, nil
	}
	return exitOK, nil
}

// captures takes the snapshots of one side: a source, several with commas between them, or a folder of traces and dumps.
func captures(ctx context.Context, arg string, sur *surroundings, set *settings) ([]*bgraph.Snapshot, error) {
	names := []string{arg}
	if info, err := os.Stat(arg); err == nil && info.IsDir() {
		if names, err = capturesIn(arg); err != nil {
			return nil, err
		}
	} else if err != nil {
		names = strings.Split(arg, ",")
	}
	for i, name := range names {
		if _, isURL, _ := asURL(name); !isURL && slices.Contains(names[:i], name) {
			return nil, fmt.Errorf("%s is there twice; want captures of different seconds", printable(name))
		}
	}
	if len(names) > maxSources {
		return nil, fmt.Errorf("%d captures on one side; want at most %d", len(names), maxSources)
	}
	var all []*bgraph.Snapshot
	for i, name := range names {
		if at := slices.Index(names[:i], name); at >= 0 && all[at].Kind != bgraph.KindGoroutines { // a capture is what happens until then
			if err := wait(ctx, sur.clock, usualTracing); err != nil {
				return nil, err
			}
		}
		src, err := openSource(ctx, name, sur, set)
		if err != nil {
			return nil, err
		}
		if folder, ok := src.(*folderSource); ok {
			folder.last = true
		}
		s, err := src.Snapshot(ctx)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return periods(all)
}

// capturesIn names the traces and dumps in a folder.
func capturesIn(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if !e.Type().IsRegular() {
			continue
		}
		name := filepath.Join(dir, e.Name())
		head, _, err := headOf(name)
		switch {
		case errors.Is(err, fs.ErrNotExist): // a recorder has removed it just now
		case err != nil:
			return nil, err
		case gotrace.IsTrace(head) || compressed(head) || strings.HasPrefix(string(head), "capriccio"):
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("the folder %s has neither an execution trace nor a dump", printable(dir))
	}
	return names, nil
}

// periods makes captures of what happened from one moment of a run to the next, where several are of one run: they cover the
// same time.
func periods(all []*bgraph.Snapshot) ([]*bgraph.Snapshot, error) {
	slices.SortStableFunc(all, func(a, b *bgraph.Snapshot) int { return a.Taken.Compare(b.Taken) })
	var out []*bgraph.Snapshot
	for i, s := range all {
		at := -1
		if s.Kind != bgraph.KindGoroutines && !s.Period {
			at = slices.IndexFunc(all[i+1:], func(later *bgraph.Snapshot) bool { return bgraph.SameRun(s, later) && !later.Period })
		}
		switch {
		case at >= 0:
			d, err := bgraph.Diff(s, all[i+1+at])
			if err != nil {
				return nil, err
			}
			out = append(out, d)
		case !slices.ContainsFunc(all[:i], func(earlier *bgraph.Snapshot) bool {
			return bgraph.SameRun(s, earlier) && s.Kind != bgraph.KindGoroutines && !s.Period
		}):
			out = append(out, s)
		}
	}
	return out, nil
}
