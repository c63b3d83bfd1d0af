package rewrite

import (
	"go/ast"
	"go/types"
	"runtime"
	"strings"

	"github.com/capriccio-go/capriccio/cmd/stackplan/internal/plan"
)

// A target is a call that can be a checkpoint, taken apart.
type target struct {
	file  *file
	site  *site
	sig   *types.Signature // with type arguments put in
	kind  kind
	fun   ast.Expr   // what is called, without parentheses
	param types.Type // of what is handed to a generated function before the arguments; nil: nothing
	infer bool       // its types can't all be named; fun is handed over as a value

	// For byName.
	function *types.Func
	typeArgs *types.TypeList
	// For byMethod: the receiver is before + recv + path.
	recv   ast.Expr
	before string // "&", "*" or nothing
	path   string // embedded fields that are implied, ".A.B"
	method string
	// For byMethodExpression.
	of types.Type

	place place
	stmt  ast.Stmt // that is replaced, unless the place is inExpression
}

// A kind says how a function outside of the one with the call can call the same thing.
type kind uint8

const (
	byName             kind = iota // f(a), pkg.F(a)
	byMethod                       // x.M(a): the receiver is handed over
	byMethodExpression             // T.M(x, a)
	byValue                        // what is called is a value, and handed over
)

// A place says what can be put where the call stands.
type place uint8

const (
	inExpression place = iota // only another call
	isStatement               // f(a)
	isAssigned                // x = f(a); return f(a): what stands before the call can stand there twice
	isDefined                 // x := f(a)
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
	t.setPlace()
	if why := refuseContext(info, s); why != "" {
		return nil, why
	}
	if why := refuseArguments(info, s.call); why != "" {
		return nil, why
	}
	if why := r.refuseCallee(t); why != "" {
		return nil, why
	}
	if why := t.setCallee(); why != "" {
		return nil, why
	}
	if t.param != nil || t.infer {
		if len(s.call.Args) == 1 && isTuple(info.TypeOf(s.call.Args[0])) {
			return nil, "its arguments are the results of one call, and what it calls must be handed over besides"
		}
	}
	if why := t.setTypes(); why != "" {
		return nil, why
	}
	return t, ""
}

func isTuple(t types.Type) bool {
	_, ok := t.(*types.Tuple)
	return ok
}

// refuseCallee reports why what is called would notice that it has another caller, or is empty.
func (r *Rewriter) refuseCallee(t *target) string {
	info := t.file.pkg.TypesInfo
	if _, deferred := t.site.parent(1).(*ast.DeferStmt); deferred {
		if why := r.callees.refuseDeferred(info, t.site.call); why != "" {
			return why
		}
	}
	var id *ast.Ident
	switch fun := t.fun.(type) {
	case *ast.Ident:
		id = fun
	case *ast.SelectorExpr:
		id = fun.Sel
	}
	if fn, ok := info.Uses[id].(*types.Func); ok {
		return r.callees.refuseCaller(fn)
	}
	return ""
}

// setPlace looks at what is around the call.
func (t *target) setPlace() {
	stmt, ok := t.site.parent(1).(ast.Stmt)
	if !ok || !isListed(t.site.parent(2), stmt) || hasLiteral(stmt) {
		return
	}
	switch stmt := stmt.(type) {
	case *ast.ExprStmt:
		t.place = isStatement
	case *ast.ReturnStmt:
		if len(stmt.Results) == 1 {
			t.place = isAssigned
		}
	case *ast.AssignStmt:
		if len(stmt.Rhs) != 1 || stmt.Rhs[0] != ast.Expr(t.site.call) {
			return
		}
		t.place = isAssigned
		if stmt.Tok.String() == ":=" {
			t.place = isDefined
		}
	}
	if t.place != inExpression {
		t.stmt = stmt
	}
}

