package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/capriccio-go/capriccio/cmd/stackplan/internal/plan"
	"github.com/capriccio-go/capriccio/cmd/stackplan/internal/rewrite"
	"github.com/capriccio-go/capriccio/cmd/stackplan/internal/tune"
)

func runTune(set *settings) (int, error) {
	stats, err := readStats(set.patterns[0])
	if err != nil {
		return exitFailed, err
	}
	advice, err := tune.Chunks(stats)
	if err != nil {
		return exitFailed, fmt.Errorf("%s: %w", set.patterns[0], err)
	}
	if len(set.patterns) > 1 {
		if err := set.tunePaths(advice, stats, set.patterns[1:]); err != nil {
			return exitFailed, err
		}
	}
	return exitOK, set.write(func(w io.Writer) error {
		if set.json {
			e := json.NewEncoder(w)
			e.SetIndent("", "\t")
			return e.Encode(advice)
		}
		return advice.WriteText(w)
	})
}

// tunePaths adds what other values of MaxPath would have meant for the run.
func (set *settings) tunePaths(advice *tune.Advice, stats *tune.Stats, patterns []string) error {
	prog, err := plan.LoadContext(set.ctx, set.config(patterns, false))
	if err != nil {
		return err
	}
	rw := rewrite.New(rewrite.Config{Packages: prog.Packages()})
	if _, err := set.place(prog, rw, patterns, false); err != nil {
		return err
	}
	var plans []*plan.Plan
	for _, maxPath := range tune.Paths() {
		p, err := prog.Place(maxPath, set.minChunk)
		if err != nil {
			return err
		}
		plans = append(plans, p)
	}
	return advice.AddPaths(stats, plans)
}

// readStats reads what a program built with -profile has written.
func readStats(name string) (*tune.Stats, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	stats := new(tune.Stats)
	if err := json.Unmarshal(text, stats); err != nil {
		return nil, fmt.Errorf("%s is not what a program writes to the file that CAPRICCIO_STACKS names: %w", name, err)
	}
	return stats, nil
}

// checkOutputs says early whether files can't be made where they are wanted.
func (set *settings) checkOutputs() error {
	for _, name := range []string{set.out, set.sweep} {
		if name == "" {
			continue
		}
		if info, err := os.Stat(filepath.Dir(name)); err != nil || !info.IsDir() {
			return fmt.Errorf("no file %s can be written: there is no folder %s", name, filepath.Dir(name))
		}
		if info, err := os.Stat(name); err == nil && info.IsDir() {
			return fmt.Errorf("no file %s can be written: it is a folder", name)
		}
	}
	return nil
}

// write writes to the file that -o names, or to the standard output.
func (set *settings) write(f func(io.Writer) error) error {
	if set.out == "" {
		return f(set.stdout)
	}
	return writeFile(set.out, f)
}

// writeFile writes a file, which is replaced only if all goes well.
func writeFile(name string, f func(io.Writer) error) error {
	part, err := os.CreateTemp(filepath.Dir(name), ".stackplan-")
	if err != nil {
		return err
	}
	err = errors.Join(f(part), part.Chmod(0o644), part.Close())
	if err == nil {
		err = os.Rename(part.Name(), name)
	}
	if err != nil {
		os.Remove(part.Name())
	}
	return err
}
