package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const (
	// mostFiles is how many files a configuration has at most.
	mostFiles = 1000
	// mostDepth is how deep files may include others.
	mostDepth = 8
)

// includes takes up what patterns, the value of include in the file called name, stand for. A file is read once.
func (r *reader) includes(name string, patterns []string, at Place, depth int) {
	note := func(err error) { r.errs = append(r.errs, fmt.Errorf("%s: include: %w", at, err)) }
	if depth == 1 {
		if abs, err := filepath.Abs(name); err == nil {
			r.read[abs] = Place{File: name}
		}
	}
	if len(patterns) > 0 && depth > mostDepth {
		note(fmt.Errorf("%s is the end of a chain of %d files that include each other; want a shorter one", name, mostDepth))
		return
	}
	for _, pattern := range patterns {
		files, err := matches(filepath.Dir(name), pattern)
		if err != nil {
			note(err)
		}
		for _, file := range files {
			abs, err := filepath.Abs(file)
			if err != nil {
				note(err)
				continue
			}
			if before, twice := r.read[abs]; twice {
				note(fmt.Errorf("%s is read already, by %s", file, before))
				continue
			}
			if len(r.read) >= mostFiles {
				note(fmt.Errorf("there are more than %d files", mostFiles))
				return
			}
			r.read[abs] = at
			text, err := r.include(file)
			if err != nil {
				note(err)
			} else if err := r.take(file, text, depth); err != nil {
				r.errs = append(r.errs, err)
			}
		}
	}
}

// matches are the files that a pattern stands for, in the order of their names: those in a folder, whose path begins at dir, without
// names that begin with a dot as the backups of some editors do. A name without stars is that of a file, which must be there.
func matches(dir, pattern string) (files []string, err error) {
	folder, last := filepath.Split(pattern)
	if !filepath.IsAbs(pattern) {
		folder = filepath.Join(dir, folder)
	}
	if last == "" || strings.ContainsAny(filepath.Dir(pattern), "*?[") {
		return nil, fmt.Errorf(`%q; want a file, or those of a folder as "sites/*.toml"`, pattern)
	}
	if !strings.ContainsAny(last, `*?[\`) {
		return []string{filepath.Join(folder, last)}, nil
	}
	if _, err := filepath.Match(last, ""); err != nil {
		return nil, fmt.Errorf("%q: %w", pattern, err)
	}
	all, err := os.ReadDir(folder) // sorted; a folder that can't be read is not an empty one
	if err != nil {
		return nil, err
	}
	for _, entry := range all {
		if matched, _ := filepath.Match(last, entry.Name()); matched && (entry.Name()[0] != '.' || last[0] == '.') {
			files = append(files, filepath.Join(folder, entry.Name()))
		}
	}
	return files, nil
}
