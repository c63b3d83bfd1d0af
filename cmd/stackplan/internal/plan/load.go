package plan

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"golang.org/x/tools/go/packages"
	"golang.org/x/tools/go/ssa"
	"golang.org/x/tools/go/ssa/ssautil"

	"github.com/capriccio-go/capriccio/cmd/stackplan/internal/frames"
)

// A Program is a loaded program. Use Load.
type Program struct {
	Package string // import path of the main package, or of the one that is tested
	Go      string // version of Go that the binary was built with
	Arch    string

	cfg     Config
	notes   *Annotations
	all     map[string]*packages.Package // by ID
	main    *packages.Package
	own     []*packages.Package // that may be rewritten
	modules map[string]bool     // by import path: in a module, and not of the standard library

	bin      *frames.Binary
	src      *source
	graph    *graph
	measured *paths // by bounds, once it is asked for
}

// Load loads and, unless there is a binary, builds the program. It returns what the
// go command says of sources that do not compile.
func Load(cfg Config) (*Program, error) {
	p := &Program{cfg: cfg, all: make(map[string]*packages.Package)}
	var err error
	if p.notes, err = loadAnnotations(cfg.Annotations); err != nil {
		return nil, err
	}
	if len(p.cfg.Patterns) == 0 {
		p.cfg.Patterns = []string{"."}
	}
	type built struct {
		bin     *frames.Binary
		version string
		err     error
	}
	ready := make(chan built, 1)
	go func() {
		var b built
		b.bin, b.version, b.err = p.cfg.binary()
		ready <- b
	}()
	roots, err := p.cfg.load()
	if err == nil {
		p.main, err = p.cfg.choose(roots)
	}
	b := <-ready
	if err == nil {
		err = b.err
	}
	if err != nil {
		return nil, err
	}
	p.bin, p.Go, p.Arch = b.bin, b.version, b.bin.Arch
	p.Package = strings.TrimSuffix(p.main.PkgPath, ".test")
	if err := p.collect(); err != nil {
		return nil, err
	}
	prog, _ := ssautil.AllPackages([]*packages.Package{p.main}, ssa.InstantiateGenerics)
	prog.Build()
	p.src = newSource(p, prog)
	p.graph = newGraph(p)
	return p, nil
}

// Packages are those whose sources may be rewritten, with syntax and types.
func (p *Program) Packages() []*packages.Package { return p.own }

// Refuse leaves out, from now on, the calls that can't be rewritten for some other
// reason: those at the offset of whose expression in a file refuse says so.
func (p *Program) Refuse(refuse func(file string, offset int) bool) {
	refused := make([]bool, len(p.graph.sites))
	for i, s := range p.graph.sites {
		refused[i] = refuse(s.file, s.offset)
	}
	for v := range p.graph.nodes {
		for i := range p.graph.nodes[v].out {
			e := &p.graph.nodes[v].out[i]
			if slices.ContainsFunc(e.sites, func(s int) bool { return refused[s] }) {
				e.sites = nil
			}
		}
	}
}

func (c *Config) env() []string {
	if c.Env != nil {
		return c.Env
	}
	return os.Environ()
}

// binary opens the binary, which it builds if need be.
func (c *Config) binary() (*frames.Binary, string, error) {
	path := c.Binary
	if path == "" {
		dir, err := os.MkdirTemp("", "stackplan")
		if err != nil {
			return nil, "", err
		}
		defer os.RemoveAll(dir)
		path = filepath.Join(dir, "program")
		args := []string{"build", "-o", path}
		if c.Tests {
			args = []string{"test", "-c", "-o", path}
		}
		cmd := exec.Command("go", append(append(args, c.BuildFlags...), c.Patterns...)...)
		cmd.Dir, cmd.Env = c.Dir, c.env()
		if out, err := cmd.CombinedOutput(); err != nil {
			return nil, "", fmt.Errorf("go %s: %w\n%s", strings.Join(cmd.Args[1:], " "), err, out)
		}
		if _, err := os.Stat(path); err != nil {
			return nil, "", fmt.Errorf("go %s made no program: is %s a main package?", args[0], strings.Join(c.Patterns, " "))
		}
	}
	b, err := frames.Open(path)
	return b, frames.GoVersion(path), err
}

