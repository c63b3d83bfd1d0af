package rewrite

import (
	"go/ast"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

// runtimePackages are those without checkpoints: what tasks and chunks are made of, and
// what the engine calls while a task is between two states.
func runtimePackages(loaded []*packages.Package) map[string]bool {
	none := map[string]bool{chunkPath: true}
	var add func(p *packages.Package)
	add = func(p *packages.Package) {
		if none[p.PkgPath] && p.PkgPath != chunkPath {
			return
		}
		none[p.PkgPath] = true
		for _, q := range p.Imports {
			add(q)
		}
	}
	packages.Visit(loaded, nil, func(p *packages.Package) {
		switch p.PkgPath {
		case chunkPath, modulePath + "/internal/engine", modulePath + "/task", modulePath + "/ressched":
			add(p)
		case modulePath + "/bgraph", modulePath + "/internal/sched":
			none[p.PkgPath] = true
		}
	})
	return none
}

// refuseFile reports why there can be no checkpoint in a file, or is empty.
func (r *Rewriter) refuseFile(f *file) string {
	if !f.judged {
		f.judged = true
		f.refused = r.refuseWhole(f)
	}
	return f.refused
}

func (r *Rewriter) refuseWhole(f *file) string {
	path := f.pkg.PkgPath
	switch {
	case r.runtime[path] || strings.HasPrefix(path, modulePath+"/internal/"):
		return "package " + path + " is part of what checkpoints are made of"
	case f.pkg.Module == nil:
		return "package " + path + " is in the standard library, which can't import " + chunkPath
	}
	if !slices.Contains(f.pkg.GoFiles, f.name) {
		return "its file uses cgo" // and this is what cgo has made of it
	}
	for _, spec := range f.syntax.Imports {
		if spec.Path.Value == `"C"` {
			return "its file uses cgo"
		}
	}
	if err := f.load(r.cfg.Read); err != nil {
		return err.Error()
	}
	if strings.Contains(string(f.text), prefix) {
		return "its file has names that begin with " + prefix + ", as those made by stackplan do"
	}
	return ""
}

// withoutCheckpoints are directives of functions whose frames or calls are special.
var withoutCheckpoints = []string{
	"go:nosplit", "go:systemstack", "go:norace", "go:nowritebarrier", "go:nowritebarrierrec",
	"go:yeswritebarrierrec", "go:nocheckptr", "go:uintptrescapes", "go:uintptrkeepalive",
}

// refuseContext judges where a call stands.
func refuseContext(info *types.Info, s *site) string {
	if body := s.body(); body != nil && callsRecover(info, body) {
		return "it is in a function that calls recover, where the stack of the panic may be wanted"
	}
	d := s.function()
	if d == nil || d.Doc == nil {
		return ""
	}
	for _, c := range d.Doc.List {
		for _, word := range withoutCheckpoints {
			if c.Text == "//"+word {
				return "it is in a function with //" + word
			}
		}
	}
	return ""
}

// refuseArguments finds arguments that mean something else in another call.
func refuseArguments(info *types.Info, call *ast.CallExpr) string {
	for _, arg := range call.Args {
		why := ""
		ast.Inspect(arg, func(n ast.Node) bool {
			conv, ok := n.(*ast.CallExpr)
			if !ok || len(conv.Args) != 1 || !info.Types[conv.Fun].IsType() {
				return why == ""
			}
			if isBasic(info.TypeOf(conv), types.Uintptr) && isBasic(info.TypeOf(conv.Args[0]), types.UnsafePointer) {
				why = "an argument turns an unsafe.Pointer into a uintptr, which is safe only in the call itself"
			}
			return why == ""
		})
		if why != "" {
			return why
		}
	}
	return ""
}

func isBasic(t types.Type, kind types.BasicKind) bool {
	if t == nil {
		return false
	}
	b, ok := t.Underlying().(*types.Basic)
	return ok && b.Kind() == kind
}
