package engine_test

import (
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/internal/coro"
	"github.com/capriccio-go/capriccio/internal/engine"
)

func receive(c chan bool) bool { return <-c }
func viaOther(c chan bool) bool {
	return receive(c)
}

// The log tells once of a line that waits natively, however it is come to, and where it is.
func TestNativePlaceIsALine(t *testing.T) {
	if !coro.CanStack() {
		t.Skip("the stacks of other goroutines can't be read here")
	}
	var places engine.NativePlaces
	var seen []engine.NativePlace
	for _, wait := range []func(chan bool) bool{receive, viaOther} {
		c, gs := make(chan bool), make(chan uintptr)
		go func() {
			gs <- coro.G()
			engine.Outside(wait, c)
		}()
		g := <-gs
		place, ok := places.Look(g)
		for ; !ok; place, ok = places.Look(g) { // it is on its way there
			runtime.Gosched()
		}
		seen = append(seen, place)
		c <- true
	}
	if seen[0].Print == seen[1].Print || seen[0].Told != seen[1].Told {
		t.Errorf("two ways to one line are the places %v; want two that are told of together", seen)
	}
	if at := seen[1].At; !strings.HasPrefix(at, "github.com/capriccio-go/capriccio/internal/engine_test.receive ") || !strings.Contains(at, "nativeplace_test.go:") {
		t.Errorf("the place is at %q; want function and line of receive", at)
	}
}

// The watchdog recognises functions by their names. Each of them must be in the source, of this module or of Go.
func TestNamedFunctionsExist(t *testing.T) {
	own, golang := engine.NamedFunctions()
	check := func(root string, names []string) {
		declared := map[string][]string{}
		for _, name := range names {
			slash := strings.LastIndexByte(name, '/') + 1
			dot := slash + strings.IndexByte(name[slash:], '.')
			pkg, function := name[:dot], strings.TrimSuffix(name[dot+1:], "[")
			if declared[pkg] == nil {
				declared[pkg] = functionsIn(t, filepath.Join(root, pkg))
			}
			if !slices.Contains(declared[pkg], function) {
				t.Errorf("no function %s in %s", name, filepath.Join(root, pkg))
			}
		}
	}
	check("../..", own)
	if _, err := os.Stat(build.Default.GOROOT + "/src/runtime"); err != nil {
		t.Skip("the source of Go is not here:", err)
	}
	check(build.Default.GOROOT+"/src", golang)
}

// functionsIn returns the functions and methods of the package in dir, written as in a stack: "f", "T.m" or "(*T).m".
func functionsIn(t *testing.T, dir string) (functions []string) {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no package in %s: %v", dir, err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			name := f.Name.Name
			if f.Recv != nil {
				switch of := f.Recv.List[0].Type.(type) {
				case *ast.Ident:
					name = of.Name + "." + name
				case *ast.StarExpr:
					if of, ok := of.X.(*ast.Ident); ok {
						name = "(*" + of.Name + ")." + name
					}
				}
			}
			functions = append(functions, name)
		}
	}
	return functions
}