// load loads the sources.
func (c *Config) load() ([]*packages.Package, error) {
	overlay, err := c.overlay()
	if err != nil {
		return nil, err
	}
	pc := &packages.Config{
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports | packages.NeedDeps |
			packages.NeedTypes | packages.NeedSyntax | packages.NeedTypesInfo | packages.NeedTypesSizes | packages.NeedModule | packages.NeedForTest,
		Dir: c.Dir, Env: c.env(), Tests: c.Tests, BuildFlags: c.BuildFlags, Overlay: overlay,
	}
	roots, err := packages.Load(pc, c.Patterns...)
	if err != nil {
		return nil, err
	}
	var errs []error
	packages.Visit(roots, nil, func(p *packages.Package) {
		for _, e := range p.Errors {
			if len(errs) < 10 {
				errs = append(errs, e)
			}
		}
	})
	return roots, errors.Join(errs...)
}

// overlay reads what -overlay=FILE among the flags replaces.
func (c *Config) overlay() (map[string][]byte, error) {
	file := ""
	for i, flag := range c.BuildFlags {
		if name, value, ok := strings.Cut(strings.TrimLeft(flag, "-"), "="); ok && name == "overlay" {
			file = value
		} else if name == "overlay" && i+1 < len(c.BuildFlags) {
			file = c.BuildFlags[i+1]
		}
	}
	if file == "" {
		return nil, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var replaced struct{ Replace map[string]string }
	if err := json.Unmarshal(text, &replaced); err != nil {
		return nil, fmt.Errorf("overlay %s: %w", file, err)
	}
	overlay := make(map[string][]byte)
	for path, by := range replaced.Replace {
		if by == "" || !strings.HasSuffix(path, ".go") {
			continue
		}
		if overlay[path], err = os.ReadFile(by); err != nil {
			return nil, err
		}
	}
	return overlay, nil
}

// choose finds the one program among what the patterns match.
func (c *Config) choose(roots []*packages.Package) (*packages.Package, error) {
	var found []*packages.Package
	var names []string
	for _, p := range roots {
		if p.Name == "main" && strings.HasSuffix(p.ID, ".test") == c.Tests {
			found = append(found, p)
		}
		names = append(names, p.ID)
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return nil, fmt.Errorf("%s matches %d programs; name one", strings.Join(c.Patterns, " "), len(found))
	case c.Tests:
		return nil, fmt.Errorf("no tests in %s", strings.Join(names, ", "))
	}
	return nil, fmt.Errorf("%s is no main package", strings.Join(names, ", "))
}

// chunkPackage is what rewritten sources import.
const (
	projectPath  = "github.com/capriccio-go/capriccio"
	chunkPackage = projectPath + "/stackchunk"
	taskPackage  = projectPath + "/task"
	coroPackage  = projectPath + "/internal/coro"
)

// collect finds all packages of the program and those that may be rewritten.
func (p *Program) collect() error {
	packages.Visit([]*packages.Package{p.main}, nil, func(pkg *packages.Package) { p.all[pkg.ID] = pkg })
	p.modules = make(map[string]bool)
	for _, pkg := range p.all {
		p.modules[pkg.PkgPath] = pkg.Module != nil
		if pkg.Name == "main" {
			p.modules["main"] = true
		}
	}
	never := map[string]bool{chunkPackage: true, taskPackage: true, coroPackage: true}
	for _, pkg := range p.all {
		// What the packages that make chunks import can't import them.
		if pkg.PkgPath == chunkPackage || pkg.PkgPath == taskPackage {
			packages.Visit([]*packages.Package{pkg}, nil, func(dep *packages.Package) { never[dep.PkgPath] = true })
		}
	}
	for _, pkg := range p.all {
		if !never[pkg.PkgPath] && pkg.Module != nil && p.cfg.rewrites(pkg) && !strings.HasSuffix(pkg.ID, ".test") {
			p.own = append(p.own, pkg)
		}
	}
	sort.Slice(p.own, func(i, j int) bool { return p.own[i].ID < p.own[j].ID })
	if len(p.cfg.Rewrite) > 0 && len(p.own) == 0 {
		return fmt.Errorf("no package of the program matches %s, or none that may be rewritten", strings.Join(p.cfg.Rewrite, " "))
	}
	return nil
}

func (c *Config) rewrites(pkg *packages.Package) bool {
	if len(c.Rewrite) == 0 {
		return pkg.Module.Main
	}
	for _, pattern := range c.Rewrite {
		if prefix, all := strings.CutSuffix(pattern, "/..."); all && (pkg.PkgPath == prefix || strings.HasPrefix(pkg.PkgPath, prefix+"/")) || pattern == pkg.PkgPath || pattern == "..." {
			return true
		}
	}
	return false
}
