package plan

import (
	"fmt"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/ssa"
)

// addIndirect adds the calls of a function that its machine code does not show, from
// the sources of itself and of what it holds inlined.
func (g *graph) addIndirect(i int) {
	n := &g.nodes[i]
	if n.name == reflectCall {
		g.addReflected(i)
	}
	wrappers := g.deferWrappers(n.name)
	for _, w := range wrappers {
		n.out = append(n.out, edge{to: w, depth: g.deferDepth(n), kind: kindDefer})
	}
	for _, f := range n.in {
		if r := g.p.notes.find(linkName(f), "calls"); r != nil {
			for call := range callsOf(f) {
				if indirect(call) {
					g.addTrusted(i, r)
					break
				}
			}
			continue
		}
		for call := range callsOf(f) {
			g.addCall(i, f, call, wrappers)
		}
	}
}

// indirect reports whether a call is one by value or interface.
func indirect(call ssa.CallInstruction) bool {
	c := call.Common()
	_, builtin := c.Value.(*ssa.Builtin)
	return !builtin && c.StaticCallee() == nil
}

// deferDepth is what the stack holds when a deferred function begins.
func (g *graph) deferDepth(n *node) int {
	depth := n.frame + g.push
	if n.defs {
		for _, d := range g.byName["runtime.deferreturn"] {
			return depth + g.nodes[d].frame + g.push
		}
	}
	return depth
}

// deferWrappers are the functions that the compiler made of a function's defer
// statements with arguments.
func (g *graph) deferWrappers(name string) []int {
	var all []int
	for k := 1; ; k++ {
		ids := g.byName[fmt.Sprintf("%s.deferwrap%d", name, k)]
		if len(ids) == 0 {
			return all
		}
		all = append(all, ids...)
	}
}

func (g *graph) addCall(i int, f *ssa.Function, call ssa.CallInstruction, wrappers []int) {
	n := &g.nodes[i]
	if _, builtin := call.Common().Value.(*ssa.Builtin); builtin {
		return
	}
	e := edge{depth: n.frame + g.push, kind: kindIndirect, fatal: toPanic(call.Block())}
	_, deferred := call.(*ssa.Defer)
	if deferred {
		e.depth, e.kind = g.deferDepth(n), kindDefer
	}
	if s, ok := g.bySite[call]; ok {
		e.sites = []int{s}
	}
	for _, x := range g.relays.from(f, call, false) {
		through := e
		through.mid = x.depth
		through.depth = n.frame + g.push + x.depth
		through.kind = kindIndirect
		g.addEdges(i, through, g.codes(x.to, x.method), nil)
	}
	if g.relays.covers(f, call) {
		return
	}
	var targets []int
	if to := call.Common().StaticCallee(); to != nil {
		// Such a call is in the machine code, except of closures, which may be called
		// by value, and of methods in generic code, called through a dictionary.
		if !deferred && to.Parent() == nil && to.Synthetic == "" && !generic(f) {
			return
		}
		targets = g.codes(to, generic(f))
	} else {
		if targets = g.targetsOf(call); len(targets) == 0 {
			at := g.p.src.position(call.Pos())
			g.unknown[fmt.Sprintf("%s:%d calls a %s", linkName(f), at.Line, signature(call.Common().Signature()))] = true
		}
	}
	if ofRuntime(packageOf(f)) {
		targets = slices.DeleteFunc(targets, func(to int) bool { return !ofRuntime(g.nodes[to].name) })
	}
	g.addEdges(i, e, targets, wrappers)
}

// matching are the functions of the binary whose names match a pattern.
func (g *graph) matching(pattern string) []int {
	var ids []int
	for i := range g.nodes {
		if match(pattern, g.nodes[i].name) {
			ids = append(ids, i)
		}
	}
	return ids
}

// ofRuntime reports whether a package, or a function by its name, belongs to the Go
// runtime. On the stack of a goroutine, the runtime calls functions of others only
// where annotations say so.
func ofRuntime(name string) bool {
	return name == "runtime" || strings.HasPrefix(name, "runtime.") || strings.HasPrefix(name, "internal/runtime/") || strings.HasPrefix(name, "type:.")
}

func (g *graph) addEdges(i int, e edge, targets, wrappers []int) {
	for _, to := range targets {
		e.to = to
		g.nodes[i].out = append(g.nodes[i].out, e)
		if e.kind == kindDefer {
			for _, w := range wrappers {
				g.nodes[w].out = append(g.nodes[w].out, edge{to: to, depth: g.nodes[w].frame + g.push, kind: kindDefer})
			}
		}
	}
}

// generic reports whether f is an instance of generic code or stands in one.
func generic(f *ssa.Function) bool {
	for ; f != nil; f = f.Parent() {
		if f.Origin() != nil {
			return true
		}
	}
	return false
}

// addTrusted adds the targets that an annotation gives to the indirect calls of a function.
func (g *graph) addTrusted(i int, r *rule) {
	for _, pattern := range r.targets {
		for _, to := range g.matching(pattern) {
			g.nodes[i].out = append(g.nodes[i].out, edge{to: to, depth: g.nodes[i].frame + g.push, kind: kindIndirect})
		}
	}
}

// codes are the functions of the binary that a function of the source may be called
// as. Called by a method table, the compiler's wrapper may come before it.
func (g *graph) codes(f *ssa.Function, table bool) []int {
	ids := g.p.src.inCode[f]
	ids = ids[:len(ids):len(ids)]
	if recv := f.Signature.Recv(); recv != nil && table || f.Synthetic != "" && f.Pos().IsValid() || f.Synthetic != "" && len(ids) == 0 {
		for _, name := range wrapperNames(f) {
			for _, id := range g.byName[name] {
				if len(ids) == 0 || g.p.bin.Funcs[id].File == "" {
					ids = append(ids, id)
				}
			}
		}
	}
	if len(ids) == 0 && f.Synthetic != "" {
		for call := range callsOf(f) {
			if to := call.Common().StaticCallee(); to != nil && to != f {
				ids = append(ids, g.codes(to, table)...)
			}
		}
	}
	return ids
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
