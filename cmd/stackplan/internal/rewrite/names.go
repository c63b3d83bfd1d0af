package rewrite

import (
	"fmt"
	"go/token"
	"go/types"
	"strconv"
	"strings"
)

// A namer writes types as they are called at the top level of a file. Types that have
// no name there, as those that another package does not export, become type parameters
// if infer is set, and the compiler finds out what they are.
type namer struct {
	f       *file
	imports *imports
	infer   bool

	used    map[*types.TypeParam]int // of the function around the call, to their position
	order   []*types.TypeParam       // the used ones
	hidden  []types.Type             // inferred ones
	needCmp map[int]bool             // of hidden: constraint comparable
	failed  string                   // why a type can't be written
}

// imports are those of a file and what is added to them.
type imports struct {
	names map[string]string // import path to name
	added []string          // paths
}

func (f *file) newImports() *imports {
	im := &imports{names: map[string]string{}}
	for _, spec := range f.syntax.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue
		}
		obj := f.pkg.TypesInfo.Implicits[spec]
		if spec.Name != nil {
			obj = f.pkg.TypesInfo.Defs[spec.Name]
		}
		if pkgName, ok := obj.(*types.PkgName); ok && pkgName.Name() != "." && pkgName.Name() != "_" {
			im.names[path] = pkgName.Name()
		}
	}
	return im
}

// name is how a package is called in the file.
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

// clause are the added imports, to stand behind the package clause.
func (im *imports) clause() string {
	var b strings.Builder
	for _, path := range im.added {
		fmt.Fprintf(&b, "; import %s %q", im.names[path], path)
	}
	return b.String()
}

func (n *namer) fail(format string, args ...any) string {
	if n.failed == "" {
		n.failed = fmt.Sprintf(format, args...)
	}
	return "_"
}

// hide makes a type parameter of a type that can't be named.
func (n *namer) hide(t types.Type) string {
	if !n.infer {
		return n.fail("the type %s has no name outside of where it is declared", t)
	}
	for i, h := range n.hidden {
		if types.Identical(h, t) {
			return prefix + "H" + strconv.Itoa(i)
		}
	}
	n.hidden = append(n.hidden, t)
	return prefix + "H" + strconv.Itoa(len(n.hidden)-1)
}

func (n *namer) typ(t types.Type) string {
	switch t := t.(type) {
	case *types.Basic:
		return n.basic(t)
	case *types.Alias:
		return n.alias(t)
	case *types.Named:
		return n.named(t.Obj(), t.TypeArgs(), t)
	case *types.TypeParam:
		return n.typeParam(t)
	case *types.Pointer:
		return "*" + n.typ(t.Elem())
	case *types.Slice:
		return "[]" + n.typ(t.Elem())
	case *types.Array:
		return fmt.Sprintf("[%d]%s", t.Len(), n.typ(t.Elem()))
	case *types.Map:
		return "map[" + n.key(t.Key()) + "]" + n.typ(t.Elem())
	case *types.Chan:
		return n.channel(t)
	case *types.Signature:
		return "func" + n.signature(t)
	case *types.Struct:
		return n.structure(t)
	case *types.Interface:
		return n.iface(t)
	case *types.Union:
		var terms []string
		for i := range t.Len() {
			tilde := ""
			if t.Term(i).Tilde() {
				tilde = "~"
			}
			terms = append(terms, tilde+n.typ(t.Term(i).Type()))
		}
		return strings.Join(terms, " | ")
	}
	return n.fail("the type %s can't be written", t)
}

func (n *namer) basic(t *types.Basic) string {
	if t.Kind() == types.UnsafePointer {
		return n.imports.name("unsafe") + ".Pointer"
	}
	return n.universe(t.Name())
}

// universe is a predeclared name, which the package may have declared anew.
func (n *namer) universe(name string) string {
	if n.f.pkg.Types.Scope().Lookup(name) != nil {
		return n.fail("the package declares the predeclared name %s anew", name)
	}
	return name
}

func (n *namer) alias(t *types.Alias) string {
	obj := t.Obj()
	if obj.Pkg() == nil {
		return n.universe(obj.Name())
	}
	if n.visible(obj) {
		return n.named(obj, t.TypeArgs(), t)
	}
	return n.typ(types.Unalias(t))
}

// visible reports whether the file can name a declared type.
func (n *namer) visible(obj *types.TypeName) bool {
	if obj.Parent() != obj.Pkg().Scope() {
		return false
	}
	if obj.Pkg().Path() == n.f.pkg.Types.Path() {
		return true
	}
	return obj.Exported() && importable(n.f.pkg.PkgPath, obj.Pkg())
}

// importable follows the rules for internal and vendored packages.
func importable(from string, p *types.Package) bool {
	if p.Name() == "main" {
		return false
	}
	path := p.Path()
	if strings.HasPrefix(path, "vendor/") || strings.Contains(path, "/vendor/") {
		return false
	}
	parent, isInternal := cutInternal(path)
	return !isInternal || from == parent || strings.HasPrefix(from, parent+"/")
}

func cutInternal(path string) (parent string, found bool) {
	if strings.HasPrefix(path, "internal/") || path == "internal" {
		return "", true
	}
	if i := strings.LastIndex(path+"/", "/internal/"); i >= 0 {
		return path[:i], true
	}
	return path, false
}

