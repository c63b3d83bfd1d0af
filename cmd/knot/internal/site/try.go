package site

import (
	"bytes"
	"errors"
	"fmt"
	"net/url"
	"path"
	"strconv"
	"strings"

	"github.com/capriccio-go/capriccio/knot"
)

// mostTries is how many entries a Try has: each costs a look for a file.
const mostTries = 16

// asked stands for the path of a request in an entry.
const asked = "$path"

// A Try has a request served by the first of several paths that is there.
type Try struct {
	entries []entry     // all but the last are looked for
	status  knot.Status // in place of a last entry; 0: there is one
}

// An entry is a path, in which asked may stand, and maybe a query.
type entry struct{ path, query string }

// NewTry reads a list like "$path", "$path/", "/index.php". The last may be a status, as "=404".
func NewTry(texts []string) (*Try, error) {
	t := new(Try)
	var errs []error
	if n := len(texts); n == 0 || n > mostTries {
		return nil, fmt.Errorf("it has %d entries; want 1 to %d, as [\"$path\", \"$path/\", \"/index.php\"]", n, mostTries)
	}
	for i, text := range texts {
		last := i == len(texts)-1
		if number, ok := strings.CutPrefix(text, "="); ok {
			n, err := strconv.Atoi(number)
			if err != nil || n < 400 || n > 599 || !last || len(texts) == 1 {
				errs = append(errs, fmt.Errorf("%q; want a status of 400 to 599, as =404, and only at the end", text))
			}
			t.status = knot.Status(n)
			continue
		}
		p, query, _ := strings.Cut(text, "?")
		bare := strings.ReplaceAll(p, asked, "/x")
		if strings.ReplaceAll(strings.TrimSuffix(bare, "/"), "//", "/") != path.Clean(bare) && bare != "/" || !strings.HasPrefix(bare, "/") || strings.ContainsAny(p, "#\\") || strings.Contains(bare, "$") {
			errs = append(errs, fmt.Errorf("%q is not a path below the root; want one like $path.html, $path/ or /index.php", text))
		}
		if strings.ContainsFunc(query, func(c rune) bool { return c <= ' ' || c >= 0x7f || c == '#' }) {
			errs = append(errs, fmt.Errorf("%q has characters that a query has only with escapes, as %%20", text))
		}
		if !last && query != "" {
			errs = append(errs, fmt.Errorf("%q: only the last entry may have a query; the others are names of files", text))
		}
		t.entries = append(t.entries, entry{p, query})
	}
	return t, errors.Join(errs...)
}

// of is the path of an entry for a request.
func (e entry) of(asks string) string {
	p := strings.ReplaceAll(e.path, asked, asks)
	for strings.Contains(p, "//") {
		p = strings.ReplaceAll(p, "//", "/")
	}
	return p
}

// target is the entry as a target for a request.
func (e entry) target(asks, query string) string {
	to := strings.ReplaceAll(e.query, asked, url.QueryEscape(asks))
	if to != "" && query != "" {
		to += "&"
	}
	return targetOf(e.of(asks), to+query)
}

// targetOf is a clean path with a query, as a target.
func targetOf(path, query string) string {
	to := (&url.URL{Path: path}).EscapedPath()
	if query != "" {
		to += "?" + query
	}
	return to
}

// try finds what the request is served by, and has it served as that. A path that names a folder is served by the index of the
// folder, under the name of that file: routes may be for it. It may park.
func (s *Site) try(x *knot.Ctx) error {
	asks := x.Path()
	if asks == "" || asks[0] != '/' {
		return nil
	}
	looked := s.Try.entries
	if s.Try.status == 0 {
		looked = looked[:len(looked)-1]
	}
	for _, e := range looked {
		p := e.of(asks)
		found, _, err := s.Files.Find(x, p)
		if err != nil {
			return err
		}
		if found == "" && s.Listing && strings.HasSuffix(p, "/") {
			if _, isDir, _ := s.Files.Find(x, strings.TrimSuffix(p, "/")); isDir || p == "/" {
				found = p
			}
		}
		switch {
		case found == "":
		case p == asks+"/":
			return nil // Files sends the client there
		default:
			return s.rewrite(x, targetOf(found, x.Query()))
		}
	}
	if s.Try.status != 0 {
		return s.Try.status
	}
	return s.rewrite(x, s.Try.entries[len(looked)].target(asks, x.Query()))
}

// rewrite has the request served as target, if the Guards that are for that path, or for the one that a backend may see, let it
// pass too. It may park.
func (s *Site) rewrite(x *knot.Ctx, target string) error {
	before := bytes.Clone(x.PathBytes())
	if err := x.Rewrite(target); err != nil {
		return err
	}
	other := OtherPath(x)
	for _, g := range s.Guards {
		rule := g.Find(x, before)
		if g.Find(x, x.PathBytes()) != rule || other != nil && g.Find(x, other) != rule {
			return s.guard(x)
		}
	}
	return nil
}
