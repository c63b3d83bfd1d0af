package rewrite

import (
	"go/ast"
	"go/types"
	"slices"
	"strings"
)

// refuseFile reports why there can be no checkpoint in a file, or is empty.
func (r *Rewriter) refuseFile(f *file) string {
	if !f.judged {
		f.judged = true
		f.refused = r.refuseWhole(f)
	}
	return f.refused
}

func (r *Rewriter) refuseWhole(f *file) string {
	if f.pkg.Module == nil {
		return "package " + f.pkg.PkgPath + " is in the standard library, which can't import " + chunkPath
	}
	if !slices.Contains(f.pkg.GoFiles, f.name) {
		return "its file uses cgo" // and this is what cgo has made of it
	}
	for _, spec := range f.syntax.Imports {
		if spec.Path.Value == `"C"` {
			return "its file uses cgo"
		}
	}
	for _, group := range f.syntax.Comments {
		for _, c := range group.List {
			if strings.HasPrefix(c.Text, "//line ") || strings.HasPrefix(c.Text, "/*line ") {
				return "its file has the lines of another one, by a line comment"
			}
		}
	}
	if err := f.load(); err != nil {
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
func refuseContext(t *target) string {
	if body := t.site.body(); body != nil && callsRecover(t.file.pkg.TypesInfo, body) {
		return "it is in a function that calls recover, where the stack of the panic may be wanted"
	}
	d := t.site.function()
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
func refuseArguments(t *target) string {
	info := t.file.pkg.TypesInfo
	for _, arg := range t.site.call.Args {
		for n := range ast.Preorder(arg) {
			conv, ok := n.(*ast.CallExpr)
			if ok && len(conv.Args) == 1 && info.Types[conv.Fun].IsType() &&
				isBasic(info.TypeOf(conv), types.Uintptr) && isBasic(info.TypeOf(conv.Args[0]), types.UnsafePointer) {
				return "an argument turns an unsafe.Pointer into a uintptr, which is safe only in the call itself"
			}
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
