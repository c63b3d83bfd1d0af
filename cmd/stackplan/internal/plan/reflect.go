package plan

import (
	"go/token"
	"go/types"
	"slices"

	"golang.org/x/tools/go/ssa"
)

// reflectCall is where reflection calls functions and methods.
const reflectCall = "reflect.Value.call"

// addReflected adds what reflect.Value.call may call: functions that were put into an
// interface, or have the type of one that was, and the exported methods of everything
// that was, which the linker keeps for that purpose. An annotation can say better.
func (g *graph) addReflected(i int) {
	n := &g.nodes[i]
	depth := n.frame + g.push
	for _, id := range g.byName["runtime.reflectcall"] {
		depth += int(g.nodes[id].bound) // the copy of the arguments
	}
	targets := g.reflected()
	if r := g.p.notes.find(n.name, "calls"); r != nil {
		targets = g.matching(r.targets)
	}
	g.addEdges(i, edge{depth: depth}, targets, nil)
}

func (g *graph) reflected() (targets []int) {
	funcs, methods := g.p.src.reflected()
	for _, f := range funcs {
		targets = append(targets, g.codes(f, false)...)
	}
	for _, f := range methods {
		targets = append(targets, g.codes(f, true)...)
	}
	slices.Sort(targets)
	return slices.Compact(targets)
}

// reflected are the functions that reflection may call, and the methods.
func (s *source) reflected() (funcs, methods []*ssa.Function) {
	kinds := make(map[types.Type]bool)
	signatures := make(map[string]bool)
	for _, f := range s.ordered {
		if ofRuntime(packageOf(f)) {
			continue
		}
		for in := range instrs(f) {
			if v, ok := in.(*ssa.MakeInterface); ok && !kinds[v.X.Type()] {
				kinds[v.X.Type()] = true
				if sig, ok := v.X.Type().Underlying().(*types.Signature); ok {
					signatures[signature(sig)] = true
				}
			}
		}
	}
	for sig := range signatures {
		funcs = append(funcs, s.valued[sig]...)
	}
	for kind := range kinds {
		for sel := range s.prog.MethodSets.MethodSet(kind).Methods() {
			if token.IsExported(sel.Obj().Name()) {
				if f := s.prog.MethodValue(sel); f != nil {
					methods = append(methods, f)
				}
			}
		}
	}
	return funcs, methods
}
