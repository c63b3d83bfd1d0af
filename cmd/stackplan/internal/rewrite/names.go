package rewrite

import (
	"fmt"
	"go/types"
	"slices"
	"strings"
)

// A namer writes types as they are called at the top level of a file. Types that are
// declared in a function, or that another package does not export, have no name there.
type namer struct {
	f       *file
	imports *imports
	params  []*types.TypeParam // of the function around the call, that are used
	plain   map[string]bool    // names of other things that are written
	failed  string             // why a type can't be written
}

// imports are the imports of a file, and the ones that the rewriting adds.
type imports struct {
	names map[string]string // by import path
	added []string          // paths, in order
}

func (f *file) newImports() *imports {
	im := &imports{names: map[string]string{}}
	for _, spec := range f.syntax.Imports {
		obj := f.pkg.TypesInfo.Implicits[spec]
		if spec.Name != nil {
			obj = f.pkg.TypesInfo.Defs[spec.Name]
		}
		if pkg, ok := obj.(*types.PkgName); ok && pkg.Name() != "." && pkg.Name() != "_" {
			im.names[pkg.Imported().Path()] = pkg.Name()
		}
	}
	return im
}

// name is how a package is called.
func (im *imports) name(path string) string {
	if n, ok := im.names[path]; ok {
		return n
	}
	n := fmt.Sprintf("%simport%d", prefix, len(im.added))
	if path == chunkPath {
		n = prefix + "chunk"
	}
	im.names[path] = n
	im.added = append(im.added, path)
	return n
}

// clause are the added imports that text uses, to stand behind the package clause.
func (im *imports) clause(text string) string {
	var b strings.Builder
	for _, path := range im.added {
		if strings.Contains(text, im.names[path]+".") {
			fmt.Fprintf(&b, "; import %s %q", im.names[path], path)
		}
	}
	return b.String()
}

func (n *namer) fail(format string, args ...any) {
	if n.failed == "" {
		n.failed = fmt.Sprintf(format, args...)
	}
}

func (n *namer) typ(t types.Type) string {
	n.check(t)
	return types.TypeString(t, func(p *types.Package) string {
		if p.Path() == n.f.pkg.Types.Path() {
			return ""
		}
		return n.pkg(p)
	})
}

// pkg is how a package is called.
func (n *namer) pkg(p *types.Package) string {
	name := n.imports.name(p.Path())
	n.plain[name] = true
	return name
}

// check fails if t has no name at the top level of the file, or a part of it.
func (n *namer) check(t types.Type) {
	switch t := t.(type) {
	case *types.Basic:
		if t.Kind() != types.UnsafePointer {
			n.predeclared(t.Name())
		}
	case *types.Alias:
		n.declared(t.Obj(), t.TypeArgs())
	case *types.Named:
		n.declared(t.Obj(), t.TypeArgs())
	case *types.TypeParam:
		n.typeParam(t)
	case *types.Map:
		n.check(t.Key())
		n.check(t.Elem())
	case interface{ Elem() types.Type }:
		n.check(t.Elem())
	case *types.Signature:
		n.tuple(t.Params())
		n.tuple(t.Results())
	case *types.Struct:
		for v := range t.Fields() {
			n.member(v)
			n.check(v.Type())
		}
	case *types.Interface:
		for m := range t.ExplicitMethods() {
			n.member(m)
			n.check(m.Type())
		}
		for e := range t.EmbeddedTypes() {
			n.check(e)
		}
	case *types.Union:
		for term := range t.Terms() {
			n.check(term.Type())
		}
	default:
		n.fail("the type %s can't be written", t)
	}
}

func (n *namer) tuple(t *types.Tuple) {
	for v := range t.Variables() {
		n.check(v.Type())
	}
}

// member fails if only another package can name a field or a method.
func (n *namer) member(m types.Object) {
	if !m.Exported() && m.Pkg().Path() != n.f.pkg.Types.Path() {
		n.fail("it needs %s, which another package does not export", m.Name())
	}
}

// predeclared fails if the package has declared a predeclared name anew.
func (n *namer) predeclared(name string) {
	if n.f.pkg.Types.Scope().Lookup(name) != nil {
		n.fail("the package declares the predeclared name %s anew", name)
	}
	n.plain[name] = true
}

func (n *namer) declared(obj *types.TypeName, args *types.TypeList) {
	switch {
	case obj.Pkg() == nil:
		n.predeclared(obj.Name())
	case obj.Parent() != obj.Pkg().Scope():
		n.fail("the type %s has no name outside of where it is declared", obj.Name())
	case obj.Pkg().Path() == n.f.pkg.Types.Path():
		n.plain[obj.Name()] = true
	case !obj.Exported() || !importable(n.f.pkg.PkgPath, obj.Pkg()):
		n.fail("the file can't name the type %s.%s", obj.Pkg().Path(), obj.Name())
	}
	for a := range args.Types() {
		n.check(a)
	}
}

func (n *namer) typeParam(t *types.TypeParam) {
	if !slices.Contains(n.params, t) {
		n.params = append(n.params, t)
		n.check(t.Constraint()) // it may need others
	}
}

// importable follows the rules for internal and vendored packages.
func importable(from string, p *types.Package) bool {
	path := "/" + p.Path() + "/"
	if p.Name() == "main" || strings.Contains(path, "/vendor/") {
		return false
	}
	at := strings.LastIndex(path, "/internal/")
	return at < 0 || at > 0 && strings.HasPrefix("/"+from+"/", path[:at+1])
}

// typeParams are the type parameters of a generated function as they are declared, and their
// names alone.
func (n *namer) typeParams() (declared, names string) {
	var list, short []string
	for i := 0; i < len(n.params); i++ { // constraints may add some
		name := n.params[i].Obj().Name()
		list = append(list, name+" "+n.typ(n.params[i].Constraint()))
		short = append(short, name)
	}
	for _, name := range short {
		if name == "_" || n.plain[name] {
			n.fail("its type parameter %s has no name of its own", name)
		}
	}
	if len(list) == 0 {
		return "", ""
	}
	return "[" + strings.Join(list, ", ") + "]", "[" + strings.Join(short, ", ") + "]"
}
