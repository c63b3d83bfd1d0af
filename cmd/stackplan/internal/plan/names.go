package plan

import (
	"go/types"
	"path"
	"strings"

	"golang.org/x/tools/go/ssa"
)

// ofRuntime reports whether a package, or a function by its name, belongs to the Go
// runtime. On the stack of a goroutine, the runtime calls functions of others only
// where annotations say so.
func ofRuntime(name string) bool {
	return name == "runtime" || strings.HasPrefix(name, "runtime.") || strings.HasPrefix(name, "internal/runtime/") || strings.HasPrefix(name, "type:.")
}

// wrapperNames are the names that the linker may know a method by: with pointer and
// value receivers, and as a method value.
func wrapperNames(f *ssa.Function) []string {
	method, ok := f.Object().(*types.Func)
	if !ok {
		return nil
	}
	recv := method.Signature().Recv()
	if r := f.Signature.Recv(); r != nil {
		recv = r
	}
	if recv == nil {
		return nil
	}
	t := types.Unalias(recv.Type())
	if p, ok := t.(*types.Pointer); ok {
		t = types.Unalias(p.Elem())
	}
	named, ok := t.(*types.Named)
	if !ok || named.Obj().Pkg() == nil {
		return nil
	}
	path := linkPath(named.Obj().Pkg())
	var names []string
	for _, recv := range []string{"(*" + named.Obj().Name() + ")", named.Obj().Name()} {
		name := path + "." + recv + "." + method.Name()
		if strings.HasSuffix(f.Name(), "$bound") {
			name += "-fm"
		}
		names = append(names, name)
	}
	return names
}

// linkPath is the import path as the linker writes it.
func linkPath(pkg *types.Package) string {
	if pkg.Name() == "main" {
		return "main"
	}
	path := pkg.Path()
	slash := strings.LastIndexByte(path, '/') + 1
	return path[:slash] + strings.ReplaceAll(path[slash:], ".", "%2e")
}

// outermost is the declared function that f stands in, not instantiated.
func outermost(f *ssa.Function) *ssa.Function {
	for f.Parent() != nil {
		f = f.Parent()
	}
	if o := f.Origin(); o != nil {
		return o
	}
	return f
}

func packageOf(f *ssa.Function) string {
	if f = outermost(f); f.Pkg != nil {
		return f.Pkg.Pkg.Path()
	}
	return ""
}

// linkName is about the name that the linker gives to a function of the source;
// closures are counted in another way there.
func linkName(f *ssa.Function) string {
	if p := f.Parent(); p != nil {
		return linkName(p) + "." + strings.ReplaceAll(strings.TrimPrefix(f.Name(), p.Name()+"$"), "$", ".")
	}
	if o := f.Origin(); o != nil {
		f = o
	}
	name := f.Name()
	if f.Pkg == nil {
		return f.String()
	}
	path := linkPath(f.Pkg.Pkg)
	recv := f.Signature.Recv()
	if recv == nil {
		return path + "." + name
	}
	t, open, end := types.Unalias(recv.Type()), "", ""
	if p, ok := t.(*types.Pointer); ok {
		t, open, end = types.Unalias(p.Elem()), "(*", ")"
	}
	if named, ok := t.(*types.Named); ok {
		return path + "." + open + named.Obj().Name() + end + "." + name
	}
	return f.String()
}

// packageOfName is the import path in the linker's name of a function.
func packageOfName(function string) string {
	if end := strings.IndexByte(function, '['); end >= 0 {
		function = function[:end]
	}
	dir, last := path.Split(function)
	pkg, _, _ := strings.Cut(last, ".")
	return dir + strings.ReplaceAll(pkg, "%2e", ".")
}

// Standard goes by the rule that the first element of an import path of the standard
// library has no dot.
func Standard(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return !strings.Contains(first, ".") && path != "main" && path != "command-line-arguments"
}
