package rewrite

import (
	"go/ast"
	"go/types"
	"strings"
)

// A target is a call that can be a checkpoint, taken apart.
type target struct {
	file *file
	site *site
	sig  *types.Signature // with type arguments put in
	kind kind
	fun  ast.Expr   // what is called, without parentheses
	over types.Type // of what is handed to the generated function before the arguments; nil: nothing

	// For byName.
	function *types.Func
	typeArgs *types.TypeList
	// For byMethod: the receiver is before + recv + path.
	recv   ast.Expr
	before string // "&", "*" or nothing
	path   string // embedded fields that are implied, ".A.B"
	method string
}

// A kind says how a function outside of the one with the call can call the same thing.
type kind uint8

const (
	byName   kind = iota // f(a), pkg.F(a)
	byMethod             // x.M(a): the receiver is handed over
	byValue              // what is called is a value, and handed over
)

// judge takes a call apart or says why there can be no checkpoint.
func (r *Rewriter) judge(f *file, s *site) (*target, string) {
	info := f.pkg.TypesInfo
	fun := ast.Unparen(s.call.Fun)
	switch tv := info.Types[fun]; {
	case tv.IsType():
		return nil, "it is a conversion"
	case tv.IsBuiltin():
		return nil, "it is a call of a builtin function"
	}
	t := &target{file: f, site: s, fun: fun}
	var ok bool
	if t.sig, ok = info.TypeOf(fun).Underlying().(*types.Signature); !ok {
		return nil, "what it calls has a type parameter as its type"
	}
	for _, refuse := range []func(*target) string{refuseContext, refuseArguments, r.refuseCallee, (*target).setCallee, (*target).refuseTypes} {
		if why := refuse(t); why != "" {
			return nil, why
		}
	}
	return t, ""
}

// refuseCallee reports why what is called would notice that it has another caller, or is empty.
func (r *Rewriter) refuseCallee(t *target) string {
	info := t.file.pkg.TypesInfo
	if _, deferred := t.site.parent().(*ast.DeferStmt); deferred {
		if why := r.callees.refuseDeferred(info, t.site.call); why != "" {
			return why
		}
	}
	if fn := calledFunc(info, t.site.call); fn != nil {
		return r.callees.refuseCaller(fn)
	}
	return ""
}

// setCallee finds out how to call it from elsewhere.
func (t *target) setCallee() string {
	info := t.file.pkg.TypesInfo
	t.kind, t.over = byValue, t.sig
	fun := t.fun
	switch x := fun.(type) { // explicit type arguments
	case *ast.IndexExpr:
		if _, generic := info.TypeOf(x.X).(*types.Signature); generic {
			fun = ast.Unparen(x.X)
		}
	case *ast.IndexListExpr:
		fun = ast.Unparen(x.X)
	}
	id, _ := fun.(*ast.Ident)
	if x, ok := fun.(*ast.SelectorExpr); ok {
		sel := info.Selections[x]
		if sel != nil && sel.Kind() == types.MethodVal {
			return t.setMethod(x, sel)
		}
		if sel == nil {
			id = x.Sel
		}
	}
	if fn, ok := info.Uses[id].(*types.Func); ok && id != nil {
		t.kind, t.over, t.function, t.typeArgs = byName, nil, fn, info.Instances[id].TypeArgs
	}
	return ""
}

// setMethod makes what is implied in x.M explicit, as far as it happens before the call:
// which embedded field is meant, and that a pointer is taken or followed.
func (t *target) setMethod(x *ast.SelectorExpr, sel *types.Selection) string {
	at := sel.Recv()
	index := sel.Index()
	var path strings.Builder
	for _, i := range index[:len(index)-1] {
		s, ok := deref(at).Underlying().(*types.Struct)
		if !ok {
			return "the receiver of its method is not understood"
		}
		field := s.Field(i)
		if !field.Exported() && field.Pkg().Path() != t.file.pkg.Types.Path() {
			return "its method belongs to an embedded field that another package does not export"
		}
		path.WriteString("." + field.Name())
		at = field.Type()
	}
	_, isParam := types.Unalias(at).(*types.TypeParam)
	abstract := isParam || types.IsInterface(at)
	switch t.site.parent().(type) {
	case *ast.DeferStmt, *ast.GoStmt:
		if abstract {
			return "" // by value: a nil interface panics at the statement, not when it is called
		}
	}
	fn := sel.Obj().(*types.Func)
	t.kind, t.recv, t.path, t.method, t.over = byMethod, x.X, path.String(), fn.Name(), at
	_, wantsPointer := types.Unalias(fn.Signature().Recv().Type()).(*types.Pointer)
	_, isPointer := at.Underlying().(*types.Pointer)
	switch {
	case abstract:
	case wantsPointer && !isPointer:
		t.before, t.over = "&", types.NewPointer(at)
	case !wantsPointer && isPointer:
		t.before, t.over = "*", deref(at)
	}
	return ""
}

func deref(t types.Type) types.Type {
	if p, ok := t.Underlying().(*types.Pointer); ok {
		return p.Elem()
	}
	return t
}

// refuseTypes reports why there can be no generated function with these parameters.
func (t *target) refuseTypes() string {
	info, call := t.file.pkg.TypesInfo, t.site.call
	if t.over != nil && len(call.Args) == 1 {
		if _, several := info.TypeOf(call.Args[0]).(*types.Tuple); several {
			return "its arguments are the results of one call, and what it calls must be handed over besides"
		}
	}
	n := t.namer(t.file.newImports())
	t.write(n)
	if n.failed != "" {
		return n.failed
	}
	scope := t.file.pkg.Types.Scope().Innermost(call.Pos())
	for _, p := range n.params {
		if scope == nil {
			return "the scope of its type parameters is not known"
		}
		if _, obj := scope.LookupParent(p.Obj().Name(), call.Pos()); obj != types.Object(p.Obj()) {
			return "the name of the type parameter " + p.Obj().Name() + " means something else where the call is"
		}
	}
	return ""
}

func (t *target) namer(im *imports) *namer {
	return &namer{f: t.file, imports: im, plain: map[string]bool{}}
}

func variables(t *types.Tuple) (list []types.Type) {
	for v := range t.Variables() {
		list = append(list, v.Type())
	}
	return list
}
