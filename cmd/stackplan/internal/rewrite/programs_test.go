package rewrite

import (
	"bytes"
	"fmt"
	"go/token"
	"hash/fnv"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/tools/go/packages"

	"github.com/capriccio-go/capriccio/cmd/stackplan/internal/plan"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

const loadMode = packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports |
	packages.NeedDeps | packages.NeedTypes | packages.NeedSyntax | packages.NeedTypesInfo | packages.NeedTypesSizes |
	packages.NeedModule | packages.NeedForTest

// load loads packages with everything that they import; overlay are files that need
// not be there.
func load(t testing.TB, overlay map[string][]byte, tests bool, patterns ...string) []*packages.Package {
	t.Helper()
	pkgs := testenv.Need(packages.Load(&packages.Config{Mode: loadMode, Overlay: overlay, Tests: tests}, patterns...))(t)
	for _, p := range pkgs {
		for _, e := range p.Errors {
			t.Fatal(e)
		}
	}
	return pkgs
}

// rewriterOf is a Rewriter that reads files from the overlay too.
func rewriterOf(pkgs []*packages.Package, overlay map[string][]byte) *Rewriter {
	return New(Config{Packages: pkgs, Read: func(name string) ([]byte, error) {
		if text, ok := overlay[name]; ok {
			return text, nil
		}
		return os.ReadFile(name)
	}})
}

// everyCall is a plan with a checkpoint at each call of the packages.
func everyCall(r *Rewriter, need func(site string) plan.Bytes) (list []plan.Checkpoint) {
	for _, f := range r.files {
		if r.refuseFile(f) != "" {
			continue
		}
		for at, s := range f.sites {
			p := f.pkg.Fset.PositionFor(s.call.Lparen, false)
			site := fmt.Sprintf("%s:%d:%d", filepath.Base(f.name), p.Line, p.Column)
			list = append(list, plan.Checkpoint{
				File: f.name, Offset: at.offset, End: at.end, Line: p.Line, Col: p.Column, Site: site, Need: need(site),
			})
		}
	}
	slices.SortFunc(list, byPlace)
	return list
}

// Needs for which a checkpoint makes the call itself, links always, or either.
func always(string) plan.Bytes { return 0 }
func never(string) plan.Bytes  { return 48 << 10 }
func mixed(site string) plan.Bytes {
	h := fnv.New32()
	h.Write([]byte(site))
	return plan.Bytes(h.Sum32()%4) * 16 << 10
}

// build builds a package with an overlay, which may be none.
func build(t testing.TB, r *Result, pkg, name string, flags ...string) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), name)
	args := append([]string{"build", "-o", bin}, flags...)
	if r != nil {
		args = append(args, "-overlay", overlayOf(t, r))
	}
	testenv.Run(t, "", nil, "go", append(args, pkg)...)
	return bin
}

func overlayOf(t testing.TB, r *Result) string {
	t.Helper()
	name := testenv.Need(r.WriteOverlay(t.TempDir()))(t)
	return name
}

// output runs a program; what it says must not depend on checkpoints.
func output(t testing.TB, bin string, args ...string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := exec.Command(bin, args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s %v: %v\n%s%s", bin, args, err, stdout.String(), stderr.String())
	}
	return stdout.String() + stderr.String()
}

const programsDir = "./testdata/programs"

var programs = sync.OnceValues(func() ([]*packages.Package, error) {
	return packages.Load(&packages.Config{Mode: loadMode}, programsDir)
})

func loadPrograms(t testing.TB) *Rewriter {
	t.Helper()
	pkgs := testenv.Need(programs())(t)
	if n := packages.PrintErrors(pkgs); n > 0 {
		t.Fatalf("%d errors in the programs", n)
	}
	return rewriterOf(pkgs, nil)
}

// same compares what two runs have said.
func same(t *testing.T, got, want string) {
	t.Helper()
	if got == want {
		return
	}
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	program := ""
	for i := range w {
		if strings.HasPrefix(w[i], "== ") {
			program = w[i]
		}
		if i >= len(g) || g[i] != w[i] {
			t.Errorf("%s: line %d with checkpoints:\n%s\nwithout:\n%s", program, i+1, strings.Join(g[min(i, len(g)):min(i+3, len(g))], "\n"), strings.Join(w[i:min(i+3, len(w))], "\n"))
			return
		}
	}
	t.Errorf("with checkpoints it says more:\n%s", strings.Join(g[len(w):], "\n"))
}

func TestProgramsSayTheSame(t *testing.T) {
	r := loadPrograms(t)
	want := output(t, build(t, nil, programsDir, "plain"))
	if strings.Count(want, "\n") < 200 {
		t.Fatalf("the programs say too little:\n%s", want)
	}
	for _, c := range []struct {
		name    string
		need    func(string) plan.Bytes
		profile bool
	}{{"direct", always, false}, {"linked", never, false}, {"mixed", mixed, false}, {"profiled", mixed, true}} {
		t.Run(c.name, func(t *testing.T) {
			if c.name != "mixed" {
				testenv.NeedsFull(t, "one more build")
			}
			r.cfg.Profile = c.profile
			done := testenv.Need(r.Files(everyCall(r, c.need), false))(t)
			if len(done.Calls) < 350 {
				t.Errorf("%d calls were rewritten, want most", len(done.Calls))
			}
			bin := build(t, done, programsDir, c.name)
			same(t, output(t, bin), want)
			got, links, _ := strings.Cut(output(t, bin, "task"), "links: ")
			same(t, got, want)
			if linked := strings.TrimSpace(links) != "0"; linked != (c.name != "direct") {
				t.Errorf("%s chunks were linked", strings.TrimSpace(links))
			}
		})
	}
	r.cfg.Profile = false
}

// TestMarkedCalls checks what becomes of the calls that say it in a comment before
// their parenthesis.
func TestMarkedCalls(t *testing.T) {
	r := loadPrograms(t)
	found := 0
	for _, f := range r.files {
		if r.refuseFile(f) != "" {
			continue
		}
		marks := map[token.Pos]string{}
		for _, g := range f.syntax.Comments {
			for _, c := range g.List {
				if text, ok := strings.CutPrefix(c.Text, "/*"); ok {
					marks[c.End()] = strings.TrimSuffix(text, "*/")
				}
			}
		}
		for at, s := range f.sites {
			mark := marks[s.call.Lparen]
			if mark == "" {
				mark = marks[s.call.Lparen-1] // gofmt puts a space
			}
			if mark == "" {
				continue
			}
			found++
			got := "checkpoint"
			if why := r.Refused(f.name, at.offset, at.end); why != "" {
				got = "refused: " + why
			}
			if !strings.HasPrefix(got, mark) && !(strings.HasPrefix(mark, "refused: ") && strings.Contains(got, mark[len("refused: "):])) {
				t.Errorf("%s is %q, want %q", f.pkg.Fset.Position(s.call.Lparen), got, mark)
			}
		}
	}
	testenv.AtLeast(t, found, 80, "marks were found")
}
