package nginxconf

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// known are files that come with nginx, and say what Knot knows itself: types of files, and the variables of FastCGI.
var known = []string{"mime.types", "fastcgi_params", "fastcgi.conf"}

// A loader reads a file and the files that it includes.
type loader struct {
	dir   string // of the first file; paths of others begin there, or one level above
	files int
}

// Load reads a configuration with all that it includes. An include of a file that is not there stays a directive.
func Load(file string) ([]*Directive, error) {
	l := &loader{dir: filepath.Dir(file)}
	return l.load(file)
}

func (l *loader) load(file string) ([]*Directive, error) {
	if l.files++; l.files > mostFiles {
		return nil, fmt.Errorf("%s: there are more than %d files; is there one that includes itself?", file, mostFiles)
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, mostBytes+1))
	if err != nil {
		return nil, err
	}
	all, err := Parse(file, text)
	if err != nil {
		return nil, err
	}
	return l.resolve(all)
}

// resolve puts what is included in the place of the directives that include it.
func (l *loader) resolve(given []*Directive) (all []*Directive, err error) {
	for _, d := range given {
		if d.Block, err = l.resolve(d.Block); err != nil {
			return nil, err
		}
		if d.Name != "include" || len(d.Args) != 1 {
			all = append(all, d)
			continue
		}
		files, isGlob := []string{d.Args[0]}, strings.ContainsAny(d.Args[0], "*?[")
		if !filepath.IsAbs(files[0]) {
			files[0] = filepath.Join(l.dir, d.Args[0])
			matching, _ := filepath.Glob(files[0])
			if _, err := os.Stat(files[0]); err != nil && len(matching) == 0 { // of a file of sites-enabled, whose paths begin above it
				files[0] = filepath.Join(l.dir, "..", d.Args[0])
			}
		}
		if isGlob {
			if files, err = filepath.Glob(files[0]); err != nil {
				return nil, fmt.Errorf("%s:%d: %s: %w", d.File, d.Line, d, err)
			}
		}
		for _, file := range files {
			if slices.Contains(known, filepath.Base(file)) {
				continue
			}
			more, err := l.load(file)
			if os.IsNotExist(err) && !isGlob {
				more, err = []*Directive{d}, nil // it is reported as not translated
			}
			if err != nil {
				return nil, err
			}
			all = append(all, more...)
		}
	}
	return all, nil
}
