package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/graphcompare"
	"github.com/capriccio-go/capriccio/internal/graphview/draw"
	"github.com/capriccio-go/capriccio/internal/graphview/export"
	"github.com/capriccio-go/capriccio/internal/graphview/lint"
	"github.com/capriccio-go/capriccio/internal/graphview/tables"
)

// runOnce looks at the sources, writes what is asked for and returns the exit code.
func runOnce(ctx context.Context, set *settings, sources []source, sur *surroundings) (int, error) {
	if set.mode == modePprof && set.out == "" && isTerminal(sur.stdout) {
		return exitFailed, errors.New("a profile is not made for a terminal; write it to a file with -o FILE, then look at it with go tool pprof FILE")
	}
	for _, src := range sources {
		if folder, ok := src.(*folderSource); ok {
			folder.last = true
		}
	}
	if len(sources) == 2 {
		return compareTwo(ctx, set, sources, sur)
	}
	s, err := take(ctx, set, sources[0], sur)
	if err != nil {
		return exitFailed, err
	}
	return show(set, s, sur)
}

// take gets the snapshot of one source, or the difference of two with -seconds.
func take(ctx context.Context, set *settings, src source, sur *surroundings) (*bgraph.Snapshot, error) {
	if set.seconds == 0 {
		return src.Snapshot(ctx)
	}
	if folder, ok := src.(*folderSource); ok {
		before, after, err := folder.span(ctx, set.seconds)
		if err != nil {
			return nil, err
		}
		return bgraph.Diff(before, after)
	}
	before, err := src.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	if before.Kind == bgraph.KindGoroutines {
		return before, nil // a trace of that length
	}
	if err := wait(ctx, sur.clock, set.seconds); err != nil {
		return nil, err
	}
	after, err := src.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	if !bgraph.SameRun(before, after) {
		return nil, fmt.Errorf("%s was started anew in the meantime", src.Name())
	}
	return bgraph.Diff(before, after)
}

// compareTwo shows what has changed from the first source to the second.
func compareTwo(ctx context.Context, set *settings, sources []source, sur *surroundings) (int, error) {
	var snaps [2]*bgraph.Snapshot
	for i, src := range sources {
		var err error
		if snaps[i], err = src.Snapshot(ctx); err != nil {
			return exitFailed, err
		}
	}
	if snaps[0].Kind != bgraph.KindGoroutines && bgraph.SameRun(snaps[0], snaps[1]) && !snaps[0].Period && !snaps[1].Period {
		s, err := bgraph.Diff(snaps[0], snaps[1])
		if err != nil {
			return exitFailed, err
		}
		return show(set, s, sur)
	}
	return compareRuns(set, snaps[0], snaps[1], sur)
}

// compareRuns sets two runs, or periods of one, side by side.
func compareRuns(set *settings, before, after *bgraph.Snapshot, sur *surroundings) (int, error) {
	why := ""
	switch {
	case set.mode != modeText && set.mode != modeJSON:
		why = fmt.Sprintf("only a table (without -%s) or -json can compare them", set.mode)
	case set.sort != "":
		why = "what has changed most comes first, so -sort has no meaning"
	case set.stacks:
		why = "their comparison has no stacks"
	}
	if why != "" {
		return exitFailed, fmt.Errorf("these are two runs, or periods of one, %s and %s; %s", runName(before), runName(after), why)
	}
	c := graphcompare.Compare(before.Filter(set.focus, set.ignore), after.Filter(set.focus, set.ignore))
	if set.limit > 0 {
		c.Nodes, c.Edges = c.Nodes[:min(len(c.Nodes), set.limit)], c.Edges[:min(len(c.Edges), set.limit)]
	}
	err := output(set, sur, func(w io.Writer) error {
		if set.mode == modeJSON {
			return writeJSON(w, c)
		}
		return c.WriteText(w)
	})
	if err != nil {
		return exitFailed, err
	}
	return exitOK, nil
}

func runName(s *bgraph.Snapshot) string {
	if s.Program.PID == 0 {
		return printable(s.Program.Name)
	}
	return fmt.Sprintf("%s (process %d on %s)", printable(s.Program.Name), s.Program.PID, printable(s.Program.Host))
}

// show writes s in the format that is asked for.
func show(set *settings, s *bgraph.Snapshot, sur *surroundings) (int, error) {
	whole := s
	if set.focus != nil || set.ignore != nil {
		s = s.Filter(set.focus, set.ignore)
		if !slices.ContainsFunc(s.Nodes, func(n bgraph.Node) bool { return n.Key > bgraph.KeyOverflow }) {
			return exitFailed, errors.New("there is no node that -focus and -ignore leave")
		}
	}
	code := exitOK
	err := output(set, sur, func(w io.Writer) error {
		if set.mode == modeLint {
			found, err := writeLint(set, whole, s, w)
			if found {
				code = exitFound
			}
			return err
		}
		return write(set, whole, s, sur, w)
	})
	if err != nil {
		return exitFailed, err
	}
	return code, nil
}

