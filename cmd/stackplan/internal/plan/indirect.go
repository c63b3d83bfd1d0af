package plan

import (
	"fmt"
	"slices"

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
		n.out = append(n.out, edge{to: w, depth: g.deferDepth(n), defers: true})
	}
	for _, f := range n.in {
		if r := g.p.notes.find(linkName(f), "calls"); r != nil {
			if containsFunc(callsOf(f), indirect) {
				g.addEdges(i, edge{depth: n.frame + g.push}, g.matching(r.targets), nil)
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
	e := edge{depth: n.frame + g.push, site: g.bySite[call], fatal: toPanic(call.Block())}
	_, deferred := call.(*ssa.Defer)
	if deferred {
		e.depth, e.defers = g.deferDepth(n), true
	}
	for _, x := range g.relays.from(f, call, false) {
		through := e
		through.mid = x.depth
		through.depth = n.frame + g.push + x.depth
		through.defers = false
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
		targets = slices.DeleteFunc(slices.Clone(targets), func(to int) bool { return !ofRuntime(g.nodes[to].name) })
	}
	g.addEdges(i, e, targets, wrappers)
}

// matching are the functions of the binary whose names match one of some patterns.
func (g *graph) matching(patterns []string) []int {
	var ids []int
	for i := range g.nodes {
		if slices.ContainsFunc(patterns, func(p string) bool { return match(p, g.nodes[i].name) }) {
			ids = append(ids, i)
		}
	}
	return ids
}

func (g *graph) addEdges(i int, e edge, targets, wrappers []int) {
	for _, to := range targets {
		e.to = to
		g.nodes[i].out = append(g.nodes[i].out, e)
		if e.defers {
			for _, w := range wrappers {
				g.nodes[w].out = append(g.nodes[w].out, edge{to: to, depth: g.nodes[w].frame + g.push, defers: true})
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