func (n *namer) named(obj *types.TypeName, args *types.TypeList, t types.Type) string {
	if obj.Pkg() == nil {
		return n.universe(obj.Name())
	}
	if !n.visible(obj) {
		return n.hide(t)
	}
	name := obj.Name()
	if obj.Pkg().Path() != n.f.pkg.Types.Path() {
		name = n.imports.name(obj.Pkg().Path()) + "." + name
	}
	if args.Len() == 0 {
		return name
	}
	before := len(n.hidden)
	var list []string
	for i := range args.Len() {
		list = append(list, n.typ(args.At(i)))
	}
	if len(n.hidden) > before {
		return n.fail("the type %s has a type argument without a name", t)
	}
	return name + "[" + strings.Join(list, ", ") + "]"
}

func (n *namer) typeParam(t *types.TypeParam) string {
	i, known := n.used[t]
	if !known {
		if t.Obj().Name() == "_" {
			return n.fail("it needs a type parameter that is called _")
		}
		i = len(n.order)
		if n.used == nil {
			n.used = map[*types.TypeParam]int{}
		}
		n.used[t] = i
		n.order = append(n.order, t)
		n.typ(t.Constraint()) // it may need others
	}
	return prefix + "T" + strconv.Itoa(i)
}

func (n *namer) key(t types.Type) string {
	before := len(n.hidden)
	s := n.typ(t)
	for i := before; i < len(n.hidden); i++ {
		if n.needCmp == nil {
			n.needCmp = map[int]bool{}
		}
		n.needCmp[i] = true
	}
	return s
}

func (n *namer) channel(t *types.Chan) string {
	elem := n.typ(t.Elem())
	if inner, ok := t.Elem().(*types.Chan); ok && inner.Dir() == types.RecvOnly {
		elem = "(" + elem + ")"
	}
	switch t.Dir() {
	case types.SendOnly:
		return "chan<- " + elem
	case types.RecvOnly:
		return "<-chan " + elem
	}
	return "chan " + elem
}

// signature writes parameters and results.
func (n *namer) signature(sig *types.Signature) string {
	var params, results []string
	for i := range sig.Params().Len() {
		params = append(params, n.param(sig, i))
	}
	for i := range sig.Results().Len() {
		results = append(results, n.typ(sig.Results().At(i).Type()))
	}
	s := "(" + strings.Join(params, ", ") + ")"
	if len(results) == 0 {
		return s
	}
	return s + " (" + strings.Join(results, ", ") + ")"
}

// param is the type of a parameter as it is declared.
func (n *namer) param(sig *types.Signature, i int) string {
	t := sig.Params().At(i).Type()
	if sig.Variadic() && i == sig.Params().Len()-1 {
		s, ok := t.Underlying().(*types.Slice)
		if !ok {
			return n.fail("its variadic parameter is no slice")
		}
		return "..." + n.typ(s.Elem())
	}
	return n.typ(t)
}

func (n *namer) structure(t *types.Struct) string {
	var b strings.Builder
	b.WriteString("struct{")
	for i := range t.NumFields() {
		field := t.Field(i)
		if !field.Exported() && field.Pkg().Path() != n.f.pkg.Types.Path() {
			return n.hide(t)
		}
		if i > 0 {
			b.WriteString("; ")
		}
		if !field.Embedded() {
			b.WriteString(field.Name() + " ")
		}
		b.WriteString(n.typ(field.Type()))
		if tag := t.Tag(i); tag != "" {
			b.WriteString(" " + strconv.Quote(tag))
		}
	}
	return b.String() + "}"
}

func (n *namer) iface(t *types.Interface) string {
	if t.IsImplicit() && t.NumEmbeddeds() == 1 {
		return n.typ(t.EmbeddedType(0))
	}
	var parts []string
	for i := range t.NumExplicitMethods() {
		m := t.ExplicitMethod(i)
		if !token.IsExported(m.Name()) && m.Pkg().Path() != n.f.pkg.Types.Path() {
			return n.hide(t)
		}
		parts = append(parts, m.Name()+n.signature(m.Signature()))
	}
	for i := range t.NumEmbeddeds() {
		parts = append(parts, n.typ(t.EmbeddedType(i)))
	}
	return "interface{" + strings.Join(parts, "; ") + "}"
}

// declared are the type parameters of a generated function and their names alone.
func (n *namer) declared() (params, names string) {
	var list, short []string
	add := func(name, constraint string) {
		list = append(list, name+" "+constraint)
		short = append(short, name)
	}
	for i := 0; i < len(n.order); i++ { // constraints may add some
		add(prefix+"T"+strconv.Itoa(i), n.typ(n.order[i].Constraint()))
	}
	for i := range n.hidden {
		constraint := "interface{}"
		if n.needCmp[i] {
			constraint = n.universe("comparable")
		}
		add(prefix+"H"+strconv.Itoa(i), constraint)
	}
	if len(list) == 0 {
		return "", ""
	}
	return "[" + strings.Join(list, ", ") + "]", "[" + strings.Join(short, ", ") + "]"
}

// arguments are the type arguments at the call; inferred ones are left out.
func (n *namer) arguments() string {
	if len(n.order) == 0 {
		return ""
	}
	var list []string
	for _, t := range n.order {
		list = append(list, t.Obj().Name())
	}
	return "[" + strings.Join(list, ", ") + "]"
}
