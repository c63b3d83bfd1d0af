//go:build linux

package simserver

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/format"
	"go/token"
	"go/types"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

var (
	tune    = flag.String("sim.tune", "^(burstWait|bodyEasy)$", "halve and double the constants that match, see TestTuning")
	aims    = flag.String("sim.aims", "TestOneLockOfTwo|TestOverloadOfWork|TestMixedResponses|TestBackendStep", "tests that are run with each value")
	tableTo = flag.String("sim.table", "", "file for the table of TestTuning")
)

// inConst is the variable that tells the program under test which constant to scale, "admit.burstWait=0.5".
const inConst = "CAPRICCIO_TUNED"

// tunedPackages have a file constants.go.
var tunedPackages = []string{"admit", "sched"}

// TestTuning says which of the simulated servers fail with half and with twice of each tuning constant. It builds the tests
// once, with variables in place of the constants, and runs them with each value.
func TestTuning(t *testing.T) {
	testenv.NeedsFull(t, "another build of the tests, and many runs")
	if testenv.Race {
		t.Skip("these are many requests; the seeds look for races")
	}
	want := testenv.Need(regexp.Compile(*tune))(t)
	dir := t.TempDir()
	overlay := map[string]string{}
	var all []*tunable
	for _, name := range tunedPackages {
		all = append(all, makeTunable(t, name, dir, overlay)...)
	}
	overlayFile, binary := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "tests")
	testenv.Must(t, os.WriteFile(overlayFile, testenv.Need(json.Marshal(map[string]any{"Replace": overlay}))(t), 0o600))
	testenv.Run(t, "", nil, "go", "test", "-c", "-vet=off", "-overlay", overlayFile, "-o", binary)
	if failed := failures(t, binary, ""); failed != "–" {
		t.Fatalf("with the constants as they are these fail: %s", failed)
	}
	var table bytes.Buffer
	fmt.Fprintf(&table, "| constant | value | halved | doubled |\n|---|---|---|---|\n")
	var others []string
	for _, c := range all {
		full := c.pkg + "." + c.name
		switch {
		case !want.MatchString(c.name):
		case !c.variable:
			others = append(others, "`"+full+"`")
		default:
			fmt.Fprintf(&table, "| `%s` | `%s` | %s | %s |\n", full, c.value, failures(t, binary, full+"=0.5"), failures(t, binary, full+"=2"))
			if *tableTo != "" {
				testenv.Must(t, os.WriteFile(*tableTo, table.Bytes(), 0o644))
			}
		}
	}
	fmt.Fprintf(&table, "\nNot varied, as they are needed when the program is compiled: %s.\n", strings.Join(others, ", "))
	if *tableTo != "" {
		testenv.Must(t, os.WriteFile(*tableTo, table.Bytes(), 0o644))
	}
	t.Logf("\n%s", &table)
}

// failures lists the tests that fail, with a constant scaled unless scale is empty.
func failures(t *testing.T, binary, scale string) string {
	cmd := exec.CommandContext(t.Context(), binary, "-test.run", *aims, "-test.timeout", "5m")
	cmd.Env = append(os.Environ(), inConst+"="+scale, "CAPRICCIO_TEST=")
	out, err := cmd.CombinedOutput()
	var names []string
	for _, m := range regexp.MustCompile(`(?m)^--- FAIL: Test(\w+)`).FindAllStringSubmatch(string(out), -1) {
		names = append(names, m[1])
	}
	switch {
	case err == nil && len(names) == 0:
		return "–"
	case bytes.Contains(out, []byte("panic: test timed out")):
		names = append(names, "no end")
	case len(names) == 0:
		return "panics"
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), ", ")
}

// A tunable is a constant. It can be a variable unless it is needed where the language wants a constant, or as values of
// different types.
type tunable struct {
	pkg, name, value string
	variable         bool
	typ              string // of the variable
}