// isListed reports whether stmt is in a list of statements, so that others can take its place.
func isListed(parent ast.Node, stmt ast.Stmt) bool {
	switch p := parent.(type) {
	case *ast.BlockStmt, *ast.CaseClause, *ast.LabeledStmt:
		return true
	case *ast.CommClause:
		return p.Comm != stmt
	}
	return false
}

// hasLiteral reports whether a function literal stands in n; it should not be there twice.
func hasLiteral(n ast.Node) bool {
	found := false
	ast.Inspect(n, func(n ast.Node) bool {
		if _, ok := n.(*ast.FuncLit); ok {
			found = true
		}
		return !found
	})
	return found
}

// setCallee finds out how to call it from elsewhere.
func (t *target) setCallee() string {
	info := t.file.pkg.TypesInfo
	fun := t.fun
	switch x := fun.(type) { // explicit type arguments
	case *ast.IndexExpr:
		if _, generic := info.TypeOf(x.X).(*types.Signature); generic {
			fun = ast.Unparen(x.X)
		}
	case *ast.IndexListExpr:
		fun = ast.Unparen(x.X)
	}
	switch x := fun.(type) {
	case *ast.Ident:
		if fn, ok := info.Uses[x].(*types.Func); ok {
			t.setFunction(fn, info.Instances[x].TypeArgs)
			return ""
		}
	case *ast.SelectorExpr:
		sel := info.Selections[x]
		if sel == nil {
			if fn, ok := info.Uses[x.Sel].(*types.Func); ok {
				t.setFunction(fn, info.Instances[x.Sel].TypeArgs)
				return ""
			}
			break
		}
		switch sel.Kind() {
		case types.MethodVal:
			return t.setMethod(x, sel)
		case types.MethodExpr:
			t.kind, t.of, t.method = byMethodExpression, sel.Recv(), x.Sel.Name
			return ""
		}
	}
	t.setValue()
	return ""
}

func (t *target) setFunction(fn *types.Func, args *types.TypeList) {
	t.kind, t.function, t.typeArgs = byName, fn, args
}

func (t *target) setValue() { t.kind, t.param = byValue, t.sig }

// setMethod makes what is implied in x.M explicit, as far as it happens before the call:
// which embedded field is meant, and that a pointer is taken or followed.
func (t *target) setMethod(x *ast.SelectorExpr, sel *types.Selection) string {
	own := t.file.pkg.Types
	at := sel.Recv()
	index := sel.Index()
	var path strings.Builder
	for _, i := range index[:len(index)-1] {
		s, ok := deref(at).Underlying().(*types.Struct)
		if !ok {
			return "the receiver of its method is not understood"
		}
		field := s.Field(i)
		if !field.Exported() && field.Pkg().Path() != own.Path() {
			return "its method belongs to an embedded field that another package does not export"
		}
		path.WriteString("." + field.Name())
		at = field.Type()
	}
	fn := sel.Obj().(*types.Func)
	recv := fn.Signature().Recv().Type()
	t.kind, t.recv, t.path, t.method, t.param = byMethod, x.X, path.String(), fn.Name(), at
	if _, isParam := types.Unalias(at).(*types.TypeParam); isParam || types.IsInterface(at) {
		if isLater(t.site.parent(1)) {
			t.setValue() // a nil interface panics at the statement, not when it is called
		}
		return ""
	}
	_, wantsPointer := types.Unalias(recv).(*types.Pointer)
	_, isPointer := at.Underlying().(*types.Pointer)
	switch {
	case wantsPointer && !isPointer:
		t.before, t.param = "&", types.NewPointer(at)
	case !wantsPointer && isPointer:
		t.before, t.param = "*", deref(at)
	}
	return ""
}

// isLater reports whether a statement evaluates what is called now and calls it later.
func isLater(n ast.Node) bool {
	switch n.(type) {
	case *ast.DeferStmt, *ast.GoStmt:
		return true
	}
	return false
}

