package rewrite

import (
	"cmp"
	"fmt"
	"go/parser"
	"go/token"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"

	"github.com/capriccio-go/capriccio/cmd/stackplan/internal/plan"
)

// chunkPath is the import path of what checkpoints call.
const chunkPath = "github.com/capriccio-go/capriccio/stackchunk"

// prefix begins all names that are generated.
const prefix = "stackplan_"

// A Config says what may be rewritten and how.
type Config struct {
	// Packages were loaded with syntax and types. The syntax of the packages that they import, where
	// it was loaded too, tells which functions call recover.
	Packages []*packages.Package
	// MinChunk is what the rewritten main package tells stackchunk; 0 leaves it.
	MinChunk plan.Bytes
	// Profile counts at each checkpoint, which costs a few nanoseconds more.
	Profile bool
}

// A Rewriter rewrites the sources of some packages. Use New.
type Rewriter struct {
	cfg     Config
	files   map[string]*file // by absolute name
	callees *callees
	before  *escapes       // what the compiler says without checkpoints; nil: not asked
	heap    map[*site]bool // checkpoints that move something to the heap
}

// New makes a Rewriter.
func New(cfg Config) *Rewriter {
	r := &Rewriter{cfg: cfg, files: map[string]*file{}, callees: newCallees(cfg.Packages), heap: map[*site]bool{}}
	for _, p := range cfg.Packages {
		if p.TypesInfo == nil {
			continue
		}
		for _, syntax := range p.Syntax {
			name := p.Fset.PositionFor(syntax.Package, false).Filename
			// A package and its variant for tests have files in common. What is
			// written for one is right for the other.
			if r.files[name] == nil {
				r.files[name] = &file{name: name, pkg: p, syntax: syntax}
			}
		}
	}
	return r
}

// A Result holds changed files by absolute name.
type Result struct {
	Files map[string][]byte
	Calls []plan.Checkpoint // that were made
}

// Refused reports why the call expression with that byte range can't be rewritten, or is
// empty. It has the form that plan.Program.Refuse asks for.
func (r *Rewriter) Refused(name string, offset, end int) string {
	_, _, why := r.look(name, offset, end)
	return why
}

// look finds and judges a call.
func (r *Rewriter) look(name string, offset, end int) (*file, *target, string) {
	f := r.files[name]
	if f == nil {
		return nil, nil, "its file is not among the sources that may be changed"
	}
	if why := r.refuseFile(f); why != "" {
		return f, nil, why
	}
	s := f.sites[span{offset, end}]
	if s == nil {
		return f, nil, "there is no call in that place; have the sources changed?"
	}
	if why := r.refuseCost(f, s); why != "" {
		return f, nil, why
	}
	t, why := r.judge(f, s)
	return f, t, why
}

// Files makes the checkpoints. It fails if one of them is Refused. With forBlame the generated code has other
// positions, which Blame needs.
func (r *Rewriter) Files(checkpoints []plan.Checkpoint, forBlame bool) (*Result, error) {
	result := &Result{Files: map[string][]byte{}}
	units := map[*file][]*unit{}
	for _, c := range checkpoints {
		f, t, why := r.look(c.File, c.Offset, c.End)
		if why != "" {
			return nil, fmt.Errorf("%s can be no checkpoint: %s", c.Site, why)
		}
		if slices.ContainsFunc(units[f], func(u *unit) bool { return u.site == t.site }) {
			return nil, fmt.Errorf("%s: two checkpoints at one call", c.Site)
		}
		units[f] = append(units[f], &unit{target: t, checkpoint: c})
	}
	main := r.initFile()
	if main != nil && units[main] == nil {
		units[main] = nil // has no checkpoint, but the init function
	}
	for f, list := range units {
		for _, u := range list {
			result.Calls = append(result.Calls, u.checkpoint)
		}
		var minChunk plan.Bytes
		if f == main {
			minChunk = r.cfg.MinChunk
		}
		text, err := r.write(f, list, minChunk, forBlame)
		if err != nil {
			return nil, err
		}
		if _, err := parser.ParseFile(token.NewFileSet(), f.name, text, parser.SkipObjectResolution); err != nil {
			return nil, fmt.Errorf("the rewritten %s is not valid Go, which is a mistake in stackplan: %w", f.name, err)
		}
		result.Files[f.name] = text
	}
	slices.SortFunc(result.Calls, byPlace)
	return result, nil
}

func byPlace(a, b plan.Checkpoint) int {
	return cmp.Or(strings.Compare(a.File, b.File), a.Offset-b.Offset, a.End-b.End)
}

// initFile is the file that gets the init function which sets MinChunk: the first of
// the main package, or of the package that is tested. Nil: none is needed.
func (r *Rewriter) initFile() *file {
	if r.cfg.MinChunk == 0 {
		return nil
	}
	var found *file
	for _, f := range r.files {
		tested := f.pkg.ForTest != "" && !strings.HasSuffix(f.pkg.PkgPath, "_test")
		if f.pkg.Name != "main" && !tested || strings.HasSuffix(f.name, "_test.go") || r.refuseFile(f) != "" {
			continue
		}
		if found == nil || f.name < found.name {
			found = f
		}
	}
	return found
}
