package engine_test

import (
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/internal/coro"
	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/testenv"
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
	testenv.Equal(t, seen[0].Print == seen[1].Print, false, "two ways to one line are one place")
	testenv.Equal(t, seen[0].Told, seen[1].Told, "what they are told of together")
	testenv.Contains(t, seen[1].At, "github.com/capriccio-go/capriccio/internal/engine_test.receive ")
	testenv.Contains(t, seen[1].At, "nativeplace_test.go:")
}

// The watchdog recognises functions by their names. Each of them must be in the source, of this module or of Go.
func TestNamedFunctionsExist(t *testing.T) {
	split := func(name string) (pkg, function string) {
		slash := strings.LastIndexByte(name, '/') + 1
		dot := slash + strings.IndexByte(name[slash:], '.')
		return name[:dot], strings.TrimSuffix(name[dot+1:], "[")
	}
	own, golang := engine.NamedFunctions()
	inPackage := map[string]map[string]declared{}
	for _, name := range own {
		pkg, function := split(name)
		if inPackage[pkg] == nil {
			inPackage[pkg] = declaredIn(t, filepath.Join("../..", pkg))
		}
		if inPackage[pkg][function].decl == nil {
			t.Errorf("no function %s in this module", name)
		}
	}
	if _, err := os.Stat(build.Default.GOROOT + "/src/runtime"); err != nil {
		t.Skip("the source of Go is not here:", err)
	}
	text := map[string]string{} // of packages
	for _, name := range golang {
		pkg, function := split(name)
		if text[pkg] == "" {
			var all strings.Builder
			files, _ := filepath.Glob(filepath.Join(build.Default.GOROOT, "src", pkg, "*.go"))
			for _, file := range files {
				all.Write(testenv.Need(os.ReadFile(file))(t))
			}
			text[pkg] = all.String()
		}
		if !strings.Contains(text[pkg], "\nfunc "+function+"(") {
			t.Errorf("no function %s in Go", name)
		}
	}
}

// A task waits natively at a distance from the functions that may be left in the middle: with one between that may not, its
// loop is held. So a function of the runtime's packages is to be named if it calls one that passes the wait on, if
// it is given to Outside, or if package io calls it with readers and writers of the program.
func TestFunctionsBetweenAreNamed(t *testing.T) {
	named, outside := 0, 0
	for _, dir := range foldersOfOurs(t) {
		all := declaredIn(t, filepath.Join("../..", dir))
		for name, f := range all {
			name = dir + "." + name
			may, _ := engine.CallsOut(name)
			if may {
				named++
			} else if copies(f.decl) {
				t.Errorf("%s is called by package io with the program's readers or writers, and is not named in callsOutNames", name)
			}
			ast.Inspect(f.decl, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				to := f.callee(dir, call.Fun)
				if !may && passesOn(to) {
					t.Errorf("%s calls %s, which may be left in the middle, and is not named in callsOutNames", name, to)
				}
				if to == "internal/engine.Outside" && len(call.Args) == 2 {
					outside++
					if fn := f.callee(dir, call.Args[0]); !mayBeOutside(all, dir, fn) {
						t.Errorf("%s gives %s to Outside, which is not named in callsOutNames", name, fn)
					}
				}
				return true
			})
		}
	}
	testenv.AtLeast(t, named, 15, "N functions are named")
	testenv.AtLeast(t, outside, 15, "N calls of Outside")
}

// mayBeOutside reports whether fn, which a function of the package in dir gives to Outside, is named or not of the runtime.
func mayBeOutside(all map[string]declared, dir, fn string) bool {
	method := fn[strings.LastIndexByte(fn, '.')+1:]
	for of, to := range all { // a method of the package, or a field: then there is none of that name
		if fn == "."+method && to.decl.Recv != nil && strings.HasSuffix(of, ")."+method) {
			fn = dir + "." + of
		}
	}
	own := all[strings.TrimPrefix(fn, dir+".")].decl != nil || !strings.HasPrefix(fn, dir+".") && !strings.HasPrefix(fn, ".")
	plain, _ := engine.CallsOut(fn)
	generic, _ := engine.CallsOut(fn + "[")
	return !own || plain || generic
}

// passesOn reports whether the function with that name may be left in the middle only if its caller may. Of a method, whose
// receiver is not known here, name is a dot and its name. The runtime's packages call Outside inside of what they link a
// stack chunk for, so that the caller of stackchunk.Call does not matter.
func passesOn(name string) bool {
	if strings.HasPrefix(name, "stackchunk.") {
		return false
	}
	if name == ".ReadFrom" || name == ".WriteTo" {
		return true
	}
	_, passes := engine.CallsOut(name)
	return passes
}

// copies reports whether f implements io.ReaderFrom or io.WriterTo.
func copies(f *ast.FuncDecl) bool {
	p := f.Type.Params.List
	if f.Recv == nil || len(p) != 1 || f.Name.Name != "ReadFrom" && f.Name.Name != "WriteTo" {
		return false
	}
	of, ok := p[0].Type.(*ast.SelectorExpr)
	return ok && (of.Sel.Name == "Reader" || of.Sel.Name == "Writer")
}

// foldersOfOurs are the folders of the runtime's packages, from the root of the module.
func foldersOfOurs(t *testing.T) (dirs []string) {
	testenv.Must(t, filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		dir := filepath.ToSlash(strings.TrimPrefix(path, "../../"))
		if d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && path != "../.." {
			return fs.SkipDir
		}
		if files, _ := filepath.Glob(filepath.Join(path, "*.go")); len(files) > 0 && slices.ContainsFunc(engine.Ours, func(p string) bool { return strings.HasPrefix(dir+".", p) }) {
			dirs = append(dirs, dir)
		}
		return nil
	}))
	return dirs
}

// A declared function, and the packages that its file imports, by the names that they have there.
type declared struct {
	decl    *ast.FuncDecl
	imports map[string]string // without the path of the module; "": of others
}

// callee names the function that is called: with its package, without the module's path, or, of a method or a field,
// as a dot and its name. It is empty for what has no name.
func (d declared) callee(dir string, fun ast.Expr) string {
	switch fun := fun.(type) {
	case *ast.IndexExpr:
		return d.callee(dir, fun.X)
	case *ast.Ident:
		return dir + "." + fun.Name
	case *ast.SelectorExpr:
		if pkg, ok := fun.X.(*ast.Ident); ok {
			if path, imported := d.imports[pkg.Name]; imported {
				return path + "." + fun.Sel.Name
			}
		}
		return "." + fun.Sel.Name
	}
	return ""
}

// declaredIn returns the functions and methods of the package in dir, by their names as in a stack: "f", "T.m" or "(*T).m".
func declaredIn(t *testing.T, dir string) map[string]declared {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no package in %s: %v", dir, err)
	}
	functions := map[string]declared{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		testenv.Must(t, err)
		imports := map[string]string{}
		for _, i := range file.Imports {
			path, _ := strconv.Unquote(i.Path.Value)
			own, ok := strings.CutPrefix(path, "github.com/capriccio-go/capriccio/")
			if !ok {
				own = ""
			}
			if i.Name != nil {
				imports[i.Name.Name] = own
			} else {
				imports[path[strings.LastIndexByte(path, '/')+1:]] = own
			}
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
			functions[name] = declared{f, imports}
		}
	}
	return functions
}