func write(set *settings, whole, s *bgraph.Snapshot, sur *surroundings, w io.Writer) error {
	width := 0
	if set.out == "" || set.out == "-" {
		width = terminalWidth(sur.stdout)
	}
	drawing := draw.Options{Color: set.color, MaxNodes: set.limit}
	if set.mode == modeDOT || set.mode == modeSVG {
		drawing.Findings = lint.FindPart(whole, s)
	}
	if s.Kind == bgraph.KindGoroutines {
		drawing.Prune = set.prune / 100
	}
	switch set.mode {
	case modeMD:
		return tables.WriteMarkdown(w, s, tables.Options{Limit: set.limit, Whole: whole})
	case modeDOT:
		return draw.WriteDOT(w, s, drawing)
	case modeSVG:
		return draw.WriteSVG(w, s, drawing)
	case modeJSON:
		return export.WriteJSON(w, s)
	case modePprof:
		return export.WriteProfile(w, s)
	case modeFolded:
		return export.WriteFolded(w, s, set.metric)
	case modeDump:
		return s.Encode(w)
	case modeStages:
		return tables.WriteStages(w, s, set.limit, width)
	case modeSlowest:
		return tables.WriteSlowest(w, whole, set.slowest, width)
	case modeRequests:
		return tables.WriteRequests(w, whole, set.limit, width)
	case modeTasks, modeRegion:
		return tables.WriteSpans(w, s, strings.TrimSuffix(string(set.mode), "s"), set.limit)
	}
	return tables.WriteText(w, s, tables.Options{Prune: drawing.Prune, Sort: set.sort, Limit: set.limit, Stacks: set.stacks, Whole: whole, Width: width})
}

// writeLint writes what was found of s, a part of whole, and reports whether it was more than remarks.
func writeLint(set *settings, whole, s *bgraph.Snapshot, w io.Writer) (found bool, err error) {
	findings := lint.FindPart(whole, s)
	for _, f := range findings {
		found = found || f.Severity != lint.SeverityInfo
	}
	if !set.json {
		return found, lint.Write(w, s, findings)
	}
	if findings == nil {
		findings = []lint.Finding{} // [] in JSON, not null
	}
	return found, writeJSON(w, findings)
}

func writeJSON(w io.Writer, v any) error {
	text, err := json.MarshalIndent(v, "", "\t")
	if err != nil {
		return err
	}
	_, err = w.Write(append(text, '\n'))
	return err
}

// output lets fn write to the standard output or to the file that -o names, which
// keeps its content if fn fails.
func output(set *settings, sur *surroundings, fn func(io.Writer) error) error {
	var b bytes.Buffer
	if err := fn(&b); err != nil {
		return err
	}
	if set.out == "" || set.out == "-" {
		_, err := sur.stdout.Write(b.Bytes())
		return err
	}
	return replaceFile(set.out, b.Bytes())
}

// replaceFile puts content into the file at path, all of it or nothing.
func replaceFile(path string, content []byte) (err error) {
	if final, err := filepath.EvalSymlinks(path); err == nil {
		path = final // of a link, what it leads to is replaced
	}
	mode := fs.FileMode(0o666) // less what the umask takes
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return fmt.Errorf("%s is a folder; -o wants the name of a file", printable(path))
	case err == nil && !info.Mode().IsRegular():
		return os.WriteFile(path, content, mode) // a device or a pipe
	case err == nil:
		mode = info.Mode().Perm()
	}
	f, err := createBeside(path, mode)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(f.Name())
		}
	}()
	_, err = f.Write(content)
	if err == nil && info != nil {
		err = f.Chmod(mode) // in spite of the umask
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// createBeside makes a new file in the folder of path.
func createBeside(path string, mode fs.FileMode) (*os.File, error) {
	for i := 0; ; i++ {
		name := filepath.Join(filepath.Dir(path), fmt.Sprintf(".%s.%d-%d.tmp", strings.TrimPrefix(filepath.Base(path), "."), os.Getpid(), i))
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
		if wrong := (*fs.PathError)(nil); errors.As(err, &wrong) && !errors.Is(err, fs.ErrExist) {
			return nil, &fs.PathError{Op: wrong.Op, Path: path, Err: wrong.Err} // as the caller named it
		}
		if err == nil || i == 100 {
			return f, err
		}
	}
}
