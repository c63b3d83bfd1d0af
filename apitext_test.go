package capriccio_test

import (
	"fmt"
	"go/types"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// apiFile has a line for each exported name of the packages that programs can import, so that a change of the API is
// seen in a review.
const apiFile = "docs/api.txt"

// apiLimits are the most names of each kind.
var apiLimits = map[string]int{"type": 71, "func": 114, "method": 216, "field": 230}

// TestTheAPIIsWrittenDown compares the API with apiFile, or writes it, with the flag -update.
func TestTheAPIIsWrittenDown(t *testing.T) {
	lines := []string{"# Exported names by package. Written by: go test . -run TestTheAPIIsWrittenDown -update"}
	all := publicPackages(t)
	slices.SortFunc(all, func(a, b *packages.Package) int { return strings.Compare(a.PkgPath, b.PkgPath) })
	for _, p := range all {
		lines = append(lines, exported(p.Types)...)
	}
	for kind, most := range apiLimits {
		n := len(slices.DeleteFunc(slices.Clone(lines), func(l string) bool { return !strings.Contains(l, ": "+kind+" ") }))
		testenv.AtMost(t, n, most, "exported names of the kind %s: those that programs do not need belong in internal/;", kind)
	}
	if testenv.Updating() {
		testenv.Must(t, os.WriteFile(apiFile, []byte(strings.Join(lines, "\n")+"\n"), 0o644))
		return
	}
	written := strings.Split(strings.TrimSuffix(read(t, apiFile), "\n"), "\n")
	for _, line := range written {
		if !slices.Contains(lines, line) {
			t.Errorf("- %s", line)
		}
	}
	for _, line := range lines {
		if !slices.Contains(written, line) {
			t.Errorf("+ %s", line)
		}
	}
	if t.Failed() {
		t.Errorf("The API has other lines than %s; go test . -run TestTheAPIIsWrittenDown -update writes them", apiFile)
	} else {
		testenv.Equal(t, len(written), len(lines), "lines of "+apiFile)
	}
}

// exported are the lines of p: constants, variables, functions and types by name, and after a type its fields and methods.
func exported(p *types.Package) (lines []string) {
	short := func(other *types.Package) string {
		if other == p {
			return ""
		}
		return other.Name()
	}
	add := func(format string, args ...any) {
		lines = append(lines, strings.TrimPrefix(p.Path(), path.Dir(module)+"/")+": "+fmt.Sprintf(format, args...))
	}
	for _, name := range p.Scope().Names() {
		o := p.Scope().Lookup(name)
		if !o.Exported() {
			continue
		}
		switch o := o.(type) {
		case *types.Const:
			add("const %s %s = %s", name, strings.TrimPrefix(types.TypeString(o.Type(), short), "untyped "), o.Val())
		case *types.Var:
			add("var %s %s", name, types.TypeString(o.Type(), short))
		case *types.Func:
			add("func %s%s", name, signature(o, short))
		case *types.TypeName:
			named, ok := o.Type().(*types.Named)
			if !ok {
				add("%s", types.ObjectString(o, short)) // an alias
				continue
			}
			within := name + "."
			switch u := named.Underlying().(type) {
			case *types.Struct:
				add("type %s struct", types.TypeString(named, short))
				for f := range u.Fields() {
					if f.Exported() {
						add("field %s%s %s", within, f.Name(), types.TypeString(f.Type(), short))
					}
				}
			case *types.Interface:
				add("type %s interface", name)
				for m := range u.ExplicitMethods() {
					if m.Exported() {
						add("method %s%s%s", within, m.Name(), signature(m, short))
					}
				}
			default:
				add("type %s %s", name, types.TypeString(u, short))
			}
			for m := range named.Methods() {
				if m.Exported() {
					add("method %s%s%s", within, m.Name(), signature(m, short))
				}
			}
		}
	}
	return lines
}

// signature is that of f, as it stands behind its name.
func signature(f *types.Func, short types.Qualifier) string {
	return strings.TrimPrefix(types.TypeString(f.Type(), short), "func")
}