func deref(t types.Type) types.Type {
	if p, ok := t.Underlying().(*types.Pointer); ok {
		return p.Elem()
	}
	return t
}

// setTypes tries to name the types of the generated function.
func (t *target) setTypes() string {
	n := t.namer(t.file.newImports())
	t.write(n, &unit{target: t})
	if n.failed == "" {
		if t.place == isDefined && len(n.order) > 0 {
			t.place, t.stmt = inExpression, nil // no alias for a type parameter
		}
		return t.checkScope(n)
	}
	if t.kind == byName && t.typeArgs.Len() > 0 {
		return n.failed
	}
	named := n.failed
	t.infer = true
	if t.place == isDefined {
		t.place, t.stmt = inExpression, nil
	}
	n = t.namer(t.file.newImports())
	t.write(n, &unit{target: t})
	if n.failed != "" {
		return n.failed
	}
	if why := t.checkInference(named); why != "" {
		return why
	}
	return t.checkScope(n)
}

// checkInference makes sure that the arguments don't contradict what is inferred from
// the type of the function.
func (t *target) checkInference(reason string) string {
	info := t.file.pkg.TypesInfo
	if t.sig.Variadic() || len(t.site.call.Args) != t.sig.Params().Len() {
		return reason
	}
	for i, arg := range t.site.call.Args {
		n := t.namer(t.file.newImports())
		want := t.sig.Params().At(i).Type()
		n.typ(want)
		if len(n.hidden) > 0 && !types.Identical(info.TypeOf(arg), want) {
			return reason
		}
	}
	return ""
}

// checkScope makes sure that the type parameters have their names where the call is.
func (t *target) checkScope(n *namer) string {
	for _, p := range n.order {
		scope := t.file.pkg.Types.Scope().Innermost(t.site.call.Pos())
		if scope == nil {
			return "the scope of its type parameters is not known"
		}
		if _, obj := scope.LookupParent(p.Obj().Name(), t.site.call.Pos()); obj != types.Object(p.Obj()) {
			return "the name of the type parameter " + p.Obj().Name() + " means something else where the call is"
		}
	}
	return ""
}

func (t *target) namer(im *imports) *namer {
	return &namer{f: t.file, imports: im, infer: t.infer}
}

func (t *target) form() Form {
	if t.place == inExpression {
		return FormFunction
	}
	return FormInline
}

// frame is an estimate of the frame of a generated function that holds the if: it saves
// its arguments while it looks at the stack, and passes on what is not in registers.
func (t *target) frame() plan.Bytes {
	sizes := t.file.pkg.TypesSizes
	if sizes == nil {
		sizes = types.SizesFor("gc", runtime.GOARCH)
	}
	const links = 3 * 8 // return address, frame pointer, alignment
	in, out := int64(0), int64(0)
	add := func(sum *int64, typ types.Type) {
		size := int64(64) // of a type parameter nothing is known
		if !hasTypeParam(typ) {
			size = sizes.Sizeof(typ)
		}
		*sum += (size + 7) &^ 7
	}
	if t.param != nil {
		add(&in, t.param)
	}
	for v := range t.sig.Params().Variables() {
		add(&in, v.Type())
	}
	for v := range t.sig.Results().Variables() {
		add(&out, v.Type())
	}
	const registers = 9 * 8
	total := in + out
	if in > registers {
		total += in
	}
	if out > registers {
		total += out
	}
	return plan.Bytes(links + total)
}

func hasTypeParam(t types.Type) bool {
	switch t := types.Unalias(t).(type) {
	case *types.TypeParam:
		return true
	case *types.Array:
		return hasTypeParam(t.Elem())
	case *types.Named:
		for a := range t.TypeArgs().Types() {
			if hasTypeParam(a) {
				return true
			}
		}
	case *types.Struct:
		for v := range t.Fields() {
			if hasTypeParam(v.Type()) {
				return true
			}
		}
	}
	return false
}
