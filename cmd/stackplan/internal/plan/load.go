package plan

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"time"

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
	ctx     context.Context
	notes   *Annotations
	all     map[string]*packages.Package // by ID
	main    *packages.Package
	own     []*packages.Package // that may be rewritten
	modules map[string]bool     // by import path: in a module, and not of the standard library

	bin   *frames.Binary
	src   *source
	graph *graph
}

// LoadContext loads and, unless there is a binary, builds the program. It returns what
// the go command says of sources that do not compile.
func LoadContext(ctx context.Context, cfg Config) (*Program, error) {
	p := &Program{cfg: cfg, ctx: ctx, all: make(map[string]*packages.Package)}
	var err error
	if p.cfg.Dir, err = RealDir(cfg.Dir); err != nil {
		return nil, err
	}
	if err := p.supported(); err != nil {
		return nil, err
	}
	if p.notes, err = loadAnnotations(cfg.Annotations); err != nil {
		return nil, err
	}
	if len(p.cfg.Patterns) == 0 {
		p.cfg.Patterns = []string{"."}
	}
	built := make(chan error, 1)
	go func() { built <- p.readBinary() }()
	roots, err := p.load()
	if err == nil {
		p.main, err = p.cfg.choose(roots)
	}
	buildErr := <-built // what is wrong with the sources says more
	if err := cmp.Or(context.Cause(ctx), err, buildErr); err != nil {
		return nil, err
	}
	p.Package = strings.TrimSuffix(p.main.PkgPath, ".test")
	if err := p.collect(); err != nil {
		return nil, err
	}
	p.nameFiles()
	prog, _ := ssautil.AllPackages([]*packages.Package{p.main}, ssa.InstantiateGenerics)
	prog.Build()
	if ctx.Err() == nil {
		p.src = newSource(p, prog)
	}
	if ctx.Err() == nil {
		p.graph = newGraph(p)
	}
	return p, context.Cause(ctx)
}

// GoCommand is a call of the go command that ends if the context does, as by an
// interrupt from the keyboard: it takes away its own temporary files then.
func GoCommand(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

func (p *Program) goCommand(args ...string) *exec.Cmd {
	cmd := GoCommand(p.ctx, args...)
	cmd.Dir, cmd.Env = p.cfg.Dir, p.cfg.env()
	return cmd
}

// supported looks at which system the program is for.
func (p *Program) supported() error {
	cmd := p.goCommand("env", "GOOS", "GOARCH")
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("go env: %w; is the go command in the PATH?", err)
	}
	system, arch, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	switch system {
	case "darwin", "ios", "windows", "plan9", "aix", "js", "wasip1":
		return fmt.Errorf("GOOS is %s; stackplan reads programs in ELF format, as for GOOS=linux", system)
	}
	if arch != "amd64" && arch != "arm64" {
		return fmt.Errorf("GOARCH is %s; stackplan can read the code for GOARCH=amd64 and GOARCH=arm64", arch)
	}
	return nil
}

// Packages are those whose sources may be rewritten, with syntax and types.
func (p *Program) Packages() []*packages.Package { return p.own }

// ChunkError reports why the sources of the program can't import package stackchunk, as
// rewritten ones do. It is nil if they can.
func (p *Program) ChunkError() error {
	for _, pkg := range p.all {
		if pkg.PkgPath == chunkPackage {
			return nil
		}
	}
	out, err := p.goCommand(slices.Concat([]string{"list", "-find", "-f="}, SourceFlags, p.cfg.BuildFlags, []string{chunkPackage})...).CombinedOutput()
	if err == nil {
		return nil
	}
	return fmt.Errorf("checkpoints are calls of package %s, and the module of the program can't import it; add it with\n\tgo get %s\nand with vendoring, let a package of the program import it (import _ %q).\nThe go command says: %s",
		chunkPackage, projectPath, chunkPackage, strings.TrimSpace(string(out)))
}

// Refuse leaves out, from now on, the calls that can't be rewritten for some other
// reason. It is what refuse returns, given the file and the range of bytes of the call
// expression; empty: the call can be rewritten.
func (p *Program) Refuse(refuse func(file string, offset, end int) (reason string)) {
	for _, s := range p.graph.sites {
		if s.refused == "" {
			s.refused = refuse(s.file, s.offset, s.end)
		}
	}
}

// SourceFlags are what the go command is asked for, whatever GOFLAGS says, so that
// sources are found under their names.
var SourceFlags = []string{"-trimpath=false", "-buildvcs=false"}

func (c *Config) env() []string { return append(os.Environ(), "PWD="+c.Dir) }

// RealDir is dir, "" for the working directory, without symbolic links. The go command
// names files by the way on which it came, which is that of its PWD; the compiler names the
// same files by another way if there are links on it.
func RealDir(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(dir)
}

