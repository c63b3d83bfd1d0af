package capriccio_test

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"go/types"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// inside are exported names that show a type of an internal package, and why.
var inside = map[string]string{
	// An error for errors.As must be the same type above and below; this is its public name.
	"task.PanicError": "alias",
}

// Every function and method that programs call has a comment.
func TestTheAPIHasComments(t *testing.T) {
	functions := 0
	for _, p := range publicPackages(t) {
		fset := token.NewFileSet()
		dir := "." + strings.TrimPrefix(p.PkgPath, module)
		var files []*ast.File
		for _, path := range glob(t, dir+"/*.go") {
			if !strings.HasSuffix(path, "_test.go") {
				f := testenv.Need(parser.ParseFile(fset, path, nil, parser.ParseComments|parser.SkipObjectResolution))(t)
				files = append(files, f)
			}
		}
		page := testenv.Need(doc.NewFromFiles(fset, files, p.PkgPath))(t)
		check := func(all []*doc.Func) {
			functions += len(all)
			for _, f := range all {
				if f.Doc == "" {
					t.Errorf("%s.%s%s has no comment", page.Name, f.Recv, f.Name)
				}
			}
		}
		check(page.Funcs)
		for _, typ := range page.Types {
			check(typ.Funcs)
			check(typ.Methods)
		}
	}
	testenv.AtLeast(t, functions, 200, "functions and methods")
}

// publicPackages are those that programs can import.
func publicPackages(t *testing.T) []*packages.Package {
	out, err := exec.Command("go", "list", "-f", "{{if ne .Name `main`}}{{.ImportPath}}{{end}}", "./...").Output()
	testenv.Must(t, err)
	var public []string
	for _, path := range strings.Fields(string(out)) {
		if !strings.Contains(path+"/", "/internal/") && !strings.Contains(path, "/cmd/") && !strings.Contains(path, "/examples/") && !strings.Contains(path, "/testdata/") {
			public = append(public, path)
		}
	}
	all, err := packages.Load(&packages.Config{Mode: packages.NeedName | packages.NeedTypes | packages.NeedExportFile}, public...)
	testenv.Must(t, err)
	testenv.AtLeast(t, len(all), 12, "packages")
	for _, p := range all {
		for _, e := range p.Errors {
			t.Error(e)
		}
	}
	return all
}

// No exported name of a package that programs can import shows a type that they can't name: one of
// an internal package, or unsafe.Pointer.
func TestTheAPIShowsNothingInternal(t *testing.T) {
	all := publicPackages(t)
	unused := map[string]bool{}
	for name := range inside {
		unused[name] = true
	}
	for _, p := range all {
		scope := p.Types.Scope()
		for _, name := range scope.Names() {
			o := scope.Lookup(name)
			if !o.Exported() {
				continue
			}
			name = p.Name + "." + name
			for _, bad := range shown(o) {
				if inside[name] == "" {
					t.Errorf("%s shows %s", name, bad)
				}
				delete(unused, name)
			}
		}
	}
	for name := range unused {
		t.Errorf("%s shows nothing internal any more, or is gone", name)
	}
}

// shown are the types that programs can't name among those that are seen of o.
func shown(o types.Object) (bad []string) {
	see := func(what string, typ types.Type) {
		if bits := internalIn(typ); bits != "" {
			bad = append(bad, bits+" in "+what)
		}
	}
	tn, ok := o.(*types.TypeName)
	if !ok {
		see("it", o.Type())
		return bad
	}
	if alias, ok := tn.Type().(*types.Alias); ok {
		see("its definition", alias.Rhs())
		return bad
	}
	named, ok := tn.Type().(*types.Named)
	if !ok {
		return nil
	}
	for i := range named.NumMethods() {
		if m := named.Method(i); m.Exported() {
			see(m.Name(), m.Type())
		}
	}
	switch u := named.Underlying().(type) {
	case *types.Struct:
		for i := range u.NumFields() {
			if f := u.Field(i); f.Exported() {
				see(f.Name(), f.Type())
			}
		}
	case *types.Interface:
		for i := range u.NumMethods() {
			if m := u.Method(i); m.Exported() {
				see(m.Name(), m.Type())
			}
		}
	default:
		see("its definition", u)
	}
	return bad
}

// internalIn is the first type in the text of typ that is of an internal package; "" if there is
// none.
func internalIn(typ types.Type) string {
	text := types.TypeString(typ, func(p *types.Package) string {
		if strings.Contains(p.Path()+"/", "/internal/") || p.Path() == "unsafe" {
			return "INSIDE " + p.Path()
		}
		return p.Name()
	})
	if _, found, ok := strings.Cut(text, "INSIDE "); ok {
		return strings.TrimRight(strings.FieldsFunc(found, func(r rune) bool { return strings.ContainsRune(" ,()[]{};*", r) })[0], ".")
	}
	return ""
}
