package rewrite

import (
	"go/ast"
	"go/constant"
	"go/types"

	"golang.org/x/tools/go/packages"

	"github.com/capriccio-go/capriccio/cmd/stackplan/internal/plan"
)

// callees knows the bodies of functions, as far as their sources were loaded: some
// functions can tell by whom they were called, and so must be called as they were.
type callees struct {
	decls map[string]declared // by name; see key
	depth map[depthKey]int
}

type declared struct {
	pkg  *packages.Package
	decl *ast.FuncDecl
}

type depthKey struct {
	name string
	hops int
}

// maxHops is how far from a call that asks for callers we look for those it may find.
const maxHops = 4

func newCallees(loaded []*packages.Package) *callees {
	c := &callees{decls: map[string]declared{}, depth: map[depthKey]int{}}
	packages.Visit(loaded, nil, func(p *packages.Package) {
		if p.TypesInfo == nil {
			return
		}
		for _, f := range p.Syntax {
			for _, d := range f.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok {
					if obj, ok := p.TypesInfo.Defs[fn.Name].(*types.Func); ok {
						c.decls[obj.FullName()] = declared{p, fn}
					}
				}
			}
		}
	})
	return c
}

// refuseCaller reports why the frame above a function must be that of its caller.
func (c *callees) refuseCaller(fn *types.Func) string {
	fn = fn.Origin()
	if p := fn.Pkg(); p != nil {
		switch p.Path() {
		case "runtime", "runtime/debug", "testing", "log", "log/slog", "unsafe":
			return fn.FullName() + " may look at its caller"
		}
	}
	if c.looksUp(fn, maxHops) > 0 {
		return fn.FullName() + " looks at its caller (runtime.Caller or the like)"
	}
	return ""
}

// looksUp is how many frames above itself a function asks for, as far as that can be
// seen within some static calls.
func (c *callees) looksUp(fn *types.Func, hops int) int {
	name := fn.FullName()
	d, known := c.decls[name]
	if !known || d.decl.Body == nil || hops == 0 {
		return 0
	}
	key := depthKey{name, hops}
	if n, done := c.depth[key]; done {
		return n
	}
	c.depth[key] = 0 // for recursions
	most := 0
	ast.Inspect(d.decl.Body, func(n ast.Node) bool {
		if _, nested := n.(*ast.FuncLit); nested {
			return false
		}
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		callee := staticCallee(d.pkg.TypesInfo, call)
		if callee == nil {
			return true
		}
		up := 0
		switch callee.FullName() {
		case "runtime.Caller":
			up = skip(d.pkg.TypesInfo, call, 2)
		case "runtime.Callers":
			up = skip(d.pkg.TypesInfo, call, 3) - 1
		case "runtime/debug.Stack", "runtime/debug.PrintStack", "runtime.Stack":
			up = maxHops // shows all that there is
		default:
			up = c.looksUp(callee.Origin(), hops-1) - 1
		}
		most = max(most, up)
		return true
	})
	c.depth[key] = most
	return most
}

// skip is the constant that is the first argument, or what it is taken for.
func skip(info *types.Info, call *ast.CallExpr, unknown int) int {
	if len(call.Args) > 0 {
		if v := info.Types[call.Args[0]].Value; v != nil {
			if n, exact := constant.Int64Val(constant.ToInt(v)); exact {
				return int(min(n, maxHops))
			}
		}
	}
	return unknown
}

// calledFunc is the function or method that is called, nil if it is a value.
func calledFunc(info *types.Info, call *ast.CallExpr) *types.Func {
	fun := ast.Unparen(call.Fun)
	switch x := fun.(type) {
	case *ast.IndexExpr:
		fun = x.X
	case *ast.IndexListExpr:
		fun = x.X
	}
	id, _ := fun.(*ast.Ident)
	if x, ok := fun.(*ast.SelectorExpr); ok {
		id = x.Sel
	}
	if id == nil {
		return nil
	}
	fn, _ := info.Uses[id].(*types.Func)
	return fn
}

// staticCallee is the function or method of a concrete type that is called, or nil.
func staticCallee(info *types.Info, call *ast.CallExpr) *types.Func {
	fn := calledFunc(info, call)
	if fn == nil {
		return nil
	}
	if recv := fn.Signature().Recv(); recv != nil && types.IsInterface(recv.Type()) {
		return nil
	}
	return fn
}

// refuseDeferred reports why a function must be called by the defer statement itself:
// recover works only in that function.
func (c *callees) refuseDeferred(info *types.Info, call *ast.CallExpr) string {
	if lit, ok := ast.Unparen(call.Fun).(*ast.FuncLit); ok {
		if callsRecover(info, lit.Body) {
			return "it is deferred and calls recover"
		}
		return ""
	}
	fn := staticCallee(info, call)
	if fn == nil {
		return "it is deferred, and what is called might call recover"
	}
	d, known := c.decls[fn.Origin().FullName()]
	switch {
	case !known && fn.Pkg() != nil && plan.Standard(fn.Pkg().Path()):
		// No exported function of the standard library is meant to be deferred for
		// its recover.
		return ""
	case !known || d.decl.Body == nil:
		return "it is deferred, and " + fn.FullName() + ", whose source is not known, might call recover"
	case callsRecover(d.pkg.TypesInfo, d.decl.Body):
		return "it is deferred, and " + fn.FullName() + " calls recover"
	}
	return ""
}

// callsRecover looks for recover in a function, but not in those inside of it.
func callsRecover(info *types.Info, body *ast.BlockStmt) bool {
	found := false
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false
		case *ast.Ident:
			if b, ok := info.Uses[n].(*types.Builtin); ok && b.Name() == "recover" {
				found = true
			}
		}
		return !found
	})
	return found
}