// readBinary reads the binary, which it builds if need be.
func (p *Program) readBinary() (err error) {
	c := &p.cfg
	path := c.Binary
	if path == "" {
		dir, err := os.MkdirTemp("", "stackplan")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		path = filepath.Join(dir, "program")
		args := []string{"build", "-o", path}
		if c.Tests {
			args = []string{"test", "-c", "-o", path}
		}
		// It must have its symbols, whatever GOFLAGS says; what debuggers need is left
		// out, as it takes time.
		cmd := p.goCommand(slices.Concat(args, []string{"-ldflags=-w"}, SourceFlags, c.BuildFlags, c.Patterns)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("go %s: %w\n%s", strings.Join(cmd.Args[1:], " "), err, out)
		}
		if _, err := os.Stat(path); err != nil {
			return fmt.Errorf("go %s made no program: is %s a main package?", args[0], strings.Join(c.Patterns, " "))
		}
	}
	p.Go = frames.GoVersion(path)
	if p.bin, err = frames.Open(path); err == nil {
		p.Arch = p.bin.Arch
	}
	return err
}

// load loads the sources.
func (p *Program) load() ([]*packages.Package, error) {
	c := &p.cfg
	pc := &packages.Config{
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports | packages.NeedDeps |
			packages.NeedTypes | packages.NeedSyntax | packages.NeedTypesInfo | packages.NeedTypesSizes | packages.NeedModule | packages.NeedForTest,
		Context: p.ctx, Dir: c.Dir, Env: c.env(), Tests: c.Tests, BuildFlags: slices.Concat(SourceFlags, c.BuildFlags),
	}
	roots, err := packages.Load(pc, c.Patterns...)
	if err != nil {
		if _, said, ok := strings.Cut(err.Error(), "stderr: "); ok { // by the go command
			err = errors.New(strings.TrimSpace(said))
		}
		return nil, err
	}
	var errs []error
	packages.Visit(roots, nil, func(p *packages.Package) {
		for _, e := range p.Errors {
			if len(errs) < 10 {
				errs = append(errs, placed(e))
			}
		}
	})
	return roots, errors.Join(errs...)
}

// placed is e without the "-" that package packages puts where it knows no place in a file.
func placed(e packages.Error) error {
	if e.Pos == "" || e.Pos == "-" {
		return errors.New(e.Msg)
	}
	return e
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
	return nil, fmt.Errorf("%s is no main package; want one, or for packages with tests, stackplan test", strings.Join(names, ", "))
}

// chunkPackage is what rewritten sources import.
const (
	projectPath     = "github.com/capriccio-go/capriccio"
	chunkPackage    = projectPath + "/stackchunk"
	enginePackage   = projectPath + "/internal/engine"
	taskPackage     = projectPath + "/task"
	resschedPackage = projectPath + "/ressched"
	coroPackage     = projectPath + "/internal/coro"
	recorderPackage = projectPath + "/internal/recorder"
)

// collect finds all packages of the program, and which of them may be rewritten.
func (p *Program) collect() error {
	packages.Visit([]*packages.Package{p.main}, nil, func(pkg *packages.Package) { p.all[pkg.ID] = pkg })
	p.modules = make(map[string]bool)
	for _, pkg := range p.all {
		if pkg.PkgPath == "command-line-arguments" && pkg.Module == nil { // go list knows no module of files that it is given
			pkg.Module = &packages.Module{Main: true}
		}
		p.modules[pkg.PkgPath] = pkg.Module != nil
		if pkg.Name == "main" {
			p.modules["main"] = true
		}
	}
	// Neither what makes chunks nor what that imports can have checkpoints: they would import each
	// other, or a task would change its stack in the middle of a switch.
	never := make(map[string]bool)
	for _, pkg := range p.all {
		switch pkg.PkgPath {
		case chunkPackage, enginePackage, taskPackage, resschedPackage:
			packages.Visit([]*packages.Package{pkg}, nil, func(dep *packages.Package) { never[dep.PkgPath] = true })
		}
	}
	for _, pkg := range p.all {
		runtime := never[pkg.PkgPath] || strings.HasPrefix(pkg.PkgPath, projectPath+"/internal/")
		if !runtime && pkg.Module != nil && p.cfg.rewrites(pkg) && !strings.HasSuffix(pkg.ID, ".test") {
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
	return slices.ContainsFunc(c.Rewrite, func(pattern string) bool {
		prefix, all := strings.CutSuffix(pattern, "/...")
		return all && (pkg.PkgPath == prefix || strings.HasPrefix(pkg.PkgPath, prefix+"/")) || pattern == pkg.PkgPath || pattern == "..."
	})
}