// makeTunable writes constants.go of a package with variables into dir, and adds it to the overlay.
func makeTunable(t *testing.T, name, dir string, overlay map[string]string) (all []*tunable) {
	t.Helper()
	pkgs := testenv.Need(packages.Load(&packages.Config{
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedSyntax | packages.NeedTypes | packages.NeedTypesInfo | packages.NeedImports | packages.NeedDeps,
	}, "github.com/capriccio-go/capriccio/internal/"+name))(t)
	pkg := pkgs[0]
	file := pkg.Syntax[slices.IndexFunc(pkg.Syntax, func(f *ast.File) bool {
		return filepath.Base(pkg.Fset.Position(f.Package).Filename) == "constants.go"
	})]
	path := pkg.Fset.Position(file.Package).Filename
	byName := map[string]*tunable{}
	for _, d := range file.Decls {
		if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.CONST {
			for _, s := range g.Specs {
				spec := s.(*ast.ValueSpec)
				var value bytes.Buffer
				testenv.Must(t, format.Node(&value, pkg.Fset, spec.Values[0]))
				c := &tunable{pkg: name, name: spec.Names[0].Name, value: value.String(), variable: true}
				all, byName[c.name] = append(all, c), c
			}
		}
	}
	for id, object := range pkg.TypesInfo.Uses {
		c := byName[id.Name]
		used, ok := object.(*types.Const)
		if c == nil || !ok || used.Parent() != pkg.Types.Scope() {
			continue
		}
		typ := types.Default(pkg.TypesInfo.TypeOf(id)).String()
		if inFile := pkg.Fset.Position(id.Pos()).Filename == path; !inFile || c.typ == "" && !strings.Contains(pkg.TypesInfo.TypeOf(id).String(), "untyped") {
			c.typ = typ
		}
	}
	for { // until the compiler has no objection
		text := rewritten(t, pkg, file, byName)
		errs := check(t, pkg, file, text)
		if len(errs) == 0 {
			to := filepath.Join(dir, name+".go")
			testenv.Must(t, os.WriteFile(to, text, 0o600))
			overlay[path] = to
			return all
		}
		before := countVariables(all)
		for _, line := range errs {
			for _, word := range regexp.MustCompile(`\w+`).FindAllString(line, -1) {
				if c := byName[word]; c != nil {
					c.variable = false
				}
			}
		}
		testenv.MustEqual(t, countVariables(all) < before, true, "package %s: %q", name, errs)
	}
}

func countVariables(all []*tunable) (n int) {
	for _, c := range all {
		if c.variable {
			n++
		}
	}
	return n
}

// rewritten is constants.go with variables.
func rewritten(t *testing.T, pkg *packages.Package, file *ast.File, byName map[string]*tunable) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "package %s\n\nimport (\n\"os\"\n\"strconv\"\n\"strings\"\n\"time\"\n)\n\nvar _ time.Duration\n\n", pkg.Name)
	for _, d := range file.Decls {
		if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.CONST {
			for _, s := range g.Specs {
				c := byName[s.(*ast.ValueSpec).Names[0].Name]
				switch {
				case !c.variable:
					fmt.Fprintf(&b, "const %s = %s\n", c.name, c.value)
				case c.typ == "":
					fmt.Fprintf(&b, "var %s = tuned(%q, %s)\n", c.name, c.name, c.value)
				default:
					fmt.Fprintf(&b, "var %s = tuned[%s](%q, %s)\n", c.name, c.typ, c.name, c.value)
				}
			}
		}
	}
	fmt.Fprintf(&b, `
func tuned[T ~int | ~int8 | ~int32 | ~int64 | ~uint32 | ~uint64 | ~float64](name string, v T) T {
	if which, scale, ok := strings.Cut(os.Getenv(%q), "="); ok && which == %q+name {
		f, _ := strconv.ParseFloat(scale, 64)
		return T(float64(v) * f)
	}
	return v
}
`, inConst, pkg.Name+".")
	return testenv.Need(format.Source(b.Bytes()))(t)
}

// check compiles the package with another constants.go, and returns the lines that can't be compiled.
func check(t *testing.T, pkg *packages.Package, file *ast.File, text []byte) (lines []string) {
	path := pkg.Fset.Position(file.Package).Filename
	loaded := testenv.Need(packages.Load(&packages.Config{
		Mode:    packages.NeedName | packages.NeedFiles | packages.NeedSyntax | packages.NeedTypes | packages.NeedTypesInfo | packages.NeedImports | packages.NeedDeps,
		Overlay: map[string][]byte{path: text},
	}, pkg.PkgPath))(t)
	for _, e := range loaded[0].TypeErrors {
		at := e.Fset.Position(e.Pos)
		source := text
		if at.Filename != path {
			source = testenv.Need(os.ReadFile(at.Filename))(t)
		}
		lines = append(lines, strings.Split(string(source), "\n")[at.Line-1])
	}
	return lines
}
